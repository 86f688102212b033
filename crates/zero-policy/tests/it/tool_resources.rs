//! Tests of resources reserved for a tool: notes, and private hosts that settings name.

use std::path::PathBuf;

use zero_core::{Effect, NoteChange, PathZone, RiskLevel, TargetPath};
use zero_policy::PermissionMode;

use crate::engine_harness::{build_engine, decide_effects};

fn note_effect(scope: &str, forgets: bool) -> Effect {
    let written = ".zero/memory/a.md";
    let file = (scope == "project")
        .then(|| TargetPath::new(written, PathBuf::from("/w").join(written), PathZone::Workspace));
    Effect::Note(NoteChange { scope: scope.to_owned(), name: "a".to_owned(), forgets, file })
}

#[track_caller]
fn check(rules: &str, mode: PermissionMode, tool: &str, effect: Effect, expected: &str) {
    let decision = decide_effects(&build_engine(rules, mode), tool, RiskLevel::Medium, &[effect]);
    let by = decision.rule.as_deref().unwrap_or("default");
    assert_eq!(format!("{} by {by}", decision.verdict.as_str()), expected, "{rules}");
}

#[test]
fn note_follows_tool_rule_and_file_denies() {
    let check = |rules: &str, mode, effect, expected: &str| {
        check(rules, mode, "Memory", effect, expected);
    };
    for scope in ["project", "user"] {
        for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
            check("", mode, note_effect(scope, false), "ask by default");
        }
        check("", PermissionMode::Plan, note_effect(scope, false), "deny by default");
        check("allow Memory", PermissionMode::Plan, note_effect(scope, false), "deny by default");
        check("allow Memory", PermissionMode::Ask, note_effect(scope, true), "allow by Memory");
        check(
            "allow Memory; deny Memory",
            PermissionMode::Ask,
            note_effect(scope, false),
            "deny by Memory",
        );
    }
    let both = "allow Memory; deny Edit(.zero/memory/**)";
    check(
        both,
        PermissionMode::Ask,
        note_effect("project", false),
        "deny by Edit(.zero/memory/**)",
    );
    check(both, PermissionMode::Ask, note_effect("project", true), "deny by Edit(.zero/memory/**)");
    check(both, PermissionMode::Ask, note_effect("user", false), "allow by Memory");
    let asked = "allow Memory; ask Write(.zero/**)";
    check(asked, PermissionMode::Ask, note_effect("project", false), "ask by Write(.zero/**)");
    // A rule for files does not allow it.
    check(
        "allow Edit(.zero/**)",
        PermissionMode::Ask,
        note_effect("project", false),
        "ask by default",
    );
}

#[test]
fn configured_host_follows_tool_rule_and_denies() {
    let check = |rules: &str, expected: &str| {
        let host = Effect::Endpoint("127.0.0.1".to_owned());
        check(rules, PermissionMode::Ask, "WebSearch", host, expected);
    };
    check("", "ask by default");
    check("allow WebSearch", "allow by WebSearch");
    // A rule for hosts does not allow it, least of all one for many hosts.
    check("allow WebFetch(domain:127.0.0.1)", "ask by default");
    check("allow WebFetch(domain:*)", "ask by default");
    check("allow WebFetch", "ask by default");
    check("allow WebSearch; deny WebFetch(domain:127.0.0.1)", "deny by WebFetch(domain:127.0.0.1)");
    check("allow WebSearch; ask WebFetch(domain:127.0.0.1)", "ask by WebFetch(domain:127.0.0.1)");
    check("deny WebSearch", "deny by WebSearch");
}

#[test]
fn unparsable_configured_host_is_asked() {
    let host = Effect::Endpoint("a b".to_owned());
    check("allow WebSearch", PermissionMode::Ask, "WebSearch", host, "ask by default");
}
