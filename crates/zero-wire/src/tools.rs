//! Remote tools: a client runs the tool calls of a session, on the machine that has the files.
//!
//! The client attaches to a session with `tools/attach` and offers its tools with `tools/offer`, in
//! the dialect that the gateway asks for. It then receives `tools/use` events and answers each with
//! `tools/result`. It enforces its own policy. One connection hosts the tools of a session at a
//! time; a host that is replaced receives `tools/displaced`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zero_core::event::{PlanEntry, ResultContent, ToolCallStatus};
use zero_core::{FileLocation, ResultDisplay, ToolKind, ToolOutcome};

use crate::approvals::Acknowledgement;
use crate::methods;

/// Event that requests a tool call from a client.
pub const TOOLS_USE: &str = "tools/use";
/// Event that cancels a tool call.
pub const TOOLS_CANCEL: &str = "tools/cancel";
/// Event that asks a client to offer its tools in another dialect or mode.
pub const TOOLS_TERMS: &str = "tools/terms";
/// Event that tells a client that another connection now hosts the session's tools.
pub const TOOLS_DISPLACED: &str = "tools/displaced";

/// Maximum number of tools in an offer.
pub const TOOLS_MAX: usize = 1_000;
/// Maximum length of a tool's description, in characters.
pub const DESCRIPTION_LEN_MAX: usize = 10_000;
/// Longest name of a tool for people, in characters.
pub const DISPLAY_NAME_LEN_MAX: usize = 200;
/// `details.code` of the error if another connection hosts the session's tools.
pub const TOOLS_HOSTED: &str = "TOOLS_HOSTED";

methods! {
    /// Hosts the tools of a session on this connection, until it ends.
    ToolsAttach "tools/attach" Write ToolsAttachParams => ToolsTerms;
    /// Sends the list of tools. A client sends it again whenever it changes.
    ToolsOffer "tools/offer" Write ToolsOfferParams => Acknowledgement;
    /// Reports the progress of a tool call.
    ToolsProgress "tools/progress" Write ToolsProgressParams => Acknowledgement;
    /// Reports the result of a tool call, exactly once.
    ToolsResult "tools/result" Write ToolsResultParams => Acknowledgement;
}

/// Parameters of `tools/attach`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsAttachParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Name of this host, to show to users.
    #[schemars(length(min = 1, max = 128))]
    pub host: String,
    /// Whether to replace the current host, which must have the same owner. If false, the request
    /// fails while another connection hosts the tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub take_over: bool,
    /// How long an active run waits for this host to come back after its connection is lost, in
    /// milliseconds. If absent, it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 60_000))]
    pub return_ms: Option<u64>,
}

/// The dialect and the mode of the tools that a client hosts. Also the payload of `tools/terms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsTerms {
    /// Canonical key of the session.
    pub session_key: String,
    /// Id of the session, as in `tools/use`.
    pub session_id: String,
    /// `canonical`, `acp`, `qwen` or `opencode`.
    pub dialect: String,
    /// `ask`, `accept-edits`, `plan` or `auto`, if the session asks for one. The host does not have
    /// to allow more than its own settings do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether the gateway takes `outcome` in `tools/result`. If false, it knows only the other
    /// fields.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outcome: bool,
    /// How often the host reports each running call, in milliseconds, with `tools/progress`. A call
    /// about which it says nothing for at least three times as long may end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_ms: Option<u64>,
    /// Whether the gateway takes `subagents` and `agents` in `tools/offer`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub subagents: bool,
    /// Whether the gateway continues runs of others, and takes results of their calls that none has
    /// acknowledged: with `tools/result`, before the first `tools/offer`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovers: bool,
}

/// Parameters of `tools/offer`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsOfferParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// The dialect of the tools' names and schemas.
    pub dialect: String,
    /// Folder in which the tools work.
    pub cwd: String,
    /// Operating system and architecture of the host.
    pub system: String,
    /// All tools that the host offers; the list replaces an earlier one.
    #[schemars(length(max = 1000))]
    pub tools: Vec<OfferedTool>,
    /// Instruction files of the workspace, such as `AGENTS.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub instructions: Vec<OfferedInstruction>,
    /// The user's own slash commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub commands: Vec<OfferedCommand>,
    /// Whether the host understands `subagent` in `tools/use`. If false, the session has no
    /// sub-agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub subagents: bool,
    /// Agents that files of the user or the workspace define.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub agents: Vec<OfferedAgent>,
}

/// A tool that a client hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfferedTool {
    /// Name in the dialect: 1 to 64 ASCII letters, digits, `_` or `-`, starting with a letter.
    pub name: String,
    /// Canonical name, of the same form.
    pub canonical: String,
    /// Name for people: one line of at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Description for the model: at most 10,000 characters, none of them invisible.
    pub description: String,
    /// JSON Schema of its input, which is an object.
    pub input_schema: Value,
    /// Category, which clients show as an icon.
    pub kind: ToolKind,
    /// Whether it changes nothing.
    pub read_only: bool,
}

/// A file with instructions for agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferedInstruction {
    /// Path of the file.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// A slash command that the user defined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfferedCommand {
    /// Name, without the slash.
    pub name: String,
    /// Description to show to the user.
    pub description: String,
    /// Text that shows the user which arguments it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// The prompt that it expands to.
    pub prompt: String,
}

/// An agent that a file defines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OfferedAgent {
    /// Name: 1 to 64 lower-case ASCII letters, digits, `_` or `-`.
    pub name: String,
    /// When to use it, in one line.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// The file, if it is one of the workspace: then the prompt is quoted below the gateway's own system
    /// prompt and does not replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_file: Option<String>,
    /// Canonical names of the tools it may use, of those that its parent has; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub tools: Option<Vec<String>>,
    /// Name of its model; that of its parent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `ask`, `accept-edits`, `plan` or `auto`; the host applies it if it is stricter than the
    /// parent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether it always works in a git worktree of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
    /// What is wrong with its file. Then it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Payload of `tools/use`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsUseEvent {
    /// Id of the session, as in the result of `tools/attach`.
    pub session_id: String,
    /// Id of the call, which its progress and result repeat.
    pub tool_call_id: String,
    /// Name of the tool, in the dialect of the last offer.
    pub tool_name: String,
    /// Arguments of the call.
    pub input: Value,
    /// A shorter deadline than the tool's own, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The sub-agent of the session that the call is for, if it is for one. It has the rights of the
    /// session or fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<ToolsSubagent>,
}

/// A sub-agent, and what is to be done for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsSubagent {
    /// Id of its session.
    pub session_id: String,
    /// What is to be done.
    #[serde(flatten)]
    pub step: ToolsSubagentStep,
}

/// What is to be done for a sub-agent. For `open` and `close`, name and arguments of the tool are
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum ToolsSubagentStep {
    /// Opens the tools for it. The structured result is a [`SubagentFolder`].
    Open {
        /// Its name, to show with its questions.
        name: String,
        /// Id of the call of the session that started it.
        call: String,
        /// `ask`, `accept-edits`, `plan` or `auto`, if it is to have a mode of its own. It must not be
        /// freer than that of the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// Whether it works in a git worktree of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        worktree: bool,
        /// Id of the session of the sub-agent that started it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opened_by: Option<String>,
    },
    /// Makes the call for it.
    Call,
    /// Ends it. The structured result is what it changed in its worktree, if it has one.
    Close,
}

/// Where a sub-agent works: the structured result when its tools are opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubagentFolder {
    /// The folder, if it is another one than that of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Payload of `tools/cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsCancelEvent {
    /// Id of the session, as in `tools/use`.
    pub session_id: String,
    /// Id of the call, as in `tools/use`.
    pub tool_call_id: String,
}

/// Payload of `tools/displaced`. The client's pending calls fail, and it receives no further ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsDisplacedEvent {
    /// Canonical key of the session.
    pub session_key: String,
    /// Id of the session, as in `tools/use`.
    pub session_id: String,
    /// Name of the new host, to show to users.
    pub host: String,
}

/// Parameters of `tools/progress`. Without `title` and `message` it only says that the call is still
/// under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsProgressParams {
    /// Id of the session, as in `tools/use`.
    #[schemars(length(min = 1))]
    pub session_id: String,
    /// Id of the call, as in `tools/use`.
    #[schemars(length(min = 1))]
    pub tool_call_id: String,
    /// Description of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Category, which clients show as an icon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// Files that the call uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub locations: Vec<FileLocation>,
    /// Progress or output so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How much is done, from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    pub percentage: Option<u8>,
}

/// Parameters of `tools/result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsResultParams {
    /// Id of the session, as in `tools/use`.
    #[schemars(length(min = 1))]
    pub session_id: String,
    /// Id of the call, as in `tools/use`.
    #[schemars(length(min = 1))]
    pub tool_call_id: String,
    /// The whole result or error. It takes precedence over the fields below, which are for hosts
    /// that cannot send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<ToolOutcome>>,
    /// The result for the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub content: Vec<ToolContent>,
    /// Whether the call failed.
    pub is_error: bool,
    /// How the call ended, if that is more specific than `isError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolCallStatus>,
    /// Description of the call, if no `tools/progress` was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Category of the call; goes with `title`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// The result for the user, such as a diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<ResultDisplay>,
    /// Files that the call used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub locations: Vec<FileLocation>,
    /// The plan of the session, if the call changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10000))]
    pub plan: Option<Vec<PlanEntry>>,
}

/// One part of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ToolContent {
    /// Text for the model.
    Text {
        /// The text, in UTF-8.
        text: String,
    },
    /// An image for the model.
    Image {
        /// The bytes, as base64.
        data: String,
        /// Media type, such as `image/png`.
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
