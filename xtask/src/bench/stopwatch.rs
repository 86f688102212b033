//! Times two commands in turn.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Runs of each side before measuring starts: they fill the caches of the disk and the loader.
const WARM_UP_RUNS: usize = 3;

/// The median time of each side.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimingPair {
    pub(super) ours: Duration,
    pub(super) theirs: Duration,
}

impl TimingPair {
    /// How many times as long ours took.
    pub(super) fn ratio(self) -> f64 {
        self.ours.as_secs_f64() / self.theirs.as_secs_f64()
    }
}

/// Times both sides: ours, theirs, ours, theirs, … `runs` times each.
pub(super) fn time_pair(
    runs: usize,
    ours: impl Fn() -> Command,
    theirs: impl Fn() -> Command,
) -> Result<TimingPair> {
    let mut samples = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for run in 0..WARM_UP_RUNS + runs {
        let pair = (time_one(ours())?, time_one(theirs())?);
        if run >= WARM_UP_RUNS {
            samples.0.push(pair.0);
            samples.1.push(pair.1);
        }
    }
    Ok(TimingPair { ours: median(samples.0), theirs: median(samples.1) })
}

/// The median time of a command.
pub(super) fn time_median(runs: usize, command: impl Fn() -> Command) -> Result<Duration> {
    let mut samples = Vec::with_capacity(runs);
    for run in 0..WARM_UP_RUNS + runs {
        let took = time_one(command())?;
        if run >= WARM_UP_RUNS {
            samples.push(took);
        }
    }
    Ok(median(samples))
}

/// The time from start to exit, with the output read through a pipe as a client would.
fn time_one(mut command: Command) -> Result<Duration> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("could not start {command:?}"))?;
    if let Some(mut pipe) = child.stdout.take() {
        let mut sink = [0; 64 * 1024];
        while pipe.read(&mut sink)? > 0 {}
    }
    let status = child.wait()?;
    let took = start.elapsed();
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(took)
}

pub(super) fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ignores_one_slow_run() {
        let samples = [5, 1, 900, 3, 4].map(Duration::from_millis).to_vec();
        assert_eq!(median(samples), Duration::from_millis(4));
    }
}
