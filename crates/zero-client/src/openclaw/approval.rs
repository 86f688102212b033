//! Translates an approval request for a command into a ledger event.

use serde_json::Value;
use zero_core::event::{
    ApprovalEffect, ApprovalOption, ApprovalRequest, ApprovalSubject, EffectOrigin,
};

use super::tool_calls;

/// Parses an approval request.
pub(super) fn parse_approval(id: &str, request: &Value, expires_ms: i64) -> ApprovalRequest {
    let word = |key: &str| request.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let command = word("command").unwrap_or("(the gateway does not say what)").to_owned();
    let host = word("host").unwrap_or("the gateway");
    let option = |id: &str, name: &str| ApprovalOption { id: id.to_owned(), name: name.to_owned() };
    let decisions = request.get("allowedDecisions").and_then(Value::as_array);
    let may = |decision: &str| {
        decisions.is_none_or(|decisions| decisions.iter().any(|allowed| allowed == decision))
    };
    let mut options = Vec::new();
    if may("allow-once") {
        options.push(option("allow_once", "Allow once"));
    }
    if may("allow-always") {
        options.push(option("allow_always", "Allow this command always, at the gateway"));
    }
    // Rejecting is always offered, whatever the gateway offers.
    options.push(option("reject_once", "Reject"));
    ApprovalRequest {
        subject: ApprovalSubject::Call,
        id: id.to_owned(),
        call: word("toolCallId").unwrap_or(id).to_owned(),
        tool: "exec".to_owned(),
        title: tool_calls::call_title("exec", &serde_json::json!({"command": command})),
        reason: format!("the gateway wants to run this on {host}"),
        risk: "high".to_owned(),
        effects: vec![ApprovalEffect {
            kind: "exec".to_owned(),
            target: command.clone(),
            verdict: "ask".to_owned(),
            reason: "the gateway asks".to_owned(),
            origin: EffectOrigin::Call,
        }],
        commands: vec![command],
        preview: None,
        input: None,
        options,
        cwd: word("cwd").unwrap_or_default().to_owned(),
        expires_ms,
        subagent: None,
    }
}
