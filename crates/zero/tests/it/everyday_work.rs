//! Ordinary work asks what a sensible person wants to be asked, and nothing else.

#![expect(clippy::disallowed_methods, reason = "the test sets up real files")]

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::test_program::TestProgram;

/// A call, and whether a sensible person wants to be asked before it.
#[derive(Deserialize)]
struct WorkStep {
    asks: bool,
    tool: String,
    input: Value,
}

#[test]
fn work_in_c_project_asks_as_expected() {
    check_project("c");
}

#[test]
fn work_on_documents_asks_as_expected() {
    check_project("docs");
}

#[test]
fn work_in_node_project_asks_as_expected() {
    check_project("node");
}

#[test]
fn work_in_python_project_asks_as_expected() {
    check_project("python");
}

#[test]
fn work_in_rust_project_asks_as_expected() {
    check_project("rust");
}

/// Evaluates the steps of a project in mode `accept-edits`; every question is answered with "for
/// this session".
fn check_project(project: &str) {
    let steps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/work");
    let steps = std::fs::read_to_string(steps.join(format!("{project}.jsonl"))).unwrap();
    let zero = TestProgram::new();
    let workspace = zero.folder().join("project");
    for folder in [".git", "src", "docs", "tests", "build", "target"] {
        std::fs::create_dir_all(workspace.join(folder)).unwrap();
    }
    let (mut granted, mut wrong) = (Vec::new(), Vec::new());
    for line in steps.lines() {
        let step: WorkStep = serde_json::from_str(line).unwrap();
        let request = json!({
            "tool": step.tool,
            "input": step.input,
            "permissions": {"allow": granted},
            "mode": "accept-edits",
            "workspace": workspace,
        });
        std::fs::write(zero.folder().join("request.jsonl"), request.to_string()).unwrap();
        let answer = zero.stdout(&["policy", "check", "--batch", "request.jsonl"]);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        if (answer["decision"] == "ask") != step.asks {
            wrong.push(format!("{line}\n    {}: {}", answer["decision"], answer["reason"]));
        }
        granted.extend(answer["grants"].as_array().cloned().unwrap_or_default());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
