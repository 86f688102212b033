//! The values that apply where no file sets a key.

use zero_core::HostLimits;
use zero_policy::PermissionMode;

use crate::mcp_servers::TOOL_SCHEMA_BUDGET;
use crate::{files, sandbox, secrets, settings_schema};

/// The default of a key as a user would write it; `None` if there is none, so that what it is about
/// is off or absent. `limits` are those in effect: their profile and the machine decide about those that
/// nobody set.
pub fn default_value(key: &str, limits: &HostLimits) -> Option<String> {
    if let Some(limit) = key.strip_prefix("limits.") {
        return limits.format_value(limit);
    }
    if settings_schema::is_list(key) {
        return Some("[]".to_owned());
    }
    let value = match key {
        "permissions.mode" => PermissionMode::default().as_str(),
        secrets::MASK_KEY | secrets::REMEMBER_KEY => "true",
        files::BACKUP_KEY => "false",
        "bash.on-timeout" => "kill",
        sandbox::OUTSIDE_KEY => "ask",
        "mcp.toolSchemaBudget" => return Some(TOOL_SCHEMA_BUDGET.to_string()),
        "agent" => "main",
        "acp.overlap" => "queue",
        "acp.onExit" => "abort",
        "gateway.port" => "18789",
        "gateway.bind" => "127.0.0.1",
        "gateway.allowPlaintext" | "gateway.remote.allowPlaintext" => "false",
        "gateway.allowedOrigins" | "gateway.allowedHosts" => "[]",
        "gateway.maxSessions" => "10000",
        "gateway.maxSessionBytes" => "1073741824",
        "gateway.maxOwnerBytes" => "68719476736",
        "gateway.toolHostTimeoutSeconds" => "900",
        _ => return None,
    };
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_default_that_can_be_set() {
        for known in settings_schema::known_keys() {
            let Some(limit) = known.key.strip_prefix("limits.") else { continue };
            let mut limits = HostLimits::default();
            let value = default_value(known.key, &limits).unwrap_or_else(|| panic!("{limit}"));
            limits.set(limit, &value).unwrap_or_else(|error| panic!("{limit} {value}: {error}"));
            assert_eq!(limits.format_value(limit), Some(value), "{limit}");
        }
    }
}
