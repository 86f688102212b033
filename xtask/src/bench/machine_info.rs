//! Describes the machine that the measurements were made on.

use std::process::Command;

use anyhow::Result;

use super::bench_context::run_for_output;
use crate::repository;

/// One line per fact, as a list.
pub(super) fn describe_machine() -> Result<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let root = repository::root();
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short", "HEAD"]).current_dir(&root);
    let facts = [
        ("cores", cores.to_string()),
        ("processor", processor_name()),
        ("kernel", read_first_line(build_command("uname", &["-sr"]))?),
        ("ripgrep", read_first_line(build_command("rg", &["--version"]))?),
        ("commit", read_first_line(git)?),
    ];
    Ok(facts.iter().map(|(name, value)| format!("- {name}: {value}\n")).collect())
}

fn build_command(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args);
    command
}

fn read_first_line(command: Command) -> Result<String> {
    let output = String::from_utf8_lossy(&run_for_output(command)?).into_owned();
    Ok(output.lines().next().unwrap_or_default().trim().to_owned())
}

fn processor_name() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = known.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim()).to_owned()
}
