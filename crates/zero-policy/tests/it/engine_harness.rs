//! Test helpers for the engine's API: rules and calls as short texts, verdicts as words.

use std::path::PathBuf;

use zero_core::{CommandExecution, Effect, PathZone, RiskLevel, TargetPath};
use zero_policy::rule::{RuleOwner, RuleSource};
use zero_policy::{
    DecisionRequest, EmptyMachine, PermissionMode, PolicyDecision, PolicyEngine,
    PolicyEngineConfig, PolicyRule, Verdict,
};

/// The workspace of all tests here.
pub(crate) const ROOT: &str = "/w";
pub(crate) const HOME: &str = "/home/me";

/// An engine with rules such as `allow Bash(git:*); deny Read(.env)`.
pub(crate) fn build_engine(rules: &str, mode: PermissionMode) -> PolicyEngine {
    build_engine_for(rules, mode, RuleOwner::User)
}

pub(crate) fn build_engine_for(
    rules: &str,
    mode: PermissionMode,
    owner: RuleOwner,
) -> PolicyEngine {
    PolicyEngine::new(build_config(rules, mode, owner))
}

/// The configuration of such an engine.
pub(crate) fn build_config(
    rules: &str,
    mode: PermissionMode,
    owner: RuleOwner,
) -> PolicyEngineConfig {
    let rules = rules.split("; ").filter(|rule| !rule.is_empty()).map(|rule| {
        let (verdict, text) = rule.split_once(' ').unwrap();
        let verdict = Verdict::ALL.into_iter().find(|v| v.as_str() == verdict).unwrap();
        let source = RuleSource { name: "test".to_owned(), line: None, owner };
        PolicyRule::parse(text, verdict, source).unwrap()
    });
    PolicyEngineConfig {
        rules: rules.collect(),
        mode,
        roots: vec![PathBuf::from(ROOT)],
        home: Some(PathBuf::from(HOME)),
        config_dir: Some(PathBuf::from("/home/me/.config/zero")),
        state_dir: Some(PathBuf::from("/home/me/.local/state/zero")),
        ..PolicyEngineConfig::default()
    }
}

/// Decides on a shell command.
pub(crate) fn decide_command(engine: &PolicyEngine, command: &str) -> PolicyDecision {
    let effects = [Effect::Exec(CommandExecution::from_shell(command))];
    let (tool, risk) = ("Bash", RiskLevel::High);
    engine.decide(DecisionRequest {
        tool,
        risk,
        effects: &effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &EmptyMachine,
    })
}

/// Decides on a call of a tool by its effects.
pub(crate) fn decide_effects(
    engine: &PolicyEngine,
    tool: &str,
    risk: RiskLevel,
    effects: &[Effect],
) -> PolicyDecision {
    engine.decide(DecisionRequest {
        tool,
        risk,
        effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &EmptyMachine,
    })
}

/// Decides on a call of a file tool.
pub(crate) fn decide_file(engine: &PolicyEngine, tool: &str, path: &str) -> PolicyDecision {
    let absolute = zero_policy::path::normalize_lexically(&PathBuf::from(ROOT).join(path));
    let inside = absolute.starts_with(ROOT);
    let whereabouts = if inside { PathZone::Workspace } else { PathZone::Outside };
    let target = TargetPath::new(path, absolute, whereabouts);
    let (risk, effects) = match tool {
        "Write" => (RiskLevel::Medium, vec![Effect::Write(target)]),
        "Edit" => (RiskLevel::Medium, vec![Effect::Read(target.clone()), Effect::Write(target)]),
        "Delete" => (RiskLevel::Critical, vec![Effect::Delete(target)]),
        _ => (RiskLevel::Low, vec![Effect::Read(target)]),
    };
    engine.decide(DecisionRequest {
        tool,
        risk,
        effects: &effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &EmptyMachine,
    })
}

/// Checks the verdict on a command.
#[track_caller]
pub(crate) fn check(rules: &str, command: &str, expected: &str) {
    check_mode(PermissionMode::Ask, rules, command, expected);
}

#[track_caller]
pub(crate) fn check_mode(mode: PermissionMode, rules: &str, command: &str, expected: &str) {
    let decision = decide_command(&build_engine(rules, mode), command);
    assert_eq!(
        decision.verdict.as_str(),
        expected,
        "`{command}` under `{rules}`: {}\n{:#?}",
        decision.reason,
        decision.effects
    );
}
