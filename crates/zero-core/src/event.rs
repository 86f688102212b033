//! The events of a session, in the order in which clients get them: the entries of its ledger.
//!
//! An event is stored before it is delivered, so a later client can get the same events in the same
//! order. Events are zero's own data model; each front end translates them into its protocol.

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text_shortening::{excerpt, one_line};
use crate::tool_result::fields_bytes;
use crate::{CallProgress, FileLocation, ResultDisplay, RunId, SessionId, ToolKind, ToolOutcome};

/// One entry of a session's ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number in the session's ledger: from 1, without gaps, also across resets.
    pub seq: u64,
    /// The run it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Time, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// What happened, with its data.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The user sent a prompt. A run starts, or waits in the queue.
    Prompt {
        /// The text of the prompt.
        text: String,
        /// Images and files sent with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<PromptAttachment>,
    },
    /// The run of the prompt started.
    RunStarted {
        /// Name of the agent.
        agent: String,
        /// Name of the model in the settings, or `direct` if there is none.
        model: String,
        /// The run that started it, if it is one of a sub-agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Box<ParentRun>>,
    },
    /// The next part of the model's reply.
    Text {
        /// Only the new text.
        text: String,
    },
    /// The next part of the model's reasoning.
    Thought {
        /// Only the new text.
        text: String,
    },
    /// The model called a tool. The call may still wait for approval.
    ToolStarted {
        /// Id of the call, the same in all its events.
        call: String,
        /// Name of the tool, as the model wrote it.
        name: String,
        /// One-line description of what the call will do.
        title: String,
        /// Kind of the tool, for an icon.
        kind: ToolKind,
        /// Arguments of the call.
        input: Value,
        /// Files that the call is about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        locations: Vec<FileLocation>,
        /// Whether the call waits for earlier calls of the same reply. An update with `begins`
        /// precedes its execution; without one, it has not run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
        /// Id of the call in the transcript, where the model's provider chooses it; absent in
        /// ledgers of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        transcript_id: Option<String>,
    },
    /// News of a call: it begins, or it has a better title or progress.
    ToolUpdated {
        /// Id of the call.
        call: String,
        /// New one-line description of what the call will do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// New kind of the tool, for an icon.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<ToolKind>,
        /// New files that the call is about; empty if they did not change.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        locations: Vec<FileLocation>,
        /// Progress, as the tool reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<CallProgress>,
        /// Whether a call that waited for others begins now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        begins: bool,
        /// Key of the session of the sub-agent that the call has started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subagent: Option<String>,
    },
    /// A call ended. Sent exactly once for each call that started.
    #[serde(deserialize_with = "deserialize_tool_ended")]
    ToolEnded {
        /// Id of the call.
        call: String,
        /// Summary of the outcome, for clients that need no more.
        status: ToolCallStatus,
        /// The whole result or error.
        outcome: ToolOutcome,
    },
    /// The current plan; replaces an earlier one.
    Plan {
        /// Steps of the plan, in order.
        entries: Vec<PlanEntry>,
    },
    /// The user is asked whether a call may run.
    ApprovalRequested(ApprovalRequest),
    /// An approval request was answered, or can no longer be.
    ApprovalResolved {
        /// Id of the approval request.
        id: String,
        /// The answer: `allow_once`, `allow_always`, `reject_once`, `reject_always`, `reject_tool`,
        /// `expired` or `cancelled`.
        answer: String,
        /// Who or what answered.
        by: String,
    },
    /// A tool, or the agent loop, asks the user a question.
    QuestionAsked(UserQuestion),
    /// A question was answered, or can no longer be.
    QuestionAnswered {
        /// Id of the question.
        id: String,
        /// `accept`, `decline` or `cancel`. The text of the answer is not stored.
        action: String,
    },
    /// Tokens of the run so far, and how full the model's context window is.
    UsageReported {
        /// Tokens and cost of this run.
        run_usage: TokenUsage,
        /// Tokens that the next request would send, if known.
        context_tokens: u64,
        /// Size of the model's context window, in tokens.
        context_window: u64,
    },
    /// A message from zero itself, for example about a retry or a compaction.
    Notice {
        /// Its kind, for programs: `retry`, `compaction`, `loop_guard`, `queued`, …
        topic: String,
        /// The message, for the user.
        text: String,
    },
    /// The transcript was compacted; the model continues from the summary. Earlier events stay in
    /// the ledger.
    Compacted {
        /// The summary.
        summary: String,
        /// Estimated tokens before.
        tokens_before: u64,
        /// Estimated tokens after.
        tokens_after: u64,
        /// What was replaced and what was kept; absent in ledgers of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extent: Option<CompactionExtent>,
    },
    /// The model was rate-limited or unavailable before it had answered anything. Another one answers
    /// for the rest of the run.
    ModelFallback {
        /// Name of the model that failed.
        from: String,
        /// Name of the model that answers from now on.
        to: String,
        /// Why the first one failed.
        reason: String,
    },
    /// The session was reset: a new transcript begins. The old one stays available by its number.
    Reset {
        /// Number of the transcript that ended.
        transcript: u64,
    },
    /// The session was rewound: its files, its conversation or both are as they were before an
    /// earlier entry. If the conversation was, the entries from that one to this are no longer part
    /// of it; they stay in the ledger.
    Rewound {
        /// Id of the rewind, which the recorded changes of files name.
        rewind: String,
        /// Number of the prompt before which the session is; absent if it is before an earlier
        /// rewind, which is thereby taken back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<u64>,
        /// Sequence number of the entry before which the session is.
        before: u64,
        /// What was rewound.
        scope: RewindScope,
        /// Number of files that were restored or removed.
        files: u64,
    },
    /// Mode, model, thinking, agent, label or title changed.
    Changed {
        /// Name of the field: `mode`, `model`, `thinking`, `agent`, `label`, `title`.
        field: String,
        /// The new value, if any.
        value: Option<String>,
    },
    /// The run ended. Sent exactly once for each prompt.
    RunEnded {
        /// How it ended.
        end: RunOutcome,
        /// Tokens and cost of this run.
        usage: TokenUsage,
    },
    /// An entry that this version of zero does not understand, such as one of a newer version. It is
    /// passed on as it is.
    #[serde(untagged)]
    Opaque(OpaqueEvent),
}

/// The fields of an entry that this version of zero does not understand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OpaqueEvent {
    fields: Map<String, Value>,
}

impl OpaqueEvent {
    /// An entry whose stored text cannot be read at all.
    pub fn unreadable(problem: &str) -> Self {
        let text = |text: &str| Value::String(text.to_owned());
        let fields = [("type".to_owned(), text(UNREADABLE)), ("problem".to_owned(), text(problem))];
        Self { fields: fields.into_iter().collect() }
    }

    /// Whether its stored text cannot be read at all.
    pub fn is_unreadable(&self) -> bool {
        self.kind() == UNREADABLE
    }

    /// Whether its stored text cannot be read, or is not what entries of its kind are. A newer
    /// version may have written the latter, too, if it changed that kind.
    pub fn is_damaged(&self) -> bool {
        self.is_unreadable() || KNOWN_KINDS.contains(&self.kind())
    }

    /// What the entry says that it is, or `unreadable`.
    pub fn kind(&self) -> &str {
        self.fields.get("type").and_then(Value::as_str).unwrap_or(UNREADABLE)
    }

    /// One line for the user.
    pub fn describe(&self) -> String {
        let kind = excerpt(self.kind(), KIND_CHARS_MAX);
        match self.fields.get("problem").and_then(Value::as_str) {
            Some(problem) if self.is_unreadable() => {
                format!("an entry is damaged: {}", one_line(problem, PROBLEM_CHARS_MAX))
            }
            _ if self.is_unreadable() => {
                "an entry is damaged: it does not say what it is".to_owned()
            }
            _ if self.is_damaged() => {
                format!("an entry of kind `{kind}` is damaged, or was written by a newer zero")
            }
            _ => format!("an entry of kind `{kind}`, which this version of zero cannot show"),
        }
    }
}

/// The kinds of entries that this version knows.
const KNOWN_KINDS: &[&str] = &[
    "prompt",
    "run_started",
    "text",
    "thought",
    "tool_started",
    "tool_updated",
    "tool_ended",
    "plan",
    "approval_requested",
    "approval_resolved",
    "question_asked",
    "question_answered",
    "usage_reported",
    "notice",
    "compacted",
    "model_fallback",
    "reset",
    "rewound",
    "changed",
    "run_ended",
];
/// Kind of an entry whose stored text cannot be read.
const UNREADABLE: &str = "unreadable";
/// Most characters of the kind of an entry, and of what is wrong with it, that are shown.
const KIND_CHARS_MAX: usize = 64;
const PROBLEM_CHARS_MAX: usize = 200;

/// Reads the end of a call, also in the form of earlier versions, which have the content for the
/// model and the display for the user in place of the outcome.
fn deserialize_tool_ended<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<(String, ToolCallStatus, ToolOutcome), D::Error> {
    #[derive(Deserialize)]
    struct ToolEndedFields {
        call: String,
        status: ToolCallStatus,
        outcome: Option<ToolOutcome>,
        content: Option<Vec<ResultContent>>,
        display: Option<ResultDisplay>,
        #[serde(default)]
        locations: Vec<FileLocation>,
    }
    let ToolEndedFields { call, status, outcome, content, display, locations } =
        ToolEndedFields::deserialize(deserializer)?;
    let outcome = match (outcome, content) {
        (Some(outcome), _) => outcome,
        (None, Some(content)) => ToolOutcome::from_content(status, content, display, locations),
        (None, None) => return Err(D::Error::missing_field("outcome")),
    };
    Ok((call, status, outcome))
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// It returned a result.
    Completed,
    /// It returned an error.
    Failed,
    /// Denied by policy or the user.
    Denied,
    /// The caller stopped it.
    Cancelled,
    /// zero stopped before the outcome was known.
    Interrupted,
}

impl EventKind {
    /// The end of a call, with the status of its outcome.
    pub fn tool_ended(call: impl Into<String>, outcome: ToolOutcome) -> Self {
        Self::ToolEnded { call: call.into(), status: outcome.status(), outcome }
    }

    /// Estimated size: the bytes of its texts and attachments.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } | Self::Thought { text } => text.len(),
            Self::Prompt { text, attachments } => {
                text.len() + attachments.iter().map(|attached| attached.data.len()).sum::<usize>()
            }
            Self::ToolStarted { input, .. } => input.to_string().len(),
            Self::ToolEnded { outcome, .. } => outcome.bytes(),
            Self::ApprovalRequested(request) => {
                request.preview.as_ref().map_or(0, ResultDisplay::bytes)
            }
            Self::Compacted { summary, .. } => summary.len(),
            Self::Opaque(opaque) => fields_bytes(&opaque.fields),
            _ => 0,
        }
    }
}

/// What a compaction replaced by a summary, and what it kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompactionExtent {
    /// Messages that the summary replaces.
    pub messages_replaced: u64,
    /// Results of tools among them.
    pub results_replaced: u64,
    /// Latest prompts of the user that are kept unchanged.
    pub prompts_kept: u64,
    /// Steps of the plan that are kept.
    pub steps_kept: u64,
}

impl CompactionExtent {
    /// One sentence for the user.
    pub fn describe(&self) -> String {
        let count = |number: u64, one: &str| match number {
            1 => format!("1 {one}"),
            _ => format!("{number} {one}s"),
        };
        let mut kept = vec![count(self.prompts_kept, "latest prompt")];
        if self.steps_kept > 0 {
            kept.push(count(self.steps_kept, "step") + " of the plan");
        }
        format!(
            "a summary replaces {}, {} among them; kept: {}",
            count(self.messages_replaced, "message"),
            count(self.results_replaced, "tool result"),
            kept.join(" and ")
        )
    }
}

/// What a compaction did, for the user.
pub fn describe_compaction(
    tokens_before: u64,
    tokens_after: u64,
    extent: Option<CompactionExtent>,
) -> String {
    let extent = extent.map(|extent| format!("; {}", extent.describe())).unwrap_or_default();
    format!(
        "the conversation was compacted: about {tokens_before} tokens before, {tokens_after} now{extent}"
    )
}

/// The message about a model that another one stands in for, for the user.
pub fn describe_fallback(from: &str, to: &str, reason: &str) -> String {
    format!("`{from}` is not available ({reason}); `{to}` answers instead")
}

/// What a rewind takes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RewindScope {
    /// Files and conversation.
    #[default]
    Both,
    /// Only files.
    Files,
    /// Only the conversation.
    Conversation,
}

impl RewindScope {
    /// Whether files are taken back.
    pub fn has_files(self) -> bool {
        self != Self::Conversation
    }

    /// Whether the conversation is taken back.
    pub fn has_conversation(self) -> bool {
        self != Self::Files
    }

    /// One line about a rewind to before a prompt, or to before a rewind.
    pub fn describe_rewind(self, prompt: Option<u64>, files: u64) -> String {
        let files = match (self.has_files(), files) {
            (false, _) => String::new(),
            (true, 1) => ", 1 file".to_owned(),
            (true, count) => format!(", {count} files"),
        };
        let what = self.describe();
        match prompt {
            Some(prompt) => format!("rewound to before prompt {prompt} ({what}{files})"),
            None => format!("took the last rewind back ({what}{files})"),
        }
    }

    /// What is taken back, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Both => "files and conversation",
            Self::Files => "files",
            Self::Conversation => "conversation",
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The model finished its reply.
    Completed,
    /// The output limit was reached, and the reply is cut off.
    MaxTokens,
    /// The limit of model requests of a run was reached.
    MaxTurns {
        /// Number of requests.
        turns: u32,
    },
    /// A budget is used up. What the run had done is kept.
    Budget {
        /// What was used up and how to go on.
        message: String,
    },
    /// The model or its provider refused to answer.
    Refused {
        /// The reason that the provider gives.
        message: String,
    },
    /// The run was stopped.
    Aborted {
        /// Who or what: `rpc`, `shutdown`, `loop_guard`, …
        by: String,
    },
    /// The run failed.
    Failed {
        /// Stable word: `auth`, `rate_limit`, `context_length`, `network`, `timeout`, `server`,
        /// `invalid_request`, `output_schema`, `store`, `tool_host`, `session_full`, `internal`.
        kind: String,
        /// What happened and what to do next.
        message: String,
    },
    /// zero was killed during the run; recorded at the next start.
    Interrupted,
}

impl RunOutcome {
    /// Whether the run failed: not if it was stopped, or reached a limit.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Failed { .. } | Self::Interrupted)
    }

    /// Which limit ended the run, what was used and how to go on, for clients that show nothing else
    /// of it; `None` if no limit did.
    pub fn describe_limit(&self) -> Option<String> {
        match self {
            Self::MaxTokens => Some(
                "the model's output limit is reached, and the reply is cut off; to go on, send \"continue\""
                    .to_owned(),
            ),
            Self::MaxTurns { turns } => Some(format!(
                "the run reached its limit of {turns} model requests; to go on, send \"continue\", or raise `maxTurns` of the agent"
            )),
            Self::Budget { message } => Some(message.clone()),
            Self::Completed
            | Self::Refused { .. }
            | Self::Aborted { .. }
            | Self::Failed { .. }
            | Self::Interrupted => None,
        }
    }
}

/// An image or file sent with a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptAttachment {
    /// Media type.
    pub mime: String,
    /// The bytes, in base64.
    pub data: String,
    /// Name of the file, if it comes from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanEntry {
    /// Description of the step.
    pub content: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

/// What an approval request is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalSubject {
    /// Whether the call may run.
    #[default]
    Call,
    /// Whether the call's command, which runs, may connect to a host that nobody judged. Only a user
    /// answers this: whoever approves calls without asking does not approve it.
    Connection,
    /// Whether a call of a sub-agent may run.
    SubagentCall,
}

/// Which sub-agent asks a question, and for which of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOrigin {
    /// The sub-agents from the one that the session itself started to the one that asks.
    pub path: Vec<SubagentStep>,
    /// The call of the last one that waits for the answer; empty if the question is not about a call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
}

/// A sub-agent in the path to the one that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubagentStep {
    /// The call of its parent that started it.
    pub task: String,
    /// Id of its session.
    pub session: String,
}

impl QuestionOrigin {
    /// Whether this session asks, or a sub-agent below it.
    pub fn passes(&self, session: &str) -> bool {
        self.path.iter().any(|step| step.session == session)
    }

    /// Id of the session of the sub-agent that asks.
    pub fn session(&self) -> &str {
        self.path.last().map_or("", |step| &step.session)
    }
}

impl ApprovalSubject {
    /// Whether it is about a call.
    pub fn is_call(&self) -> bool {
        *self == Self::Call
    }
}

/// A question to the user whether a call may run, or whether its command may connect to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// Id of the approval request.
    pub id: String,
    /// `call`, or `connection` if the command that runs needs approval for a host; `call` when
    /// absent.
    #[serde(default, skip_serializing_if = "ApprovalSubject::is_call")]
    pub subject: ApprovalSubject,
    /// Id of the call, as in its other events.
    pub call: String,
    /// Canonical name of the tool.
    pub tool: String,
    /// One-line description of what the call will do.
    pub title: String,
    /// Why approval is needed.
    pub reason: String,
    /// `low`, `medium`, `high` or `critical`.
    pub risk: String,
    /// The commands that the call would run, as they would run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The effects of the call, each with its verdict.
    pub effects: Vec<ApprovalEffect>,
    /// The change to a file that the call would make, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<ResultDisplay>,
    /// The arguments that would be used, if hooks changed those of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<Value>>,
    /// The possible answers, each with its scope.
    pub options: Vec<ApprovalOption>,
    /// Working folder of the call.
    pub cwd: String,
    /// When the request expires, in milliseconds since the Unix epoch.
    pub expires_ms: i64,
    /// The sub-agent that asks; `call` is then the call that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<Box<QuestionOrigin>>,
}

/// One effect of a call: a file, command or host that it would use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalEffect {
    /// `read`, `write`, `exec`, …
    pub kind: String,
    /// The path, command or host.
    pub target: String,
    /// `allow`, `ask` or `deny`.
    pub verdict: String,
    /// Why the verdict is so.
    pub reason: String,
    /// `call`, or `configuration` if only files of the project or the user name the host, such as the
    /// registries of a package manager; `call` when absent.
    #[serde(default, skip_serializing_if = "EffectOrigin::is_call")]
    pub origin: EffectOrigin,
}

/// What names the object of an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectOrigin {
    /// The call itself.
    #[default]
    Call,
    /// Only configuration files. The project may have chosen it, so only a user who sees it approves
    /// it: whoever approves calls without asking does not.
    Configuration,
}

impl EffectOrigin {
    /// Whether the call itself names the object.
    pub fn is_call(&self) -> bool {
        *self == Self::Call
    }
}

/// One possible answer to an approval request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalOption {
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always` or `reject_tool`.
    pub id: String,
    /// Label for a button or a menu line.
    pub name: String,
}

/// A question to the user other than whether a call may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserQuestion {
    /// Id of the question.
    pub id: String,
    /// Who asks. zero sets it, not the asker.
    pub origin: String,
    /// Text of the question.
    pub message: String,
    /// JSON Schema of the form: an object whose fields are not nested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A web page to open instead of a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The sub-agent that asks, if it asks itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent: Option<Box<QuestionOrigin>>,
}

/// One part of a tool's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultContent {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Media type.
        mime: String,
        /// The image data, in base64.
        data: String,
    },
}

/// The run that started a sub-agent's run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentRun {
    /// Id of the session of the run that made the call.
    pub session: SessionId,
    /// Key of that session.
    pub session_key: String,
    /// The run that made the call.
    pub run: RunId,
    /// Id of the call.
    pub call: String,
    /// The run of the user's prompt, to whose budgets everything counts.
    pub root: RootRun,
}

/// The run of a user's prompt, under which sub-agents work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RootRun {
    /// Id of its session.
    pub session: SessionId,
    /// Id of the run.
    pub run: RunId,
    /// Its agent.
    pub agent: String,
}

/// What a run used: tokens, their cost, requests, calls and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Cost in US dollars, if the prices of the model are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Requests to the model, including those for summaries and those that were tried again.
    #[serde(default)]
    pub requests: u64,
    /// Calls of tools.
    #[serde(default)]
    pub tool_calls: u64,
    /// Time in milliseconds, without the time in which a gateway waited for answers of its clients.
    #[serde(default)]
    pub work_ms: u64,
    /// Calls of tools that failed; not those that were denied or cancelled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_calls: u64,
    /// Time of all calls together, in milliseconds, counted like `work_ms`; calls that ran side by side
    /// count each.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub call_ms: u64,
    /// Runs that failed: 0 or 1 for a run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed_runs: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl TokenUsage {
    /// What was used after `earlier`, which is part of it.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(earlier.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(earlier.cache_write_tokens),
            cost_usd: match (self.cost_usd, earlier.cost_usd) {
                // Nothing with a price was added.
                (Some(whole), Some(earlier)) if whole <= earlier => None,
                (whole, earlier) => whole.map(|whole| whole - earlier.unwrap_or(0.0)),
            },
            requests: self.requests.saturating_sub(earlier.requests),
            tool_calls: self.tool_calls.saturating_sub(earlier.tool_calls),
            work_ms: self.work_ms.saturating_sub(earlier.work_ms),
            failed_calls: self.failed_calls.saturating_sub(earlier.failed_calls),
            call_ms: self.call_ms.saturating_sub(earlier.call_ms),
            failed_runs: self.failed_runs.saturating_sub(earlier.failed_runs),
        }
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.requests = self.requests.saturating_add(other.requests);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.work_ms = self.work_ms.saturating_add(other.work_ms);
        self.failed_calls = self.failed_calls.saturating_add(other.failed_calls);
        self.call_ms = self.call_ms.saturating_add(other.call_ms);
        self.failed_runs = self.failed_runs.saturating_add(other.failed_runs);
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ToolResult;

    #[test]
    fn end_of_call_is_read_in_both_forms() {
        let mut written = json!({
            "seq": 1, "time_ms": 0, "type": "tool_ended", "call": "c", "status": "completed",
            "content": [{"type": "text", "text": "a"}],
            "locations": [{"path": "/a"}],
        });
        let old: Event = serde_json::from_value(written.clone()).unwrap();
        let locations = vec![FileLocation { path: "/a".into(), line: None }];
        let result = ToolResult { locations, ..ToolResult::text("a") };
        assert_eq!(old.kind, EventKind::tool_ended("c", result.into()));
        let new = serde_json::to_string(&old).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&new).unwrap(), old);
        // Without either, it is carried as it is.
        written.as_object_mut().unwrap().remove("content");
        let opaque: Event = serde_json::from_value(written.clone()).unwrap();
        assert!(matches!(&opaque.kind, EventKind::Opaque(event) if event.kind() == "tool_ended"));
        assert_eq!(serde_json::to_value(&opaque).unwrap(), written);
    }

    #[test]
    fn known_kinds_are_all_kinds() {
        let schema = serde_json::to_value(schemars::schema_for!(EventKind)).unwrap();
        let kinds = schema.pointer("/oneOf").or(schema.pointer("/anyOf")).unwrap();
        let kinds = kinds.as_array().unwrap().iter();
        let mut kinds: Vec<&str> = kinds
            .filter_map(|kind| kind.pointer("/properties/type/const").and_then(Value::as_str))
            .collect();
        kinds.sort_unstable();
        let mut known = KNOWN_KINDS.to_vec();
        known.sort_unstable();
        assert_eq!(known, kinds);
    }

    #[test]
    fn entry_of_known_kind_that_cannot_be_read_is_damaged() {
        #[track_caller]
        fn check(entry: Value, is_damaged: bool) {
            let EventKind::Opaque(opaque) = serde_json::from_value(entry).unwrap() else {
                panic!()
            };
            assert_eq!(opaque.is_damaged(), is_damaged, "{opaque:?}");
            assert_eq!(opaque.describe().contains("damaged"), is_damaged);
        }
        check(json!({"type": "text"}), true);
        check(json!({"type": "run_ended", "end": {"how": "completed"}}), true);
        check(json!({"no": "type"}), true);
        check(json!({"type": "hologram"}), false);
    }

    #[test]
    fn event_of_newer_version_is_carried_unchanged() {
        let written = json!({
            "seq": 7, "run": "r1", "time_ms": 5, "type": "hologram", "beam": {"colour": "green"},
        });
        let event: Event = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((event.seq, event.run.as_ref().map(RunId::as_str)), (7, Some("r1")));
        let EventKind::Opaque(opaque) = &event.kind else { panic!("{event:?}") };
        assert_eq!(
            opaque.describe(),
            "an entry of kind `hologram`, which this version of zero cannot show"
        );
        assert_eq!(serde_json::to_value(&event).unwrap(), written);
        // Known ones are read as before.
        let known = json!({"seq": 1, "time_ms": 0, "type": "text", "text": "a"});
        let known: Event = serde_json::from_value(known).unwrap();
        assert_eq!(known.kind, EventKind::Text { text: "a".to_owned() });
        let damaged = OpaqueEvent::unreadable("not JSON\nat all");
        assert_eq!(damaged.describe(), "an entry is damaged: not JSON at all");
    }
}
