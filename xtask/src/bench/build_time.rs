//! How long a newcomer waits: for the first command of the README, for the first test, for the last, and for the
//! compiler after a change.
//!
//! It takes the better part of an hour and needs the machine for itself, so it runs only when it is asked for by
//! name. Dependencies are downloaded before the clock starts; the target folder is new.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::bench_table::{BenchRow, BenchTable};
use crate::repository::{self, cargo_command};

/// What `--only` takes.
pub(super) const NAME: &str = "build";

const FIRST_COMMAND_MAX: Duration = Duration::from_secs(8 * 60);
const FIRST_TEST_MAX: Duration = Duration::from_secs(12 * 60);
const LAST_TEST_MAX: Duration = Duration::from_secs(30 * 60);
const CHECK_CORE_MAX: Duration = Duration::from_secs(40);
const CHECK_ACP_MAX: Duration = Duration::from_secs(10);

/// What nextest prints before it runs the first test.
const FIRST_TEST_MARK: &str = "Starting ";

/// Measures builds in folders of their own.
pub(super) fn measure(table: &mut BenchTable) -> Result<()> {
    run(cargo_command(&["fetch", "--locked"]))?;
    let target = tempfile_folder()?;
    let outcome = measure_in(&target, table);
    std::fs::remove_dir_all(&target)
        .with_context(|| format!("could not remove {}", target.display()))?;
    outcome
}

fn measure_in(target: &Path, table: &mut BenchTable) -> Result<()> {
    let mut first =
        in_target(cargo_command(&["run", "--release", "--", "run", "/read README.md"]), target);
    first.env("XDG_STATE_HOME", target.join("state")).env("XDG_CONFIG_HOME", target.join("config"));
    let time = timed(first)?;
    table.add(time_row("README's first command, from nothing", time, FIRST_COMMAND_MAX));
    std::fs::remove_dir_all(target).context("could not empty the target folder")?;

    let (first_test, last_test) = time_tests(target)?;
    table.add(time_row(
        "`cargo xtask test` to its first test, from nothing",
        first_test,
        FIRST_TEST_MAX,
    ));
    table.add(time_row("`cargo xtask test` to its end, from nothing", last_test, LAST_TEST_MAX));

    for (file, what, budget) in [
        (
            "crates/zero-core/src/lib.rs",
            "`cargo check` after a change of zero-core",
            CHECK_CORE_MAX,
        ),
        ("crates/zero-acp/src/lib.rs", "`cargo check` after a change of zero-acp", CHECK_ACP_MAX),
    ] {
        run(in_target(cargo_command(&["check"]), target))?;
        touch(&repository::root().join(file))?;
        let time = timed(in_target(cargo_command(&["check"]), target))?;
        table.add(time_row(what, time, budget));
    }
    Ok(())
}

/// Until nextest runs its first test, and until all is over.
fn time_tests(target: &Path) -> Result<(Duration, Duration)> {
    let started = Instant::now();
    let mut command = in_target(cargo_command(&["xtask", "test"]), target);
    let mut child = command.stderr(Stdio::piped()).spawn().context("could not start cargo")?;
    let lines = BufReader::new(child.stderr.take().context("no standard error")?).lines();
    let mut first = None;
    for line in lines {
        let line = line.context("could not read what cargo printed")?;
        eprintln!("{line}");
        if first.is_none() && line.trim_start().starts_with(FIRST_TEST_MARK) {
            first = Some(started.elapsed());
        }
    }
    let status = child.wait().context("could not wait for cargo")?;
    ensure!(status.success(), "the tests failed");
    Ok((first.context("nextest started no test")?, started.elapsed()))
}

fn in_target(mut command: Command, target: &Path) -> Command {
    command.env("CARGO_TARGET_DIR", target);
    command
}

fn timed(command: Command) -> Result<Duration> {
    let started = Instant::now();
    run(command)?;
    Ok(started.elapsed())
}

fn run(mut command: Command) -> Result<()> {
    let status = command.status().context("could not start cargo")?;
    ensure!(status.success(), "cargo failed: {command:?}");
    Ok(())
}

/// Makes cargo believe that a file changed.
fn touch(file: &Path) -> Result<()> {
    let text = std::fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    std::fs::write(file, text).with_context(|| format!("could not write {}", file.display()))
}

fn tempfile_folder() -> Result<std::path::PathBuf> {
    let folder = std::path::PathBuf::from(super::bench_context::STATES)
        .join(format!("zero-build-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    Ok(folder)
}

fn time_row(what: &str, time: Duration, budget: Duration) -> BenchRow {
    BenchRow {
        what: what.to_owned(),
        ours: format_seconds(time),
        peer: String::new(),
        ratio: String::new(),
        budget: format!("≤ {}", format_seconds(budget)),
        met: time <= budget,
    }
}

fn format_seconds(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 60 {
        0 => format!("{:.1} s", time.as_secs_f64()),
        minutes => format!("{minutes} min {} s", seconds % 60),
    }
}
