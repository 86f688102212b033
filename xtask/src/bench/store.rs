//! Measures how long the writes of a turn wait while many sessions are deleted, and what the begin of a
//! run costs that survives a power cut, and the memory of runs that wait for an answer.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable};
use super::policy::timed_row;

/// The longest write of a turn while 10,000 sessions are deleted.
const DELAY_MAX: Duration = Duration::from_millis(50);

/// How much longer a durable begin may take than a flushed write of the same size.
const BEGIN_MAX: Duration = Duration::from_millis(1);

/// Most memory of a process for 10,000 parked questions, in bytes.
const PARKED_BYTES_MAX: u64 = 100_000_000;

/// The output of the example that parks runs.
#[derive(Deserialize)]
struct ParkedFigures {
    bytes: u64,
}

/// The output of the example that begins runs.
#[derive(Deserialize)]
struct BeginFigures {
    begin_ns: u64,
    floor_ns: u64,
}

/// The output of the example that deletes sessions.
#[derive(Deserialize)]
struct PruneFigures {
    busy_ns: u64,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let figures: PruneFigures =
        serde_json::from_slice(&run_for_output(Command::new(bench.example_path("prune_delay")))?)
            .context("could not read what the example printed")?;
    let longest = Duration::from_nanos(figures.busy_ns);
    table.add(timed_row("store, longest write while 10,000 sessions go", longest, DELAY_MAX));
    let figures: BeginFigures =
        serde_json::from_slice(&run_for_output(Command::new(bench.example_path("begin_cost")))?)
            .context("could not read what the example printed")?;
    let more = Duration::from_nanos(figures.begin_ns.saturating_sub(figures.floor_ns));
    table.add(timed_row("store, durable begin beyond a flushed write", more, BEGIN_MAX));
    let figures: ParkedFigures = serde_json::from_slice(&run_for_output(Command::new(
        bench.example_path("parked_questions"),
    ))?)
    .context("could not read what the example printed")?;
    table.add(BenchRow {
        what: "store, memory for 10,000 parked questions".to_owned(),
        ours: format!("{:.1} MB", figures.bytes as f64 / 1e6),
        peer: "–".to_owned(),
        ratio: "–".to_owned(),
        budget: format!("≤ {} MB", PARKED_BYTES_MAX / 1_000_000),
        met: figures.bytes <= PARKED_BYTES_MAX,
    });
    Ok(())
}
