//! Replies to requests that the server sends to the client. Little is granted, and nothing changes
//! a file.

use serde_json::{Value, json};

use super::transport::LspConnectionState;

/// Most settings sections that one request may ask for.
const ITEMS_MAX: usize = 200;
/// JSON-RPC error code for a method that the client does not support.
const METHOD_NOT_FOUND: i64 = -32601;
/// LSP error code for a reply that would be too large.
const REQUEST_FAILED: i64 = -32803;

/// Returns the reply to a request of the server.
pub(super) fn answer_request(
    shared: &LspConnectionState,
    id: &Value,
    method: &str,
    params: &Value,
) -> Value {
    let result = match method {
        "workspace/configuration" => read_configuration(&shared.settings, params),
        "workspace/workspaceFolders" => shared.folders.clone(),
        // No capability was announced as dynamic. A server that registers one anyway must not fail
        // for it.
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create"
        | "workspace/codeLens/refresh"
        | "workspace/semanticTokens/refresh"
        | "workspace/inlayHint/refresh"
        | "workspace/inlineValue/refresh"
        | "workspace/diagnostic/refresh"
        // No user is there to choose an action.
        | "window/showMessageRequest" => Value::Null,
        "window/showDocument" => json!({"success": false}),
        "workspace/applyEdit" => json!({
            "applied": false,
            "failureReason": "this client does not apply edits for a server",
        }),
        _ => {
            let message = "this client does not support this method";
            return json!({"jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}});
        }
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns the reply to a request whose result would be too large.
pub(super) fn reply_too_large(id: &Value) -> Value {
    let message = "the reply would be too large; ask for fewer settings";
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": REQUEST_FAILED, "message": message}})
}

/// Returns the settings of the requested sections, and null for those that are not set.
fn read_configuration(settings: &Value, params: &Value) -> Value {
    let items = params.get("items").and_then(Value::as_array);
    let section = |item: &Value| match item.get("section").and_then(Value::as_str) {
        None | Some("") => settings.clone(),
        Some(section) => {
            let found = section.split('.').try_fold(settings, |at, name| at.get(name));
            found.cloned().unwrap_or_default()
        }
    };
    items.into_iter().flatten().take(ITEMS_MAX).map(section).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_request_resolves_sections() {
        let settings = json!({"python": {"analysis": {"mode": "x"}}, "a": 1});
        let ask = |sections: &[&str]| {
            let items: Vec<Value> = sections.iter().map(|s| json!({"section": s})).collect();
            read_configuration(&settings, &json!({"items": items}))
        };
        assert_eq!(
            ask(&["python.analysis", "a", "b.c", "a.b"]),
            json!([{"mode": "x"}, 1, null, null])
        );
        assert_eq!(ask(&[""]), json!([settings]));
        assert_eq!(read_configuration(&settings, &json!(7)), json!([]));
        let many = vec![json!({"section": "a"}); 3 * ITEMS_MAX];
        assert_eq!(
            read_configuration(&settings, &json!({"items": many})).as_array().unwrap().len(),
            ITEMS_MAX
        );
    }
}
