//! What must hold of every decision, whatever the rules, the mode and the command are.
//!
//! Each law makes what it needs out of [`ChoiceSource`] and fails by a panic, so that the tests here and
//! the fuzz target of the same name hold the engine to the same things.

use std::path::{Path, PathBuf};

use zero_core::{CommandExecution, Effect, RiskLevel};
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, GrantScope, Machine, PermissionMode,
    PolicyDecision, PolicyEngine, PolicyEngineConfig, PolicyRule, Verdict,
};

use super::choices::ChoiceSource;
use super::generators;

/// Makes a call and panics when it is judged as it must not be.
type InvariantCheck = fn(&mut ChoiceSource<'_>);

/// All of them, by name.
pub(crate) const LAWS: &[(&str, InvariantCheck)] = &[
    ("any text is judged", any_text_is_judged),
    ("a stricter rule makes nothing milder", a_stricter_rule_makes_nothing_milder),
    ("an allow rule opens nothing that a rule closes", an_allow_opens_nothing_that_a_rule_closes),
    ("the order of rules means nothing", the_order_of_rules_means_nothing),
    ("a wrapper makes nothing milder", a_wrapper_makes_nothing_milder),
    ("a spelling makes nothing milder", a_spelling_makes_nothing_milder),
    ("a grant does what it says and no more", a_grant_does_what_it_says),
    ("a session's mode counts like the engine's own", a_sessions_mode_counts),
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

    fn any(choices: &mut ChoiceSource<'_>) -> Self {
        let mode = generators::mode(choices);
        Self::new(generators::rules(choices), mode)
    }

    fn with(&self, rule: PolicyRule) -> Self {
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
        let effects = [Effect::Exec(CommandExecution::shell(command))];
        let (tool, risk, world) = ("Bash", RiskLevel::High, &FixtureMachine);
        let request = DecisionRequest { tool, risk, effects: &effects, grants, mode, world };
        let (explained, trees) = self.engine.explain(request);
        assert_eq!(trees.len(), 1);
        explained
    }

    /// Fails unless the second command is judged at least as strictly as the first.
    #[track_caller]
    fn not_milder(&self, command: &str, than: &str) {
        let (bare, other) = (self.decide(than), self.decide(command));
        assert!(
            other.verdict >= bare.verdict,
            "{:?}: `{than}` is {} ({}), but `{command}` is {} ({})",
            self.shown(),
            bare.verdict,
            bare.reason,
            other.verdict,
            other.reason
        );
    }

    fn shown(&self) -> Vec<String> {
        let rules = self.rules.iter();
        rules
            .map(|rule| format!("{} {rule} of {:?}", rule.verdict, rule.source.owner))
            .chain([self.mode.to_string()])
            .collect()
    }
}

/// A machine with the files that commands here name, and nothing else.
struct FixtureMachine;

impl Machine for FixtureMachine {
    fn canonical(&self, absolute: &Path) -> Option<PathBuf> {
        EmptyMachine.canonical(absolute)
    }

    fn expand(&self, pattern: &str, _most: usize) -> Option<Vec<PathBuf>> {
        let pattern: Vec<char> = pattern.chars().collect();
        let files = generators::FILES.iter().map(|file| format!("/w/{file}"));
        let fits = |file: &String| matches(&pattern, &file.chars().collect::<Vec<_>>());
        Some(files.filter(fits).map(PathBuf::from).collect())
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        EmptyMachine.git_helpers(folder)
    }

    fn program(&self, name: &str, folder: &Path) -> Option<PathBuf> {
        EmptyMachine.program(name, folder)
    }

    fn find(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        let files = generators::FILES.iter().map(|file| Path::new("/w").join(file));
        let mut beneath = files.filter(|file| file.starts_with(folder));
        beneath
            .find(|file| wanted(file))
            .map_or(FileSearchOutcome::Nowhere, FileSearchOutcome::Found)
    }
}

/// Whether a pattern of a shell stands for a path; as far as patterns are used here.
fn matches(pattern: &[char], path: &[char]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (['*', rest @ ..], _) => {
            matches(rest, path)
                || path.first().is_some_and(|c| *c != '/') && matches(pattern, &path[1..])
        }
        (['?', rest @ ..], [c, path @ ..]) => *c != '/' && matches(rest, path),
        (['[', one, ']', rest @ ..], [c, path @ ..]) => one == c && matches(rest, path),
        (['\\', one, rest @ ..] | [one, rest @ ..], [c, path @ ..]) => {
            one == c && matches(rest, path)
        }
        _ => false,
    }
}

/// The strictest that a rule says about any part of a call.
fn said_by_rules(decision: &PolicyDecision) -> Verdict {
    let by_rule = decision.effects.iter().filter(|effect| effect.rule.is_some());
    by_rule.map(|effect| effect.decision).max().unwrap_or(Verdict::Allow)
}

fn any_text_is_judged(choices: &mut ChoiceSource<'_>) {
    let judge = EngineUnderTest::any(choices);
    let text = generators::text(choices);
    let decision = judge.decide(&text);
    assert!(!decision.reason.is_empty());
    let strictest = decision.effects.iter().map(|effect| effect.decision).max();
    assert_eq!(decision.verdict, strictest.unwrap_or(Verdict::Allow), "{text:?}");
}

fn a_stricter_rule_makes_nothing_milder(choices: &mut ChoiceSource<'_>) {
    let judge = EngineUnderTest::any(choices);
    let verdict = choices.pick(&[Verdict::Ask, Verdict::Deny]);
    let added = generators::rule(verdict, choices);
    let command = generators::command(choices).text;
    let (before, after) = (judge.decide(&command), judge.with(added.clone()).decide(&command));
    assert!(
        after.verdict >= before.verdict,
        "{:?}: `{command}` is {}, but {} with {verdict} {added}: {}",
        judge.shown(),
        before.verdict,
        after.verdict,
        after.reason
    );
}

fn an_allow_opens_nothing_that_a_rule_closes(choices: &mut ChoiceSource<'_>) {
    let judge = EngineUnderTest::any(choices);
    let added = generators::rule(Verdict::Allow, choices);
    let command = generators::command(choices).text;
    let closed = said_by_rules(&judge.decide(&command));
    let after = judge.with(added.clone()).decide(&command);
    assert!(
        after.verdict >= closed,
        "{:?}: a rule says {closed} to `{command}`, but it is {} with allow {added}: {}",
        judge.shown(),
        after.verdict,
        after.reason
    );
}

fn the_order_of_rules_means_nothing(choices: &mut ChoiceSource<'_>) {
    let judge = EngineUnderTest::any(choices);
    let mut rules = judge.rules.clone();
    for at in 1..rules.len() {
        rules.swap(at, choices.below(at + 1));
    }
    let other = EngineUnderTest::new(rules, judge.mode);
    let command = generators::command(choices).text;
    let (one, two) = (judge.decide(&command), other.decide(&command));
    assert_eq!(
        (one.verdict, one.risk),
        (two.verdict, two.risk),
        "`{command}` under {:?} and {:?}: {} / {}",
        judge.shown(),
        other.shown(),
        one.reason,
        two.reason
    );
}

fn a_wrapper_makes_nothing_milder(choices: &mut ChoiceSource<'_>) {
    let judge = EngineUnderTest::any(choices);
    let mut inner = generators::command(choices);
    for _ in 0..=choices.below(3) {
        let outer = generators::wrapped(&inner, choices);
        judge.not_milder(&outer.text, &inner.text);
        inner = outer;
    }
}

fn a_spelling_makes_nothing_milder(choices: &mut ChoiceSource<'_>) {
    let mode = generators::mode(choices);
    let judge = EngineUnderTest::new(generators::rules_for_effects(choices), mode);
    let [plain, spelled] = match choices.one_in(3) {
        false => generators::file_spelled_twice(choices),
        true => generators::host_spelled_twice(choices),
    };
    judge.not_milder(&spelled, &plain);
}

fn a_grant_does_what_it_says(choices: &mut ChoiceSource<'_>) {
    let judge = EngineUnderTest::any(choices);
    let command = generators::command(choices).text;
    let asked = judge.decide(&command);
    if !asked.grants.is_empty() {
        assert_eq!(asked.verdict, Verdict::Ask, "{command}");
        assert_ne!(asked.risk, RiskLevel::Critical, "{command}");
        let again = judge.decide_with(&command, &asked.grants);
        assert_eq!(again.verdict, Verdict::Allow, "`{command}` with {:?}", asked.grants);
    }
    let other = generators::command(choices).text;
    let (before, after) = (judge.decide(&other), judge.decide_with(&other, &asked.grants));
    assert!(after.verdict >= said_by_rules(&before), "`{other}` with {:?}", asked.grants);
    if before.grants.is_empty() {
        assert_eq!(after.verdict, before.verdict, "`{other}` with {:?}", asked.grants);
    }
}

fn a_sessions_mode_counts(choices: &mut ChoiceSource<'_>) {
    let judge = EngineUnderTest::any(choices);
    let (mode, command) = (generators::mode(choices), generators::command(choices).text);
    let session = judge.decide_in(Some(mode), &command, &[]);
    let own = EngineUnderTest::new(judge.rules.clone(), mode);
    assert_eq!(session, own.decide(&command), "{:?} in {mode}: `{command}`", judge.shown());
    // Whatever a person allowed before, plan mode is a ceiling.
    let granted = own.decide_in(Some(PermissionMode::Ask), &command, &[]).grants;
    if judge.decide_in(Some(PermissionMode::Plan), &command, &[]).verdict == Verdict::Deny {
        let planned = judge.decide_in(Some(PermissionMode::Plan), &command, &granted);
        assert_eq!(planned.verdict, Verdict::Deny, "`{command}` with {granted:?}");
    }
}
