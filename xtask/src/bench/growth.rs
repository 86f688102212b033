//! Measures how the time of an operation grows with the amount of data: from small to large in steps, with the
//! exponent of the last step. 0 is flat, 1 is linear.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;

use super::acp::AcpBenchSetup;
use super::bench_context::{BenchContext, FULL, run_for_output};
use super::bench_table::{BenchRow, BenchTable, format_ms};
use super::calls::{CallBenchSetup, rule_settings};
use super::stopwatch::{median, time_median};

/// No operation may grow faster than its data. The rest is the noise of a measurement.
const EXPONENT_MAX: f64 = 1.1;
const RULES: [usize; 4] = [10, 100, 1_000, 10_000];
const FILES: [usize; 3] = [1_000, 10_000, 100_000];
/// A store keeps 10,000 for each owner by default.
const SESSIONS: [usize; 4] = [10, 100, 1_000, 9_000];
/// An editor's connection may open this many.
const SESSIONS_OF_AGENT: usize = 200;
const TURNS: [usize; 3] = [10, 100, 1_000];
const CLIENTS: [usize; 4] = [1, 10, 100, 1_000];
/// Characters of each prompt of a long session.
const PROMPT_LENGTH: usize = 1_000;
/// Words per second of all models, and seconds, while clients listen.
const LISTENED_WORDS: usize = 2_000;
const LISTENED_SECONDS: usize = 5;

/// Measures everything.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    measure_calls(bench, table)?;
    measure_sessions(bench, table)?;
    measure_transcript(bench, table)?;
    measure_clients(bench, table)
}

fn measure_calls(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let place = CallBenchSetup::prepare(bench, "growth-calls")?;
    let runs = bench.runs.search;
    let read = json!({"file_path": "note.txt"});
    let mut steps = Vec::new();
    for count in RULES {
        let settings = place.write_settings(&format!("rules-{count}"), &rule_settings(count))?;
        steps.push((count, time_median(runs, || place.call(&settings, "Read", &read))?));
    }
    table.add(growth_row("a Read from the command line, by rules in the settings", &steps));

    let denied = json!({"permissions": {"deny": ["Read(secret/**)", "Edit(**/*.lock)"]}});
    let denied = place.write_settings("denied", &denied)?;
    let echo = json!({"command": "echo done"});
    let mut steps = Vec::new();
    for count in FILES {
        place.fill_workspace(count)?;
        steps.push((count, time_median(runs, || place.call(&denied, "Bash", &echo))?));
    }
    table.add(growth_row("a command with deny rules, by files in the workspace", &steps));
    Ok(())
}

/// The start of an agent up to its first session, by sessions in the store.
fn measure_sessions(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let place = AcpBenchSetup::prepare(bench, "growth-sessions")?;
    let (mut steps, mut stored) = (Vec::new(), 0);
    for count in SESSIONS {
        while stored < count {
            let more = (count - stored).min(SESSIONS_OF_AGENT);
            let mut talk = place.start_agent("many")?;
            for _ in 0..more {
                let session = talk.open_session(&place.work)?;
                talk.run_turn(&session, "hi")?;
            }
            talk.finish()?;
            stored += more;
        }
        let mut samples = Vec::new();
        for _ in 0..bench.runs.search {
            let start = Instant::now();
            let mut talk = place.start_agent("many")?;
            talk.open_session(&place.work)?;
            samples.push(start.elapsed());
            talk.finish()?;
        }
        steps.push((count, median(samples)));
    }
    table.add(growth_row("start and `session/new`, by sessions in the store", &steps));
    Ok(())
}

/// A turn, by turns before it in the session, of which the model is sent each.
fn measure_transcript(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let place = AcpBenchSetup::prepare(bench, "growth-transcript")?;
    let mut talk = place.start_agent("long")?;
    let session = talk.open_session(&place.work)?;
    let prompt = "w".repeat(PROMPT_LENGTH);
    let (mut steps, mut turns) = (Vec::new(), 0);
    for count in TURNS {
        while turns < count {
            talk.run_turn(&session, &prompt)?;
            turns += 1;
        }
        let mut samples = Vec::new();
        for _ in 0..bench.runs.search {
            let start = Instant::now();
            talk.run_turn(&session, &prompt)?;
            samples.push(start.elapsed());
            turns += 1;
        }
        steps.push((count, median(samples)));
    }
    talk.finish()?;
    table.add(growth_row("a turn, by turns before it", &steps));
    Ok(())
}

#[derive(Deserialize)]
struct ListenFigures {
    events: u64,
    gateway_processors: f64,
    seconds: f64,
}

/// The processor time of a gateway for one event and client, by clients.
fn measure_clients(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let mut steps = Vec::new();
    for count in CLIENTS {
        let folder = bench.state.join("growth-clients").join(count.to_string());
        let mut command = Command::new("bash");
        command.args(["-c", "ulimit -n \"$(ulimit -Hn)\"; exec \"$@\"", "bash"]);
        command.arg(bench.example_path("gateway_load")).arg("load").arg(&bench.zero).arg(folder);
        let runs = count.min(50);
        let seconds =
            if bench.runs.search == FULL.search { 2 * LISTENED_SECONDS } else { LISTENED_SECONDS };
        command.args([count, runs, LISTENED_WORDS, seconds].map(|number| number.to_string()));
        let figures: ListenFigures = serde_json::from_slice(&run_for_output(command)?)
            .context("could not read what the example printed")?;
        let spent = figures.gateway_processors * figures.seconds / figures.events.max(1) as f64;
        steps.push((count, Duration::from_secs_f64(spent)));
    }
    // The time of one event is flat if the whole is linear.
    table.add(growth_row("processor time of a gateway for an event, by clients", &steps));
    Ok(())
}

fn growth_row(what: &str, steps: &[(usize, Duration)]) -> BenchRow {
    let exponent = last_exponent(steps);
    let counts: Vec<String> = steps.iter().map(|(count, _)| count.to_string()).collect();
    let times: Vec<String> = steps.iter().map(|(_, time)| format_ms(*time)).collect();
    BenchRow {
        what: format!("growth, {what}: {}", counts.join(", ")),
        ours: times.join(", "),
        peer: "–".to_owned(),
        ratio: format!("exponent {exponent:.2}"),
        budget: format!("≤ {EXPONENT_MAX}"),
        met: exponent <= EXPONENT_MAX,
    }
}

/// The power of the data by which the time grew in the last step.
fn last_exponent(steps: &[(usize, Duration)]) -> f64 {
    let [.., (less, short), (more, long)] = steps else { return 0.0 };
    (long.as_secs_f64() / short.as_secs_f64()).ln() / (*more as f64 / *less as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponent_of_known_growth_is_found() {
        let steps = |times: [u64; 3]| -> Vec<(usize, Duration)> {
            [10, 100, 1_000].into_iter().zip(times.map(Duration::from_millis)).collect()
        };
        let check = |times, expected: f64| {
            assert!((last_exponent(&steps(times)) - expected).abs() < 1e-9, "{times:?}");
        };
        check([7, 7, 7], 0.0);
        check([1, 10, 100], 1.0);
        check([1, 1, 100], 2.0);
    }
}
