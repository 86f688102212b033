//! Measures the cost of a decision: common commands under a hundred rules, and the worst case that
//! a model can write under ten thousand.
//!
//! Prints the figures as JSON; `cargo xtask bench` runs it.
#![expect(clippy::print_stdout, reason = "a measurement, not part of the product")]

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use zero_core::{CommandExecution, Effect, RiskLevel};
use zero_policy::rule::{PolicyRule, RuleError, RuleOwner, RuleSource};
use zero_policy::{
    DecisionRequest, EmptyMachine, PermissionMode, PolicyEngine, PolicyEngineConfig, Verdict,
};

/// A read-only command line, and one that changes files.
const READ_ONLY_COMMAND: &str = "cd src && git log --oneline -n 5 | head -20 > /dev/null 2>&1";
const FILE_COMMAND: &str =
    "mkdir -p out && cp src/main.rs out/ && sed -i s/a/b/ out/main.rs | tee out/log";

const DECISIONS: usize = 20_000;
const FEW_RULES: usize = 100;
const MANY_RULES: usize = 10_000;
const COMMANDS: usize = 10_000;
const BRACKETS: usize = 100_000;
/// Number of runs of each slow measurement; the median is reported.
const RUNS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let everyday = build_engine(FEW_RULES)?;
    let looks = median(DECISIONS, || decide(&everyday, READ_ONLY_COMMAND));
    let touches = median(DECISIONS, || decide(&everyday, FILE_COMMAND));
    let started = Instant::now();
    let large = build_engine(MANY_RULES)?;
    let arranging = started.elapsed();
    let command =
        |number| format!("tool{number} -v sub{number} src/dir{number}/file.rs > out/{number}");
    let line = (0..COMMANDS).map(command).collect::<Vec<_>>().join("; ");
    let many = median(RUNS, || decide(&large, &line));
    let brackets = format!("{}ls{}", "(".repeat(BRACKETS), ")".repeat(BRACKETS));
    let nested = median(RUNS, || decide(&large, &brackets));
    println!(
        r#"{{"looks_ns":{},"touches_ns":{},"arranging_ns":{},"many_ns":{},"nested_ns":{}}}"#,
        looks.as_nanos(),
        touches.as_nanos(),
        arranging.as_nanos(),
        many.as_nanos(),
        nested.as_nanos()
    );
    Ok(())
}

/// An engine with this many rules of every kind, most of which do not match the call.
fn build_engine(count: usize) -> Result<PolicyEngine, RuleError> {
    let rules: Result<Vec<PolicyRule>, RuleError> = (0..count).map(build_rule).collect();
    Ok(PolicyEngine::new(PolicyEngineConfig {
        rules: rules?,
        mode: PermissionMode::AcceptEdits,
        roots: vec![PathBuf::from("/home/me/project")],
        home: Some(PathBuf::from("/home/me")),
        config_dir: Some(PathBuf::from("/home/me/.config/zero")),
        state_dir: Some(PathBuf::from("/home/me/.local/state/zero")),
        ..PolicyEngineConfig::default()
    }))
}

fn build_rule(number: usize) -> Result<PolicyRule, RuleError> {
    let text = match number % 8 {
        0 => format!("Bash(tool{number}:*)"),
        1 => format!("Bash(tool{} sub{number}:*)", number - 1),
        2 => format!("Bash(npm run * --task{number})"),
        3 => format!("Bash(git push origin branch{number})"),
        4 => format!("Read(src/dir{number}/**)"),
        5 => format!("Read(**/*.secret{number})"),
        6 => format!("Edit(out{number}/*)"),
        _ => format!("WebFetch(domain:host{number}.example.com)"),
    };
    let verdict = match number % 3 {
        0 => Verdict::Allow,
        1 => Verdict::Ask,
        _ => Verdict::Deny,
    };
    let source = RuleSource { name: "bench".to_owned(), line: None, owner: RuleOwner::User };
    PolicyRule::parse(&text, verdict, source)
}

fn decide(engine: &PolicyEngine, command: &str) {
    let effects = [Effect::Exec(CommandExecution::from_shell(command))];
    let request = DecisionRequest {
        tool: "Bash",
        risk: RiskLevel::High,
        effects: &effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &EmptyMachine,
    };
    black_box(engine.decide(request));
}

fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut durations: Vec<Duration> = (0..runs)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    durations.sort_unstable();
    durations.get(runs / 2).copied().unwrap_or_default()
}
