//! Checks rules against the examples in their settings.

use std::path::PathBuf;

use serde_json::json;
use zero_policy::{EmptyMachine, PolicyEngine, PolicyEngineConfig, PolicyRule};

use crate::simulated_call::{SimulatedCall, SimulationContext};

/// Workspace of the examples. It does not exist, so that results are the same on every machine.
const WORKSPACE: &str = "/workspace";
const HOME: &str = "/home/me";

/// The examples that a rule contradicts, each as a sentence.
pub fn failed_examples(rule: &PolicyRule, matches: &[String], not_match: &[String]) -> Vec<String> {
    if matches.is_empty() && not_match.is_empty() {
        return Vec::new();
    }
    let roots = vec![PathBuf::from(WORKSPACE)];
    let home = Some(PathBuf::from(HOME));
    let engine = PolicyEngine::new(PolicyEngineConfig {
        rules: vec![rule.clone()],
        roots: roots.clone(),
        home: home.clone(),
        ..PolicyEngineConfig::default()
    });
    let place = SimulationContext { roots: &roots, home: home.as_deref(), machine: &EmptyMachine };
    let wanted = matches.iter().map(|example| (example, true));
    let unwanted = not_match.iter().map(|example| (example, false));
    let mut broken = Vec::new();
    for (example, should) in wanted.chain(unwanted) {
        match is_match(rule, example, &engine, &place) {
            Err(error) => broken.push(format!("could not check example `{example}`: {error}")),
            Ok(does) if does == should => {}
            Ok(true) => broken.push(format!("matches `{example}`, which is listed in `not_match`")),
            Ok(false) => {
                broken.push(format!("does not match `{example}`, which is listed in `match`"))
            }
        }
    }
    broken
}

fn is_match(
    rule: &PolicyRule,
    example: &str,
    engine: &PolicyEngine,
    place: &SimulationContext<'_>,
) -> Result<bool, String> {
    let tool = rule.tool_name().unwrap_or(example);
    let input = match tool {
        "Bash" => json!({ "command": example }),
        "WebFetch" | "WebRequest" => json!({ "url": example }),
        "LS" | "Glob" | "Grep" => json!({ "path": example }),
        "ReadMany" => json!({ "paths": [example] }),
        _ => json!({ "file_path": example }),
    };
    let subject = SimulatedCall::new(tool, &input, None, place)?;
    let decision = engine.decide(subject.to_request(&[], &EmptyMachine));
    Ok(decision.effects.iter().any(|effect| effect.rule.as_deref() == Some(rule.text.as_str())))
}
