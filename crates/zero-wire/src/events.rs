//! Payloads of the family's events: `tick`, `chat`, `agent`, `exec.approval.…`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approvals::ExecApprovalDecision;
use crate::chat::ChatMessage;

/// The first event of every connection.
pub const CONNECT_CHALLENGE: &str = "connect.challenge";
/// A sign of life.
pub const TICK: &str = "tick";
/// What a run says, and how it ends.
pub const CHAT: &str = "chat";
/// What a run does.
pub const AGENT: &str = "agent";
/// A person is asked.
pub const APPROVAL_REQUESTED: &str = "exec.approval.requested";
/// They answered.
pub const APPROVAL_RESOLVED: &str = "exec.approval.resolved";
/// The gateway is going away.
pub const SHUTDOWN: &str = "shutdown";

/// Payload of `tick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TickEvent {
    /// When, in milliseconds since 1970.
    pub ts: i64,
}

/// Payload of `chat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatEvent {
    /// The run.
    pub run_id: String,
    /// The session, by its one spelling.
    pub session_key: String,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Counts the events of the run; `chat` and `agent` share it.
    pub seq: u64,
    /// What.
    #[serde(flatten)]
    pub state: ChatRunState,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum ChatRunState {
    /// It gets ready. zero sends none.
    Status {
        /// With what: `preparing_context`, `starting_model`, …
        phase: String,
    },
    /// It said more.
    Delta {
        /// All that it said so far.
        message: ChatMessage,
        /// What is new; absent in protocol 3.
        #[serde(default)]
        delta_text: String,
    },
    /// It is over.
    Final {
        /// All that it said; absent when it said nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<ChatMessage>,
        /// `stop`, `max_tokens`, `max_turns`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// What it took.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
    },
    /// It was stopped.
    Aborted {
        /// All that it said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<ChatMessage>,
        /// `rpc`, or what stopped it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// Why, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// It failed.
    Error {
        /// Why.
        #[serde(default)]
        error_message: String,
        /// `refusal`, `timeout`, `rate_limit`, `context_length` or `unknown`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_kind: Option<String>,
        /// More about it, for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_detail: Option<ChatErrorDetail>,
        /// All that it said before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<ChatMessage>,
    },
}

/// More about a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatErrorDetail {
    /// Who provides the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// zero's own, finer word for the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub provider_error_type: Option<String>,
    /// The HTTP status that the provider gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 599))]
    pub http_status: Option<u16>,
}

/// Payload of `agent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    /// The run.
    pub run_id: String,
    /// The session, by its one spelling. Other gateways leave it out where there is none.
    #[serde(default)]
    pub session_key: String,
    /// Counts the events of the run; `chat` and `agent` share it.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub ts: i64,
    /// What.
    #[serde(flatten)]
    pub stream: AgentStream,
}

/// What a run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "stream", content = "data", rename_all = "lowercase")]
pub enum AgentStream {
    /// It starts, waits, ends: `{phase, …}`.
    Lifecycle(Value),
    /// It says more: `{text, delta}`.
    Assistant(Value),
    /// It thinks: `{text, delta}`.
    Thinking(Value),
    /// It uses a tool: `{phase, name, toolCallId, args | partialResult | result, isError}`.
    Tool(Value),
    /// What it took.
    Usage(Value),
    /// It waits for a person: `{phase, kind, status, approvalId, toolCallId, command, host, title}`.
    Approval(Value),
    /// One of another gateway that zero knows nothing of. zero sends none.
    #[serde(untagged)]
    Other {
        /// Which.
        stream: String,
        /// More of it.
        #[serde(default)]
        data: Value,
    },
}

/// Payload of `exec.approval.requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestedEvent {
    /// The question.
    pub id: String,
    /// What is asked.
    pub request: ApprovalRequestInfo,
    /// When, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When nobody's answer counts any more.
    pub expires_at_ms: i64,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestInfo {
    /// The command, or what the call will do.
    pub command: String,
    /// Where.
    pub cwd: String,
    /// On which machine.
    pub host: String,
    /// The session.
    pub session_key: String,
    /// The agent.
    pub agent_id: String,
    /// The run.
    pub run_id: Option<String>,
    /// The call.
    pub tool_call_id: String,
    /// What may be answered.
    pub allowed_decisions: Vec<ExecApprovalDecision>,
}

/// Payload of `exec.approval.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolvedEvent {
    /// The question.
    pub id: String,
    /// The answer.
    pub decision: ExecApprovalDecision,
    /// Who.
    pub resolved_by: String,
    /// When, in milliseconds since 1970.
    pub ts: i64,
}

/// Payload of `shutdown`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownEvent {
    /// Why.
    pub reason: String,
    /// When it may be back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_expected_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    /// What is read is written the same way.
    #[track_caller]
    fn check<T: Serialize + DeserializeOwned>(payload: Value) {
        let read: T = serde_json::from_value(payload.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), payload);
    }

    #[test]
    fn chat_events_match_openclaw() {
        let message = json!({"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "timestamp": 1});
        let event = |more: Value| {
            let mut event = json!({"runId": "r", "sessionKey": "agent:main:main", "seq": 1});
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event
        };
        check::<ChatEvent>(event(json!({"state": "status", "phase": "starting_model"})));
        check::<ChatEvent>(event(json!({"state": "delta", "message": message, "deltaText": "i"})));
        check::<ChatEvent>(event(
            json!({"state": "final", "message": message, "stopReason": "stop"}),
        ));
        check::<ChatEvent>(event(json!({"state": "final"})));
        check::<ChatEvent>(event(json!({"state": "aborted", "stopReason": "rpc"})));
        check::<ChatEvent>(event(
            json!({"state": "error", "errorMessage": "no", "errorKind": "refusal",
            "errorDetail": {"provider": "p", "providerErrorType": "auth", "httpStatus": 401}}),
        ));
        let older = event(json!({"state": "delta", "message": message, "replace": true}));
        assert!(serde_json::from_value::<ChatEvent>(older).is_ok(), "protocol 3 has no increment");
    }

    #[test]
    fn agent_events_of_any_stream_are_read() {
        for stream in
            ["lifecycle", "assistant", "thinking", "tool", "usage", "item", "command_output"]
        {
            let payload = json!({"runId": "r", "sessionKey": "k", "seq": 1, "ts": 2, "stream": stream,
                "data": {"phase": "start"}});
            let event: AgentEvent = serde_json::from_value(payload.clone()).unwrap();
            let is_known = !matches!(event.stream, AgentStream::Other { .. });
            assert_eq!(is_known, !["item", "command_output"].contains(&stream), "{event:?}");
            check::<AgentEvent>(payload);
        }
    }
}
