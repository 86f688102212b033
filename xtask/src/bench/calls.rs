//! Measures single calls from the command line, from process start to exit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::bench_context::BenchContext;
use super::bench_table::{BenchRow, BenchTable, format_ms};
use super::stopwatch::{TimingPair, time_pair};

const READ_MAX: Duration = Duration::from_millis(6);
const COMMAND_MAX: Duration = Duration::from_millis(20);
/// The same with two deny rules, by the number of files below the workspace.
const HIDDEN_FILES: [(usize, Duration); 2] =
    [(10_000, Duration::from_millis(25)), (100_000, Duration::from_millis(60))];
/// A Read, by the number of rules in the settings.
const RULES: [(usize, Duration); 2] =
    [(1_000, Duration::from_millis(10)), (10_000, Duration::from_millis(40))];
/// Files in one folder.
const FOLDER_FILES: usize = 100;

/// Measures everything.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let place = CallBenchSetup::prepare(bench, "calls")?;
    let plain = place.write_settings("plain", &json!({}))?;
    let read = json!({"file_path": "note.txt"});
    let echo = json!({"command": "echo done"});
    let peer = || {
        let mut cat = Command::new("cat");
        cat.arg("note.txt").current_dir(&place.work);
        cat
    };
    let pair = time_pair(bench.runs.start, || place.call(&plain, "Read", &read), peer)?;
    table.add(call_row("call, Read of a small file", "cat", pair, READ_MAX));
    let runs = bench.runs.start;
    let shell = || shell_command(&place.work);
    let pair = time_pair(runs, || place.call(&plain, "Bash", &echo), shell)?;
    table.add(call_row("call, `echo` in the sandbox", "bash", pair, COMMAND_MAX));

    let denied = json!({"permissions": {"deny": ["Read(secret/**)", "Edit(**/*.lock)"]}});
    let denied = place.write_settings("denied", &denied)?;
    for (count, most) in HIDDEN_FILES {
        place.fill_workspace(count)?;
        let pair = time_pair(runs, || place.call(&denied, "Bash", &echo), shell)?;
        let what = format!("call, the same with two deny rules, {count} files");
        table.add(call_row(&what, "bash", pair, most));
    }
    for (count, most) in RULES {
        let settings = place.write_settings(&format!("rules-{count}"), &rule_settings(count))?;
        let pair = time_pair(runs, || place.call(&settings, "Read", &read), peer)?;
        table.add(call_row(&format!("call, Read with {count} rules"), "cat", pair, most));
    }
    Ok(())
}

/// A workspace and settings of its own.
pub(super) struct CallBenchSetup<'a> {
    bench: &'a BenchContext,
    folder: PathBuf,
    pub(super) work: PathBuf,
}

impl<'a> CallBenchSetup<'a> {
    pub(super) fn prepare(bench: &'a BenchContext, name: &str) -> Result<Self> {
        let folder = bench.state.join(name);
        let work = folder.join("work");
        fs::create_dir_all(&work)?;
        fs::write(work.join("note.txt"), "a note\n")?;
        Ok(Self { bench, folder, work })
    }

    /// The folder of these settings.
    pub(super) fn write_settings(&self, name: &str, settings: &Value) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir_all(folder.join("zero"))?;
        fs::write(folder.join("zero/settings.json"), settings.to_string())?;
        Ok(folder)
    }

    /// A call under these settings.
    pub(super) fn call(&self, settings: &Path, tool: &str, input: &Value) -> Command {
        let mut command = self.bench.zero_call_command(tool, input);
        command.current_dir(&self.work).env("XDG_CONFIG_HOME", settings);
        command
    }

    /// Creates files until the workspace has this many.
    pub(super) fn fill_workspace(&self, count: usize) -> Result<()> {
        for folder in 0..count.div_ceil(FOLDER_FILES) {
            let path = self.work.join(format!("area-{}/unit-{folder}", folder % 20));
            if path.exists() {
                continue;
            }
            fs::create_dir_all(&path)?;
            for file in 0..FOLDER_FILES.min(count - folder * FOLDER_FILES) {
                fs::write(path.join(format!("file-{file}.txt")), "")?;
            }
        }
        Ok(())
    }
}

/// Settings with this many rules, which concern files and commands in equal parts.
pub(super) fn rule_settings(count: usize) -> Value {
    let rule = |number: usize| {
        if number.is_multiple_of(2) {
            format!("Edit(generated-{number}/**)")
        } else {
            format!("Bash(tool-{number} run:*)")
        }
    };
    json!({"permissions": {"deny": (0..count).map(rule).collect::<Vec<_>>()}})
}

/// The same command without zero.
fn shell_command(folder: &Path) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-c", "echo done"]).current_dir(folder);
    bash
}

fn call_row(what: &str, peer: &str, pair: TimingPair, most: Duration) -> BenchRow {
    BenchRow {
        what: what.to_owned(),
        ours: format_ms(pair.ours),
        peer: format!("{peer} {}", format_ms(pair.theirs)),
        ratio: format!("{:.1}", pair.ratio()),
        budget: format!("≤ {}", format_ms(most)),
        met: pair.ours <= most,
    }
}
