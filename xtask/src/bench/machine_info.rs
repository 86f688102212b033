//! What the figures were measured on.

use std::process::Command;

use anyhow::Result;

use super::output_of;
use crate::repository;

/// One line per fact, as a list.
pub(super) fn facts() -> Result<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let root = repository::root();
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short", "HEAD"]).current_dir(&root);
    let facts = [
        ("cores", cores.to_string()),
        ("processor", processor()),
        ("kernel", first_line(program("uname", &["-sr"]))?),
        ("ripgrep", first_line(program("rg", &["--version"]))?),
        ("commit", first_line(git)?),
    ];
    Ok(facts.iter().map(|(name, value)| format!("- {name}: {value}\n")).collect())
}

fn program(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(args);
    command
}

fn first_line(command: Command) -> Result<String> {
    let output = String::from_utf8_lossy(&output_of(command)?).into_owned();
    Ok(output.lines().next().unwrap_or_default().trim().to_owned())
}

fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = known.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim()).to_owned()
}
