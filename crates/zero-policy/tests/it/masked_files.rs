//! Files of the workspace with secrets, whose values are masked in results.

use std::path::Path;

use zero_core::{CommandExecution, Effect, RiskLevel};
use zero_policy::rule::RuleOwner;
use zero_policy::{
    DecisionRequest, EmptyMachine, GrantScope, PermissionMode, PolicyDecision, PolicyEngine,
    PolicyEngineConfig, SecretFileScope, SecretFileSet,
};

use crate::engine_harness::{build_config, decide_command, decide_file};

fn engine(rules: &str, mode: PermissionMode) -> PolicyEngine {
    PolicyEngine::new(PolicyEngineConfig {
        masked_files: SecretFileSet::standard(),
        ..build_config(rules, mode, RuleOwner::User)
    })
}

fn summary(decision: &PolicyDecision) -> String {
    format!("{} {}", decision.verdict, decision.reason)
}

#[test]
fn reading_secret_file_asks_except_in_auto_mode() {
    use PermissionMode::{AcceptEdits, Ask, Auto, Plan};
    let asks = "ask reading `/w/.env`: it contains secrets; zero shows their names only";
    let allows = "allow reading `/w/.env`: it contains secrets, which zero masks";
    for (mode, expected) in [(Plan, asks), (Ask, asks), (AcceptEdits, asks), (Auto, allows)] {
        assert_eq!(summary(&decide_file(&engine("", mode), "Read", ".env")), expected, "{mode}");
    }
    assert_eq!(summary(&decide_command(&engine("", Ask), "cat .env")), asks);
    for fine in [".env.example", "src/main.rs"] {
        let decision = decide_file(&engine("", Ask), "Read", fine);
        assert_eq!(decision.verdict.as_str(), "allow", "{fine}");
    }
}

#[test]
fn rules_decide_about_secret_file_first() {
    use PermissionMode::{Ask, Auto};
    let by_rule =
        |rules: &str, mode| decide_file(&engine(rules, mode), "Read", ".env").verdict.as_str();
    assert_eq!(by_rule("allow Read(.env)", Ask), "allow");
    assert_eq!(by_rule("deny Read(.env)", Auto), "deny");
    assert_eq!(by_rule("ask Read(.env)", Auto), "ask");
    let decision = decide_command(&engine("allow Bash(cat:*)", Ask), "cat .env");
    assert_eq!(decision.verdict.as_str(), "allow");
}

#[test]
fn editing_secret_file_needs_no_question_about_reading() {
    use PermissionMode::{AcceptEdits, Ask};
    for tool in ["Edit", "Write"] {
        assert_eq!(decide_file(&engine("", AcceptEdits), tool, ".env").verdict.as_str(), "allow");
        let asked = decide_file(&engine("", Ask), tool, ".env");
        assert_eq!(asked.reason, "changing `/w/.env`: no rule allows changing it");
    }
}

#[track_caller]
fn check_scope(rules: &str, mode: PermissionMode, command: &str, expected: SecretFileScope) {
    let decision = decide_command(&engine(rules, mode), command);
    let found = decision.access.as_ref().unwrap().secret_files;
    assert_eq!(found, expected, "`{command}` under `{rules}` in {mode}: {}", decision.reason);
}

#[test]
fn unasked_command_that_may_read_any_file_gets_no_secret_files() {
    use PermissionMode::{AcceptEdits, Ask, Plan};
    for command in [
        "grep -rh TOKEN . | tr a-z b-za",
        "grep -r TOKEN",
        "rg --hidden TOKEN",
        "tar c . | base64",
        "find . -type f -exec cat {} +",
        "find . -type f | xargs cat",
        "git ls-files -o | xargs cat",
        "git grep --no-index TOKEN",
        "git diff --no-index /dev/null src",
        "git status",
        "zip -r - .",
        "timeout 5 grep -r TOKEN .",
        "env A=1 sh -c 'grep -r TOKEN .'",
        "cat README && ls -R .",
    ] {
        for mode in [Plan, Ask, AcceptEdits] {
            check_scope("", mode, command, SecretFileScope::Hidden);
        }
        check_scope("", PermissionMode::Auto, command, SecretFileScope::All);
    }
    check_scope("", AcceptEdits, "cp -r src copy", SecretFileScope::Hidden);
}

#[test]
fn unasked_command_that_names_its_files_gets_those_that_it_changes() {
    use PermissionMode::{AcceptEdits, Ask};
    for command in ["ls -la", "cat README | head", "cd src && timeout 5 grep x main.rs", "x=1"] {
        check_scope("", Ask, command, SecretFileScope::Named);
    }
    for command in ["cp .env.example .env", "echo A=1 >> .env", "touch .env"] {
        check_scope("", AcceptEdits, command, SecretFileScope::Named);
    }
}

#[test]
fn allowed_command_reads_secret_files() {
    use PermissionMode::Ask;
    for command in ["npm test", "python3 -c 'open(\".env\")'", "grep -r x . > out", "cat .env"] {
        check_scope("", Ask, command, SecretFileScope::All);
    }
    let rules = "allow Bash(npm test:*); allow Bash(make:*)";
    for command in [
        "npm test",
        "cd app && npm test 2>&1 | tail -20",
        "CI=1 timeout 60 npm test",
        "npm test && make all; echo done",
    ] {
        check_scope(rules, Ask, command, SecretFileScope::All);
    }
    check_scope("allow Bash(grep:*)", Ask, "grep -r x .", SecretFileScope::All);
}

#[test]
fn rule_for_one_command_gives_secret_files_to_no_other() {
    use PermissionMode::Ask;
    let rules = "allow Bash(npm test:*); allow Bash(true)";
    for command in [
        "npm test; grep -r x .",
        "true; tar c .",
        "grep -r x . | npm test",
        "true $(grep -r x .)",
        "npm test | wc -l; rg x",
        "true; git diff --no-index /dev/null .",
    ] {
        check_scope(rules, Ask, command, SecretFileScope::Hidden);
    }
}

#[test]
fn rule_or_grant_allows_reading_one_file() {
    use PermissionMode::Ask;
    let grant = |rule: &str| GrantScope { rule: rule.to_owned(), folder: None, program: None };
    let may_read = |rules: &str, grants: &[GrantScope]| {
        engine(rules, Ask).allows_read(Path::new("/w/.env"), grants)
    };
    assert!(!may_read("", &[]) && !may_read("allow Read(/app/.env)", &[]));
    assert!(may_read("allow Read(.env)", &[]) && may_read("", &[grant("Read(/.env)")]));
    assert!(!may_read("", &[grant("Read(/app/.env)")]));
    for stricter in ["ask Read(.env)", "deny Read(.env); allow Read(.env)"] {
        assert!(!may_read(stricter, &[grant("Read(/.env)")]), "{stricter}");
    }
    // A grant for a command is as good as a rule.
    let engine = engine("", Ask);
    let effects = [Effect::Exec(CommandExecution::from_shell("npm test"))];
    let grants = &decide_command(&engine, "npm test").grants[..];
    let decision = engine.decide(DecisionRequest {
        tool: "Bash",
        risk: RiskLevel::High,
        effects: &effects,
        arguments: None,
        grants,
        mode: None,
        machine: &EmptyMachine,
    });
    assert_eq!(decision.verdict.as_str(), "allow");
    assert_eq!(decision.access.unwrap().secret_files, SecretFileScope::All);
}
