//! Invariants of every decision, for any rules, mode and command.
//!
//! Each invariant builds its input from [`ChoiceSource`] and panics on failure, so that these tests
//! and the fuzz target of the same name check the same things.

use std::path::{Path, PathBuf};

use zero_core::{CommandExecution, Effect, RiskLevel};
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, GrantScope, Machine, PermissionMode,
    PolicyDecision, PolicyEngine, PolicyEngineConfig, PolicyRule, TargetProtection, Verdict,
};

use super::choices::ChoiceSource;
use super::generators;

/// Builds a call and panics if its verdict violates the invariant.
type InvariantCheck = fn(&mut ChoiceSource<'_>);

/// All invariants, by name.
pub(crate) const INVARIANTS: &[(&str, InvariantCheck)] = &[
    ("any text is judged", check_any_text_gets_decision),
    ("a stricter rule makes nothing milder", check_stricter_rule_never_loosens),
    ("an allow rule opens nothing that a rule closes", check_allow_rule_never_overrides),
    ("the order of rules means nothing", check_rule_order_is_irrelevant),
    ("a wrapper makes nothing milder", check_wrapper_never_loosens),
    ("a spelling makes nothing milder", check_spelling_never_loosens),
    ("an option that shows makes nothing milder", check_showing_option_never_loosens),
    ("a grant does what it says and no more", check_grant_covers_exactly_its_call),
    ("a session's mode counts like the engine's own", check_session_mode_equals_engine_mode),
];

struct EngineUnderTest {
    engine: PolicyEngine,
    rules: Vec<PolicyRule>,
    mode: PermissionMode,
}

impl EngineUnderTest {
    fn new(rules: Vec<PolicyRule>, mode: PermissionMode) -> Self {
        let engine = PolicyEngine::new(PolicyEngineConfig {
            rules: rules.clone(),
            mode,
            roots: vec![PathBuf::from("/w")],
            home: Some(PathBuf::from("/home/me")),
            config_dir: Some(PathBuf::from("/home/me/.config/zero")),
            state_dir: Some(PathBuf::from("/home/me/.local/state/zero")),
            ..PolicyEngineConfig::default()
        });
        Self { engine, rules, mode }
    }

    fn random(choices: &mut ChoiceSource<'_>) -> Self {
        let mode = generators::random_mode(choices);
        Self::new(generators::random_rules(choices), mode)
    }

    fn with_rule(&self, rule: PolicyRule) -> Self {
        let rules = self.rules.iter().cloned().chain([rule]).collect();
        Self::new(rules, self.mode)
    }

    fn decide(&self, command: &str) -> PolicyDecision {
        self.decide_with(command, &[])
    }

    fn decide_with(&self, command: &str, grants: &[GrantScope]) -> PolicyDecision {
        self.decide_in(None, command, grants)
    }

    fn decide_in(
        &self,
        mode: Option<PermissionMode>,
        command: &str,
        grants: &[GrantScope],
    ) -> PolicyDecision {
        let effects = [Effect::Exec(CommandExecution::from_shell(command))];
        let (tool, risk, world) = ("Bash", RiskLevel::High, &FixtureMachine);
        let request = DecisionRequest {
            tool,
            risk,
            effects: &effects,
            arguments: None,
            grants,
            mode,
            machine: world,
        };
        let (explained, trees) = self.engine.explain(request);
        assert_eq!(trees.len(), 1);
        explained
    }

    /// Fails unless the second command is judged at least as strictly as the first.
    #[track_caller]
    fn check_not_milder(&self, command: &str, than: &str) {
        let (bare, other) = (self.decide(than), self.decide(command));
        assert!(
            other.verdict >= bare.verdict,
            "{:?}: `{than}` is {} ({}), but `{command}` is {} ({})",
            self.rule_texts(),
            bare.verdict,
            bare.reason,
            other.verdict,
            other.reason
        );
    }

    fn rule_texts(&self) -> Vec<String> {
        let rules = self.rules.iter();
        rules
            .map(|rule| format!("{} {rule} of {:?}", rule.verdict, rule.source.owner))
            .chain([self.mode.to_string()])
            .collect()
    }
}

/// A machine with only the files that commands here name.
struct FixtureMachine;

impl Machine for FixtureMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        EmptyMachine.canonicalize(absolute)
    }

    fn expand_glob(&self, pattern: &str, _most: usize) -> Option<Vec<PathBuf>> {
        let pattern: Vec<char> = pattern.chars().collect();
        let files = generators::FILES.iter().map(|file| format!("/w/{file}"));
        let fits = |file: &String| matches_glob(&pattern, &file.chars().collect::<Vec<_>>());
        Some(files.filter(fits).map(PathBuf::from).collect())
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        EmptyMachine.git_helpers(folder)
    }

    fn find_program(&self, name: &str, folder: &Path) -> Option<PathBuf> {
        EmptyMachine.find_program(name, folder)
    }

    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        let files = generators::FILES.iter().map(|file| Path::new("/w").join(file));
        let mut beneath = files.filter(|file| file.starts_with(folder));
        beneath
            .find(|file| wanted(file))
            .map_or(FileSearchOutcome::NotFound, FileSearchOutcome::Found)
    }

    fn target_protection(&self, _: &[PathBuf], _: Option<&Path>, _: &Path) -> TargetProtection {
        TargetProtection::Unprotected
    }
}

/// Whether a shell glob matches a path, as far as globs are used here.
fn matches_glob(pattern: &[char], path: &[char]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (['*', rest @ ..], _) => {
            matches_glob(rest, path)
                || path.first().is_some_and(|c| *c != '/') && matches_glob(pattern, &path[1..])
        }
        (['?', rest @ ..], [c, path @ ..]) => *c != '/' && matches_glob(rest, path),
        (['[', one, ']', rest @ ..], [c, path @ ..]) => one == c && matches_glob(rest, path),
        (['\\', one, rest @ ..] | [one, rest @ ..], [c, path @ ..]) => {
            one == c && matches_glob(rest, path)
        }
        _ => false,
    }
}

/// The strictest verdict of a rule on any part of a call.
fn strictest_rule_verdict(decision: &PolicyDecision) -> Verdict {
    let by_rule = decision.effects.iter().filter(|effect| effect.rule.is_some());
    by_rule.map(|effect| effect.decision).max().unwrap_or(Verdict::Allow)
}

fn check_any_text_gets_decision(choices: &mut ChoiceSource<'_>) {
    let engine = EngineUnderTest::random(choices);
    let text = generators::random_text(choices);
    let decision = engine.decide(&text);
    assert!(!decision.reason.is_empty());
    let strictest = decision.effects.iter().map(|effect| effect.decision).max();
    assert_eq!(decision.verdict, strictest.unwrap_or(Verdict::Allow), "{text:?}");
}

fn check_stricter_rule_never_loosens(choices: &mut ChoiceSource<'_>) {
    let engine = EngineUnderTest::random(choices);
    let verdict = choices.pick(&[Verdict::Ask, Verdict::Deny]);
    let added = generators::random_rule(verdict, choices);
    let command = generators::random_command(choices).text;
    let (before, after) =
        (engine.decide(&command), engine.with_rule(added.clone()).decide(&command));
    assert!(
        after.verdict >= before.verdict,
        "{:?}: `{command}` is {}, but {} with {verdict} {added}: {}",
        engine.rule_texts(),
        before.verdict,
        after.verdict,
        after.reason
    );
}

fn check_allow_rule_never_overrides(choices: &mut ChoiceSource<'_>) {
    let engine = EngineUnderTest::random(choices);
    let added = generators::random_rule(Verdict::Allow, choices);
    let command = generators::random_command(choices).text;
    let closed = strictest_rule_verdict(&engine.decide(&command));
    let after = engine.with_rule(added.clone()).decide(&command);
    assert!(
        after.verdict >= closed,
        "{:?}: a rule says {closed} to `{command}`, but it is {} with allow {added}: {}",
        engine.rule_texts(),
        after.verdict,
        after.reason
    );
}

fn check_rule_order_is_irrelevant(choices: &mut ChoiceSource<'_>) {
    let engine = EngineUnderTest::random(choices);
    let mut rules = engine.rules.clone();
    for at in 1..rules.len() {
        rules.swap(at, choices.next_below(at + 1));
    }
    let other = EngineUnderTest::new(rules, engine.mode);
    let command = generators::random_command(choices).text;
    let (one, two) = (engine.decide(&command), other.decide(&command));
    assert_eq!(
        (one.verdict, one.risk),
        (two.verdict, two.risk),
        "`{command}` under {:?} and {:?}: {} / {}",
        engine.rule_texts(),
        other.rule_texts(),
        one.reason,
        two.reason
    );
}

fn check_wrapper_never_loosens(choices: &mut ChoiceSource<'_>) {
    let engine = EngineUnderTest::random(choices);
    let mut inner = generators::random_command(choices);
    for _ in 0..=choices.next_below(3) {
        let outer = generators::wrap_command(&inner, choices);
        engine.check_not_milder(&outer.text, &inner.text);
        inner = outer;
    }
}

fn check_spelling_never_loosens(choices: &mut ChoiceSource<'_>) {
    let mode = generators::random_mode(choices);
    let engine = EngineUnderTest::new(generators::random_effect_rules(choices), mode);
    let [plain, spelled] = match choices.one_in(3) {
        false => generators::random_file_spellings(choices),
        true => generators::random_host_spellings(choices),
    };
    engine.check_not_milder(&spelled, &plain);
}

fn check_showing_option_never_loosens(choices: &mut ChoiceSource<'_>) {
    let mode = generators::random_mode(choices);
    let judge = EngineUnderTest::new(generators::random_effect_rules(choices), mode);
    let [plain, both] = generators::random_mode_options(choices);
    judge.check_not_milder(&both, &plain);
}

fn check_grant_covers_exactly_its_call(choices: &mut ChoiceSource<'_>) {
    let engine = EngineUnderTest::random(choices);
    let command = generators::random_command(choices).text;
    let asked = engine.decide(&command);
    if !asked.grants.is_empty() {
        assert_eq!(asked.verdict, Verdict::Ask, "{command}");
        assert_ne!(asked.risk, RiskLevel::Critical, "{command}");
        let again = engine.decide_with(&command, &asked.grants);
        assert_eq!(again.verdict, Verdict::Allow, "`{command}` with {:?}", asked.grants);
    }
    let other = generators::random_command(choices).text;
    let (before, after) = (engine.decide(&other), engine.decide_with(&other, &asked.grants));
    assert!(after.verdict >= strictest_rule_verdict(&before), "`{other}` with {:?}", asked.grants);
    if before.grants.is_empty() {
        assert_eq!(after.verdict, before.verdict, "`{other}` with {:?}", asked.grants);
    }
}

fn check_session_mode_equals_engine_mode(choices: &mut ChoiceSource<'_>) {
    let engine = EngineUnderTest::random(choices);
    let (mode, command) =
        (generators::random_mode(choices), generators::random_command(choices).text);
    let session = engine.decide_in(Some(mode), &command, &[]);
    let own = EngineUnderTest::new(engine.rules.clone(), mode);
    assert_eq!(session, own.decide(&command), "{:?} in {mode}: `{command}`", engine.rule_texts());
    // Plan mode is an upper limit, whatever the user allowed before.
    let granted = own.decide_in(Some(PermissionMode::Ask), &command, &[]).grants;
    if engine.decide_in(Some(PermissionMode::Plan), &command, &[]).verdict == Verdict::Deny {
        let planned = engine.decide_in(Some(PermissionMode::Plan), &command, &granted);
        assert_eq!(planned.verdict, Verdict::Deny, "`{command}` with {granted:?}");
    }
}
