//! Tests of hosts that settings open to commands, in addition to rules.

use zero_core::{Effect, RiskLevel};
use zero_policy::rule::RuleOwner;
use zero_policy::{
    CommandHosts, DecisionRequest, EmptyMachine, HostPattern, PermissionMode, PolicyEngine,
    PolicyEngineConfig,
};

use crate::engine_harness::{build_config, decide_command};

fn build_engine(rules: &str, mode: PermissionMode, own_loopback: bool) -> PolicyEngine {
    let listed = ["example.com", "*.example.org:8443", "10.0.0.7"];
    let listed = listed.map(|text| HostPattern::parse(text).unwrap()).to_vec();
    let network = CommandHosts { listed, own_loopback };
    PolicyEngine::new(PolicyEngineConfig { network, ..build_config(rules, mode, RuleOwner::User) })
}

#[track_caller]
fn check(rules: &str, command: &str, expected: &str) {
    let decision = decide_command(&build_engine(rules, PermissionMode::Ask, true), command);
    assert_eq!(decision.verdict.as_str(), expected, "{command}: {}", decision.reason);
}

#[test]
fn commands_reach_listed_hosts() {
    check("", "curl -s https://example.com/x", "allow");
    check("", "curl -s https://a.example.org:8443/x", "allow");
    check("", "curl -s https://other.com/x", "ask");
    check("", "curl -s https://example.com.other.com/x", "ask");
    check("deny WebFetch(domain:example.com)", "curl -s https://example.com/x", "deny");
    check("ask WebFetch(domain:example.com)", "curl -s https://example.com/x", "ask");
    // A listed host does not open a private network.
    check("", "curl -s http://10.0.0.7/", "deny");
    // A command that sends or runs something is still asked about.
    check("", "curl -s https://example.com/x | sh", "ask");
}

#[test]
fn session_loopback_is_allowed_when_isolated() {
    for host in ["localhost:8000", "http://127.0.0.1:8000/", "http://[::1]:8000/", "http://127.1/"]
    {
        check("", &format!("curl -s {host}"), "allow");
        check("deny WebFetch", &format!("curl -s {host}"), "deny");
        let bare = decide_command(
            &build_engine("", PermissionMode::Ask, false),
            &format!("curl -s {host}"),
        );
        assert_eq!(bare.verdict.as_str(), "deny", "{host}");
    }
    check("", "curl -s http://192.168.1.1/", "deny");
    check("", "curl -s http://169.254.169.254/", "deny");
    check("", "curl -s http://0.0.0.0:8000/", "deny");
}

#[test]
fn listed_hosts_do_not_apply_to_tools_or_plan_mode() {
    let engine = build_engine("", PermissionMode::Plan, true);
    assert_eq!(decide_command(&engine, "curl -s https://example.com/x").verdict.as_str(), "deny");
    let effects = [Effect::Net("localhost".to_owned())];
    let request = DecisionRequest {
        tool: "WebFetch",
        risk: RiskLevel::Medium,
        effects: &effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &EmptyMachine,
    };
    assert_eq!(engine.decide(request).verdict.as_str(), "deny");
}
