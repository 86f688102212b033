//! Measures the chat on a terminal: its start, its keys while an answer streams, completion, an idle chat,
//! and the memory of a long transcript.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable};
use super::policy::timed_row;
use crate::repository;

/// Sessions in the store when a chat starts, and files that `@` completes.
const SESSIONS: u32 = 1_000;
const FILES: u32 = 100_000;

const FIRST_PAINT_MAX: Duration = Duration::from_millis(30);
const READY_MAX: Duration = Duration::from_millis(60);
const KEY_MAX: Duration = Duration::from_millis(16);
const COMPLETION_MAX: Duration = Duration::from_millis(20);
const RESIZE_MAX: Duration = Duration::from_millis(100);
/// Share of a processor that counts as none: the clock of the system cannot measure less.
const IDLE_PERCENT_MAX: f64 = 0.5;
const CELLS_BYTES_MAX: u64 = 60_000_000;

/// What the script prints that types into a chat.
#[derive(Deserialize)]
struct ChatFigures {
    first_paint_ms: f64,
    ready_ms: f64,
    key_p99_ms: f64,
    completion_ms: f64,
    idle_percent: f64,
}

/// The output of the example that keeps 50,000 cells.
#[derive(Deserialize)]
struct CellFigures {
    bytes: u64,
    resize_ns: u64,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let mut script = Command::new("python3");
    script.arg(repository::root().join("tests/interop/chat_speed.py"));
    script.arg(&bench.zero).arg(SESSIONS.to_string()).arg(FILES.to_string());
    let figures: ChatFigures = serde_json::from_slice(&run_for_output(script)?)
        .context("could not read what the script printed")?;
    let mut add = |what: &str, ms: f64, most| {
        table.add(timed_row(what, Duration::from_secs_f64(ms / 1_000.0), most));
    };
    add("chat, first paint with 1,000 sessions", figures.first_paint_ms, FIRST_PAINT_MAX);
    add("chat, ready for keys with 1,000 sessions", figures.ready_ms, READY_MAX);
    add("chat, key to paint while 200 events/s stream, p99", figures.key_p99_ms, KEY_MAX);
    add("chat, a key of `@` over 100,000 files", figures.completion_ms, COMPLETION_MAX);
    table.add(BenchRow {
        what: "chat, processor while idle".to_owned(),
        ours: format!("{:.1} %", figures.idle_percent),
        peer: "–".to_owned(),
        ratio: "–".to_owned(),
        budget: format!("≤ {IDLE_PERCENT_MAX} %"),
        met: figures.idle_percent <= IDLE_PERCENT_MAX,
    });
    let cells: CellFigures =
        serde_json::from_slice(&run_for_output(Command::new(bench.example_path("chat_cells")))?)
            .context("could not read what the example printed")?;
    table.add(BenchRow {
        what: "chat, memory of 50,000 cells".to_owned(),
        ours: format!("{:.1} MB", cells.bytes as f64 / 1e6),
        peer: "–".to_owned(),
        ratio: "–".to_owned(),
        budget: format!("≤ {} MB", CELLS_BYTES_MAX / 1_000_000),
        met: cells.bytes <= CELLS_BYTES_MAX,
    });
    let resize = Duration::from_nanos(cells.resize_ns);
    table.add(timed_row("chat, another width with 50,000 cells", resize, RESIZE_MAX));
    Ok(())
}
