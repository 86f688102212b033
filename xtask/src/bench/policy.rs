//! Measures decisions of the policy engine, and how they scale with rules and commands.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable};

/// A decision about an everyday command under a hundred rules.
const DECISION_MAX: Duration = Duration::from_micros(50);
/// A decision about a line of four commands that use eight files, each with its own rule.
const CHANGES_MAX: Duration = Duration::from_micros(100);
/// Ten thousand rules: preparing them, and deciding about a line of ten thousand commands.
const ARRANGING_MAX: Duration = Duration::from_secs(1);
const MANY_MAX: Duration = Duration::from_secs(1);
/// A hundred thousand nested brackets.
const NESTED_MAX: Duration = Duration::from_millis(200);

/// The output of the example that decides.
#[derive(Deserialize)]
struct PolicyFigures {
    looks_ns: u64,
    touches_ns: u64,
    arranging_ns: u64,
    many_ns: u64,
    nested_ns: u64,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let figures: PolicyFigures =
        serde_json::from_slice(&run_for_output(Command::new(bench.example_path("decide")))?)
            .context("could not read what the example printed")?;
    let rows = [
        ("policy, a line that looks, 100 rules", figures.looks_ns, DECISION_MAX),
        ("policy, a line that changes files, 100 rules", figures.touches_ns, CHANGES_MAX),
        ("policy, reading 10,000 rules", figures.arranging_ns, ARRANGING_MAX),
        ("policy, 10,000 commands, 10,000 rules", figures.many_ns, MANY_MAX),
        ("policy, 100,000 nested brackets", figures.nested_ns, NESTED_MAX),
    ];
    for (what, nanos, budget) in rows {
        table.add(timed_row(what, Duration::from_nanos(nanos), budget));
    }
    Ok(())
}

/// A row with a time and its budget.
pub(super) fn timed_row(what: &str, took: Duration, budget: Duration) -> BenchRow {
    BenchRow {
        what: what.to_owned(),
        ours: format_time(took),
        peer: "–".to_owned(),
        ratio: "–".to_owned(),
        budget: format!("≤ {}", format_time(budget)),
        met: took <= budget,
    }
}

fn format_time(time: Duration) -> String {
    match time < Duration::from_millis(1) {
        true => format!("{:.1} µs", time.as_secs_f64() * 1e6),
        false => format!("{:.1} ms", time.as_secs_f64() * 1e3),
    }
}
