//! Measures the network of confined commands: the loopback device of a session, and the proxy.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable};

/// The speed of a download through the proxy, compared with a direct one: 0.8 of it.
const DOWNLOAD_RATIO_MAX: f64 = 1.25;
/// What a connection may take longer that the user approved, compared with one that a rule allows.
const APPROVED_EXTRA_MAX: Duration = Duration::from_micros(50);
/// What a command may take longer in the network of its session, compared with none.
const LOOPBACK_EXTRA_MAX: Duration = Duration::from_millis(1);
/// Rounds of downloads, which take a second and a half each.
const DOWNLOAD_ROUNDS: usize = 7;

/// The output of the example that uses the proxy.
#[derive(Deserialize)]
struct EgressFigures {
    direct_ns: u64,
    proxied_ns: u64,
    paced_direct_ns: u64,
    paced_proxied_ns: u64,
    ruled_ns: u64,
    approved_ns: u64,
}

/// The output of the example that starts commands in a network.
#[derive(Deserialize)]
struct LoopbackFigures {
    without_ns: u64,
    loopback_ns: u64,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let mut example = Command::new(bench.example_path("spawn_cost"));
    example.args([&bench.runs.start.to_string(), "loopback"]);
    let LoopbackFigures { without_ns, loopback_ns } = read_figures(example)?;
    table.add(extra_row(
        "network, `true` in the network of its session, to none",
        [loopback_ns, without_ns],
        LOOPBACK_EXTRA_MAX,
    ));
    let mut example = Command::new(bench.example_path("egress_cost"));
    example.arg(DOWNLOAD_ROUNDS.min(bench.runs.search).to_string());
    let figures: EgressFigures = read_figures(example)?;
    table.add(extra_row(
        "network, a connection that the user approved, to one by a rule",
        [figures.approved_ns, figures.ruled_ns],
        APPROVED_EXTRA_MAX,
    ));
    table.add(ratio_row(
        "network, 64 MB at 1 Gbit/s through the proxy, to direct",
        [figures.paced_proxied_ns, figures.paced_direct_ns],
        Some(DOWNLOAD_RATIO_MAX),
    ));
    table.add(ratio_row(
        "network, 256 MB as fast as loopback is",
        [figures.proxied_ns, figures.direct_ns],
        None,
    ));
    Ok(())
}

fn read_figures<T: for<'de> Deserialize<'de>>(example: Command) -> Result<T> {
    serde_json::from_slice(&run_for_output(example)?)
        .context("could not read what the example printed")
}

fn ratio_row(what: &str, ns: [u64; 2], budget: Option<f64>) -> BenchRow {
    let [ours, peer] = ns.map(Duration::from_nanos);
    let ratio = ours.as_secs_f64() / peer.as_secs_f64();
    BenchRow {
        what: what.to_owned(),
        ours: format_time(ours),
        peer: format_time(peer),
        ratio: format!("{ratio:.2}"),
        budget: budget.map_or_else(|| "–".to_owned(), |budget| format!("≤ {budget}×")),
        met: budget.is_none_or(|budget| ratio <= budget),
    }
}

/// A row whose budget is a time more than the peer takes.
fn extra_row(what: &str, ns: [u64; 2], extra_max: Duration) -> BenchRow {
    let [ours, peer] = ns.map(Duration::from_nanos);
    BenchRow {
        budget: format!("≤ peer + {}", format_time(extra_max)),
        met: ours <= peer + extra_max,
        ..ratio_row(what, ns, None)
    }
}

fn format_time(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}
