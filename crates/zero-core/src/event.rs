//! The events of a session, in the order in which they were shown: the entries of its ledger.
//!
//! An event is stored before it is delivered, so a later client can get the same events in the same
//! order. Events are zero's own data model; each front end translates them into its protocol.

use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{FileLocation, ResultDisplay, RunId, ToolKind, ToolOutcome};

/// One entry of a session's ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its place in the session's ledger: from 1, without gaps, also across resets.
    pub seq: u64,
    /// The run it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Time, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// What.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The person said something, and a run begins or waits for its turn.
    Prompt {
        /// Their words.
        text: String,
        /// What came with them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<PromptAttachment>,
    },
    /// The run works on it.
    RunStarted {
        /// The agent.
        agent: String,
        /// The model, as settings call it; `direct` where there is none.
        model: String,
    },
    /// The model said more.
    Text {
        /// What is new.
        text: String,
    },
    /// The model thought more.
    Thought {
        /// What is new.
        text: String,
    },
    /// The model wants a tool. It may still wait for a person.
    ToolStarted {
        /// Names the call in every event about it.
        call: String,
        /// The tool, as the model called it.
        name: String,
        /// One-line description of its effect.
        title: String,
        /// How to picture it.
        kind: ToolKind,
        /// Its arguments.
        input: Value,
        /// Places it is about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        locations: Vec<FileLocation>,
    },
    /// More is known of a call: a better title, or how far it is.
    ToolUpdated {
        /// The call.
        call: String,
        /// What it will do, in one line, where that is known better now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// How to picture it, where that is known better now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<ToolKind>,
        /// Places it is about, where they are known better now.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        locations: Vec<FileLocation>,
        /// What it says of its progress.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<String>,
    },
    /// A call is over. Comes exactly once for each that started.
    #[serde(deserialize_with = "deserialize_tool_ended")]
    ToolEnded {
        /// The call.
        call: String,
        /// How: what the outcome amounts to, for readers that need no more.
        status: ToolCallStatus,
        /// What became of it, whole.
        outcome: ToolOutcome,
    },
    /// The plan as it is now.
    Plan {
        /// Its steps.
        entries: Vec<PlanEntry>,
    },
    /// A person is asked whether a call may run.
    ApprovalRequested(ApprovalRequest),
    /// They said so, or nobody will.
    ApprovalResolved {
        /// The question.
        id: String,
        /// The answer: `allow_once`, `allow_always`, `reject_once`, `reject_always`, `expired` or
        /// `cancelled`.
        answer: String,
        /// Who.
        by: String,
    },
    /// A person is asked something on behalf of a tool or the loop itself.
    QuestionAsked(UserQuestion),
    /// They answered, or nobody will.
    QuestionAnswered {
        /// The question.
        id: String,
        /// `accept`, `decline` or `cancel`. What they wrote is not kept.
        action: String,
    },
    /// Tokens of the run so far, and how full the model's window is.
    UsageReported {
        /// Of this run.
        run_usage: TokenUsage,
        /// Tokens that the next request would send, if known.
        context_tokens: u64,
        /// Tokens the model can take.
        context_window: u64,
    },
    /// zero has something to say: a retry, a compaction, a guard.
    Notice {
        /// What kind, for programs: `retry`, `compaction`, `loop_guard`, `queued`, …
        topic: String,
        /// What, for people.
        text: String,
    },
    /// The transcript was summed up; the model goes on from the summary. What was shown stays.
    Compacted {
        /// The summary.
        summary: String,
        /// Tokens before, as far as known.
        tokens_before: u64,
        /// Tokens after, as far as known.
        tokens_after: u64,
    },
    /// A new transcript begins; the old one stays reachable by its number.
    Reset {
        /// Number of the transcript that ended.
        transcript: u64,
    },
    /// Mode, model, thinking, agent, label or title changed.
    Changed {
        /// What: `mode`, `model`, `thinking`, `agent`, `label`, `title`.
        field: String,
        /// To what.
        value: Option<String>,
    },
    /// The run is over. Comes exactly once for each prompt.
    RunEnded {
        /// How.
        end: RunOutcome,
        /// Of this run.
        usage: TokenUsage,
    },
}

/// Reads the end of a call, also in the form of earlier versions: what the model was told and what
/// the user saw, in place of the outcome.
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
    /// It gave a result.
    Completed,
    /// It gave an error.
    Failed,
    /// Denied by policy or the user.
    Denied,
    /// It was stopped.
    Cancelled,
    /// zero stopped before it was known what became of it.
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
            _ => 0,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum RunOutcome {
    /// The model had said what it wanted to say.
    Completed,
    /// The model may not write more; what it said is cut.
    MaxTokens,
    /// The model was asked as often as a run may ask it.
    MaxTurns {
        /// How often.
        turns: u32,
    },
    /// The model, or its provider, declined.
    Refused {
        /// What they say.
        message: String,
    },
    /// Somebody stopped it.
    Aborted {
        /// Who or what: `rpc`, `shutdown`, `loop_guard`, …
        by: String,
    },
    /// It could not go on.
    Failed {
        /// Stable word: `auth`, `rate_limit`, `context_length`, `network`, `timeout`, `server`,
        /// `invalid_request`, `store`, `tool_host`, `session_full`, `internal`.
        kind: String,
        /// What happened and what to do next.
        message: String,
    },
    /// zero was killed; settled at the next start.
    Interrupted,
}

/// What came with a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PromptAttachment {
    /// Media type.
    pub mime: String,
    /// The bytes, in base64.
    pub data: String,
    /// Name of the file it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

/// What a person is asked about a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// Names the question.
    pub id: String,
    /// The call, as the model's events name it.
    pub call: String,
    /// The tool, canonically.
    pub tool: String,
    /// What it will do, in one line.
    pub title: String,
    /// Why it is asked.
    pub reason: String,
    /// `low`, `medium`, `high` or `critical`.
    pub risk: String,
    /// The commands it would run, as they would run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// What it would touch, one line each, with the verdict on it.
    pub effects: Vec<ApprovalEffect>,
    /// The change it would make, where there is one to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<ResultDisplay>,
    /// The input as it would run, where hooks made it another than the one that the model wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<Value>>,
    /// The answers that make sense, each with what exactly it settles.
    pub options: Vec<ApprovalOption>,
    /// The folder it would work in.
    pub cwd: String,
    /// When nobody's answer counts any more, in milliseconds since 1970.
    pub expires_ms: i64,
}

/// One thing that a call would touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalEffect {
    /// `read`, `write`, `exec`, …
    pub kind: String,
    /// What.
    pub target: String,
    /// `allow`, `ask` or `deny`.
    pub verdict: String,
    /// Why.
    pub reason: String,
}

/// One answer that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalOption {
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub id: String,
    /// Label for a button or a menu line.
    pub name: String,
}

/// Something a person is asked, other than whether a call may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UserQuestion {
    /// Names the question.
    pub id: String,
    /// Who asks; the asker cannot choose it.
    pub origin: String,
    /// What they say.
    pub message: String,
    /// A JSON Schema of an object of plain fields, for a form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// A page to visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One piece of a tool's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultContent {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    Image {
        /// Media type.
        mime: String,
        /// The image data, in base64.
        data: String,
    },
}

/// Tokens and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    /// Tokens the model read, cached ones included.
    pub input_tokens: u64,
    /// Tokens the model wrote, thoughts included.
    pub output_tokens: u64,
    /// Of the input, read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Of the input, written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// What it cost in US dollars, where the model's prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
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
        let places = vec![FileLocation { path: "/a".into(), line: None }];
        let result = ToolResult { locations: places, ..ToolResult::text("a") };
        assert_eq!(old.what, EventKind::tool_ended("c", result.into()));
        let new = serde_json::to_string(&old).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&new).unwrap(), old);
        written.as_object_mut().unwrap().remove("content");
        assert!(serde_json::from_value::<Event>(written).is_err());
    }
}
