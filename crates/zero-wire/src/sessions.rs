//! Sessions, as the family's protocol has them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::ChatMessage;
use crate::methods;

mod patch;

pub use self::patch::SessionsPatchParams;

methods! {
    /// Sessions that fit, newest first.
    SessionsList "sessions.list" Read SessionsListParams => SessionsListResult;
    /// Which session a key, id or label means.
    SessionsResolve "sessions.resolve" Read SessionsResolveParams => SessionsResolveResult;
    /// The messages of a session.
    SessionsGet "sessions.get" Read SessionsGetParams => SessionsGetResult;
    /// Begins a new transcript.
    SessionsReset "sessions.reset" Write SessionsResetParams => SessionsResetResult;
    /// Changes some of a session.
    SessionsPatch "sessions.patch" Write SessionsPatchParams => SessionsPatchResult;
    /// Removes a session.
    SessionsDelete "sessions.delete" Admin SessionsDeleteParams => SessionsDeleteResult;
    /// The last words of some sessions.
    SessionsPreview "sessions.preview" Read SessionsPreviewParams => SessionsPreviewResult;
}

/// Parameters of `sessions.list`. Those that zero has no use for are taken and mean nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the family's names; zero's meaning is in the gateway")]
pub struct SessionsListParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub active_minutes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_derived_titles: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_last_message: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_global: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_unknown: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_last_interaction: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_by: Option<SessionSortKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured_agents_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub board_face: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_first: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involving_me: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involving_profile_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_people: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<Value>,
}

/// What a list is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum SessionSortKey {
    UpdatedAt,
    LastInteractionAt,
}

/// Some sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsListResult {
    /// When, in milliseconds since 1970.
    pub ts: i64,
    /// How many these are.
    pub count: u64,
    /// How many fit in all.
    pub total_count: u64,
    /// Whether there are more.
    pub has_more: bool,
    /// Where they begin.
    pub next_offset: Option<u64>,
    /// What holds for sessions that say nothing else.
    pub defaults: SessionListDefaults,
    /// The sessions.
    pub sessions: Vec<SessionRow>,
}

/// What holds for sessions that say nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionListDefaults {
    /// The model.
    pub model: Option<String>,
    /// Tokens it can take.
    pub context_tokens: Option<u64>,
}

/// A session as clients see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// Its key.
    pub key: String,
    /// `direct`.
    pub kind: String,
    /// Its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its label, or its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_title: Option<String>,
    /// When something last happened in it, in milliseconds since 1970.
    pub updated_at: i64,
    /// How much its model should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    /// What can be chosen for that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thinking_levels: Vec<ThinkingLevel>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens that the next request would send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Whether that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens_fresh: Option<bool>,
    /// Tokens its model can take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The folder it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_cwd: Option<String>,
    /// Tokens read so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

/// A choice of how much to think.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThinkingLevel {
    /// What it is chosen by.
    pub id: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Parameters of `sessions.resolve`: one of `key`, `sessionId`, `label`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the family's names; zero's meaning is in the gateway")]
pub struct SessionsResolveParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_global: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_unknown: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_missing: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug_hint: Option<String>,
}

/// Which session was meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsResolveResult {
    /// Whether there is one.
    pub ok: bool,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// Parameters of `sessions.get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsGetParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// At most so many messages, the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// The agent, where the key names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The messages of a session, oldest first; none for one that is not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsGetResult {
    /// The messages.
    pub messages: Vec<ChatMessage>,
}

/// Parameters of `sessions.reset`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsResetParams {
    /// The session; it is made if it is not there.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ResetReason>,
    /// The agent, where the key names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// Why a session is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ResetReason {
    New,
    Reset,
}

/// The session as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsResetResult {
    /// True.
    pub ok: bool,
    /// Its key.
    pub key: String,
    /// The session.
    pub entry: SessionEntry,
}

/// A session as `reset` and `patch` give it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEntry {
    /// Names its present transcript.
    pub session_id: String,
    /// When something last happened in it, in milliseconds since 1970.
    pub updated_at: i64,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much its model should think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
}

/// The session as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsPatchResult {
    /// True.
    pub ok: bool,
    /// Its key.
    pub key: String,
    /// The session.
    pub entry: SessionEntry,
    /// What holds now.
    pub resolved: SessionListDefaults,
}

/// Parameters of `sessions.delete`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsDeleteParams {
    /// The session.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// Whether its transcripts go too; with zero they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_transcript: Option<bool>,
    /// Only if this is still its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_session_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_lifecycle_revision: Option<String>,
    /// Only if nothing happened in it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_session_updated_at: Option<f64>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emit_lifecycle_hooks: Option<bool>,
    /// Only if it is archived; zero archives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_only: Option<bool>,
    /// The agent, where the key names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// What was removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsDeleteResult {
    /// True.
    pub ok: bool,
    /// The key.
    pub key: String,
    /// Whether there was a session.
    pub deleted: bool,
    /// Files that were kept: none.
    #[serde(default)]
    pub archived: Vec<String>,
}

/// Parameters of `sessions.preview`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsPreviewParams {
    /// The sessions.
    #[schemars(length(min = 1, max = 1000))]
    pub keys: Vec<String>,
    /// At most so many messages of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// At most so many characters of each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 20))]
    pub max_chars: Option<u64>,
}

/// The last words of some sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsPreviewResult {
    /// When, in milliseconds since 1970.
    pub ts: i64,
    /// One for each key.
    pub previews: Vec<SessionPreview>,
}

/// The last words of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPreview {
    /// The session.
    pub key: String,
    /// `ok`, `empty` or `missing`.
    pub status: String,
    /// The words.
    pub items: Vec<PreviewItem>,
}

/// One message, shortened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreviewItem {
    /// Who.
    pub role: String,
    /// What.
    pub text: String,
}
