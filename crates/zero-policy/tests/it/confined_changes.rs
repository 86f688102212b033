//! Tools that may change nothing outside the workspace.

use zero_policy::rule::RuleOwner;
use zero_policy::{PermissionMode, PolicyEngine, PolicyEngineConfig, Verdict};

use crate::engine_harness::{build_config, decide_file};

#[test]
fn no_rule_or_mode_opens_a_file_outside_to_changes() {
    let rules = "allow Edit; allow Write; allow Edit(//other/**); allow Write(//other/x)";
    for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
        let engine = PolicyEngine::new(PolicyEngineConfig {
            is_confined: true,
            ..build_config(rules, mode, RuleOwner::User)
        });
        for (tool, path, is_denied) in [
            ("Write", "/other/x", true),
            ("Edit", "/other/x", true),
            ("Delete", "/other/x", true),
            ("Write", "../w2/x", true),
            ("Write", "/home/me/.bashrc", true),
            ("Write", "src/x", false),
            ("Edit", "src/x", false),
            ("Read", "/other/x", false),
        ] {
            let decision = decide_file(&engine, tool, path);
            assert_eq!(decision.verdict == Verdict::Deny, is_denied, "{mode} {tool} {path}");
        }
    }
}
