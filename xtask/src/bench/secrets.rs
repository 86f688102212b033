//! Measures how long it takes to mask secret values in a result.

use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use super::bench_context::BenchContext;
use super::bench_table::BenchTable;
use super::policy::{run_example, timed_row};

/// A thousand values in a megabyte, of which none or one occurs.
const MASK_MAX: Duration = Duration::from_millis(2);
const FOUND_MAX: Duration = Duration::from_millis(4);
/// Preparing a thousand values, at the first call and when a secret file changed.
const BUILD_MAX: Duration = Duration::from_millis(50);
/// A workspace without secrets.
const EMPTY_MAX: Duration = Duration::from_micros(1);

/// The output of the example that masks.
#[derive(Deserialize)]
struct MaskFigures {
    build_ns: u64,
    plain_ns: u64,
    found_ns: u64,
    empty_ns: u64,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let figures: MaskFigures = run_example(bench, "mask_cost")?;
    let rows = [
        ("secrets, 1,000 values, 1 MB without one", figures.plain_ns, MASK_MAX),
        ("secrets, 1,000 values, 1 MB with one", figures.found_ns, FOUND_MAX),
        ("secrets, preparing 1,000 values", figures.build_ns, BUILD_MAX),
        ("secrets, no value, 1 MB", figures.empty_ns, EMPTY_MAX),
    ];
    for (what, nanos, budget) in rows {
        table.add(timed_row(what, Duration::from_nanos(nanos), budget));
    }
    Ok(())
}
