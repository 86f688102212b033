//! What a server asks of us, and what it is told: little, and nothing that changes anything.

use serde_json::{Value, json};

use super::transport::LspConnectionState;

/// Most settings that are asked for at a time.
const ITEMS_MAX: usize = 200;
/// The number for a question that nobody here answers.
const METHOD_NOT_FOUND: i64 = -32601;
/// The number for one whose answer would be too long.
const REQUEST_FAILED: i64 = -32803;

/// The reply to a question of the server's.
pub(super) fn answer_request(
    shared: &LspConnectionState,
    id: &Value,
    method: &str,
    params: &Value,
) -> Value {
    let result = match method {
        "workspace/configuration" => read_configuration(&shared.settings, params),
        "workspace/workspaceFolders" => shared.folders.clone(),
        // Nothing was offered that could be registered; who tries all the same need not fail.
        "client/registerCapability"
        | "client/unregisterCapability"
        | "window/workDoneProgress/create"
        | "workspace/codeLens/refresh"
        | "workspace/semanticTokens/refresh"
        | "workspace/inlayHint/refresh"
        | "workspace/inlineValue/refresh"
        | "workspace/diagnostic/refresh"
        // Nobody is there to choose among the answers.
        | "window/showMessageRequest" => Value::Null,
        "window/showDocument" => json!({"success": false}),
        "workspace/applyEdit" => json!({
            "applied": false,
            "failureReason": "this client changes no files on behalf of a server",
        }),
        _ => {
            let message = "this client does not answer that";
            return json!({"jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": message}});
        }
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// The reply to one who asks for more than is told at a time.
pub(super) fn reply_too_large(id: &Value) -> Value {
    let message = "that is more than this client tells at a time; ask for less";
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": REQUEST_FAILED, "message": message}})
}

/// The settings that are asked for, by their sections; null for what nobody set.
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
