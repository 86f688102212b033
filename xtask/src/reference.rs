//! What is made from the tools: the page `docs/reference/tools.md`, and what examples answer for
//! `zero tools show`.
//!
//! It is made by the test that checks it, since that runs the examples for real; here it is only
//! told to write instead of to compare.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::repository::cargo_command;
use crate::required_programs;

/// The test, and what has it write.
const TEST: &str = "the_reference_is_as_the_code_is";
const UPDATE: &str = "ZERO_UPDATE_REFERENCE";

/// Writes the page.
pub(crate) fn run() -> Result<ExitCode> {
    required_programs::ensure();
    let mut test = cargo_command(&["test", "--quiet", "--package", "zero", "--lib", TEST]);
    let done = test.env(UPDATE, "1").status().context("could not start cargo")?;
    if !done.success() {
        eprintln!("the page is as it was");
        return Ok(ExitCode::FAILURE);
    }
    println!("docs/reference/tools.md is as the code is");
    Ok(ExitCode::SUCCESS)
}
