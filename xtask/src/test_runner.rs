//! The command that checks the whole repository: format, every test, linter.
//!
//! It runs on a fresh machine with only a Rust toolchain. Programs that tests run are installed
//! where possible. Optional tools that make it faster or stricter are used if installed and named
//! if not; nothing is skipped silently.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::repository::{self, RepositoryFile, cargo_command};
use crate::required_programs::{self, is_available};

/// Checks the crates that have features without any of them.
const SMALL_BUILD_CLIPPY: &[&str] = &[
    "clippy",
    "--package=zero",
    "--package=zero-mcp",
    "--package=zero-session",
    "--package=zero-tools",
    "--no-default-features",
    "--all-targets",
    "--",
    "-D",
    "warnings",
];

/// Features that are off by default, and tested nevertheless.
const TESTED_FEATURES: &str = "--features=zero-session/cluster";

/// How the summary of nextest begins.
const SUMMARY_MARK: &str = "Summary [";

/// Examples that tests run as programs. The others are checked by clippy, and linking them would take minutes.
const EXAMPLES_OF_TESTS: [&str; 4] =
    ["agent", "attack", "hostile_language_server", "hostile_server"];

/// Runs everything; `args` are passed to nextest.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    required_programs::ensure();
    let mut failed = Vec::new();
    if has_cargo_component(&["fmt", "--version"], "rustfmt", "the format is not checked") {
        step("cargo fmt --check", &mut failed, cargo_command(&["fmt", "--all", "--check"]))?;
    }
    // Before the linter, which has to compile everything in its own way: who waits wants to see tests.
    let mut summary = String::new();
    if has_nextest() {
        // As programs: nextest would build them as tests.
        let mut examples = cargo_command(&["build", "--workspace", TESTED_FEATURES]);
        examples.args(EXAMPLES_OF_TESTS.iter().map(|name| format!("--example={name}")));
        step("cargo build --example", &mut failed, examples)?;
        let mut nextest = cargo_command(&["nextest", "run", "--workspace", "--no-fail-fast"]);
        nextest.args([TESTED_FEATURES, "--lib", "--bins", "--tests"]);
        nextest.args(args);
        let (succeeded, end) = run_tests(nextest)?;
        summary = end;
        if !succeeded {
            failed.push("cargo nextest run");
        }
        let files = repository::read_files(&repository::root())?;
        let mut doc_tests = cargo_command(&["test", "--doc", "--quiet"]);
        doc_tests.args(find_doc_test_crates(&files).iter().map(|name| format!("--package={name}")));
        step("cargo test --doc", &mut failed, doc_tests)?;
    } else {
        eprintln!("note: cargo-nextest is not installed: `cargo test` runs the tests instead");
        let mut test = cargo_command(&["test", "--workspace", "--no-fail-fast", TESTED_FEATURES]);
        test.args(args);
        step("cargo test", &mut failed, test)?;
    }
    if has_cargo_component(&["clippy", "--version"], "clippy", "the linter does not run") {
        step(
            "cargo clippy",
            &mut failed,
            cargo_command(&[
                "clippy",
                "--workspace",
                TESTED_FEATURES,
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]),
        )?;
        step("cargo clippy --no-default-features", &mut failed, cargo_command(SMALL_BUILD_CLIPPY))?;
    }
    if is_available(&mut cargo_command(&["deny", "--version"])) {
        // Advisories change without a change here, and are on a server: `cargo deny check` reads them, too.
        let mut deny = cargo_command(&["deny", "check"]);
        deny.args(["licenses", "bans", "sources"]);
        step("cargo deny check licenses bans sources", &mut failed, deny)?;
    } else {
        eprintln!(
            "note: cargo-deny is not installed, so licences and sources of crates are not checked; `cargo install --locked cargo-deny` adds it"
        );
    }
    if !failed.is_empty() {
        eprintln!("failed: {}", failed.join(", "));
    }
    // Once more, because it is what the user wants to see in the end.
    eprint!("{summary}");
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

/// Runs a step, and adds its name to `failed` if it fails.
fn step(name: &'static str, failed: &mut Vec<&'static str>, mut command: Command) -> Result<()> {
    eprintln!("== {name}");
    if !command.status().with_context(|| format!("could not start {name}"))?.success() {
        failed.push(name);
    }
    Ok(())
}

/// Runs nextest. Returns whether all tests passed, and the summary that it ends with.
fn run_tests(mut nextest: Command) -> Result<(bool, String)> {
    eprintln!("== cargo nextest run");
    if std::io::stderr().is_terminal() {
        nextest.arg("--color=always");
    }
    let mut child =
        nextest.stderr(Stdio::piped()).spawn().context("could not start cargo nextest")?;
    let output = BufReader::new(child.stderr.take().context("nextest has no standard error")?);
    let mut summary = String::new();
    for line in output.lines() {
        let line = line.context("could not read what nextest printed")?;
        eprintln!("{line}");
        if !summary.is_empty() || line.contains(SUMMARY_MARK) {
            summary.push_str(&line);
            summary.push('\n');
        }
    }
    let status = child.wait().context("could not wait for nextest")?;
    Ok((status.success(), summary))
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
