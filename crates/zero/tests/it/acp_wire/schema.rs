//! The official schema of the protocol, and what it says of a message.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../fixtures/acp/schema.json");
    with_unstable_parts(serde_json::from_str(text).unwrap())
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, Validator>>> = LazyLock::new(Mutex::default);

/// The schema with those parts of version 1 that are not stable yet and that zero speaks, as its SDK
/// has them: `session/fork`, and the usage of a turn.
fn with_unstable_parts(mut schema: Value) -> Value {
    let definitions = &mut schema["$defs"];
    for (like, name) in [
        ("ResumeSessionRequest", "ForkSessionRequest"),
        ("NewSessionResponse", "ForkSessionResponse"),
    ] {
        let mut definition = definitions[like].clone();
        definition["x-method"] = json!("session/fork");
        definitions[name] = definition;
    }
    let tokens = json!({"type": "integer", "minimum": 0});
    let fields = ["totalTokens", "inputTokens", "outputTokens"];
    let further = ["thoughtTokens", "cachedReadTokens", "cachedWriteTokens"];
    let properties: serde_json::Map<String, Value> =
        fields.iter().chain(&further).map(|name| ((*name).to_owned(), tokens.clone())).collect();
    definitions["PromptResponse"]["properties"]["usage"] = json!({"type": "object",
        "properties": properties, "required": fields, "additionalProperties": false});
    schema
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagePart {
    Request,
    Response,
    Notification,
}

/// What is wrong with the parameters or the result of a method; nothing for one that the protocol
/// leaves to those who speak it.
pub(crate) fn find_violations(method: &str, part: MessagePart, value: &Value) -> Vec<String> {
    match definition_name(method, part) {
        Some(name) => find_definition_violations(&name, value),
        None if is_extension(method) => Vec::new(),
        None => vec![format!("the protocol has no {part:?} `{method}`")],
    }
}

/// What is wrong with something that the schema calls by that name.
pub(crate) fn find_definition_violations(name: &str, value: &Value) -> Vec<String> {
    let mut validators = VALIDATORS.lock().unwrap();
    let validator = validators.entry(name.to_owned()).or_insert_with(|| make_validator(name));
    validator.iter_errors(value).map(|error| format!("{name}: {error}")).collect()
}

/// Names that are not the protocol's own: its extensions, and the calls of tools that zero also takes
/// by their older names.
fn is_extension(method: &str) -> bool {
    method.starts_with('_') || method.starts_with("tools/")
}

fn definition_name(method: &str, part: MessagePart) -> Option<String> {
    let definitions = SCHEMA["$defs"].as_object().unwrap();
    let fits = |(name, about): &(&String, &Value)| {
        about["x-method"] == method && name.ends_with(&format!("{part:?}"))
    };
    definitions.iter().find(fits).map(|(name, _)| name.clone())
}

/// The schema leaves room for later versions; the protocol says that what is one's own stands under
/// `_meta` and nowhere else. So what the schema does not name is a fault, too.
fn make_validator(name: &str) -> Validator {
    let mut schema = json!({
        "$schema": SCHEMA["$schema"],
        "$ref": format!("#/$defs/{name}"),
        "unevaluatedProperties": false,
        "$defs": SCHEMA["$defs"],
    });
    if name == "SessionNotification" {
        schema["properties"] =
            json!({"update": {"$ref": "#/$defs/SessionUpdate", "unevaluatedProperties": false}});
    }
    jsonschema::draft202012::new(&schema).unwrap()
}

#[test]
fn schema_detects_violations() {
    let update = |update: Value| json!({"sessionId": "s", "update": update});
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}});
    let mut own = chunk.clone();
    own["progress"] = json!(1);
    let mut meta = chunk.clone();
    meta["_meta"] = json!({"progress": 1});
    let bare = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t",
        "content": [{"type": "text", "text": "a"}]});
    for (method, part, value, is_good) in [
        ("session/update", MessagePart::Notification, update(chunk), true),
        ("session/update", MessagePart::Notification, update(meta), true),
        ("session/update", MessagePart::Notification, update(own), false),
        ("session/update", MessagePart::Notification, update(bare), false),
        ("session/update", MessagePart::Notification, update(json!({"sessionUpdate": "x"})), false),
        ("session/prompt", MessagePart::Response, json!({"stopReason": "end_turn"}), true),
        ("session/prompt", MessagePart::Response, json!({"stopReason": "stop"}), false),
        (
            "session/prompt",
            MessagePart::Response,
            json!({"stopReason": "end_turn", "usage": 1}),
            false,
        ),
        ("session/promptly", MessagePart::Response, json!({}), false),
        ("_zero/tools/use", MessagePart::Response, json!({"any": "thing"}), true),
    ] {
        let faults = find_violations(method, part, &value);
        assert_eq!(faults.is_empty(), is_good, "{method} {value}: {faults:?}");
    }
}
