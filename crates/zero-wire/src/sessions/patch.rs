//! [`SessionsPatchParams`], the changes that `sessions.patch` makes to a session, and the scope
//! that they need.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::method::TokenScope;

/// Declares [`SessionsPatchParams`] from two lists of fields: those that a token with the scope
/// `write` may change, and those that need `admin`.
macro_rules! patch_params {
    (write: { $($write:ident: $write_type:ty,)* } admin: { $($admin:ident: $admin_type:ty,)* }) => {
        /// Parameters of `sessions.patch`: an absent field stays as it is, `null` clears it.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        #[expect(missing_docs, reason = "OpenClaw's names; the gateway documents what they do in zero")]
        pub struct SessionsPatchParams {
            #[schemars(length(min = 1, max = 512))]
            pub key: String,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub agent_id: Option<String>,
            $(
                #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
                pub $write: Option<$write_type>,
            )*
            $(
                #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
                pub $admin: Option<$admin_type>,
            )*
        }

        impl SessionsPatchParams {
            /// Returns the scope that this change needs.
            pub fn required_scope(&self) -> TokenScope {
                if [$(self.$admin.is_some()),*].contains(&true) {
                    TokenScope::Admin
                } else {
                    TokenScope::Write
                }
            }
        }
    };
}

patch_params! {
    write: {
        label: Option<String>,
        model: Option<String>,
        thinking_level: Option<String>,
        fast_mode: Value,
    }
    admin: {
        verbose_level: Option<String>,
        trace_level: Option<String>,
        reasoning_level: Option<String>,
        response_usage: Option<String>,
        elevated_level: Option<String>,
        expected_session_id: Value,
        expected_lifecycle_revision: Value,
        expected_permission_mode: Value,
        expected_tool_overrides: Value,
        expected_marked_unread_at: Value,
        icon: Value,
        color: Value,
        category: Value,
        board_face: Value,
        status_note: Value,
        attention: Value,
        ttl_minutes: Value,
        archived: Value,
        pinned: Value,
        unread: Value,
        context_window: Value,
        tool_overrides: Value,
        exec_host: Value,
        exec_security: Value,
        exec_ask: Value,
        exec_node: Value,
        permission_mode: Value,
        completion_owner_session_key: Value,
        inherited_tool_policy_version: Value,
        inherited_tool_allow: Value,
        inherited_tool_deny: Value,
        send_policy: Value,
        group_activation: Value,
    }
}

/// Distinguishes a field that is `null` from an absent one.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
