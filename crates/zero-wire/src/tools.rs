//! Remote tools: a client beside the files does the work of a session, and the gateway asks it to.
//!
//! The client attaches itself to a session, offers its tools in the dialect it was told, gets
//! `tools/use` events and answers each with `tools/result`. It enforces its own policy. One
//! connection hosts the tools of a session at a time; who is replaced hears `tools/displaced`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zero_core::ToolKind;
use zero_core::event::{CallDisplay, FilePosition, PlanEntry, ResultContent, ToolCallStatus};

use crate::approvals::Acknowledgement;
use crate::methods;

/// Asks a client for a call; an event.
pub const TOOLS_USE: &str = "tools/use";
/// Tells a client that nobody waits for a call any more; an event.
pub const TOOLS_CANCEL: &str = "tools/cancel";
/// Tells a client that the tools are wanted in another dialect or mode; an event.
pub const TOOLS_TERMS: &str = "tools/terms";
/// Tells a client that another connection hosts the tools of a session from now on; an event.
pub const TOOLS_DISPLACED: &str = "tools/displaced";

/// Tools of an offer.
pub const TOOLS_MAX: usize = 1_000;
/// Characters of a tool's description.
pub const DESCRIPTION_LEN_MAX: usize = 10_000;
/// `details.code` of an attachment that is refused because another connection hosts the tools.
pub const TOOLS_HOSTED: &str = "TOOLS_HOSTED";

methods! {
    /// Hosts the tools of a session from now on, until the connection ends.
    ToolsAttach "tools/attach" Write ToolsAttachParams => ToolsTerms;
    /// Says which tools there are; again whenever that changes.
    ToolsOffer "tools/offer" Write ToolsOfferParams => Acknowledgement;
    /// Says how far a call is.
    ToolsProgress "tools/progress" Write ToolsProgressParams => Acknowledgement;
    /// Says what became of a call. Once.
    ToolsResult "tools/result" Write ToolsResultParams => Acknowledgement;
}

/// Parameters of `tools/attach`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsAttachParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Who hosts, for people.
    #[schemars(length(min = 1, max = 128))]
    pub host: String,
    /// Whether to replace another connection of the same person that hosts them now. Without it,
    /// that is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub take_over: bool,
    /// How long a run should wait for it, in milliseconds, when its connection is lost in the middle;
    /// not at all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 60_000))]
    pub return_ms: Option<u64>,
}

/// In which words, and how freely, the tools work. Also the payload of `tools/terms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsTerms {
    /// The session, by its one spelling.
    pub session_key: String,
    /// What `tools/use` calls it.
    pub session_id: String,
    /// `canonical`, `acp`, `qwen` or `opencode`.
    pub dialect: String,
    /// `ask`, `accept-edits`, `plan` or `auto`, where the session asks for one. The host need not
    /// allow more than its own settings do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// Parameters of `tools/offer`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsOfferParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// The dialect these are written in.
    pub dialect: String,
    /// The folder that work happens in.
    pub cwd: String,
    /// The system it is on.
    pub system: String,
    /// The tools.
    #[schemars(length(max = 1000))]
    pub tools: Vec<OfferedTool>,
    /// What the workspace says about itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub instructions: Vec<OfferedInstruction>,
    /// The person's own commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub commands: Vec<OfferedCommand>,
}

/// A tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfferedTool {
    /// Its name in the dialect: 1 to 64 ASCII letters, digits, `_` or `-`, starting with a letter.
    pub name: String,
    /// Its canonical name, of the same form.
    pub canonical: String,
    /// What it does, in at most 10,000 characters, none of them invisible.
    pub description: String,
    /// JSON Schema of its input, which is an object.
    pub input_schema: Value,
    /// How to picture it.
    pub kind: ToolKind,
    /// Whether it changes nothing.
    pub read_only: bool,
}

/// A file that tells agents how to work here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferedInstruction {
    /// Its path.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// A command that a person wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfferedCommand {
    /// What it is called by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// The prompt it stands for.
    pub prompt: String,
}

/// Payload of `tools/use`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsUseEvent {
    /// The session.
    pub session_id: String,
    /// Names the call.
    pub tool_call_id: String,
    /// The tool, in the dialect that was offered last.
    pub tool_name: String,
    /// Its arguments.
    pub input: Value,
}

/// Payload of `tools/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsCancelEvent {
    /// The session.
    pub session_id: String,
    /// The call.
    pub tool_call_id: String,
}

/// Payload of `tools/displaced`. What the client was asked for is settled as failed; nothing more is
/// asked of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsDisplacedEvent {
    /// The session, by its one spelling.
    pub session_key: String,
    /// What `tools/use` called it.
    pub session_id: String,
    /// Who hosts them now, for people.
    pub host: String,
}

/// Parameters of `tools/progress`: at least one of `title` and `message`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsProgressParams {
    /// The session.
    #[schemars(length(min = 1))]
    pub session_id: String,
    /// The call.
    #[schemars(length(min = 1))]
    pub tool_call_id: String,
    /// What it will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How to picture it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// Places it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub locations: Vec<FilePosition>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Parameters of `tools/result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsResultParams {
    /// The session.
    #[schemars(length(min = 1))]
    pub session_id: String,
    /// The call.
    #[schemars(length(min = 1))]
    pub tool_call_id: String,
    /// What the model is told.
    #[schemars(length(max = 10000))]
    pub content: Vec<ToolContent>,
    /// Whether that is an error.
    pub is_error: bool,
    /// How it ended, where that says more than `isError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolCallStatus>,
    /// What it did, where no `tools/progress` has said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How to picture it, with `title`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// What the person sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<CallDisplay>,
    /// Places it touched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub locations: Vec<FilePosition>,
    /// The plan as it is now, if the call changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10000))]
    pub plan: Option<Vec<PlanEntry>>,
}

/// One piece of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ToolContent {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image {
        /// The bytes, in base64.
        data: String,
        /// Media type.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
}

impl From<ResultContent> for ToolContent {
    fn from(content: ResultContent) -> Self {
        match content {
            ResultContent::Text { text } => Self::Text { text },
            ResultContent::Image { mime, data } => Self::Image { data, mime_type: mime },
        }
    }
}

impl From<ToolContent> for ResultContent {
    fn from(content: ToolContent) -> Self {
        match content {
            ToolContent::Text { text } => Self::Text { text },
            ToolContent::Image { data, mime_type } => Self::Image { mime: mime_type, data },
        }
    }
}
