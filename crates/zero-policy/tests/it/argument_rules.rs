//! Rules about the arguments of tools that are not zero's own.

use proptest::prelude::*;
use serde_json::{Value, json};
use zero_core::{
    CommandExecution, CommandLine, Effect, RiskLevel, ToolArguments, ToolDefinitionState,
};
use zero_policy::{DecisionRequest, EmptyMachine, PermissionMode, PolicyDecision, Verdict};

use crate::engine_harness::build_engine;

/// Decides on a call of `bank__send`; `Value::Null` stands for arguments that are not known.
fn decide(rules: &str, arguments: &Value) -> PolicyDecision {
    let effect = Effect::Mcp {
        server: "bank".to_owned(),
        tool: "send".to_owned(),
        definition: ToolDefinitionState::Steady,
    };
    decide_call(rules, "bank__send", &[effect], arguments)
}

fn decide_call(rules: &str, tool: &str, effects: &[Effect], arguments: &Value) -> PolicyDecision {
    let arguments = arguments.as_object().cloned().map(ToolArguments::new);
    build_engine(rules, PermissionMode::Ask).decide(DecisionRequest {
        tool,
        risk: RiskLevel::High,
        effects,
        arguments: arguments.as_ref(),
        grants: &[],
        mode: None,
        machine: &EmptyMachine,
    })
}

/// Checks whether `bank__send(…)` matches as an allow rule, and as a deny and ask rule.
#[track_caller]
fn check(pattern: &str, arguments: &Value, allow_matches: bool, deny_matches: bool) {
    for (rules, expected) in [
        (format!("allow bank__send({pattern})"), if allow_matches { "allow" } else { "ask" }),
        (
            format!("allow *; deny bank__send({pattern})"),
            if deny_matches { "deny" } else { "allow" },
        ),
        (format!("allow *; ask bank__send({pattern})"), if deny_matches { "ask" } else { "allow" }),
    ] {
        let decision = decide(&rules, arguments);
        assert_eq!(decision.verdict.as_str(), expected, "{arguments:.200} under `{rules}`");
    }
}

#[test]
fn pattern_matches_the_whole_value() {
    for (pattern, to, expected) in [
        ("to:alice", "alice", true),
        ("to:alice", "alice2", false),
        ("to:alice", "malice", false),
        ("to:alice@*", "alice@example.com", true),
        ("to:alice@*", "alice@", true),
        ("to:alice@*", "mallory,alice@example.com", false),
        ("to:*@example.com", "alice@example.com", true),
        ("to:*@example.com", "alice@example.com.evil", false),
        ("to:a*b*c", "a1b2b3c", true),
        ("to:a*b*c", "acb", false),
        ("to:ab*ba", "aba", false),
        ("to:*", "anything\nat all", true),
        ("to:*", "", true),
        // Only `*` is special.
        ("to:a?", "ab", false),
        ("to:a?", "a?", true),
        ("to:[ab]", "a", false),
        ("to:[ab]", "[ab]", true),
        (r"to:a\*", "a*", true),
        (r"to:a\*", "ab", false),
        (r"to:a\,b", "a,b", true),
        (r"to:a\\b", r"a\b", true),
        ("to:f(x)", "f(x)", true),
        (r"to:\)", ")", true),
        ("to:https://x.org/*", "https://x.org/a", true),
        ("to : alice ", "alice", true),
        (r"to:x\ ", "x ", true),
        (r"to:\ x\ ", " x ", true),
        ("to:a b", "a b", true),
    ] {
        check(pattern, &json!({ "to": to }), expected, expected);
    }
}

#[test]
fn all_patterns_of_a_rule_must_match() {
    check("to:alice,amount:10", &json!({"to": "alice", "amount": 10}), true, true);
    check("to:alice, amount:10", &json!({"to": "alice", "amount": 11}), false, false);
    check("to:alice,amount:10", &json!({"to": "alice"}), false, false);
    check("*", &json!({}), true, true);
}

#[test]
fn missing_argument_matches_nothing() {
    check("to:alice", &json!({}), false, false);
    check("to:*", &json!({}), false, false);
    check("to:*", &json!({"cc": "alice"}), false, false);
    // Unknown arguments may be anything.
    check("to:alice", &Value::Null, false, true);
    check("to:alice", &json!({"to": null}), false, false);
    check("to:*", &json!({"to": null}), false, true);
    check("to:null", &json!({"to": null}), false, true);
}

#[test]
fn numbers_and_truth_values_are_compared_as_json() {
    for (pattern, value, allow_matches, deny_matches) in [
        ("n:10", json!(10), true, true),
        ("n:10", json!("10"), true, true),
        ("n:10", json!(10.0), false, true),
        ("n:10", json!("1e1"), false, true),
        ("n:10", json!("+10"), false, true),
        ("n:10", json!("0010"), false, true),
        ("n:10", json!("1_0"), false, true),
        ("n:1000", json!("1,000"), false, true),
        ("n:1000", json!("1'000.00"), false, true),
        ("n:1000", json!("1.000,0"), false, true),
        ("n:1000", json!("1 000"), false, true),
        ("n:1000", json!("1,001"), false, false),
        ("n:10", json!("10.5"), false, false),
        ("n:10", json!("0xA"), false, true),
        ("n:10", json!("١٠"), false, true),
        ("n:10", json!("１０"), false, true),
        ("n:10", json!(" 10 "), false, true),
        ("n:10", json!(100), false, false),
        ("n:10", json!(-10), false, false),
        ("n:10.5", json!(10.5), true, true),
        ("n:10.50", json!(10.5), false, true),
        ("n:9007199254740992", json!(9_007_199_254_740_993_u64), false, true),
        ("n:1*", json!(1e25), true, true),
        ("n:100*", json!("1e5"), false, true),
        ("n:true", json!(true), true, true),
        ("n:true", json!("True"), false, true),
        ("n:true", json!(1), false, true),
        ("n:true", json!("yes"), false, true),
        ("n:true", json!(1.0), false, true),
        ("n:true", json!("1.0"), false, true),
        ("n:true", json!("1e0"), false, true),
        ("n:true", json!("+1"), false, true),
        ("n:true", json!(2), false, true),
        ("n:true", json!(-0.5), false, true),
        ("n:true", json!(false), false, false),
        ("n:true", json!(0), false, false),
        ("n:true", json!("0.0"), false, false),
        ("n:1", json!(true), false, true),
        ("n:1.0", json!(true), false, true),
        ("n:1", json!(2), false, false),
        ("n:1", json!(false), false, false),
        ("n:0", json!(false), false, true),
        ("n:0.0", json!("no"), false, true),
        ("n:false", json!(0), false, true),
        ("n:false", json!(0.0), false, true),
        ("n:false", json!("-0"), false, true),
        ("n:false", json!(1), false, false),
        ("n:false", json!("off"), false, true),
    ] {
        check(pattern, &json!({ "n": value }), allow_matches, deny_matches);
    }
}

#[test]
fn deny_rule_matches_other_spellings() {
    for to in [
        json!("Mallory"),
        json!("ＭＡＬＬＯＲＹ"),
        json!(" mallory\n"),
        json!("mal\u{200b}lory"),
        json!("mal\u{ad}lory"),
        json!("mallory\u{fe0f}"),
        json!("mal\u{0}lory"),
        json!("mallory\u{0}@example.com"),
        json!("\u{1b}[8mmallory"),
        json!(["mallory"]),
        json!(["alice", ["mallory"]]),
        json!({"name": "mallory"}),
        json!({"first": "mal", "last": "lory"}),
        json!([{"name": "alice"}]),
        json!("[\"mallory\"]"),
        json!("[\"alice\", \"mallo\\u0072y\"]"),
        json!("\"mallory\""),
        json!("{\"to\": \"mallory\", \"to\": \"alice\"}"),
        json!("[\"[\\\"mallory\\\"]\"]"),
        json!(format!("{}\"mallory\"", "[".repeat(1000))),
    ] {
        check("to:mallory", &json!({ "to": to }), false, true);
    }
    // Normalization, and letters that are equal only in another case.
    check("to:café", &json!({"to": "cafe\u{301}"}), false, true);
    check("to:cafe\u{301}", &json!({"to": "CAFÉ"}), false, true);
    check("to:strasse", &json!({"to": "STRAẞE"}), false, true);
    check("to:kiss", &json!({"to": "\u{212a}i\u{17f}s"}), false, true);
    // Other values.
    for to in [json!("alice"), json!(["alice", "bob"]), json!([]), json!("[\"alice\"]")] {
        check("to:mallory", &json!({ "to": to }), false, false);
    }
}

#[test]
fn deny_rule_matches_other_spellings_of_the_name() {
    for arguments in [
        json!({"UserId": "x"}),
        json!({"userId": "x"}),
        json!({"user-id": "x"}),
        json!({"user_id ": "x"}),
        json!({"u\u{17f}er_id": "x"}),
        json!({"user\u{200b}_id": "x"}),
        json!({"user_id\u{0}": "y"}),
    ] {
        check("user_id:x", &arguments, false, true);
    }
    check("user_id:x", &json!({"user_ids": "x"}), false, false);
}

#[test]
fn allow_rule_does_not_match_if_another_argument_may_be_meant() {
    check("to:alice", &json!({"to": "alice", "amount": 10}), true, true);
    for arguments in [
        json!({"to": "alice", "To": "mallory"}),
        json!({"TO": "alice"}),
        json!({"to": "alice", "t_o": "mallory"}),
        json!({"to": "alice", "to\u{0}": "mallory"}),
        json!({"to": ["alice"]}),
    ] {
        check("to:alice", &arguments, false, true);
    }
    check("f.to:alice", &json!({"f": {"to": "alice"}, "f.to": "mallory"}), false, true);
    check("f.to:alice", &json!({"f": {"to": "alice"}, "F": {"to": "mallory"}}), false, true);
    check("f.to:alice", &json!({"f": {"to": "alice", "To": "mallory"}}), false, true);
}

#[test]
fn dot_names_a_field_of_an_object() {
    check("f.user:alice", &json!({"f": {"user": "alice"}}), true, true);
    check("f.a.b:alice", &json!({"f": {"a": {"b": "alice"}}}), true, true);
    // A server that looks for an object ignores these.
    check("f.user:alice", &json!({"f.user": "alice"}), false, true);
    check("f.a.b:alice", &json!({"f.a": {"b": "alice"}}), false, true);
    check(r"f\.user:alice", &json!({"f.user": "alice"}), true, true);
    check(r"f\.user:alice", &json!({"f": {"user": "alice"}}), false, true);
    check("f.user:alice", &json!({"f": {"user": "bob"}}), false, false);
    check("f.user:alice", &json!({"f": {"other": "alice"}}), false, false);
    check("f.user:alice", &json!({"user": "alice"}), false, false);
    check("f.user:alice", &json!({"f": null}), false, false);
    check("f.user:alice", &json!({"f": [{"user": "bob"}, {"user": "alice"}]}), false, true);
    check("f.user:alice", &json!({"f": [{"user": "bob"}]}), false, false);
    // A value that should be an object.
    check("f.user:alice", &json!({"f": "{\"user\": \"alice\"}"}), false, true);
    check("f.user:alice", &json!({"f": "user=alice"}), false, true);
    check("f.user:alice", &json!({"f": 1}), false, true);
}

#[test]
fn wildcard_of_allow_rule_does_not_reach_outside() {
    for (pattern, value) in [
        ("p:/srv/*", "/srv/../etc/passwd"),
        ("p:/srv/*", "/srv/a/.."),
        ("p:/srv/*", "/srv/%2e%2E/etc/passwd"),
        ("p:/srv/*", "/srv/..%2fetc"),
        ("p:/srv/*", "/srv/..\\etc"),
        ("p:alice@*", "alice@example.com\nBcc: mallory@example.com"),
        ("p:alice@*", "alice@example.com,mallory@example.com"),
        ("p:*@example.com", "mallory@evil.com; bob@example.com"),
        ("p:alice@*", "alice@example.com\u{202e}moc"),
        ("p:alice@*", "alice@example.com\u{0}"),
        // Wide letters, which some servers take for the others.
        ("p:/srv/*", "/srv/\u{ff0e}\u{ff0e}/etc/passwd"),
        ("p:/srv/*", "/srv/\u{2025}/etc/passwd"),
        ("p:/srv/*", "/srv/\u{2024}.\u{ff0f}etc"),
        ("p:alice@*", "alice@example.com\u{37e}mallory@example.com"),
        ("p:alice@*", "alice@example.com\u{ff0c}mallory@example.com"),
        // Parts of URLs, decoded once or twice.
        ("p:/srv/*", "/srv/%252e%252e/etc"),
        ("p:/srv/*", "/srv/%25%32%65./etc"),
        ("p:/srv/*", "/srv/%ef%bc%8e."),
        ("p:alice@*", "alice@example.com%2cmallory@example.com"),
        ("p:alice@*", "alice@example.com%0d%0aBcc: mallory@example.com"),
    ] {
        check(pattern, &json!({ "p": value }), false, true);
    }
    check("p:/srv/*", &json!({"p": "/srv/a..b/...c"}), true, true);
    check("p:/srv/*", &json!({"p": "/srv/100%/50%25 of 1%2"}), true, true);
}

#[test]
fn too_much_to_look_at_is_denied() {
    let deep = (0..100).fold(json!("alice"), |inner, _| json!([inner]));
    let many = json!(vec!["alice"; 30_000]);
    for to in [json!("a".repeat(2 << 20)), many, deep] {
        check("to:mallory", &json!({ "to": to }), false, true);
    }
    check("to:a*", &json!({"to": "a".repeat(2 << 20)}), false, true);
    let fields = (0..30_000).map(|at| (format!("f{at}"), json!(1)));
    let fields: serde_json::Map<String, Value> =
        fields.chain([("to".to_owned(), json!("alice"))]).collect();
    check("to:alice", &Value::Object(fields), false, true);
    // A value within the limits takes no time that grows with its square.
    let long = "a".repeat(1 << 19);
    check(&format!("to:{}b", "*a".repeat(1_000)), &json!({ "to": long }), false, false);
}

#[test]
fn arguments_limit_rules_for_any_tool_name() {
    let to = |name: &str| json!({ "to": name });
    for name in ["bank__send", "mcp__bank__send", "bank__*", "mcp__bank", "mcp__bank__*", "mcp__*"]
    {
        for (person, expected) in [("alice", "allow"), ("bob", "ask")] {
            let rules = format!("allow {name}(to:alice)");
            assert_eq!(decide(&rules, &to(person)).verdict.as_str(), expected, "{rules}");
        }
        for (person, expected) in [("alice", "deny"), ("bob", "allow")] {
            let rules = format!("allow *; deny {name}(to:alice)");
            assert_eq!(decide(&rules, &to(person)).verdict.as_str(), expected, "{rules}");
        }
    }
    assert_eq!(decide("allow *; deny BANK__Send(to:alice)", &to("alice")).verdict, Verdict::Deny);
    assert_eq!(decide("allow other__send(to:alice)", &to("alice")).verdict, Verdict::Ask);
    let both = "allow bank__send; ask bank__send(to:bob); deny bank__send(to:mallory)";
    for (person, expected) in [("alice", "allow"), ("bob", "ask"), ("mallory", "deny")] {
        assert_eq!(decide(both, &to(person)).verdict.as_str(), expected, "{person}");
    }
}

#[test]
fn arguments_limit_rules_for_tools_of_commands() {
    let command = CommandLine::Program(vec!["./tool".to_owned(), "send".to_owned()]);
    let execution = CommandExecution::new(command);
    let effects = [Effect::Exec(execution)];
    for (rules, person, expected) in [
        ("allow Bash(./tool:*); deny cmd__send(to:mallory)", "alice", "allow"),
        ("allow Bash(./tool:*); deny cmd__send(to:mallory)", "mallory", "deny"),
        ("allow Bash(./tool:*); ask cmd__*(to:mallory)", "mallory", "ask"),
        ("allow cmd__send(to:alice)", "alice", "ask"),
    ] {
        let decision = decide_call(rules, "cmd__send", &effects, &json!({ "to": person }));
        assert_eq!(decision.verdict.as_str(), expected, "{person} under `{rules}`");
    }
}

#[test]
fn decision_names_the_rule_and_no_value() {
    let call = json!({"to": "mallory-hunter2", "note": "hunter2"});
    for rules in ["deny bank__send(to:mallory*)", "allow bank__send(to:mallory*)", ""] {
        let decision = decide(rules, &call);
        assert!(!format!("{decision:?}").contains("hunter2"), "{decision:?}");
    }
    let decision = decide("deny bank__send(to:mallory*)", &call);
    assert_eq!(decision.reason, "rule `bank__send(to:mallory*)` denies it");
}

#[test]
fn session_grant_does_not_answer_rule_about_argument() {
    assert_eq!(decide("ask bank__send(to:alice)", &json!({"to": "alice"})).grants, []);
    let offered = decide("ask bank__send(to:alice)", &json!({"to": "bob"})).grants;
    assert_eq!(offered.iter().map(|grant| grant.rule.as_str()).collect::<Vec<_>>(), ["bank__send"]);
}

#[test]
fn deny_matches_blanks_as_written() {
    for (pattern, value) in [("* *", " "), ("* *", "  "), ("a *", "a ")] {
        let decision = decide(&format!("deny bank__send(to:{pattern})"), &json!({ "to": value }));
        assert_eq!(decision.verdict, Verdict::Deny, "`{pattern}` and `{value}`");
    }
}

proptest! {
    /// What an allow rule matches, a deny rule with the same pattern matches, too.
    #[test]
    fn deny_matches_whatever_allow_matches(value in "[a-zA-Z0-9 .*é\u{301}ß/-]{0,8}", pattern in "[a-zA-Z0-9 .*éß/-]{1,6}") {
        let arguments = json!({ "to": value });
        let text = format!("bank__send(to:{pattern})");
        prop_assume!(!pattern.trim().is_empty());
        if decide(&format!("allow {text}"), &arguments).verdict == Verdict::Allow {
            prop_assert_eq!(decide(&format!("deny {text}"), &arguments).verdict, Verdict::Deny);
        }
    }
}
