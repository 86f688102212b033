//! Parses the session list of a gateway.

use serde_json::Value;
use zero_core::event::TokenUsage;
use zero_wire::zero_sessions::SessionInfo;

use super::translator::LIVE_BASE;

/// The agent of keys that name none, unless the list names another.
const DEFAULT_AGENT: &str = "main";

/// The session of a key; mostly empty if it is not listed.
pub(super) fn find_session(listed: &Value, key: &str) -> SessionInfo {
    let found = parse_sessions(listed)
        .into_iter()
        .find(|session| session.session_key == strip_default_agent(key));
    found.unwrap_or_else(|| SessionInfo {
        session_key: key.to_owned(),
        session_id: key.to_owned(),
        agent: key_agent(key),
        model: string_field(&defaults(listed), "model").unwrap_or_default(),
        context_window: defaults(listed).get("contextTokens").and_then(Value::as_u64),
        last_seq: LIVE_BASE,
        transcript: 1,
        ..SessionInfo::default()
    })
}

/// All listed sessions.
pub(super) fn parse_sessions(listed: &Value) -> Vec<SessionInfo> {
    let rows = listed.get("sessions").and_then(Value::as_array);
    rows.into_iter().flatten().filter_map(|row| parse_session(row, &defaults(listed))).collect()
}

fn parse_session(row: &Value, defaults: &Value) -> Option<SessionInfo> {
    let key = string_field(row, "key")?;
    let number = |name: &str| row.get(name).and_then(Value::as_u64);
    let is_fresh = row.get("totalTokensFresh").and_then(Value::as_bool) == Some(true);
    let updated_ms = row.get("updatedAt").and_then(Value::as_i64).unwrap_or_default();
    let title = string_field(row, "derivedTitle").or_else(|| string_field(row, "displayName"));
    Some(SessionInfo {
        session_id: string_field(row, "sessionId").unwrap_or_else(|| key.clone()),
        label: string_field(row, "label"),
        title,
        agent: key_agent(&key),
        model: string_field(row, "model")
            .or_else(|| string_field(defaults, "model"))
            .unwrap_or_default(),
        mode: None,
        thinking: string_field(row, "thinkingLevel"),
        cwd: string_field(row, "spawnedCwd"),
        tool_host: None,
        created_ms: updated_ms,
        updated_ms,
        transcript: 1,
        last_seq: LIVE_BASE,
        usage: TokenUsage {
            input_tokens: number("inputTokens").unwrap_or_default(),
            output_tokens: number("outputTokens").unwrap_or_default(),
            ..TokenUsage::default()
        },
        context_tokens: number("totalTokens").filter(|_| is_fresh),
        context_window: number("contextTokens")
            .or_else(|| defaults.get("contextTokens").and_then(Value::as_u64)),
        run_ids: Vec::new(),
        open_questions: 0,
        owner: None,
        session_key: strip_default_agent(&key).to_owned(),
    })
}

/// The key without the default agent, which gateways add to the keys of editors.
fn strip_default_agent(key: &str) -> &str {
    let bare = key
        .strip_prefix("agent:")
        .and_then(|rest| rest.strip_prefix(DEFAULT_AGENT)?.strip_prefix(':'));
    let is_editors = |key: &&str| key.starts_with("acp:") || key.starts_with("acp-bridge:");
    bare.filter(is_editors).unwrap_or(key)
}

fn defaults(listed: &Value) -> Value {
    listed.get("defaults").cloned().unwrap_or_default()
}

fn string_field(fields: &Value, key: &str) -> Option<String> {
    fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn key_agent(key: &str) -> String {
    let agent = key.strip_prefix("agent:").and_then(|rest| rest.split_once(':'));
    agent.map_or(DEFAULT_AGENT, |(agent, _)| agent).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn incomplete_session_row_is_parsed() {
        let listed = json!({
            "defaults": {"model": "m", "contextTokens": 1000},
            "sessions": [
                {"key": "agent:qa:acp:1", "kind": "direct", "updatedAt": 7, "derivedTitle": "Bug",
                 "thinkingLevel": "high", "totalTokens": 50, "totalTokensFresh": true,
                 "spawnedCwd": "/w", "inputTokens": 3},
                {"key": "agent:main:acp:3", "label": "three"},
                {"key": "agent:main:main", "updatedAt": null, "totalTokens": 9},
                {"kind": "direct"}, 7,
            ],
        });
        assert_eq!(parse_sessions(&listed).len(), 3);
        for key in ["acp:3", "agent:main:acp:3"] {
            let three = find_session(&listed, key);
            assert_eq!(
                (three.session_key.as_str(), three.label.as_deref()),
                ("acp:3", Some("three"))
            );
        }
        let bug = find_session(&listed, "agent:qa:acp:1");
        assert_eq!((bug.agent.as_str(), bug.title.as_deref()), ("qa", Some("Bug")));
        assert_eq!((bug.model.as_str(), bug.thinking.as_deref()), ("m", Some("high")));
        assert_eq!((bug.context_tokens, bug.context_window), (Some(50), Some(1000)));
        assert_eq!((bug.cwd.as_deref(), bug.updated_ms), (Some("/w"), 7));
        let main = find_session(&listed, "agent:main:main");
        assert_eq!((main.context_tokens, main.updated_ms), (None, 0), "not known to be so");
        let new = find_session(&listed, "acp:2");
        assert_eq!((new.session_key.as_str(), new.agent.as_str()), ("acp:2", "main"));
        assert_eq!((new.model.as_str(), new.context_window), ("m", Some(1000)));
        assert!(parse_sessions(&Value::Null).is_empty());
    }
}
