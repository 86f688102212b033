//! A fixed piece of work beside each suite, which measures the machine and not zero: figures of two runs can be
//! compared if theirs agree.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::bench_context::BenchContext;
use super::bench_table::{BenchRow, format_ms};
use super::stopwatch::{median, time_median};

const ROUNDS: usize = 5;
const MULTIPLICATIONS: u64 = 100_000_000;
const FLUSHES: usize = 50;
const STARTS: usize = 21;

/// The row of the machine before this suite: computing, starting a process, flushing a file.
pub(super) fn measure(bench: &BenchContext, suite: &str) -> Result<BenchRow> {
    let computed = median((0..ROUNDS).map(|_| compute()).collect());
    let started = time_median(STARTS, || Command::new("true"))?;
    let flushed = flush(bench)?;
    Ok(BenchRow {
        what: format!("the machine before {suite}: computing, `true`, a flush"),
        ours: "–".to_owned(),
        peer: [computed, started, flushed].map(format_ms).join(", "),
        ratio: "–".to_owned(),
        budget: "–".to_owned(),
        met: true,
    })
}

fn compute() -> Duration {
    let start = Instant::now();
    let mut number = black_box(1_u64);
    for step in 0..MULTIPLICATIONS {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
    }
    black_box(number);
    start.elapsed()
}

/// The time of writing and flushing a block of a file.
fn flush(bench: &BenchContext) -> Result<Duration> {
    let path = bench.state.join("flushed");
    let mut file = File::create(&path)?;
    let mut samples = Vec::with_capacity(FLUSHES);
    for _ in 0..FLUSHES {
        let start = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_all()?;
        samples.push(start.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(median(samples))
}
