//! Measures what it costs to record the changes of commands, and how long an undo takes.
//!
//! The example runs each command with and without recording, in turn.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable, format_ms};
use super::policy::timed_row;

/// What recording may add to a command that changes nothing.
const NOTHING_MAX: Duration = Duration::from_micros(1_500);
/// A command that writes files with recording, compared with the same one without.
const RECORDED_RATIO_MAX: f64 = 1.1;
/// Undoing `rm -rf` of 20,000 files.
const UNDO_MAX: Duration = Duration::from_secs(2);
/// Rounds of the commands that take about a second.
const LONG_ROUNDS_DIVISOR: usize = 4;

/// The output of the example.
#[derive(Deserialize)]
struct UndoFigures {
    nothing: RecordingFigures,
    install: RecordingFigures,
    build: RecordingFigures,
    remove: RecordingFigures,
    undo_ns: u64,
}

/// A command with and without recording.
#[derive(Clone, Copy, Deserialize)]
struct RecordingFigures {
    on_ns: u64,
    off_ns: u64,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let mut example = Command::new(bench.example_path("undo_cost"));
    let long_rounds = (bench.runs.search / LONG_ROUNDS_DIVISOR).max(1);
    example.args([bench.runs.start.to_string(), long_rounds.to_string()]);
    let figures: UndoFigures = serde_json::from_slice(&run_for_output(example)?)
        .context("could not read what the example printed")?;
    let nothing = figures.nothing;
    let added = Duration::from_nanos(nothing.on_ns.saturating_sub(nothing.off_ns));
    table.add(timed_row("undo, recording of a command that changes nothing", added, NOTHING_MAX));
    for (what, figures, budget) in [
        ("undo, 20,000 files unpacked, recorded", figures.install, Some(RECORDED_RATIO_MAX)),
        ("undo, build of 2,000 files, recorded", figures.build, Some(RECORDED_RATIO_MAX)),
        ("undo, `rm -rf` of 20,000 files, recorded", figures.remove, None),
    ] {
        table.add(recorded_row(what, figures, budget));
    }
    let undo = Duration::from_nanos(figures.undo_ns);
    table.add(timed_row("undo, `rm -rf` of 20,000 files undone", undo, UNDO_MAX));
    Ok(())
}

fn recorded_row(what: &str, figures: RecordingFigures, budget: Option<f64>) -> BenchRow {
    let [on, off] = [figures.on_ns, figures.off_ns].map(Duration::from_nanos);
    let ratio = on.as_secs_f64() / off.as_secs_f64();
    BenchRow {
        what: what.to_owned(),
        ours: format_ms(on),
        peer: format_ms(off),
        ratio: format!("{ratio:.2}"),
        budget: budget.map_or("–".to_owned(), |most| format!("≤ {most}×")),
        met: budget.is_none_or(|most| ratio <= most),
    }
}
