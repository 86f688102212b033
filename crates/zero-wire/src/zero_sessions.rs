//! zero's own methods about sessions: a real folder, replay, approvals and questions as they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zero_core::event::{ApprovalRequest, Event, TokenUsage, UserQuestion};

use crate::approvals::Acknowledgement;
use crate::client::GatewayClientError;
use crate::methods;

/// Highest number of an entry; no ledger counts further.
const SEQ_MAX: u64 = i64::MAX as u64;

/// What a gateway announces in `features.capabilities`.
pub const CAPABILITIES: [&str; 6] =
    ["zero.sessions", "zero.cwd", "zero.replay", "zero.approvals", "zero.questions", "zero.tools"];
/// What a client says in `caps` to hear [`SESSION_EVENT`] instead of `chat` and `agent`.
pub const CAP_EVENTS: &str = "zero-events";
/// An entry of a session's ledger; an event.
pub const SESSION_EVENT: &str = "zero.session.event";

methods! {
    /// Opens a session: finds or makes it, and sets what was asked for. Its events come from now on.
    ZeroSessionsOpen "zero.sessions.open" Write SessionOpenParams => SessionInfo;
    /// What is known of a session.
    ZeroSessionsShow "zero.sessions.show" Read SessionKeyParams => SessionInfo;
    /// Sessions that fit, newest first.
    ZeroSessionsList "zero.sessions.list" Read ZeroSessionsListParams => ZeroSessionsListResult;
    /// Hears the events of a session from now on.
    ZeroSessionsSubscribe "zero.sessions.subscribe" Read SessionKeyParams => SessionSubscribeResult;
    /// Hears them no more.
    ZeroSessionsUnsubscribe "zero.sessions.unsubscribe" Read SessionKeyParams => Acknowledgement;
    /// Entries of the ledger after a number: what was shown is what is replayed.
    ZeroSessionsEvents "zero.sessions.events" Read SessionEventsParams => SessionEventsResult;
    /// Changes mode, model, thinking, agent, label or title.
    ZeroSessionsSet "zero.sessions.set" Write SessionSetParams => SessionInfo;
    /// What can be chosen: agents, models, modes, commands.
    ZeroSessionsChoices "zero.sessions.choices" Read SessionChoicesParams => SessionChoicesResult;
    /// The questions that wait, with diffs and the exact grant of each answer.
    ZeroApprovalsList "zero.approvals.list" Approvals ApprovalsListParams => ApprovalsListResult;
    /// Answers one.
    ZeroApprovalsResolve "zero.approvals.resolve" Approvals ApprovalsResolveParams => Acknowledgement;
    /// Answers a question that is no approval.
    ZeroQuestionsResolve "zero.questions.resolve" Questions QuestionsResolveParams => Acknowledgement;
    /// What was allowed or rejected for the rest of a session.
    ZeroGrantsList "zero.grants.list" Approvals SessionKeyParams => GrantsListResult;
}

/// A session, by its key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionKeyParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
}

/// Parameters of `zero.sessions.open`: one of `sessionKey` and `label`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionOpenParams {
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub session_key: Option<String>,
    /// Or its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The folder it works in, absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The agent, for keys that name none (`acp:…`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model chosen for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode chosen for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether to start a new transcript.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// Whether it has to be there already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_existing: bool,
}

/// What is known of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its key, in its one spelling.
    pub session_key: String,
    /// Its id.
    pub session_id: String,
    /// What people call it.
    pub label: Option<String>,
    /// What it is about.
    pub title: Option<String>,
    /// Its agent.
    pub agent: String,
    /// Its model; `direct` where there is none.
    pub model: String,
    /// Its mode; that of the settings where its tools run when null.
    pub mode: Option<String>,
    /// How much its model should think; what its agent says when null.
    #[serde(default)]
    pub thinking: Option<String>,
    /// The folder it works in.
    pub cwd: Option<String>,
    /// The client that hosts its tools; null when they run with the gateway.
    pub tool_host: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When something last happened in it.
    pub updated_ms: i64,
    /// Number of its present transcript, from 1.
    pub transcript: u64,
    /// Number of the newest entry of its ledger.
    pub last_seq: u64,
    /// What it took in all.
    pub usage: TokenUsage,
    /// Tokens that the next request would send.
    pub context_tokens: Option<u64>,
    /// Tokens its model can take.
    pub context_window: Option<u64>,
    /// Runs that are at work or wait.
    pub run_ids: Vec<String>,
}

/// Parameters of `zero.sessions.list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ZeroSessionsListParams {
    /// Of this folder only, absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// After so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// At most so many; a hundred when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// Some sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZeroSessionsListResult {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// Where the next page begins.
    pub next_offset: Option<u64>,
}

/// What a subscriber has to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSubscribeResult {
    /// The session, in its one spelling.
    pub session_key: String,
    /// Number of the newest entry of its ledger; later ones come as events.
    pub last_seq: u64,
}

/// Parameters of `zero.sessions.events`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionEventsParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// After this number; 0 for all.
    #[serde(default)]
    pub after: u64,
    /// At most so many; a thousand when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// Entries of the ledger, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEventsResult {
    /// The entries.
    pub events: Vec<Event>,
    /// Whether there are more.
    pub has_more: bool,
}

impl SessionEventsResult {
    /// The same, if it is what comes after that number: whoever reads page after page moves on with
    /// each, and comes to an end.
    pub fn check_follows(self, after: u64) -> Result<Self, GatewayClientError> {
        let numbers = std::iter::once(after).chain(self.events.iter().map(|event| event.seq));
        let moves_on = numbers.is_sorted_by(|before, next| before < next);
        let counts = self.events.last().is_none_or(|last| last.seq <= SEQ_MAX);
        if !moves_on || !counts || (self.has_more && self.events.is_empty()) {
            let what = format!("its ledger does not go on after entry {after}");
            return Err(GatewayClientError::Protocol { what });
        }
        Ok(self)
    }
}

/// Payload of [`SESSION_EVENT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvent {
    /// The session.
    pub session_key: String,
    /// The entry.
    pub event: Event,
}

/// Parameters of `zero.sessions.set`: what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionSetParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// The mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much the model should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The agent, for keys that name none (`acp:…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Parameters of `zero.sessions.choices`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionChoicesParams {
    /// The session whose commands are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub session_key: Option<String>,
}

/// What can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionChoicesResult {
    /// The agents.
    pub agents: Vec<String>,
    /// The agent of bare keys.
    pub default_agent: String,
    /// The models.
    pub models: Vec<String>,
    /// The model of agents that name none.
    pub default_model: Option<String>,
    /// The modes.
    pub modes: Vec<String>,
    /// The slash commands.
    pub commands: Vec<SlashCommandInfo>,
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlashCommandInfo {
    /// What it is called by, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow it.
    pub argument_hint: Option<String>,
}

/// Parameters of `zero.approvals.list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalsListParams {
    /// Of this session; of all that the client may see when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub session_key: Option<String>,
}

/// The questions that wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalsListResult {
    /// The approvals.
    pub approvals: Vec<PendingApprovalInfo>,
    /// The other questions.
    pub questions: Vec<PendingQuestionInfo>,
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingApprovalInfo {
    /// The session.
    pub session_key: String,
    /// The run.
    pub run_id: Option<String>,
    /// The question.
    pub request: ApprovalRequest,
}

/// A question that waits and is no approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingQuestionInfo {
    /// The session.
    pub session_key: String,
    /// The run.
    pub run_id: Option<String>,
    /// The question.
    pub question: UserQuestion,
}

/// Parameters of `zero.approvals.resolve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsResolveParams {
    /// The question.
    #[schemars(length(min = 1))]
    pub id: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub answer: String,
}

/// Parameters of `zero.questions.resolve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionsResolveParams {
    /// The question.
    #[schemars(length(min = 1))]
    pub id: String,
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The values, for `accept`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub content: Map<String, Value>,
}

/// What was allowed or rejected for the rest of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantsListResult {
    /// The grants, oldest first.
    pub grants: Vec<GrantInfo>,
}

/// Something a person settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantInfo {
    /// Whether it is allowed; rejected otherwise.
    pub allowed: bool,
    /// The rule it amounts to.
    pub rule: String,
    /// The folder it was shown for.
    pub folder: Option<String>,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who said so.
    pub by: String,
}

#[cfg(test)]
mod tests {
    use zero_core::event::EventKind;

    use super::*;

    #[track_caller]
    fn check(after: u64, numbers: &[u64], has_more: bool, is_right: bool) {
        let what = EventKind::Reset { transcript: 1 };
        let event = |seq: &u64| Event { seq: *seq, run: None, time_ms: 0, what: what.clone() };
        let page = SessionEventsResult { events: numbers.iter().map(event).collect(), has_more };
        let followed = page.clone().check_follows(after);
        assert_eq!(followed.is_ok(), is_right, "{numbers:?} after {after}: {followed:?}");
        assert!(!is_right || followed.is_ok_and(|followed| followed == page));
    }

    #[test]
    fn event_pages_must_be_consecutive() {
        check(0, &[1, 2, 3], true, true);
        check(7, &[8, 12], false, true);
        check(7, &[], false, true);
        check(0, &[SEQ_MAX], false, true);
        for has_more in [true, false] {
            check(7, &[7], has_more, false);
            check(7, &[1, 2], has_more, false);
            check(0, &[2, 1], has_more, false);
            check(0, &[1, 1], has_more, false);
            check(0, &[SEQ_MAX + 1], has_more, false);
            check(0, &[u64::MAX], has_more, false);
        }
        check(7, &[], true, false);
    }
}
