//! Mapping between ledger terms and those of the OpenClaw protocol.

use serde_json::{Value, json};
use zero_core::event::{ApprovalRequest, RunOutcome, TokenUsage, ToolCallStatus};
use zero_core::{CallProgress, ResultDisplay, RunId, ToolOutcome};
use zero_runtime::dialect::render_plain;
use zero_wire::approvals::ExecApprovalDecision;
use zero_wire::chat::{ChatBlock, ChatMessage};
use zero_wire::events::{
    ApprovalRequestInfo, ApprovalRequestedEvent, ApprovalResolvedEvent, ChatErrorDetail,
    ChatRunState,
};
use zero_wire::tools::ToolContent;

use super::RelaySessionInfo;

/// Why a run ended without an answer, in words of the OpenClaw protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunFailure {
    /// Message for the user.
    pub(crate) message: String,
    /// `refusal`, `timeout`, `rate_limit`, `context_length` or `unknown`.
    pub(crate) kind: &'static str,
    /// zero's own, more specific error code.
    pub(crate) detail: String,
}

/// The failure of a run; `None` if it succeeded or was stopped.
pub(crate) fn run_failure(end: &RunOutcome) -> Option<RunFailure> {
    let (message, kind, detail) = match end {
        RunOutcome::Completed
        | RunOutcome::MaxTokens
        | RunOutcome::MaxTurns { .. }
        | RunOutcome::Budget { .. }
        | RunOutcome::Aborted { .. } => return None,
        RunOutcome::Refused { message } => (message.as_str(), "refusal", "refusal"),
        RunOutcome::Failed { kind, message } => {
            (message.as_str(), openclaw_error_kind(kind), kind.as_str())
        }
        RunOutcome::Interrupted => (INTERRUPTED, "unknown", "interrupted"),
    };
    let message = match message.trim() {
        "" if kind == "refusal" => "the model declined to answer",
        "" => "the run failed for an unknown reason",
        _ => message,
    };
    Some(RunFailure { message: message.to_owned(), kind, detail: detail.to_owned() })
}

const INTERRUPTED: &str = "zero was stopped in the middle of this run; what was shown is kept and \
                           nothing was repeated: send the prompt again to go on";

fn openclaw_error_kind(kind: &str) -> &'static str {
    let known = ["refusal", "timeout", "rate_limit", "context_length"];
    known.into_iter().find(|known| *known == kind).unwrap_or("unknown")
}

/// The final state of a run.
pub(super) fn final_chat_state(
    end: &RunOutcome,
    usage: &TokenUsage,
    message: Option<ChatMessage>,
) -> ChatRunState {
    if let Some(failure) = run_failure(end) {
        return ChatRunState::Error {
            error_message: failure.message,
            error_kind: Some(failure.kind.to_owned()),
            error_detail: Some(ChatErrorDetail {
                provider_error_type: Some(failure.detail),
                ..ChatErrorDetail::default()
            }),
            message,
        };
    }
    let stop_reason = match end {
        RunOutcome::Aborted { by } => {
            let (stop_reason, error_message) = (Some(by.clone()), stop_message(by));
            return ChatRunState::Aborted { message, stop_reason, error_message };
        }
        RunOutcome::MaxTokens => "max_tokens",
        RunOutcome::MaxTurns { .. } => "max_turns",
        RunOutcome::Budget { .. } => "budget",
        _ => "stop",
    };
    let usage = Some(self::usage_json(usage));
    let error_message = end.describe_limit();
    ChatRunState::Final { message, stop_reason: Some(stop_reason.to_owned()), error_message, usage }
}

/// Message about a run that the user did not stop; `None` if the user stopped it.
fn stop_message(by: &str) -> Option<String> {
    let why = match by {
        "rpc" => return None,
        "shutdown" => "zero is shutting down; send the prompt again when it is back".to_owned(),
        "timeout" => "the run exceeded its time limit".to_owned(),
        "loop_guard" => "the model kept repeating the same call, so the run was stopped".to_owned(),
        other => format!("the run was stopped by {other}"),
    };
    Some(why)
}

/// Token usage of a run.
pub(super) fn usage_json(usage: &TokenUsage) -> Value {
    let mut words = json!({
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cacheRead": usage.cache_read_tokens,
        "cacheWrite": usage.cache_write_tokens,
        "totalTokens": usage.input_tokens.saturating_add(usage.output_tokens),
    });
    if let Some(cost) = usage.cost_usd {
        words["cost"] = json!({"total": cost});
    }
    words
}

/// The reply as a message; `None` if it is empty.
pub(super) fn reply_message(thoughts: &str, text: &str, timestamp: i64) -> Option<ChatMessage> {
    let mut content = Vec::new();
    if !thoughts.is_empty() {
        content.push(ChatBlock::Thinking { thinking: thoughts.to_owned() });
    }
    if !text.is_empty() {
        content.push(ChatBlock::Text { text: text.to_owned() });
    }
    let has_content = !content.is_empty();
    has_content.then(|| ChatMessage { role: "assistant".to_owned(), content, timestamp })
}

/// Result of a tool call as shown to the client.
pub(super) struct OpenClawToolResult {
    pub(super) is_error: Option<bool>,
    pub(super) content: Vec<ToolContent>,
    pub(super) details: Value,
}

pub(super) fn partial_result(progress: Option<&CallProgress>) -> OpenClawToolResult {
    let text = |progress: &CallProgress| ToolContent::Text { text: progress.message.clone() };
    let content = progress.map(text).into_iter().collect();
    let mut details = json!({});
    if let Some(percentage) = progress.and_then(|progress| progress.percentage) {
        details["percentage"] = json!(percentage);
    }
    OpenClawToolResult { is_error: None, content, details }
}

pub(super) fn tool_result(status: ToolCallStatus, outcome: &ToolOutcome) -> OpenClawToolResult {
    let mut details = json!({"status": status});
    match outcome {
        ToolOutcome::Result(result) => {
            match &result.display {
                ResultDisplay::Diff(diff) => {
                    details["path"] = json!(diff.path);
                    details["diff"] = json!(diff.unified);
                }
                ResultDisplay::Markdown { text } if !text.is_empty() => {
                    details["markdown"] = json!(text);
                }
                ResultDisplay::Markdown { .. } | ResultDisplay::Plan { .. } => {}
            }
            if !result.structured.is_null() {
                details["structured"] = result.structured.clone();
            }
        }
        ToolOutcome::Error(error) => details["error"] = json!(error),
    }
    let content = render_plain(outcome).into_iter().map(ToolContent::from).collect();
    OpenClawToolResult { is_error: Some(status != ToolCallStatus::Completed), content, details }
}

/// The approval request event. In the OpenClaw protocol every call looks like a command.
pub(super) fn approval_requested(
    request: &ApprovalRequest,
    about: &RelaySessionInfo,
    run: Option<&RunId>,
    created_at_ms: i64,
) -> ApprovalRequestedEvent {
    ApprovalRequestedEvent {
        id: request.id.clone(),
        request: ApprovalRequestInfo {
            command: approval_command(request),
            cwd: request.cwd.clone(),
            host: about.host.clone(),
            session_key: about.key.clone(),
            agent_id: about.agent.clone(),
            run_id: run.map(ToString::to_string),
            tool_call_id: request.call.clone(),
            allowed_decisions: allowed_decisions(request),
        },
        created_at_ms,
        expires_at_ms: request.expires_ms,
    }
}

/// The same request as part of an `agent` event. In the OpenClaw protocol every question is about a
/// command.
pub(super) fn approval_json(request: &ApprovalRequest, about: &RelaySessionInfo) -> Value {
    json!({
        "phase": "requested", "kind": "exec", "status": "pending",
        "approvalId": request.id, "toolCallId": request.call,
        "command": approval_command(request), "host": about.host, "title": request.title,
    })
}

/// The event that reports the answer.
pub(super) fn approval_resolved(
    id: &str,
    answer: &str,
    by: &str,
    ts: i64,
) -> ApprovalResolvedEvent {
    let (id, resolved_by) = (id.to_owned(), by.to_owned());
    ApprovalResolvedEvent { id, decision: parse_decision(answer), resolved_by, ts }
}

/// The commands of a call, or a description of its effects if it runs none.
pub(crate) fn approval_command(request: &ApprovalRequest) -> String {
    if request.commands.is_empty() { request.title.clone() } else { request.commands.join("\n") }
}

/// The decisions offered to the user. `Deny` is always among them.
pub(crate) fn allowed_decisions(request: &ApprovalRequest) -> Vec<ExecApprovalDecision> {
    let offered = |id: &str| request.options.iter().any(|option| option.id == id);
    let mut decisions = Vec::new();
    if offered("allow_once") {
        decisions.push(ExecApprovalDecision::AllowOnce);
    }
    if offered("allow_always") {
        decisions.push(ExecApprovalDecision::AllowAlways);
    }
    decisions.push(ExecApprovalDecision::Deny);
    decisions
}

/// Converts an answer; anything that does not allow the call denies it.
pub(super) fn parse_decision(answer: &str) -> ExecApprovalDecision {
    match answer {
        "allow_once" => ExecApprovalDecision::AllowOnce,
        "allow_always" => ExecApprovalDecision::AllowAlways,
        _ => ExecApprovalDecision::Deny,
    }
}

#[cfg(test)]
mod tests {
    use zero_core::{ErrorReason, ErrorType, ToolError, ToolResult};

    use super::*;

    #[track_caller]
    fn check(end: RunOutcome, expected: Value) {
        let mut state =
            serde_json::to_value(final_chat_state(&end, &TokenUsage::default(), None)).unwrap();
        state.as_object_mut().unwrap().remove("usage");
        assert_eq!(state, expected, "{end:?}");
    }

    fn failed_run(kind: &str) -> RunOutcome {
        RunOutcome::Failed { kind: kind.to_owned(), message: "why".to_owned() }
    }

    #[test]
    fn every_run_end_has_chat_state() {
        check(RunOutcome::Completed, json!({"state": "final", "stopReason": "stop"}));
        let limited = |end: RunOutcome, word: &str| {
            let message = end.describe_limit().unwrap();
            let state = json!({"state": "final", "stopReason": word, "errorMessage": message});
            check(end, state);
        };
        limited(RunOutcome::MaxTokens, "max_tokens");
        limited(RunOutcome::MaxTurns { turns: 2 }, "max_turns");
        limited(RunOutcome::Budget { message: "used up; raise it".to_owned() }, "budget");
        let by = |by: &str| RunOutcome::Aborted { by: by.to_owned() };
        check(by("rpc"), json!({"state": "aborted", "stopReason": "rpc"}));
        check(
            by("shutdown"),
            json!({
                "state": "aborted", "stopReason": "shutdown",
                "errorMessage": "zero is shutting down; send the prompt again when it is back",
            }),
        );
        let error = |kind: &str, detail: &str, message: &str| json!({"state": "error", "errorMessage": message, "errorKind": kind, "errorDetail": {"providerErrorType": detail}});
        for kind in ["timeout", "rate_limit", "context_length", "refusal"] {
            check(failed_run(kind), error(kind, kind, "why"));
        }
        for kind in ["auth", "network", "server", "store", "tool_host", "internal"] {
            check(failed_run(kind), error("unknown", kind, "why"));
        }
        check(RunOutcome::Interrupted, error("unknown", "interrupted", INTERRUPTED));
        let refused = |message: &str| RunOutcome::Refused { message: message.to_owned() };
        check(refused("I will not"), error("refusal", "refusal", "I will not"));
        check(refused(" "), error("refusal", "refusal", "the model declined to answer"));
    }

    #[test]
    fn outcome_is_transferred_whole() {
        let result = ToolResult { structured: json!({"exit_code": 7}), ..ToolResult::text("x") };
        let result = tool_result(ToolCallStatus::Completed, &result.into());
        assert_eq!(result.details, json!({"status": "completed", "structured": {"exit_code": 7}}));
        let error = ToolError::new(ErrorType::PermissionDenied, ErrorReason::Denied, "no")
            .with_detail("matched_rule", "Bash(rm *)")
            .with_tool("Bash");
        let result = tool_result(ToolCallStatus::Denied, &error.clone().into());
        assert_eq!(result.details, json!({"status": "denied", "error": error}));
        assert_eq!(result.is_error, Some(true));
    }

    #[test]
    fn non_allowing_answer_is_deny() {
        for answer in ["reject_once", "reject_always", "expired", "cancelled", "", "allow"] {
            assert_eq!(parse_decision(answer), ExecApprovalDecision::Deny, "{answer}");
        }
        assert_eq!(parse_decision("allow_once"), ExecApprovalDecision::AllowOnce);
        assert_eq!(parse_decision("allow_always"), ExecApprovalDecision::AllowAlways);
    }
}
