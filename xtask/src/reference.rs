//! Updates the files that are generated from the tools: the page `docs/reference/tools.md`, and the
//! expected output of the examples of `zero tools show`.
//!
//! The test that checks these files also generates them, because it runs the examples; an
//! environment variable makes it write instead of compare.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::repository::cargo_command;
use crate::required_programs;

/// The test, and the variable that makes it write.
const TEST: &str = "reference_page_matches_code";
const UPDATE: &str = "ZERO_UPDATE_REFERENCE";

/// Writes the page.
pub(crate) fn run() -> Result<ExitCode> {
    required_programs::ensure();
    let mut test = cargo_command(&["test", "--quiet", "--package", "zero", "--lib", TEST]);
    let done = test.env(UPDATE, "1").status().context("could not start cargo")?;
    if !done.success() {
        eprintln!("the page was not changed");
        return Ok(ExitCode::FAILURE);
    }
    println!("docs/reference/tools.md is up to date");
    Ok(ExitCode::SUCCESS)
}
