//! Session keys in the form that OpenClaw-compatible gateways accept.

/// Prefix that some gateways reserve for a purpose other than editor sessions.
const RESERVED_PREFIX: &str = "acp:";
/// Prefix that these gateways leave to bridges.
const BRIDGE_PREFIX: &str = "acp-bridge:";

/// Puts a key under an agent; a key that names an agent is unchanged.
pub(super) fn with_agent(key: &str, agent: Option<&str>) -> String {
    match agent {
        Some(agent) if !key.starts_with("agent:") => format!("agent:{agent}:{key}"),
        _ => key.to_owned(),
    }
}

/// The key to use if an `acp:` key is refused; `None` for other keys.
pub(super) fn to_bridge_key(key: &str) -> Option<String> {
    if let Some(name) = key.strip_prefix(RESERVED_PREFIX) {
        return Some(format!("{BRIDGE_PREFIX}{name}"));
    }
    let (agent, name) = key.strip_prefix("agent:")?.split_once(':')?;
    let name = name.strip_prefix(RESERVED_PREFIX)?;
    Some(format!("agent:{agent}:{BRIDGE_PREFIX}{name}"))
}

/// Whether a refusal is about the prefix of the key.
pub(super) fn is_key_refusal(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("acp") || message.contains("session key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acp_keys_have_bridge_form() {
        let rows = [
            ("acp:1", Some("acp-bridge:1")),
            ("agent:qa:acp:1", Some("agent:qa:acp-bridge:1")),
            ("acp-bridge:1", None),
            ("main", None),
            ("agent:acp:1", None),
            ("agent:main", None),
        ];
        for (key, expected) in rows {
            assert_eq!(to_bridge_key(key).as_deref(), expected, "{key}");
        }
    }

    #[test]
    fn bare_key_is_prefixed_with_agent() {
        assert_eq!(with_agent("acp:1", Some("qa")), "agent:qa:acp:1");
        assert_eq!(with_agent("agent:main:x", Some("qa")), "agent:main:x");
        assert_eq!(with_agent("x", None), "x");
    }
}
