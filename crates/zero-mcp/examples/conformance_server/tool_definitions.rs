//! The definitions of the tools: name, description, schema.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

/// All tools, in the order they are listed in.
pub(crate) fn list_tools() -> Vec<Tool> {
    let plain =
        TOOLS_WITHOUT_ARGUMENTS.into_iter().map(|(name, about)| (name, about, empty_schema()));
    let special = [
        ("test_sampling", "Asks the client's model", string_schema("prompt")),
        ("test_elicitation", "Asks the person at the client", string_schema("message")),
        ("json_schema_2020_12_tool", "Has a schema with every newer keyword", newer_schema()),
        (
            "test_custom_header",
            "Has an argument that is mirrored in a header",
            mirrored_header_schema(),
        ),
    ];
    plain
        .chain(special)
        .map(|(name, about, schema)| Tool::new(name, about, into_json_object(schema)))
        .collect()
}

/// Those without arguments.
const TOOLS_WITHOUT_ARGUMENTS: [(&str, &str); 24] = [
    ("test_simple_text", "Returns a text"),
    ("test_image_content", "Returns an image"),
    ("test_audio_content", "Returns a sound"),
    ("test_embedded_resource", "Returns a resource"),
    ("test_multiple_content_types", "Returns a text, an image and a resource"),
    ("test_tool_with_logging", "Logs three times while it runs"),
    ("test_error_handling", "Always fails"),
    ("test_tool_with_progress", "Tells its progress three times"),
    ("test_reconnection", "Takes a while"),
    ("test_elicitation_sep1034_defaults", "Asks with a default for every kind of field"),
    ("test_elicitation_sep1330_enums", "Asks with every kind of choice"),
    ("test_trigger_tool_change", "Tells listeners that the tools changed"),
    ("test_trigger_prompt_change", "Tells listeners that the prompts changed"),
    ("test_missing_capability", "Works only for clients that can sample"),
    ("test_streaming_elicitation", "Needs an answer before it is done"),
    ("test_logging_tool", "Logs only if the call asked for it"),
    ("test_input_required_result_elicitation", "Needs a name"),
    ("test_input_required_result_sampling", "Needs an answer of a model"),
    ("test_input_required_result_list_roots", "Needs the roots"),
    ("test_input_required_result_request_state", "Needs its own state back"),
    ("test_input_required_result_tampered_state", "Refuses a state that is not its own"),
    ("test_input_required_result_multiple_inputs", "Needs three answers at once"),
    ("test_input_required_result_multi_round", "Needs two answers one after another"),
    ("test_input_required_result_capabilities", "Needs what the client can give"),
];

fn empty_schema() -> Value {
    json!({ "type": "object", "properties": {} })
}

fn string_schema(name: &str) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "string" } },
        "required": [name],
    })
}

fn mirrored_header_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "value": { "type": "string", "x-mcp-header": "Value" } },
        "required": ["value"],
    })
}

fn newer_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "address",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
        },
        "allOf": [{ "anyOf": [{ "required": ["name"] }, { "required": ["address"] }] }],
        "if": { "required": ["address"] },
        "then": { "properties": { "address": { "required": ["street"] } } },
        "else": { "required": ["name"] },
        "additionalProperties": false,
    })
}

fn into_json_object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    }
}
