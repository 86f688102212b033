//! Measures the web console in a real browser, and a gateway with 200 consoles.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::bench_context::{BenchContext, FULL, run_for_output};
use super::bench_table::{BenchRow, BenchTable, format_mb, format_ms};
use crate::repository;

/// From the start of the page until the first of 1,000 sessions is shown.
const PAINT_MAX: Duration = Duration::from_millis(300);
/// From the press on a session of 20,000 events until it is shown.
const OPEN_MAX: Duration = Duration::from_millis(500);
/// While it is scrolled. Screens show 60, and the clock of frames is not exact.
const FRAMES_PER_SECOND_MIN: f64 = 59.0;
/// Events that a session shows in a second, and how busy the page may be with them.
const STREAMED_MIN: f64 = 450.0;
const BUSY_MAX: f64 = 0.5;
/// How much the page's memory may grow in all of them.
const GROWTH_BYTES_MAX: u64 = 20_000_000;
/// The gateway with 200 consoles: the delay between the model's output and its arrival, for 99 % of the
/// events, and its memory. They are those of the gateway under load.
const LATE_MAX: Duration = Duration::from_millis(20);
const GATEWAY_BYTES_MAX: u64 = 300_000_000;

#[derive(Deserialize)]
struct ConsoleFigures {
    paint_ms: f64,
    open_ms: f64,
    long_events: u64,
    frames_per_second: f64,
    frame_p95_ms: f64,
    frame_work_ms: f64,
    streamed_per_second: f64,
    streamed_events: u64,
    busy: f64,
    grown_bytes: f64,
    consoles_per_second: f64,
    late_p50_ms: f64,
    late_p99_ms: f64,
    gateway_bytes: u64,
}

/// Measures the console.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let is_full = bench.runs.search == FULL.search;
    let (runs, seconds) = if is_full { ("11", "120") } else { ("3", "20") };
    let script = repository::root().join("console/tests/bench.mjs");
    ensure!(
        repository::root().join("console/node_modules").is_dir(),
        "the console is measured with the packages of its tests; `npm ci --ignore-scripts` in `console` installs them"
    );
    let mut command = Command::new("node");
    command.arg(script).arg(&bench.zero).arg(bench.state.join("console")).args([runs, seconds]);
    // What it measures now: it takes minutes.
    command.stderr(Stdio::inherit());
    let figures: ConsoleFigures = serde_json::from_slice(&run_for_output(command)?)
        .context("could not read what the measurement printed")?;
    add_page_rows(&figures, table);
    add_gateway_rows(&figures, table);
    Ok(())
}

fn add_page_rows(figures: &ConsoleFigures, table: &mut BenchTable) {
    let (paint, open) = (to_duration(figures.paint_ms), to_duration(figures.open_ms));
    table.add(standalone_row(
        "console, start to the list of 1,000 sessions",
        format_ms(paint),
        "–".to_owned(),
        format!("≤ {}", format_ms(PAINT_MAX)),
        paint <= PAINT_MAX,
    ));
    table.add(standalone_row(
        "console, opening a session of 20,000 events",
        format_ms(open),
        format!("{} events", figures.long_events),
        format!("≤ {}", format_ms(OPEN_MAX)),
        open <= OPEN_MAX,
    ));
    table.add(standalone_row(
        "console, scrolling it",
        format!("{:.1} frames/s", figures.frames_per_second),
        format!(
            "p95 {:.1} ms between frames, {:.1} ms of work in each",
            figures.frame_p95_ms, figures.frame_work_ms
        ),
        format!("≥ {FRAMES_PER_SECOND_MIN:.0}/s"),
        figures.frames_per_second >= FRAMES_PER_SECOND_MIN,
    ));
    table.add(standalone_row(
        "console, 500 events a second, main thread",
        format!("{:.0} %", figures.busy * 100.0),
        format!("{:.0} events/s shown", figures.streamed_per_second),
        format!("≤ {:.0} %", BUSY_MAX * 100.0),
        figures.busy <= BUSY_MAX && figures.streamed_per_second >= STREAMED_MIN,
    ));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, from 0")]
    let grown = figures.grown_bytes as u64;
    table.add(standalone_row(
        "console, growth of its memory meanwhile",
        format_mb(grown),
        format!("{} events", figures.streamed_events),
        format!("≤ {}", format_mb(GROWTH_BYTES_MAX)),
        grown <= GROWTH_BYTES_MAX,
    ));
}

fn add_gateway_rows(figures: &ConsoleFigures, table: &mut BenchTable) {
    let late = to_duration(figures.late_p99_ms);
    table.add(standalone_row(
        "gateway with 200 consoles, model to console, p99",
        format_ms(late),
        format!(
            "median {}, {:.0} events/s",
            format_ms(to_duration(figures.late_p50_ms)),
            figures.consoles_per_second
        ),
        format!("≤ {}", format_ms(LATE_MAX)),
        late <= LATE_MAX,
    ));
    table.add(standalone_row(
        "gateway with 200 consoles, memory",
        format!("{} peak", format_mb(figures.gateway_bytes)),
        "–".to_owned(),
        format!("≤ {}", format_mb(GATEWAY_BYTES_MAX)),
        figures.gateway_bytes <= GATEWAY_BYTES_MAX,
    ));
}

fn to_duration(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.max(0.0) / 1_000.0)
}

/// A row without a comparison.
fn standalone_row(what: &str, ours: String, peer: String, budget: String, met: bool) -> BenchRow {
    BenchRow { what: what.to_owned(), ours, peer, ratio: "–".to_owned(), budget, met }
}
