//! [`SessionsPatchParams`], the changes that `sessions.patch` makes to a session, and the scope
//! that they need.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::method::TokenScope;

/// Parameters of `sessions.patch`: an absent field stays as it is, `null` clears it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "OpenClaw's names; the gateway documents what they do in zero")]
pub struct SessionsPatchParams {
    #[schemars(length(min = 1, max = 512))]
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub label: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub fast_mode: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub verbose_level: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub trace_level: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub reasoning_level: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub response_usage: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub elevated_level: Option<Option<String>>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub expected_session_id: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub expected_lifecycle_revision: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub expected_permission_mode: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub expected_tool_overrides: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub expected_marked_unread_at: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub icon: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub color: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub category: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub board_face: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub status_note: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub attention: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub ttl_minutes: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub archived: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub unread: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub context_window: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub tool_overrides: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub exec_host: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub exec_security: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub exec_ask: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub exec_node: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub completion_owner_session_key: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub inherited_tool_policy_version: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub inherited_tool_allow: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub inherited_tool_deny: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub send_policy: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub group_activation: Option<Value>,
}

impl SessionsPatchParams {
    /// Returns the scope that this change needs: `Write` for label, model, thinking level and fast
    /// mode, `Admin` for every other field.
    pub fn required_scope(&self) -> TokenScope {
        let Self {
            key: _,
            agent_id: _,
            label: _,
            model: _,
            thinking_level: _,
            fast_mode: _,
            verbose_level,
            trace_level,
            reasoning_level,
            response_usage,
            elevated_level,
            expected_session_id,
            expected_lifecycle_revision,
            expected_permission_mode,
            expected_tool_overrides,
            expected_marked_unread_at,
            icon,
            color,
            category,
            board_face,
            status_note,
            attention,
            ttl_minutes,
            archived,
            pinned,
            unread,
            context_window,
            tool_overrides,
            exec_host,
            exec_security,
            exec_ask,
            exec_node,
            permission_mode,
            completion_owner_session_key,
            inherited_tool_policy_version,
            inherited_tool_allow,
            inherited_tool_deny,
            send_policy,
            group_activation,
        } = self;
        let texts = [verbose_level, trace_level, reasoning_level, response_usage, elevated_level];
        let values = [
            expected_session_id,
            expected_lifecycle_revision,
            expected_permission_mode,
            expected_tool_overrides,
            expected_marked_unread_at,
            icon,
            color,
            category,
            board_face,
            status_note,
            attention,
            ttl_minutes,
            archived,
            pinned,
            unread,
            context_window,
            tool_overrides,
            exec_host,
            exec_security,
            exec_ask,
            exec_node,
            permission_mode,
            completion_owner_session_key,
            inherited_tool_policy_version,
            inherited_tool_allow,
            inherited_tool_deny,
            send_policy,
            group_activation,
        ];
        let more =
            texts.iter().any(|text| text.is_some()) || values.iter().any(|value| value.is_some());
        if more { TokenScope::Admin } else { TokenScope::Write }
    }
}

/// Distinguishes a field that is `null` from an absent one.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
