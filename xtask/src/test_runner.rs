//! The command that checks the whole repository: format, linter, every test.
//!
//! It runs on a fresh machine with only a Rust toolchain. Programs that tests run are installed
//! where possible. Optional tools that make it faster or stricter are used if installed and named
//! if not; nothing is skipped silently.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::repository::{self, RepositoryFile, cargo_command};
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

/// Examples that tests run as programs. The others are checked by clippy, and linking them would take minutes.
const EXAMPLES_OF_TESTS: [&str; 3] = ["attack", "hostile_language_server", "hostile_server"];

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
        let files = repository::read_files(&repository::root())?;
        let mut doc_tests = cargo_command(&["test", "--doc", "--quiet"]);
        doc_tests.args(find_doc_test_crates(&files).iter().map(|name| format!("--package={name}")));
        step("cargo test --doc", doc_tests)?;
        let mut nextest = cargo_command(&["nextest", "run", "--workspace", "--no-fail-fast"]);
        nextest.args(["--lib", "--bins", "--tests"]);
        nextest.args(EXAMPLES_OF_TESTS.iter().map(|name| format!("--example={name}")));
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

/// Crates with code in their documentation. Of the others, rustdoc would only find that there is none.
fn find_doc_test_crates(files: &[RepositoryFile]) -> BTreeSet<&str> {
    let has_code = |file: &&RepositoryFile| {
        let lines = file.text.lines().map(str::trim_start);
        let mut docs =
            lines.filter_map(|line| line.strip_prefix("///").or(line.strip_prefix("//!")));
        docs.any(|doc| doc.trim_start().starts_with("```"))
    };
    let names = files.iter().filter(has_code).filter_map(|file| {
        let (name, rest) = file.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    });
    names.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_with_code_in_docs_are_found() {
        let file = |path: &str, text: &str| RepositoryFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file("crates/a/src/lib.rs", "//! A.\n//!\n//! ```\n//! a();\n//! ```\n"),
            file("crates/b/src/b.rs", "impl B {\n    /// ```no_run\n    /// b();\n    /// ```\n"),
            file("crates/c/src/lib.rs", "//! C.\nconst FENCE: &str = \"```\";\n"),
            file("crates/d/tests/it/main.rs", "//! ```\n"),
            file("docs/a.md", "```sh\n"),
        ];
        assert_eq!(find_doc_test_crates(&files), ["a", "b"].into());
    }
}
