//! Measures a gateway: its start, idle connections, and load.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::bench_context::{BenchContext, FULL, run_for_output};
use super::bench_table::{BenchRow, BenchTable, format_mb, format_ms};

/// From the start of the program until it reports that it is ready.
const READY_MAX: Duration = Duration::from_millis(100);
/// Its memory without clients.
const IDLE_BYTES_MAX: u64 = 30_000_000;
/// Idle connections, and their cost.
const CONNECTIONS: usize = 10_000;
const CONNECTIONS_BYTES_MAX: u64 = 600_000_000;
/// The load: clients, concurrent runs, and events per second.
const CLIENTS: usize = 1_000;
const RUNS: usize = 200;
const EVENTS_PER_SECOND: f64 = 20_000.0;
/// Its memory under that load.
const LOAD_BYTES_MAX: u64 = 300_000_000;
/// The delay between the model's output and its arrival at a client, for 99 % of the events.
const LATE_MAX: Duration = Duration::from_millis(20);
/// Output of the model per second, over all runs: half of the clients get two events for each word,
/// the others one.
const WORDS_PER_SECOND: usize = 13_400;
/// Open files that a process needs for the connections and itself.
const FILES_NEEDED: u64 = CONNECTIONS as u64 + 500;

/// Measures a gateway.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    measure_start(bench, table)?;
    measure_connections(bench, table)?;
    measure_load(bench, table)
}

#[derive(Deserialize)]
struct StartFigures {
    ready_us: u64,
    idle_bytes: u64,
}

fn measure_start(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let runs = bench.runs.search.min(10);
    let figures: StartFigures = run_example(bench, "start", &[runs])?;
    let ready = Duration::from_micros(figures.ready_us);
    table.add(BenchRow::without_peer(
        "gateway, start to ready",
        format_ms(ready),
        format_budget(format_ms(READY_MAX)),
        ready <= READY_MAX,
    ));
    let held = figures.idle_bytes;
    let is_met = held <= IDLE_BYTES_MAX;
    table.add(BenchRow::without_peer(
        "gateway, memory without clients",
        format_mb(held),
        format_budget(format_mb(IDLE_BYTES_MAX)),
        is_met,
    ));
    Ok(())
}

#[derive(Deserialize)]
struct IdleFigures {
    before_bytes: u64,
    peak_bytes: u64,
    lost: usize,
    ticked: usize,
}

fn measure_connections(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    // Long enough for a tick and a ping to each.
    let seconds = if is_full(bench) { 35 } else { 2 };
    let figures: IdleFigures = run_example(bench, "idle", &[CONNECTIONS, seconds])?;
    ensure!(figures.lost == 0, "{} of {CONNECTIONS} idle connections ended", figures.lost);
    ensure!(
        !is_full(bench) || figures.ticked == CONNECTIONS,
        "only {} of {CONNECTIONS} idle connections heard a tick",
        figures.ticked
    );
    let peak = figures.peak_bytes;
    let each = peak.saturating_sub(figures.before_bytes) / CONNECTIONS as u64;
    table.add(BenchRow {
        peer: format!("{:.1} kB each", each as f64 / 1e3),
        ..BenchRow::without_peer(
            "gateway, memory of 10,000 idle connections",
            format!("{} peak", format_mb(peak)),
            format_budget(format_mb(CONNECTIONS_BYTES_MAX)),
            peak <= CONNECTIONS_BYTES_MAX,
        )
    });
    Ok(())
}

#[derive(Deserialize)]
struct LoadFigures {
    runs: usize,
    events: u64,
    events_per_second: f64,
    words_per_second: f64,
    late_p50_us: u64,
    late_p99_us: u64,
    late_max_us: u64,
    peak_bytes: u64,
    gateway_processors: f64,
    driver_processors: f64,
    failed: usize,
    failures: Vec<String>,
}

fn measure_load(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let seconds = if is_full(bench) { 30 } else { 10 };
    let plan = [CLIENTS, RUNS, WORDS_PER_SECOND, seconds];
    let figures: LoadFigures = run_example(bench, "load", &plan)?;
    let LoadFigures { failed, failures, runs, events, .. } = &figures;
    ensure!(*failed == 0, "{failed} of {CLIENTS} clients did not hear all in order: {failures:?}");
    table.add(BenchRow {
        peer: format!("{:.0} words/s heard", figures.words_per_second),
        ..BenchRow::without_peer(
            "gateway, 1,000 clients, 200 runs at a time, events heard",
            format!("{:.0}/s", figures.events_per_second),
            format!("≥ {EVENTS_PER_SECOND:.0}/s"),
            figures.events_per_second >= EVENTS_PER_SECOND,
        )
    });
    let late = Duration::from_micros(figures.late_p99_us);
    let (middle, most) = (figures.late_p50_us, figures.late_max_us);
    table.add(BenchRow {
        peer: format!(
            "median {}, longest {}",
            format_ms(Duration::from_micros(middle)),
            format_ms(Duration::from_micros(most))
        ),
        ..BenchRow::without_peer(
            "gateway, the same, model to client, p99",
            format_ms(late),
            format_budget(format_ms(LATE_MAX)),
            late <= LATE_MAX,
        )
    });
    table.add(BenchRow {
        peer: format!("{runs} runs, {events} events"),
        ..BenchRow::without_peer(
            "gateway, the same, lost or out of order",
            "0".to_owned(),
            "0".to_owned(),
            true,
        )
    });
    let peak = figures.peak_bytes;
    table.add(BenchRow {
        peer: format!(
            "{:.2} processors, driver {:.2}",
            figures.gateway_processors, figures.driver_processors
        ),
        ..BenchRow::without_peer(
            "gateway, the same, memory",
            format!("{} peak", format_mb(peak)),
            format_budget(format_mb(LOAD_BYTES_MAX)),
            peak <= LOAD_BYTES_MAX,
        )
    });
    Ok(())
}

/// Runs the example, which starts the gateway itself. Both may have as many open files as the
/// system permits.
fn run_example<T: DeserializeOwned>(
    bench: &BenchContext,
    what: &str,
    numbers: &[usize],
) -> Result<T> {
    let folder = bench.state.join("gateway").join(what);
    let mut command = Command::new("bash");
    let script = format!(
        "ulimit -n \"$(ulimit -Hn)\"; [ \"$(ulimit -n)\" = unlimited ] || [ \"$(ulimit -n)\" -ge {FILES_NEEDED} ] || \
         {{ echo \"a process may open $(ulimit -n) files here and {FILES_NEEDED} are needed\" >&2; exit 2; }}; \
         exec \"$@\""
    );
    command.args(["-c", &script, "bash"]).arg(bench.example_path("gateway_load")).arg(what);
    command.arg(&bench.zero).arg(folder).args(numbers.iter().map(usize::to_string));
    serde_json::from_slice(&run_for_output(command)?)
        .context("could not read what the example printed")
}

fn is_full(bench: &BenchContext) -> bool {
    bench.runs.search == FULL.search
}

fn format_budget(budget: String) -> String {
    format!("≤ {budget}")
}
