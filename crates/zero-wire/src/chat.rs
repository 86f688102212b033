//! Talking: `chat.send`, `chat.abort`, `chat.history`, `agent.wait`, and `health`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::methods;

methods! {
    /// Says something to a session.
    ChatSend "chat.send" Write ChatSendParams => ChatSendResult;
    /// Stops a run, or all of a session.
    ChatAbort "chat.abort" Write ChatAbortParams => ChatAbortResult;
    /// The newest messages of a session.
    ChatHistory "chat.history" Read ChatHistoryParams => ChatHistoryResult;
    /// Waits for the end of a run.
    AgentWait "agent.wait" Write AgentWaitParams => AgentWaitResult;
    /// How the gateway feels.
    Health "health" Read HealthParams => HealthResult;
}

/// Parameters of `chat.send`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatSendParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// What is said.
    pub message: String,
    /// Makes this prompt the same prompt however often it is sent; becomes the id of the run.
    #[schemars(length(min = 1))]
    pub idempotency_key: String,
    /// What comes with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub attachments: Vec<ChatAttachment>,
    /// How much the model should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Whether to deliver the answer to a channel; zero has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver: Option<bool>,
    /// Stop the run after so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The agent, where the key names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What to do when a run is at work; zero lets it wait for its turn (`followup`), or stops that
    /// run first (`interrupt`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<QueueMode>,
    /// Where the words come from; needs the admin scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_input_provenance: Option<Value>,
    /// The same in words; needs the admin scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_provenance_receipt: Option<String>,
    /// Whether a message that begins with `/` is words all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_command_interpretation: Option<bool>,
    /// Only if this is still the id of the session.
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

/// What to do when a run is at work already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueMode {
    /// As `followup`.
    Steer,
    /// Wait for its end.
    Followup,
    /// As `followup`.
    Collect,
    /// Stop it.
    Interrupt,
}

/// What comes with a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatAttachment {
    /// `image`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Name of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// The bytes, in base64; a data URL will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatSendResult {
    /// The run: the idempotency key.
    pub run_id: String,
    /// How it stands.
    pub status: ChatSendStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How the run of a prompt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChatSendStatus {
    /// It was begun by this request.
    Started,
    /// It was begun before and goes on.
    InFlight,
    /// It is over.
    Ok,
    /// It was stopped.
    Timeout,
    /// It failed.
    Error,
}

/// Parameters of `chat.abort`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatAbortParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// One run of it; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub run_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_side_runs: Option<bool>,
    /// The agent, where the key names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// What was stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatAbortResult {
    /// True: that nothing ran is no error.
    pub ok: bool,
    /// Whether anything was stopped.
    pub aborted: bool,
    /// What.
    pub run_ids: Vec<String>,
}

/// Parameters of `chat.history`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatHistoryParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// At most so many messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Without so many of the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// At most so many characters of each message.
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
    /// The agent, where the key names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The newest messages of a session, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatHistoryResult {
    /// The session.
    pub session_key: String,
    /// Its id, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// How much the model should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
}

/// A message as clients see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChatMessage {
    /// `user`, `assistant` or `toolResult`.
    pub role: String,
    /// What is said. Others may send it as one text.
    #[serde(deserialize_with = "text_or_blocks")]
    pub content: Vec<ChatBlock>,
    /// When, in milliseconds since 1970.
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

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ChatBlock {
    /// Words.
    #[serde(rename = "text")]
    Text {
        /// The words.
        text: String,
    },
    /// A thought.
    #[serde(rename = "thinking")]
    Thinking {
        /// The thought.
        thinking: String,
    },
    /// A picture.
    #[serde(rename = "image")]
    Image {
        /// The bytes, in base64.
        data: String,
        /// Media type.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// A call.
    #[serde(rename = "toolCall")]
    ToolCall {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
    /// What became of a call.
    #[serde(rename = "toolResult")]
    ToolResult {
        /// The call.
        #[serde(rename = "toolCallId")]
        tool_call_id: String,
        /// What the model was told.
        text: String,
        /// Whether that is an error.
        #[serde(rename = "isError")]
        is_error: bool,
    },
    /// One of another gateway that zero knows nothing of. zero sends none.
    #[serde(untagged)]
    Other(Value),
}

/// Parameters of `agent.wait`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentWaitParams {
    /// The run.
    #[schemars(length(min = 1))]
    pub run_id: String,
    /// How long to wait; 0 looks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What is known of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentWaitResult {
    /// The run.
    pub run_id: String,
    /// How it stands.
    pub status: AgentWaitStatus,
    /// When it ended, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_reply: Option<TerminalReply>,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentWaitStatus {
    /// It is over.
    Ok,
    /// It failed.
    Error,
    /// It goes on, or nobody knows it.
    Timeout,
}

/// All that a run said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalReply {
    /// Whether there is anything to see.
    pub disposition: ReplyDisposition,
    /// The text.
    pub text: String,
}

/// Whether there is anything to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyDisposition {
    /// There is.
    Visible,
    /// There is not.
    Empty,
}

/// Parameters of `health`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HealthParams {
    /// Whether to look closer; zero always does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<bool>,
}

/// How the gateway feels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthResult {
    /// Whether it can work.
    pub ok: bool,
    /// When, in milliseconds since 1970.
    pub ts: i64,
    /// How long it has been up.
    pub uptime_ms: u64,
    /// The agent of bare keys.
    pub default_agent_id: String,
    /// Runs at work.
    pub running: u64,
    /// What is wrong, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
