//! Measures starting a command in the sandbox, and reading its output.
//!
//! The example takes turns with what it is compared with: a plain start, and bubblewrap with the
//! same namespaces and nothing else.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable};

/// Landlock and the seccomp filter, compared with a plain start.
const LANDLOCK_RATIO_MAX: f64 = 3.0;
/// Every layer, compared with bubblewrap alone.
const SANDBOX_RATIO_MAX: f64 = 1.2;
/// Reading a gigabyte with a limited buffer, compared with `cmd | cat > /dev/null`: seven tenths of
/// its speed.
const DRAIN_RATIO_MAX: f64 = 1.43;
/// Memory for reading a gigabyte, in kilobytes: the kept part, and the buffer.
const DRAIN_KB_MAX: u64 = 4096;

/// The output of the example that starts commands.
#[derive(Deserialize)]
struct SpawnFigures {
    plain_ns: u64,
    bwrap_ns: u64,
    landlock_ns: u64,
    walls_ns: u64,
    at_once_ns: u64,
    drained_ns: u64,
    piped_ns: u64,
    drain_kb: u64,
    left: Vec<String>,
}

/// Measures sandboxed commands.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let mut example = Command::new(bench.example_path("spawn_cost"));
    example.arg(bench.runs.start.to_string());
    let figures: SpawnFigures = serde_json::from_slice(&run_for_output(example)?)
        .context("could not read what the example printed")?;
    let f = &figures;
    let rows = [
        (
            "sandbox, `true` by Landlock, to a plain one",
            f.landlock_ns,
            f.plain_ns,
            LANDLOCK_RATIO_MAX,
        ),
        ("sandbox, `true` in the sandbox, to bwrap", f.walls_ns, f.bwrap_ns, SANDBOX_RATIO_MAX),
        ("sandbox, 1 GB drained, to `| cat`", f.drained_ns, f.piped_ns, DRAIN_RATIO_MAX),
    ];
    for (what, ours, peer, budget) in rows {
        table.add(ratio_row(what, Duration::from_nanos(ours), Duration::from_nanos(peer), budget));
    }
    let [at_once, bwrap] = [f.at_once_ns, f.bwrap_ns].map(Duration::from_nanos);
    table.add(BenchRow {
        budget: "–".to_owned(),
        met: true,
        ..ratio_row(
            "sandbox, the same without a pause before it",
            at_once,
            bwrap,
            SANDBOX_RATIO_MAX,
        )
    });
    table.add(BenchRow::without_peer(
        "sandbox, memory for draining 1 GB",
        format!("{} KB", f.drain_kb),
        format!("≤ {DRAIN_KB_MAX} KB"),
        f.drain_kb <= DRAIN_KB_MAX,
    ));
    let left = if f.left.is_empty() { "0".to_owned() } else { f.left.join(", ") };
    let is_clean = f.left.is_empty();
    table.add(BenchRow::without_peer(
        "sandbox, left by 1,000 commands",
        left,
        "0".to_owned(),
        is_clean,
    ));
    Ok(())
}

fn ratio_row(what: &str, ours: Duration, peer: Duration, budget: f64) -> BenchRow {
    let ratio = ours.as_secs_f64() / peer.as_secs_f64();
    BenchRow {
        what: what.to_owned(),
        ours: format_time(ours),
        peer: format_time(peer),
        ratio: format!("{ratio:.2}"),
        budget: format!("≤ {budget}×"),
        met: ratio <= budget,
    }
}

fn format_time(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}
