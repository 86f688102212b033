//! Measures searches, reads and calls, against their budgets.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable, format_mb, format_micros, format_ms};
use super::peak_memory;
use super::result_check::{GLOB_PATTERN, SEARCHES};
use super::stopwatch::{TimingPair, time_pair};

/// A search may take this many times as long as ripgrep.
const SEARCH_RATIO_MAX: f64 = 1.15;
/// Starting and reading a small file may take this many times as long as `cat`, and this much more.
const START_RATIO_MAX: f64 = 1.5;
const START_EXTRA_MAX: Duration = Duration::from_millis(10);
/// Memory of a process that reads deep in a large file.
const LARGE_READ_BYTES_MAX: u64 = 40_000_000;
/// Time of a call that does nothing.
const NOOP_MAX: Duration = Duration::from_micros(30);
/// Additional memory of a host after a million calls, compared with a hundred thousand.
const GROWTH_BYTES_MAX: u64 = 2_000_000;

/// First line to read from the large file, and the number of lines.
const DEEP_LINE: u64 = 1_000_000;
const DEEP_LINES: u64 = 11;

/// Measures everything.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    eprintln!("== measuring");
    for search in SEARCHES {
        let (input, args) = (search.to_input(), search.rg_args("--line-number"));
        let pair = time_pair(
            bench.runs.search,
            || bench.zero_call_command("Grep", &input),
            || bench.rg_command(&args),
        )?;
        table.add(search_row(&format!("Grep, {}", search.what), "rg", pair));
    }
    let input = json!({"pattern": GLOB_PATTERN});
    let listing = ["--files", "-g", GLOB_PATTERN];
    let pair = time_pair(
        bench.runs.search,
        || bench.zero_call_command("Glob", &input),
        || bench.rg_command(&listing),
    )?;
    table.add(search_row("Glob", "rg --files", pair));
    table.add(measure_small_read(bench)?);
    table.add(measure_deep_read(bench)?);
    measure_noop(bench, table)
}

fn search_row(what: &str, peer: &str, pair: TimingPair) -> BenchRow {
    BenchRow {
        what: what.to_owned(),
        ours: format_ms(pair.ours),
        peer: format!("{peer} {}", format_ms(pair.theirs)),
        ratio: format!("{:.2}", pair.ratio()),
        budget: format!("≤ {SEARCH_RATIO_MAX}"),
        met: pair.ratio() <= SEARCH_RATIO_MAX,
    }
}

fn measure_small_read(bench: &BenchContext) -> Result<BenchRow> {
    let file = "part-00/keep.tmp";
    let input = json!({"file_path": file});
    let cat = || {
        let mut cat = Command::new("/bin/cat");
        cat.arg(file).current_dir(&bench.tree);
        cat
    };
    let pair = time_pair(bench.runs.start, || bench.zero_call_command("Read", &input), cat)?;
    let budget = pair.theirs.mul_f64(START_RATIO_MAX) + START_EXTRA_MAX;
    Ok(BenchRow {
        what: "Read, small file".to_owned(),
        ours: format_ms(pair.ours),
        peer: format!("cat {}", format_ms(pair.theirs)),
        ratio: format!("{:.2}", pair.ratio()),
        budget: format!(
            "≤ {START_RATIO_MAX}× + {} = {}",
            format_ms(START_EXTRA_MAX),
            format_ms(budget)
        ),
        met: pair.ours <= budget,
    })
}

fn measure_deep_read(bench: &BenchContext) -> Result<BenchRow> {
    let folder = bench.large_file.parent().context("a file is in a folder")?;
    let input = json!({"file_path": "lines.txt", "offset": DEEP_LINE, "limit": DEEP_LINES});
    let command = || {
        let mut command = bench.zero_call_command("Read", &input);
        command.current_dir(folder);
        command
    };
    let answer: Value = serde_json::from_slice(&run_for_output(command())?)
        .context("could not read zero's answer")?;
    let content =
        answer.pointer("/result/structured/content").and_then(Value::as_str).unwrap_or_default();
    let (first, last) =
        (format!("line {DEEP_LINE}:"), format!("line {}:", DEEP_LINE + DEEP_LINES - 1));
    ensure!(
        content.contains(&first) && content.contains(&last),
        "Read returned other lines: {content:.200}"
    );
    let peak = peak_memory::measure_peak(command())?;
    Ok(BenchRow {
        what: format!("Read, lines {DEEP_LINE}–{} of 500 MB", DEEP_LINE + DEEP_LINES - 1),
        ours: format!("{} peak", format_mb(peak)),
        peer: "–".to_owned(),
        ratio: "–".to_owned(),
        budget: format!("≤ {}", format_mb(LARGE_READ_BYTES_MAX)),
        met: peak <= LARGE_READ_BYTES_MAX,
    })
}

/// The output of the example that calls a tool a million times.
#[derive(Deserialize)]
struct NoopFigures {
    median_ns: u64,
    resident_early_kb: Option<u64>,
    resident_late_kb: Option<u64>,
}

fn measure_noop(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let mut command = Command::new(bench.example_path("noop_path"));
    command.arg(bench.state.join("noop"));
    let figures: NoopFigures = serde_json::from_slice(&run_for_output(command)?)
        .context("could not read what the example printed")?;
    let median = Duration::from_nanos(figures.median_ns);
    table.add(BenchRow {
        what: "a call that does nothing, audit on".to_owned(),
        ours: format_micros(median),
        peer: "–".to_owned(),
        ratio: "–".to_owned(),
        budget: format!("≤ {}", format_micros(NOOP_MAX)),
        met: median <= NOOP_MAX,
    });
    let (Some(early), Some(late)) = (figures.resident_early_kb, figures.resident_late_kb) else {
        eprintln!(
            "   this system does not say how much memory a process holds; that row needs Linux"
        );
        return Ok(());
    };
    let growth = late.saturating_sub(early) * 1024;
    table.add(BenchRow {
        what: "memory added from call 100,000 to 1,000,000".to_owned(),
        ours: format!("{} (of {})", format_mb(growth), format_mb(late * 1024)),
        peer: "–".to_owned(),
        ratio: "–".to_owned(),
        budget: format!("≤ {}", format_mb(GROWTH_BYTES_MAX)),
        met: growth <= GROWTH_BYTES_MAX,
    });
    Ok(())
}
