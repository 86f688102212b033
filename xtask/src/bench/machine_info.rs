//! Describes the machine that the measurements were made on.

use std::process::Command;

use anyhow::Result;

use super::bench_context::run_for_output;
use crate::repository;

/// The facts in one sentence, with the commit that is measured.
pub(super) fn describe_machine() -> Result<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let root = repository::root();
    let mut git = Command::new("git");
    git.args(["rev-parse", "--short", "HEAD"]).current_dir(&root);
    let mut facts = vec![
        ("commit", read_first_line(git)?),
        ("cores:", cores.to_string()),
        ("processor:", processor_name()),
        ("kernel:", read_first_line(build_command("uname", &["-sr"]))?),
    ];
    // The suite that is compared with it does not begin without it.
    facts.extend(
        read_first_line(build_command("rg", &["--version"])).ok().map(|peer| ("peer:", peer)),
    );
    let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
    Ok(format!("Measured with {}.\n", facts.join(", ")))
}

/// Whether tracked files differ from the commit, apart from `document`, which the results are written into.
pub(super) fn has_changes_beside(document: &str) -> Result<bool> {
    let mut git = Command::new("git");
    git.args(["status", "--porcelain", "--untracked-files=no"]).current_dir(repository::root());
    let output = String::from_utf8_lossy(&run_for_output(git)?).into_owned();
    Ok(output.lines().any(|line| line.get(3..) != Some(document)))
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
