//! The OpenClaw methods for prompts and runs: `chat.send`, `chat.abort`, `chat.history` and
//! `agent.wait`; and `health`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use zero_core::Budget;

use crate::methods;

methods! {
    /// Sends a prompt to a session, which starts a run.
    ChatSend "chat.send" Write ChatSendParams => ChatSendResult;
    /// Stops one run of a session, or all of them.
    ChatAbort "chat.abort" Write ChatAbortParams => ChatAbortResult;
    /// Returns the newest messages of a session.
    ChatHistory "chat.history" Read ChatHistoryParams => ChatHistoryResult;
    /// Waits for the end of a run.
    AgentWait "agent.wait" Write AgentWaitParams => AgentWaitResult;
    /// Reports whether the gateway works.
    Health "health" Read HealthParams => HealthResult;
}

/// Parameters of `chat.send`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatSendParams {
    /// Key of the session, in any spelling. The session is created if it does not exist.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Text of the prompt. A text that starts with `/` is a command.
    pub message: String,
    /// Id of the run, chosen by the client. A prompt with an id that was used before does not start
    /// another run.
    #[schemars(length(min = 1))]
    pub idempotency_key: String,
    /// Images that belong to the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub attachments: Vec<ChatAttachment>,
    /// Thinking level of the model for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Not used: whether to deliver the answer to a channel; zero has no channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver: Option<bool>,
    /// Stop the run after this time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How much the run may spend; it ends when that is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// JSON Schema that the final answer must fit, of at most 64 KiB. The model may correct its answer
    /// twice; then the run fails with `output_schema`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The agent, if the session key does not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What to do if a run of the session is active. `steer` stops that run, and prompts that wait go
    /// on waiting; `interrupt` stops it and all that wait; with every other value the prompt waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<QueueMode>,
    /// Origin of the prompt; needs the admin scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_input_provenance: Option<Value>,
    /// Origin of the prompt as text; needs the admin scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_provenance_receipt: Option<String>,
    /// If true, a message that starts with `/` is an ordinary prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_command_interpretation: Option<bool>,
    /// If set, the request fails unless this is the id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Value>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_mode: Option<Value>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_auto_on_seconds: Option<u64>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originating_channel: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originating_to: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originating_account_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub originating_thread_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_bindings: Option<Map<String, Value>>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_leaf_entry_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_session_routing_contract: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_permission_mode: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_tool_overrides: Option<Value>,
}

/// What to do with a prompt if a run of its session is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueMode {
    /// Stop the active run, and run next: prompts that wait run after this one.
    Steer,
    /// Wait until all earlier runs have ended.
    Followup,
    /// The same as `followup` in zero.
    Collect,
    /// Stop the active run and all that wait first.
    Interrupt,
}

/// A file that belongs to a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatAttachment {
    /// `image`, the only kind that zero accepts.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Media type, such as `image/png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// File name to show to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// The bytes, as base64 or as a data URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// The run of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatSendResult {
    /// Id of the run: the idempotency key.
    pub run_id: String,
    /// State of the run.
    pub status: ChatSendStatus,
    /// Why the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// State of a prompt's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatSendStatus {
    /// This request started the run.
    Started,
    /// An earlier request started the run, and it is active.
    InFlight,
    /// The run has ended.
    Ok,
    /// The run was stopped.
    Timeout,
    /// The run failed.
    Error,
}

/// Parameters of `chat.abort`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatAbortParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// The run to stop; if absent, all runs of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub run_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_side_runs: Option<bool>,
    /// The agent, if the session key does not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The runs that were stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatAbortResult {
    /// Always true: it is not an error if no run was active.
    pub ok: bool,
    /// Whether a run was stopped.
    pub aborted: bool,
    /// Ids of the runs that were stopped.
    pub run_ids: Vec<String>,
}

/// Parameters of `chat.history`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatHistoryParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Maximum number of messages; 200 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Number of newest messages to skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Maximum number of characters of each message; longer ones are cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500_000))]
    pub max_chars: Option<u32>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_before: Option<u64>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub input_run_ids: Option<Vec<String>>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The agent, if the session key does not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The newest messages of a session, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatHistoryResult {
    /// Canonical key of the session.
    pub session_key: String,
    /// Id of the session, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The messages, oldest first.
    pub messages: Vec<ChatMessage>,
    /// Thinking level chosen for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
}

/// A message of a session as OpenClaw clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatMessage {
    /// `user`, `assistant` or `toolResult`.
    pub role: String,
    /// The parts of the message. Other gateways may send a single string instead.
    #[serde(deserialize_with = "text_or_blocks")]
    pub content: Vec<ChatBlock>,
    /// When it was written, in milliseconds since 1970.
    #[serde(default)]
    pub timestamp: i64,
}

fn text_or_blocks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ChatBlock>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrBlocks {
        Text(String),
        Blocks(Vec<ChatBlock>),
    }
    Ok(match TextOrBlocks::deserialize(deserializer)? {
        TextOrBlocks::Text(text) => vec![ChatBlock::Text { text }],
        TextOrBlocks::Blocks(blocks) => blocks,
    })
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ChatBlock {
    /// Text that the user or the model wrote.
    #[serde(rename = "text")]
    Text {
        /// Plain text or Markdown.
        text: String,
    },
    /// Thinking of the model.
    #[serde(rename = "thinking")]
    Thinking {
        /// The thinking as text.
        thinking: String,
    },
    /// An image in the message.
    #[serde(rename = "image")]
    Image {
        /// The bytes, as base64.
        data: String,
        /// Media type, such as `image/png`.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// A tool call of the model.
    #[serde(rename = "toolCall")]
    ToolCall {
        /// Id of the call; its result refers to it.
        id: String,
        /// Name of the tool.
        name: String,
        /// The arguments, an object.
        arguments: Value,
    },
    /// The result of a tool call.
    #[serde(rename = "toolResult")]
    ToolResult {
        /// Id of the `toolCall` that it belongs to.
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        /// The result as the model received it.
        text: String,
        /// Whether the call failed.
        #[serde(rename = "isError")]
        is_error: bool,
    },
    /// A part that zero does not know, from another gateway. zero never sends one.
    #[serde(untagged)]
    Other(Value),
}

/// Parameters of `agent.wait`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentWaitParams {
    /// Id of the run: the `idempotencyKey` of its prompt.
    #[schemars(length(min = 1))]
    pub run_id: String,
    /// How long to wait, in milliseconds: 30,000 if absent, at most 600,000; 0 returns immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentWaitResult {
    /// Id of the run, as requested.
    pub run_id: String,
    /// State of the run.
    pub status: AgentWaitStatus,
    /// When it ended, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// Why the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The text that the run produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_reply: Option<TerminalReply>,
}

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentWaitStatus {
    /// The run has ended.
    Ok,
    /// The run failed.
    Error,
    /// The run is still active, or does not exist.
    Timeout,
}

/// The text that a run produced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalReply {
    /// Whether the text is empty.
    pub disposition: ReplyDisposition,
    /// The whole text of the run; may be empty.
    pub text: String,
}

/// Whether a run produced text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyDisposition {
    /// The run produced text.
    Visible,
    /// The run produced no text.
    Empty,
}

/// Parameters of `health`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthParams {
    /// Not used: zero always checks its store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<bool>,
}

/// State of the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthResult {
    /// Whether the gateway can serve clients.
    pub ok: bool,
    /// When this was checked, in milliseconds since 1970.
    pub ts: i64,
    /// How long the gateway has been running, in milliseconds.
    pub uptime_ms: u64,
    /// The agent of session keys that contain none.
    pub default_agent_id: String,
    /// Number of active runs.
    pub running: u64,
    /// What does not work, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
