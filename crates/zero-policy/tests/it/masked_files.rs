//! Files of the workspace with secrets, whose values are masked in results.

use zero_policy::rule::RuleOwner;
use zero_policy::{
    PermissionMode, PolicyDecision, PolicyEngine, PolicyEngineConfig, SecretFileSet,
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
