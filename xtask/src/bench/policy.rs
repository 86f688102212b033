//! Measures decisions of the policy engine, and how they scale with rules and commands.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

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

/// Sixty searches of 50,000 files in one line, and what others wait for meanwhile.
const SEARCHES_MAX: Duration = Duration::from_millis(300);
const DELAY_MAX: Duration = Duration::from_millis(20);

/// The output of the example that searches while it decides.
#[derive(Deserialize)]
struct SearchFigures {
    decided_ns: u64,
    delay_ns: u64,
}

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
    let figures: PolicyFigures = run_example(bench, "decide")?;
    let search: SearchFigures = run_example(bench, "decision_delay")?;
    let rows = [
        ("policy, a line that looks, 100 rules", figures.looks_ns, DECISION_MAX),
        ("policy, a line that changes files, 100 rules", figures.touches_ns, CHANGES_MAX),
        ("policy, reading 10,000 rules", figures.arranging_ns, ARRANGING_MAX),
        ("policy, 10,000 commands, 10,000 rules", figures.many_ns, MANY_MAX),
        ("policy, 100,000 nested brackets", figures.nested_ns, NESTED_MAX),
        ("policy, 60 searches of 50,000 files in a line", search.decided_ns, SEARCHES_MAX),
        ("policy, delay of others meanwhile", search.delay_ns, DELAY_MAX),
    ];
    for (what, nanos, budget) in rows {
        table.add(timed_row(what, Duration::from_nanos(nanos), budget));
    }
    Ok(())
}

/// The figures that an example prints.
pub(super) fn run_example<T: DeserializeOwned>(bench: &BenchContext, name: &str) -> Result<T> {
    let printed = run_for_output(Command::new(bench.example_path(name)))?;
    serde_json::from_slice(&printed)
        .with_context(|| format!("could not read what `{name}` printed"))
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
