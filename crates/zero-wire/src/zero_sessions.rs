//! zero's own methods for sessions, `zero.…`: sessions with a folder, replay of the ledger, and
//! approvals and questions with all their details.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zero_core::ContextBreakdown;
use zero_core::event::{ApprovalRequest, Event, RewindScope, TokenUsage, UserQuestion};

use crate::approvals::Acknowledgement;
use crate::client::GatewayClientError;
use crate::methods;

/// Highest sequence number that a ledger can have.
const SEQ_MAX: u64 = i64::MAX as u64;

/// The extensions that zero's gateway announces in `features.capabilities`.
pub const CAPABILITIES: [&str; 8] = [
    "zero.sessions",
    "zero.cwd",
    "zero.replay",
    "zero.approvals",
    "zero.questions",
    "zero.tools",
    "zero.devices",
    "zero.machine",
];
/// Capability in `caps` of a client that wants [`SESSION_EVENT`] instead of `chat` and `agent`
/// events.
pub const CAP_EVENTS: &str = "zero-events";
/// Event with a new entry of a session's ledger.
pub const SESSION_EVENT: &str = "zero.session.event";
/// Event that tells a client with [`CAP_EVENTS`] that the end of a run cannot be recorded.
pub const RUN_UNRECORDED: &str = "zero.run.unrecorded";

methods! {
    /// Opens a session: finds or creates it, applies the given settings, and subscribes to its
    /// events.
    ZeroSessionsOpen "zero.sessions.open" Write SessionOpenParams => SessionInfo;
    /// Returns a session.
    ZeroSessionsShow "zero.sessions.show" Read SessionKeyParams => SessionInfo;
    /// Lists sessions, newest first.
    ZeroSessionsList "zero.sessions.list" Read ZeroSessionsListParams => ZeroSessionsListResult;
    /// Subscribes to the events of a session.
    ZeroSessionsSubscribe "zero.sessions.subscribe" Read SessionKeyParams => SessionSubscribeResult;
    /// Ends the subscription to the events of a session, and with it the hosting of its tools.
    ZeroSessionsUnsubscribe "zero.sessions.unsubscribe" Read SessionKeyParams => Acknowledgement;
    /// Returns ledger entries after a sequence number, exactly as they were sent as events.
    ZeroSessionsEvents "zero.sessions.events" Read SessionEventsParams => SessionEventsResult;
    /// Changes mode, model, thinking, agent, label or title of a session.
    ZeroSessionsSet "zero.sessions.set" Write SessionSetParams => SessionInfo;
    /// Creates a copy of a session, with its transcript and its ledger since the last reset, under
    /// another key. With the number of a prompt, the copy is as the session was before it.
    ZeroSessionsFork "zero.sessions.fork" Write SessionForkParams => SessionInfo;
    /// Lists the prompts of a session, each of which is a checkpoint, oldest first.
    ZeroSessionsPrompts "zero.sessions.prompts" Read SessionPromptsParams => SessionPromptsResult;
    /// Explains what fills the context window of the session's model, in tokens.
    ZeroSessionsContext "zero.sessions.context" Read SessionKeyParams => ContextBreakdown;
    /// Takes files, conversation or both back to before a prompt, or takes a rewind back. Refused
    /// while a run is active. If another program changed the files since, nothing is touched.
    ZeroSessionsRewind "zero.sessions.rewind" Write SessionRewindParams => SessionRewindResult;
    /// Returns the values that can be chosen: agents, models, modes, commands.
    ZeroSessionsChoices "zero.sessions.choices" Read SessionChoicesParams => SessionChoicesResult;
    /// Lists pending approvals, with diffs and the exact grant of each answer, and pending
    /// questions.
    ZeroApprovalsList "zero.approvals.list" Approvals ApprovalsListParams => ApprovalsListResult;
    /// Answers an approval.
    ZeroApprovalsResolve "zero.approvals.resolve" Approvals ApprovalsResolveParams => Acknowledgement;
    /// Answers a question that is not an approval.
    ZeroQuestionsResolve "zero.questions.resolve" Questions QuestionsResolveParams => Acknowledgement;
    /// Lists what was allowed or rejected for the rest of a session.
    ZeroGrantsList "zero.grants.list" Approvals SessionKeyParams => GrantsListResult;
    /// Revokes what was allowed or rejected for the rest of a session.
    ZeroGrantsRevoke "zero.grants.revoke" Approvals GrantsRevokeParams => GrantsRevokeResult;
}

/// Parameters of `zero.sessions.fork`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionForkParams {
    /// Key of the session to copy, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Key of the copy, which no session has; one like that of the session if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub key: Option<String>,
    /// Number of the prompt before which the copy ends; the whole session is copied if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub prompt: Option<u64>,
}

/// Parameters of `zero.sessions.rewind`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionRewindParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Number of the prompt before which the session is to be; the newest prompt of the conversation
    /// if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub prompt: Option<u64>,
    /// Whether to take back the newest rewind instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// What to take back.
    #[serde(default)]
    pub scope: RewindScope,
    /// Whether to overwrite what another program changed in files since. Needs the scope
    /// `operator.approvals`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// What a rewind did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionRewindResult {
    /// Whether the session was rewound. If not, there are conflicts, and nothing was touched.
    pub rewound: bool,
    /// The session, as it is now.
    pub session: SessionInfo,
    /// Number of the prompt before which it is; null if a rewind was taken back.
    pub prompt: Option<u64>,
    /// First words of that prompt.
    pub prompt_words: Option<String>,
    /// What was, or was to be, taken back.
    pub scope: RewindScope,
    /// Changes of files that were taken back, newest first; only the first of many.
    pub changes: Vec<RewoundChangeInfo>,
    /// Number of all these changes.
    pub change_count: u64,
    /// Number of files that they concern.
    pub file_count: u64,
    /// Files that another program changed since; only the first of many.
    pub conflicts: Vec<RewindConflict>,
    /// Number of all these files.
    pub conflict_count: u64,
    /// Which changes are not recorded and stay, in sentences.
    pub unrecorded: Vec<String>,
}

/// A change of files that a rewind took back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RewoundChangeInfo {
    /// Its number in the journal, as `zero undo --list` shows it.
    pub id: u64,
    /// The tool that made it.
    pub tool: String,
    /// The path of the file, or the command.
    pub subject: String,
    /// `create`, `change`, `remove` or `command`, as the change did it.
    pub action: String,
    /// Number of paths that it changed.
    pub files: u64,
}

/// A file that another program changed since.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RewindConflict {
    /// Its path.
    pub path: String,
    /// `changed`, `deleted`, `created`, `unreadable` or `perhaps changed`.
    pub what: String,
}

/// Parameters of `zero.sessions.prompts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionPromptsParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// How many prompts at most; 1000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
    /// How many of the oldest to leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// One page of what the user sent in a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPromptsResult {
    /// The prompts of this page, oldest first. Requests to rewind are not among them.
    pub prompts: Vec<PromptInfo>,
    /// Number of prompts of the session.
    pub total_count: u64,
    /// Whether there are more.
    pub has_more: bool,
    /// `offset` of the next page; null if this is the last.
    pub next_offset: Option<u64>,
}

/// A prompt of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptInfo {
    /// Its number in the session, from 1.
    pub number: u64,
    /// Sequence number of its ledger entry.
    pub seq: u64,
    /// When it was sent, in milliseconds since 1970.
    pub time_ms: i64,
    /// Its first words, in one line.
    pub words: String,
    /// Whether it is part of the conversation: no rewind has taken it back.
    pub in_effect: bool,
    /// Whether the conversation can be rewound to before it.
    pub has_conversation: bool,
    /// Number of files that the file tools changed for it.
    pub files: u64,
    /// Number of commands that ran for it.
    pub commands: u64,
}

/// Parameters of methods that take only a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionKeyParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
}

/// Parameters of `zero.sessions.open`: one of `sessionKey` and `label`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SessionOpenParams {
    /// Key of the session, in any spelling.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub session_key: Option<String>,
    /// Label of the session, instead of its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Folder in which it works; an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The agent, for keys that contain none (`acp:…`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Model to choose for the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Mode to choose for the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Whether to start a new transcript.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// If true, the request fails unless the session exists.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_existing: bool,
}

/// A session with all its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Canonical key of the session.
    pub session_key: String,
    /// Id of the session, which a reset does not change.
    pub session_id: String,
    /// Label that the user gave it.
    pub label: Option<String>,
    /// Title that describes what it is about.
    pub title: Option<String>,
    /// Name of its agent.
    pub agent: String,
    /// Name of its model; `direct` if it has none.
    pub model: String,
    /// Mode chosen for it. If null, the settings of the machine that runs its tools apply.
    pub mode: Option<String>,
    /// Thinking level chosen for it. If null, that of its agent applies.
    #[serde(default)]
    pub thinking: Option<String>,
    /// Folder in which it works.
    pub cwd: Option<String>,
    /// The client that hosts its tools; null if they run in the gateway.
    pub tool_host: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it last changed, in milliseconds since 1970.
    pub updated_ms: i64,
    /// Number of its current transcript, from 1.
    pub transcript: u64,
    /// Sequence number of the newest entry of its ledger.
    pub last_seq: u64,
    /// Tokens and cost of the whole session.
    pub usage: TokenUsage,
    /// Tokens that the next request would send.
    pub context_tokens: Option<u64>,
    /// Size of its model's context window, in tokens.
    pub context_window: Option<u64>,
    /// Runs that are active or queued.
    pub run_ids: Vec<String>,
    /// Number of its approvals and questions that wait for an answer. Its run may be parked meanwhile.
    #[serde(default)]
    pub open_questions: u64,
    /// Whose it is; only in lists, and only for those who see the sessions of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Parameters of `zero.sessions.list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ZeroSessionsListParams {
    /// Only sessions in this folder; an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Number of sessions to skip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Maximum number of sessions; 100 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// A page of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZeroSessionsListResult {
    /// The sessions of this page, newest first.
    pub sessions: Vec<SessionInfo>,
    /// `offset` of the next page; null if this is the last.
    pub next_offset: Option<u64>,
}

/// Where the events of a subscription start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSubscribeResult {
    /// Canonical key of the session.
    pub session_key: String,
    /// Sequence number of the newest entry of its ledger. Later entries arrive as events.
    pub last_seq: u64,
}

/// Parameters of `zero.sessions.events`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionEventsParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Only entries after this sequence number; 0 for all.
    #[serde(default)]
    pub after: u64,
    /// Maximum number of entries; 1,000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// A page of ledger entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEventsResult {
    /// The entries, oldest first.
    pub events: Vec<Event>,
    /// Whether there are later entries.
    pub has_more: bool,
}

impl SessionEventsResult {
    /// Returns the page if it continues after entry `after`. This guarantees that a client that
    /// reads page after page makes progress and ends.
    pub fn check_follows(self, after: u64) -> Result<Self, GatewayClientError> {
        let numbers = std::iter::once(after).chain(self.events.iter().map(|event| event.seq));
        let moves_on = numbers.is_sorted_by(|before, next| before < next);
        let counts = self.events.last().is_none_or(|last| last.seq <= SEQ_MAX);
        if !moves_on || !counts || (self.has_more && self.events.is_empty()) {
            let what = format!("the ledger does not continue after entry {after}");
            return Err(GatewayClientError::Protocol { what });
        }
        Ok(self)
    }
}

/// Payload of [`SESSION_EVENT`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvent {
    /// Canonical key of the session.
    pub session_key: String,
    /// The new ledger entry.
    pub event: Event,
}

/// Payload of [`RUN_UNRECORDED`]. The ledger has no entry about it, since nothing can be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunUnrecorded {
    /// Canonical key of the session.
    pub session_key: String,
    /// The run, which has ended.
    pub run_id: String,
    /// What happened and what to do.
    pub message: String,
    /// Whether the end will never be recorded, so that no `run_ended` follows.
    pub is_abandoned: bool,
}

/// Parameters of `zero.sessions.set`: an absent field stays as it is, an empty text clears it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionSetParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// Mode to choose for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Model to choose for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Thinking level to choose for the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The agent, for keys that contain none (`acp:…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// New label, by which the session can be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// New title, to show to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Parameters of `zero.sessions.choices`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionChoicesParams {
    /// Session whose commands to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub session_key: Option<String>,
}

/// The values that can be chosen for a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionChoicesResult {
    /// Names of the configured agents.
    pub agents: Vec<String>,
    /// The agent of session keys that contain none.
    pub default_agent: String,
    /// Names of the configured models.
    pub models: Vec<String>,
    /// Those of them that accept no images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text_only_models: Vec<String>,
    /// The model of agents that name none.
    pub default_model: Option<String>,
    /// Names of the modes.
    pub modes: Vec<String>,
    /// Slash commands of the session.
    pub commands: Vec<SlashCommandInfo>,
}

/// A slash command that can start a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SlashCommandInfo {
    /// Name, without the slash.
    pub name: String,
    /// Description to show to the user.
    pub description: String,
    /// Text that shows the user which arguments it takes.
    pub argument_hint: Option<String>,
}

/// Parameters of `zero.approvals.list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalsListParams {
    /// Only approvals of this session; if absent, of all sessions that the client may see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub session_key: Option<String>,
}

/// Pending approvals and questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalsListResult {
    /// Tool calls that wait for approval.
    pub approvals: Vec<PendingApprovalInfo>,
    /// Questions that are not approvals.
    pub questions: Vec<PendingQuestionInfo>,
}

/// A tool call that waits for approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingApprovalInfo {
    /// Canonical key of the session.
    pub session_key: String,
    /// Id of the run that made the call.
    pub run_id: Option<String>,
    /// When it was asked, in milliseconds since 1970; 0 if the gateway does not say.
    #[serde(default)]
    pub created_at_ms: i64,
    /// The call, its effects and the possible answers.
    pub request: ApprovalRequest,
}

/// A pending question that is not an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingQuestionInfo {
    /// Canonical key of the session.
    pub session_key: String,
    /// Id of the run that asks.
    pub run_id: Option<String>,
    /// When it was asked, in milliseconds since 1970; 0 if the gateway does not say.
    #[serde(default)]
    pub created_at_ms: i64,
    /// The question and the form of its answer.
    pub question: UserQuestion,
}

/// Parameters of `zero.approvals.resolve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsResolveParams {
    /// Id of the approval.
    #[schemars(length(min = 1))]
    pub id: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always` or `reject_tool`.
    pub answer: String,
}

/// Parameters of `zero.questions.resolve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionsResolveParams {
    /// Id of the question.
    #[schemars(length(min = 1))]
    pub id: String,
    /// `accept`, `decline` or `cancel`.
    pub action: String,
    /// The values of the form, for `accept`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub content: Map<String, Value>,
}

impl QuestionsResolveParams {
    /// The answer that withdraws the question, if this one accepts it.
    pub fn cancelled_instead(&self) -> Option<Self> {
        let cancel = || Self { action: "cancel".to_owned(), content: Map::new(), ..self.clone() };
        (self.action == "accept").then(cancel)
    }
}

/// What was allowed or rejected for the rest of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantsListResult {
    /// The grants, oldest first.
    pub grants: Vec<GrantInfo>,
}

/// A decision of the user that applies for the rest of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantInfo {
    /// Whether it allows or rejects.
    pub allowed: bool,
    /// The permission rule that it corresponds to.
    pub rule: String,
    /// The folder in which it was given.
    pub folder: Option<String>,
    /// When it was given, in milliseconds since 1970.
    pub time_ms: i64,
    /// Who gave it.
    pub by: String,
}

/// Parameters of `zero.grants.revoke`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantsRevokeParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub session_key: String,
    /// The rule of the grants to revoke, as `zero.grants.list` has it; all grants if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Result of `zero.grants.revoke`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantsRevokeResult {
    /// How many grants were revoked.
    pub revoked: u64,
}

#[cfg(test)]
mod tests {
    use zero_core::event::EventKind;

    use super::*;

    #[track_caller]
    fn check(after: u64, numbers: &[u64], has_more: bool, is_right: bool) {
        let kind = EventKind::Reset { transcript: 1 };
        let event = |seq: &u64| Event { seq: *seq, run: None, time_ms: 0, kind: kind.clone() };
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
