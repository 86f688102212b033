//! How long a newcomer waits: for the first command of the README, for the first test, for the last, and for the
//! compiler after a change.
//!
//! It takes the better part of an hour and needs the machine for itself, so it runs only when it is asked for by
//! name. Dependencies are downloaded, and programs that the tests run installed, before the clock starts. The target
//! folder is new.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};

use super::bench_table::{BenchRow, BenchTable};
use crate::repository::{self, cargo_command};
use crate::required_programs;

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
    ensure!(
        required_programs::is_available(&mut cargo_command(&["nextest", "--version"])),
        "the first test is recognized by what cargo-nextest prints; `cargo install cargo-nextest --locked` installs it"
    );
    required_programs::ensure();
    run(cargo_command(&["fetch", "--locked"]))?;
    let target = create_target_folder()?;
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

    let times = time_tests(target)?;
    table.add(time_row(
        "`cargo xtask test` to its first test, from nothing",
        times.first,
        FIRST_TEST_MAX,
    ));
    let last = time_row("`cargo xtask test` to its end, from nothing", times.last, LAST_TEST_MAX);
    // A failed test does not end the run: the earlier measurements took half an hour.
    table.add(match times.passed {
        true => last,
        false => BenchRow { ours: format!("{}, failed", last.ours), met: false, ..last },
    });

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

/// How long the test command takes.
struct TestTimes {
    /// Until nextest runs its first test.
    first: Duration,
    /// Until all is over.
    last: Duration,
    passed: bool,
}

fn time_tests(target: &Path) -> Result<TestTimes> {
    let started = Instant::now();
    let mut command = in_target(cargo_command(&["xtask", "test"]), target);
    let mut child = command.stderr(Stdio::piped()).spawn().context("could not start cargo")?;
    let output = BufReader::new(child.stderr.take().context("no standard error")?);
    let first = find_first_test(output, || started.elapsed())?;
    let status = child.wait().context("could not wait for cargo")?;
    let first = first.context("nextest started no test")?;
    Ok(TestTimes { first, last: started.elapsed(), passed: status.success() })
}

/// Prints all lines, and returns the time at which nextest announced its tests.
fn find_first_test(
    output: impl BufRead,
    elapsed: impl Fn() -> Duration,
) -> Result<Option<Duration>> {
    let mut first = None;
    for line in output.lines() {
        let line = line.context("could not read what cargo printed")?;
        eprintln!("{line}");
        if first.is_none() && line.trim_start().starts_with(FIRST_TEST_MARK) {
            first = Some(elapsed());
        }
    }
    Ok(first)
}

/// Sets the target folder of cargo, and of each cargo that it starts. None of them may use the network or print colours,
/// which would hide the mark of the first test.
fn in_target(mut command: Command, target: &Path) -> Command {
    command
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TERM_COLOR", "never");
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
    let opened = File::options().append(true).open(file);
    opened
        .and_then(|file| file.set_modified(SystemTime::now()))
        .with_context(|| format!("could not touch {}", file.display()))
}

fn create_target_folder() -> Result<PathBuf> {
    let folder = PathBuf::from(super::bench_context::STATES)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_test_is_found_in_output_of_nextest() {
        #[track_caller]
        fn check(output: &str, expected: Option<Duration>) {
            let found = find_first_test(output.as_bytes(), || Duration::from_secs(7)).unwrap();
            assert_eq!(found, expected, "{output}");
        }
        let at = Some(Duration::from_secs(7));
        check("   Compiling a\n    Starting 3 tests across 2 binaries\n  PASS a\n", at);
        check("   Compiling Starting v1\n", None);
        check("", None);
    }

    #[test]
    fn row_says_whether_budget_is_met() {
        let row = |seconds| time_row("x", Duration::from_secs(seconds), CHECK_CORE_MAX);
        assert_eq!((row(40).ours.as_str(), row(40).budget.as_str()), ("40.0 s", "≤ 40.0 s"));
        assert!(row(40).met && !row(41).met);
        assert_eq!(format_seconds(FIRST_COMMAND_MAX + Duration::from_secs(5)), "8 min 5 s");
    }

    #[test]
    fn touched_file_is_newer_and_unchanged() {
        let folder = create_target_folder().unwrap();
        let file = folder.join("lib.rs");
        std::fs::write(&file, "fn main() {}").unwrap();
        File::options()
            .append(true)
            .open(&file)
            .unwrap()
            .set_modified(SystemTime::UNIX_EPOCH)
            .unwrap();
        touch(&file).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        assert!(modified > SystemTime::UNIX_EPOCH);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "fn main() {}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn cargo_builds_offline_in_its_own_folder() {
        let command = in_target(cargo_command(&["check"]), Path::new("/t"));
        let value = |name: &str| {
            command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value?.to_str())
        };
        assert_eq!(value("CARGO_TARGET_DIR"), Some("/t"));
        assert_eq!(value("CARGO_NET_OFFLINE"), Some("true"));
    }
}
