//! The one place here that knows the engine's API: rules and calls as short texts, verdicts as words.

use std::path::PathBuf;

use zero_core::{Effect, Execution, Risk, TargetPath, Whereabouts};
use zero_policy::rule::{Owner, Source};
use zero_policy::{Decision, Engine, EngineConfig, Mode, NoWorld, Request, Rule, Verdict};

/// The workspace of all tests here.
pub(crate) const ROOT: &str = "/w";
pub(crate) const HOME: &str = "/home/me";

/// An engine with rules such as `allow Bash(git:*); deny Read(.env)`.
pub(crate) fn engine(rules: &str, mode: Mode) -> Engine {
    engine_of(rules, mode, Owner::Person)
}

pub(crate) fn engine_of(rules: &str, mode: Mode, owner: Owner) -> Engine {
    Engine::new(config_of(rules, mode, owner))
}

/// What such an engine is made of.
pub(crate) fn config_of(rules: &str, mode: Mode, owner: Owner) -> EngineConfig {
    let rules = rules.split("; ").filter(|rule| !rule.is_empty()).map(|rule| {
        let (verdict, text) = rule.split_once(' ').unwrap();
        let verdict = Verdict::ALL.into_iter().find(|v| v.word() == verdict).unwrap();
        let source = Source { name: "test".to_owned(), line: None, owner };
        Rule::parse(text, verdict, source).unwrap()
    });
    EngineConfig {
        rules: rules.collect(),
        mode,
        roots: vec![PathBuf::from(ROOT)],
        home: Some(PathBuf::from(HOME)),
        config_dir: Some(PathBuf::from("/home/me/.config/zero")),
        state_dir: Some(PathBuf::from("/home/me/.local/state/zero")),
        ..EngineConfig::default()
    }
}

/// Judges a shell command.
pub(crate) fn bash(engine: &Engine, command: &str) -> Decision {
    let effects = [Effect::Exec(Execution::shell(command))];
    let (tool, risk) = ("Bash", Risk::High);
    engine.decide(Request {
        tool,
        risk,
        effects: &effects,
        grants: &[],
        mode: None,
        world: &NoWorld,
    })
}

/// Judges a call of a tool by its effects.
pub(crate) fn effects(engine: &Engine, tool: &str, risk: Risk, effects: &[Effect]) -> Decision {
    engine.decide(Request { tool, risk, effects, grants: &[], mode: None, world: &NoWorld })
}

/// Judges a call of a file tool.
pub(crate) fn file(engine: &Engine, tool: &str, path: &str) -> Decision {
    let absolute = zero_policy::path::lexical(&PathBuf::from(ROOT).join(path));
    let inside = absolute.starts_with(ROOT);
    let whereabouts = if inside { Whereabouts::Workspace } else { Whereabouts::Outside };
    let target = TargetPath::new(path, absolute, whereabouts);
    let (risk, effects) = match tool {
        "Write" => (Risk::Medium, vec![Effect::Write(target)]),
        "Edit" => (Risk::Medium, vec![Effect::Read(target.clone()), Effect::Write(target)]),
        "Delete" => (Risk::Critical, vec![Effect::Delete(target)]),
        _ => (Risk::Low, vec![Effect::Read(target)]),
    };
    engine.decide(Request {
        tool,
        risk,
        effects: &effects,
        grants: &[],
        mode: None,
        world: &NoWorld,
    })
}

/// Checks the verdict on a command.
#[track_caller]
pub(crate) fn check(rules: &str, command: &str, expected: &str) {
    check_mode(Mode::Ask, rules, command, expected);
}

#[track_caller]
pub(crate) fn check_mode(mode: Mode, rules: &str, command: &str, expected: &str) {
    let decision = bash(&engine(rules, mode), command);
    assert_eq!(
        decision.verdict.word(),
        expected,
        "`{command}` under `{rules}`: {}\n{:#?}",
        decision.reason,
        decision.effects
    );
}
