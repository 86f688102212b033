//! The OpenClaw methods for sessions, `sessions.…`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::ChatMessage;
use crate::methods;

mod patch;

pub use self::patch::SessionsPatchParams;

methods! {
    /// Lists sessions, newest first.
    SessionsList "sessions.list" Read SessionsListParams => SessionsListResult;
    /// Finds a session by its key, id or label.
    SessionsResolve "sessions.resolve" Read SessionsResolveParams => SessionsResolveResult;
    /// Returns the messages of a session.
    SessionsGet "sessions.get" Read SessionsGetParams => SessionsGetResult;
    /// Starts a new transcript in a session.
    SessionsReset "sessions.reset" Write SessionsResetParams => SessionsResetResult;
    /// Changes fields of a session.
    SessionsPatch "sessions.patch" Write SessionsPatchParams => SessionsPatchResult;
    /// Deletes a session and its transcripts.
    SessionsDelete "sessions.delete" Admin SessionsDeleteParams => SessionsDeleteResult;
    /// Returns the last messages of several sessions.
    SessionsPreview "sessions.preview" Read SessionsPreviewParams => SessionsPreviewResult;
}

/// Parameters of `sessions.list`. Those without a meaning in zero are accepted and ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "OpenClaw's names; the gateway documents what they do in zero")]
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

/// Time by which a list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum SessionSortKey {
    UpdatedAt,
    LastInteractionAt,
}

/// A page of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsListResult {
    /// When the list was made, in milliseconds since 1970.
    pub ts: i64,
    /// Number of sessions in this page.
    pub count: u64,
    /// Number of sessions that match.
    pub total_count: u64,
    /// Whether more sessions match.
    pub has_more: bool,
    /// `offset` of the next page; null if this is the last.
    pub next_offset: Option<u64>,
    /// Values of sessions for which nothing else was chosen.
    pub defaults: SessionListDefaults,
    /// The sessions of this page, newest first.
    pub sessions: Vec<SessionRow>,
}

/// Values of sessions for which nothing else was chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionListDefaults {
    /// Name of the default model; null if there is none.
    pub model: Option<String>,
    /// Size of its context window, in tokens.
    pub context_tokens: Option<u64>,
}

/// A session as OpenClaw clients see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// Canonical key of the session.
    pub key: String,
    /// Always `direct`.
    pub kind: String,
    /// Id of the session, which a reset does not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Label that the user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Label, or else title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Title that zero derived from its messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived_title: Option<String>,
    /// When it last changed, in milliseconds since 1970.
    pub updated_at: i64,
    /// Thinking level chosen for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    /// Thinking levels that its model supports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thinking_levels: Vec<ThinkingLevel>,
    /// Name of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens that the next request would send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Whether `totalTokens` is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens_fresh: Option<bool>,
    /// Size of its model's context window, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Folder in which it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_cwd: Option<String>,
    /// Input tokens used so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Output tokens used so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
}

/// A thinking level that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThinkingLevel {
    /// Value to send in requests.
    pub id: String,
    /// Name to show to the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Parameters of `sessions.resolve`: one of `key`, `sessionId`, `label`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "OpenClaw's names; the gateway documents what they do in zero")]
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

/// The session that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionsResolveResult {
    /// Whether a session was found.
    pub ok: bool,
    /// Canonical key of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The agent of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// Parameters of `sessions.get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsGetParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// Maximum number of messages; the newest are returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// The agent, if the session key does not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The messages of a session; none if it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsGetResult {
    /// The messages, oldest first.
    pub messages: Vec<ChatMessage>,
}

/// Parameters of `sessions.reset`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsResetParams {
    /// Key of the session, in any spelling. The session is created if it does not exist.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// Why the session is reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ResetReason>,
    /// The agent, if the session key does not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// Why a session is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum ResetReason {
    New,
    Reset,
}

/// The session after the reset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsResetResult {
    /// Always true.
    pub ok: bool,
    /// Canonical key of the session.
    pub key: String,
    /// State of the session.
    pub entry: SessionEntry,
}

/// State of a session in the results of `sessions.reset` and `sessions.patch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEntry {
    /// Id of the session's current transcript; a reset changes it.
    pub session_id: String,
    /// When it last changed, in milliseconds since 1970.
    pub updated_at: i64,
    /// Label that the user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Model chosen for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Thinking level chosen for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
}

/// The session after the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsPatchResult {
    /// Always true.
    pub ok: bool,
    /// Canonical key of the session.
    pub key: String,
    /// State of the session.
    pub entry: SessionEntry,
    /// The model that now applies.
    pub resolved: SessionListDefaults,
}

/// Parameters of `sessions.delete`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsDeleteParams {
    /// Key of the session, in any spelling.
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    /// Whether to delete its transcripts too; zero always does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_transcript: Option<bool>,
    /// If set, the request fails unless this is the id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_session_id: Option<String>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_lifecycle_revision: Option<String>,
    /// If set, the request fails if the session has changed since, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_session_updated_at: Option<f64>,
    /// Not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emit_lifecycle_hooks: Option<bool>,
    /// If true, only an archived session may be deleted; zero has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived_only: Option<bool>,
    /// The agent, if the session key does not contain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The session that was deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsDeleteResult {
    /// Always true.
    pub ok: bool,
    /// Canonical key of the session.
    pub key: String,
    /// Whether the session existed.
    pub deleted: bool,
    /// Files that were kept; always empty.
    #[serde(default)]
    pub archived: Vec<String>,
}

/// Parameters of `sessions.preview`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionsPreviewParams {
    /// Keys of the sessions.
    #[schemars(length(min = 1, max = 1000))]
    pub keys: Vec<String>,
    /// Maximum number of messages of each session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// Maximum number of characters of each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 20))]
    pub max_chars: Option<u64>,
}

/// The last messages of several sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsPreviewResult {
    /// When the previews were made, in milliseconds since 1970.
    pub ts: i64,
    /// One preview for each key.
    pub previews: Vec<SessionPreview>,
}

/// The last messages of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPreview {
    /// Key of the session, as requested.
    pub key: String,
    /// `ok`, `empty` or `missing`.
    pub status: String,
    /// The messages, oldest first.
    pub items: Vec<PreviewItem>,
}

/// A message, shortened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PreviewItem {
    /// `user`, `assistant` or `toolResult`.
    pub role: String,
    /// The text of the message, shortened.
    pub text: String,
}
