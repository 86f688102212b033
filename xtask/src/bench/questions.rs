//! Counts the questions of ordinary work: 300 calls in five kinds of project.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable};
use crate::repository;

/// The projects, each with its own file of calls.
const PROJECTS: [&str; 5] = ["c", "docs", "node", "python", "rust"];

/// A call, and whether a sensible person wants to be asked before it.
#[derive(Deserialize)]
struct RecordedStep {
    asks: bool,
    tool: String,
    input: Value,
}

/// The answer of `zero policy check`.
#[derive(Deserialize)]
struct StepDecision {
    decision: String,
    #[serde(default)]
    grants: Vec<String>,
}

pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    for project in PROJECTS {
        let path = repository::root().join(format!("crates/zero/tests/work/{project}.jsonl"));
        let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
        let steps: Vec<RecordedStep> =
            text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let sensible = steps.iter().filter(|step| step.asks).count();
        let asked = count_questions(bench, project, &steps)?;
        table.add(BenchRow {
            what: format!("questions, {} calls in a project: {project}", steps.len()),
            ours: asked.to_string(),
            peer: "–".to_owned(),
            ratio: "–".to_owned(),
            budget: format!("≤ {sensible}"),
            met: asked <= sensible,
        });
    }
    Ok(())
}

/// Evaluates the calls in mode `accept-edits`; every question is answered with "for this session".
fn count_questions(bench: &BenchContext, project: &str, steps: &[RecordedStep]) -> Result<usize> {
    let workspace = bench.state.join("work").join(project);
    for folder in [".git", "src", "docs", "tests", "build", "target"] {
        fs::create_dir_all(workspace.join(folder))?;
    }
    let request_file = workspace.join("request.jsonl");
    let (mut asked, mut granted) = (0, Vec::new());
    for RecordedStep { tool, input, .. } in steps {
        let request = json!({
            "tool": tool,
            "input": input,
            "permissions": {"allow": granted},
            "mode": "accept-edits",
            "workspace": workspace,
        });
        fs::write(&request_file, request.to_string())?;
        let mut check = Command::new(&bench.zero);
        check.args(["policy", "check", "--batch"]).arg(&request_file);
        let answer: StepDecision = serde_json::from_slice(&run_for_output(check)?)?;
        if answer.decision == "ask" {
            asked += 1;
        }
        granted.extend(answer.grants);
    }
    Ok(asked)
}
