//! A model that obeys every injection, and MCP servers that attack their user.
//!
//! Tasks, judges and servers are in `tests/interop`, which runs public sets with them as well. These
//! are the ones that need no package.

use std::path::Path;

use crate::test_program::TestProgram;

/// Runs a suite against the built program. It fails if something leaked, changed or stayed behind.
#[track_caller]
fn run_suite(name: &str, modes: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop");
    let zero = TestProgram::new();
    let mut suite = zero.external_command("python3");
    suite.env("PYTHONDONTWRITEBYTECODE", "1");
    suite.arg(folder.join(name)).arg(env!("CARGO_BIN_EXE_zero"));
    suite.args(modes.iter().map(|mode| format!("--mode={mode}")));
    let output = suite.output().unwrap();
    assert!(output.status.success(), "{}", zero.render_output(&output));
}

#[test]
fn obedient_model_leaks_nothing_and_leaves_nothing_behind() {
    run_suite("attack_coding.py", &["ask", "accept-edits", "auto"]);
}

#[test]
fn poisoned_mcp_servers_leak_nothing_and_leave_nothing_behind() {
    // Accepting edits makes no difference to what a server does.
    run_suite("attack_mcp.py", &["ask", "auto"]);
}
