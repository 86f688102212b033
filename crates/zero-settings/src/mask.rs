//! Masks secrets in settings for display: variables, headers and tokens keep only their names.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::gateway::{check_bus, check_store};
use crate::mcp_servers::is_reference;

/// Replaces a hidden value.
const HIDDEN_TEXT: &str = "***";

/// The value of an entry without anything that may be a secret.
pub fn mask<'a>(key: &str, value: &'a Value) -> Cow<'a, Value> {
    match value {
        Value::Object(server)
            if key.starts_with("mcpServers.") || key.starts_with("lspServers.") =>
        {
            let mut server = server.clone();
            hide_server(&mut server);
            Cow::Owned(Value::Object(server))
        }
        Value::Object(fields) if key.starts_with("models.") || key.starts_with("gateway.") => {
            let mut fields = fields.clone();
            fields.get_mut("headers").map(hide_values);
            fields.get_mut("token").map(hide_value);
            Cow::Owned(Value::Object(fields))
        }
        // A wrong address may contain a password.
        Value::String(address) if key == "gateway.store" && check_store(address).is_err() => {
            Cow::Owned(Value::String(HIDDEN_TEXT.to_owned()))
        }
        Value::String(address) if key == "gateway.bus" && check_bus(address).is_err() => {
            Cow::Owned(Value::String(HIDDEN_TEXT.to_owned()))
        }
        _ => Cow::Borrowed(value),
    }
}

/// Whether an entry has a value that must be hidden.
pub fn holds_secret(key: &str, value: &Value) -> bool {
    *mask(key, value) != *value
}

fn hide_server(server: &mut Map<String, Value>) {
    for name in ["env", "headers"] {
        server.get_mut(name).map(hide_values);
    }
    if let Some(Value::Object(command)) = server.get_mut("command") {
        command.get_mut("env").map(hide_values);
    }
    if let Some(Value::Object(oauth)) = server.get_mut("oauth") {
        oauth.get_mut("clientSecret").map(hide_value);
    }
}

/// Hides the values of `{name: value}` and `[{name, value}]`.
fn hide_values(values: &mut Value) {
    match values {
        Value::Object(values) => values.values_mut().for_each(hide_value),
        Value::Array(items) => {
            items.iter_mut().filter_map(|item| item.get_mut("value")).for_each(hide_value);
        }
        _ => {}
    }
}

/// Where a secret is stored is not a secret.
fn hide_value(value: &mut Value) {
    if !value.as_str().is_some_and(is_reference) {
        *value = Value::from(HIDDEN_TEXT);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_masked_and_names_are_not() {
        let server = json!({
            "command": {"path": "x", "env": {"A": "secret"}},
            "args": ["--port", "1"],
            "env": [{"name": "B", "value": "secret"}, {"name": "C", "value": "${C}"}],
            "headers": {"Authorization": "Bearer secret", "X": "${X:-secret}"},
            "oauth": {"clientId": "me", "clientSecret": "secret"},
        });
        let shown = mask("mcpServers.a", &server);
        assert_eq!(
            *shown,
            json!({
                "command": {"path": "x", "env": {"A": "***"}},
                "args": ["--port", "1"],
                "env": [{"name": "B", "value": "***"}, {"name": "C", "value": "${C}"}],
                "headers": {"Authorization": "***", "X": "***"},
                "oauth": {"clientId": "me", "clientSecret": "***"},
            })
        );
        assert!(holds_secret("mcpServers.a", &server));
        assert!(!holds_secret("mcpServers.a", &json!({"env": {"A": "${A}"}})));
        for key in ["models.a", "gateway.remote", "gateway.telemetry"] {
            let shown =
                mask(key, &json!({"url": "u", "token": "t", "headers": {"a": "b"}})).into_owned();
            assert_eq!(shown, json!({"url": "u", "token": "***", "headers": {"a": "***"}}));
        }
        let store = |url: &str| mask("gateway.store", &json!(url)).into_owned();
        assert_eq!(store("postgres://zero@db/zero"), "postgres://zero@db/zero");
        assert_eq!(store("postgres://zero:hunter2@db/zero"), "***");
        let bus = |url: &str| mask("gateway.bus", &json!(url)).into_owned();
        assert_eq!(bus("nats://zero@bus"), "nats://zero@bus");
        assert_eq!(bus("nats://zero:hunter2@bus"), "***");
        assert_eq!(*mask("hooks.env", &json!({"env": {"A": "b"}})), json!({"env": {"A": "b"}}));
    }
}
