//! The command that checks the whole repository: format, linter, every test.
//!
//! It runs on a fresh machine with only a Rust toolchain. Programs that tests run are installed
//! where possible. Optional tools that make it faster or stricter are used if installed and named
//! if not; nothing is skipped silently.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::repository::cargo_command;
use crate::required_programs::{self, is_available};

/// Checks the crates that have features without any of them.
const SMALL_BUILD_CLIPPY: &[&str] = &[
    "clippy",
    "--package=zero",
    "--package=zero-mcp",
    "--package=zero-tools",
    "--no-default-features",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// Runs everything; `args` are passed to nextest.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    required_programs::ensure();
    let mut failed = Vec::new();
    let mut step = |name: &'static str, command: Command| -> Result<()> {
        if !run_step(name, command)? {
            failed.push(name);
        }
        Ok(())
    };
    if has_cargo_component(&["fmt", "--version"], "rustfmt", "the format is not checked") {
        step("cargo fmt --check", cargo_command(&["fmt", "--all", "--check"]))?;
    }
    if has_cargo_component(&["clippy", "--version"], "clippy", "the linter does not run") {
        step(
            "cargo clippy",
            cargo_command(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        )?;
        step("cargo clippy --no-default-features", cargo_command(SMALL_BUILD_CLIPPY))?;
    }
    // The tests come last, because their summary is what the user wants to see.
    if has_nextest() {
        step("cargo test --doc", cargo_command(&["test", "--workspace", "--doc", "--quiet"]))?;
        let mut nextest = cargo_command(&["nextest", "run", "--workspace", "--no-fail-fast"]);
        nextest.args(args);
        step("cargo nextest run", nextest)?;
    } else {
        eprintln!("note: cargo-nextest is not installed: `cargo test` runs the tests instead");
        let mut test = cargo_command(&["test", "--workspace", "--no-fail-fast"]);
        test.args(args);
        step("cargo test", test)?;
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

fn has_cargo_component(args: &[&str], component: &str, consequence: &str) -> bool {
    let there = is_available(&mut cargo_command(args));
    if !there {
        eprintln!(
            "note: {component} is not installed, so {consequence}; `rustup component add {component}` adds it"
        );
    }
    there
}

fn has_nextest() -> bool {
    is_available(&mut cargo_command(&["nextest", "--version"]))
}

fn run_step(name: &str, mut command: Command) -> Result<bool> {
    eprintln!("== {name}");
    Ok(command.status().with_context(|| format!("could not start {name}"))?.success())
}
