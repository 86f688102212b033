//! Counts what zero asks of the kernel: system calls and page faults of the whole process tree, and processor time.
//!
//! Unlike times, counts hardly depend on the machine and on what else it does, so that two commits can be compared.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable};
use crate::repository;

/// What the script prints for each step.
#[derive(Deserialize)]
struct StepProfile {
    what: String,
    /// System calls.
    calls: f64,
    /// The most frequent of them, by name.
    frequent: Vec<(String, f64)>,
    /// Page faults that needed no disk.
    faults: f64,
    cpu_ms: f64,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let mut script = Command::new("python3");
    script.arg(repository::root().join("tests/interop/call_profile.py")).arg(&bench.zero);
    let steps: Vec<StepProfile> = serde_json::from_slice(&run_for_output(script)?)
        .context("could not read what the script printed")?;
    for step in steps {
        let what = format!("profile, {}", step.what);
        table.add(BenchRow::without_peer(&what, step.describe(), "–".to_owned(), true));
    }
    Ok(())
}

impl StepProfile {
    fn describe(&self) -> String {
        let frequent: Vec<String> =
            self.frequent.iter().map(|(name, count)| format!("{name} {count:.0}")).collect();
        format!(
            "{:.0} system calls ({}), {:.0} page faults, {:.1} ms of processor time",
            self.calls,
            frequent.join(", "),
            self.faults,
            self.cpu_ms
        )
    }
}
