//! Names and payloads of the OpenClaw events: `tick`, `chat`, `agent`, `exec.approval.…` and
//! `shutdown`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approvals::ExecApprovalDecision;
use crate::chat::ChatMessage;

/// The first event of every connection; see [`crate::handshake::ConnectChallenge`].
pub const CONNECT_CHALLENGE: &str = "connect.challenge";
/// Sent at a fixed interval, so that a client notices a dead connection.
pub const TICK: &str = "tick";
/// The text of a run, and how the run ended.
pub const CHAT: &str = "chat";
/// What a run does: text, thinking, tool calls, usage.
pub const AGENT: &str = "agent";
/// A tool call needs approval.
pub const APPROVAL_REQUESTED: &str = "exec.approval.requested";
/// An approval was answered.
pub const APPROVAL_RESOLVED: &str = "exec.approval.resolved";
/// The gateway is about to stop.
pub const SHUTDOWN: &str = "shutdown";

/// Payload of `tick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TickEvent {
    /// When it was sent, in milliseconds since 1970.
    pub ts: i64,
}

/// Payload of `chat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatEvent {
    /// Id of the run: the `idempotencyKey` of its prompt.
    pub run_id: String,
    /// Canonical key of the session.
    pub session_key: String,
    /// The agent of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Number of the event within the run; `chat` and `agent` events are counted together.
    pub seq: u64,
    /// State of the run.
    #[serde(flatten)]
    pub state: ChatRunState,
}

/// State of a run, with its text so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum ChatRunState {
    /// The run is being prepared. zero never sends it.
    Status {
        /// Current step: `preparing_context`, `starting_model`, …
        phase: String,
    },
    /// The run produced more text.
    Delta {
        /// The whole text of the run so far.
        message: ChatMessage,
        /// The new part of the text; absent in protocol 3.
        #[serde(default)]
        delta_text: String,
    },
    /// The run has ended.
    Final {
        /// The whole text of the run; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<ChatMessage>,
        /// `stop`, or the limit that ended the run: `max_tokens`, `max_turns` or `budget`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// Which limit ended the run, what was used and how to go on, for the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        /// Tokens and cost of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Value>,
    },
    /// The run was stopped.
    Aborted {
        /// The whole text of the run; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<ChatMessage>,
        /// What stopped it: `rpc` for a request, or `timeout`, `loop_guard`, `shutdown`, …
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// Why it was stopped, for the user.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
    },
    /// The run failed.
    Error {
        /// Why it failed, for the user.
        #[serde(default)]
        error_message: String,
        /// `refusal`, `timeout`, `rate_limit`, `context_length` or `unknown`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_kind: Option<String>,
        /// Details for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_detail: Option<ChatErrorDetail>,
        /// The whole text of the run until then; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<ChatMessage>,
    },
}

/// Details of a failed run, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatErrorDetail {
    /// Provider of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Name of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// zero's own kind of the error, more specific than `errorKind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 300))]
    pub provider_error_type: Option<String>,
    /// HTTP status of the provider's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 599))]
    pub http_status: Option<u16>,
}

/// Payload of `agent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    /// Id of the run: the `idempotencyKey` of its prompt.
    pub run_id: String,
    /// Canonical key of the session. Other gateways may omit it.
    #[serde(default)]
    pub session_key: String,
    /// Number of the event within the run; `chat` and `agent` events are counted together.
    pub seq: u64,
    /// When it was sent, in milliseconds since 1970.
    pub ts: i64,
    /// What happened.
    #[serde(flatten)]
    pub stream: AgentStream,
}

/// What happened in a run, by stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "stream", content = "data", rename_all = "lowercase")]
pub enum AgentStream {
    /// The run started, waits or ended: `{phase, …}`.
    Lifecycle(Value),
    /// More text of the reply: `{text, delta}`.
    Assistant(Value),
    /// More thinking: `{text, delta}`.
    Thinking(Value),
    /// A tool call: `{phase, name, toolCallId, args | partialResult | result, isError}`.
    Tool(Value),
    /// Tokens and cost so far.
    Usage(Value),
    /// A call waits for approval: `{phase, kind, status, approvalId, toolCallId, command, host,
    /// title}`.
    Approval(Value),
    /// A stream that zero does not know, from another gateway. zero never sends one.
    #[serde(untagged)]
    Other {
        /// Name of the stream.
        stream: String,
        /// Its data, as received.
        #[serde(default)]
        data: Value,
    },
}

/// Payload of `exec.approval.requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestedEvent {
    /// Id of the approval.
    pub id: String,
    /// The call that needs approval.
    pub request: ApprovalRequestInfo,
    /// When approval was requested, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When the approval expires, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// A tool call that needs approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestInfo {
    /// The command, or a description of the call.
    pub command: String,
    /// Folder in which the call would run.
    pub cwd: String,
    /// The machine on which the call would run.
    pub host: String,
    /// Canonical key of the session.
    pub session_key: String,
    /// The agent that made the call.
    pub agent_id: String,
    /// Id of the run that made the call.
    pub run_id: Option<String>,
    /// Id of the call, as in `agent` events.
    pub tool_call_id: String,
    /// The answers that are accepted.
    pub allowed_decisions: Vec<ExecApprovalDecision>,
}

/// Payload of `exec.approval.resolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolvedEvent {
    /// Id of the approval.
    pub id: String,
    /// The answer.
    pub decision: ExecApprovalDecision,
    /// Who answered.
    pub resolved_by: String,
    /// When it was answered, in milliseconds since 1970.
    pub ts: i64,
}

/// Payload of `shutdown`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownEvent {
    /// Why the gateway stops.
    pub reason: String,
    /// After how many milliseconds it may be back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_expected_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    /// Checks that the payload is written as it was read.
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
