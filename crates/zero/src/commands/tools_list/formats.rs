//! Tool lists in the formats of model APIs and MCP.

use std::time::Duration;

use serde_json::{Map, Value, json};
use zero_core::{HostLimits, RiskLevel};
use zero_runtime::dialect::DialectTool;
use zero_sandbox::Workspace;
use zero_tools::examples;

/// Time limit of a call without its own `timeout`, taken from the plan of the tool's example.
pub(in crate::commands) fn deadline(tool: &DialectTool, workspace: Option<&Workspace>) -> Duration {
    let spec = tool.registered.tool.spec();
    let example =
        examples::find_example(spec.name.as_str()).and_then(|example| example.canonical_input());
    let own = example.zip(workspace).and_then(|(input, workspace)| {
        let input = serde_json::from_str(input).ok()?;
        tool.registered.tool.plan(input, workspace).ok()?.deadline()
    });
    own.unwrap_or_else(|| HostLimits::default().timeout(tool.timeout_class))
}

/// All details of a tool as JSON.
pub(in crate::commands) fn to_full_json(
    tool: &DialectTool,
    workspace: Option<&Workspace>,
) -> Value {
    let spec = tool.registered.tool.spec();
    let timeout = deadline(tool, workspace);
    let mut full = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": spec.output_schema,
        "categories": [spec.category.as_str()],
        "permissions": [{
            "kind": spec.kind.as_str(),
            "risk": spec.risk.as_str(),
            "default": if spec.risk == RiskLevel::Low { "allow" } else { "ask" },
        }],
        "displayName": spec.display_name,
        "kind": spec.kind.as_str(),
        "risk": spec.risk.as_str(),
        "timeoutMs": u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        "idempotent": spec.idempotent,
        "canonicalName": spec.name,
        "source": tool.registered.source,
    });
    let claims = tool.registered.tool.claims();
    if let Some(fields) = full.as_object_mut().filter(|_| !claims.is_empty()) {
        fields.insert("claims".to_owned(), json!(claims));
    }
    full
}

/// `tools` in an OpenAI-compatible request.
pub(super) fn to_openai(tools: &[DialectTool]) -> Value {
    to_list(tools, |tool| {
        json!({
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
        })
    })
}

/// `tools` in an Anthropic request.
pub(super) fn to_anthropic(tools: &[DialectTool]) -> Value {
    to_list(
        tools,
        |tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}),
    )
}

/// `tools` in a Gemini request.
pub(super) fn to_gemini(tools: &[DialectTool]) -> Value {
    let declarations = to_list(tools, |tool| {
        let mut declaration = json!({"name": tool.name, "description": tool.description});
        let parameters = to_gemini_schema(&tool.input_schema);
        // Gemini rejects an object without properties, so omit empty parameters.
        if parameters.get("properties").is_some_and(|properties| properties != &json!({})) {
            declaration["parameters"] = parameters;
        }
        declaration
    });
    json!([{"functionDeclarations": declarations}])
}

/// Result of MCP `tools/list`.
pub(super) fn to_mcp(tools: &[DialectTool]) -> Value {
    json!({"tools": to_list(tools, zero_mcp::server::mcp_format::to_tool_json)})
}

fn to_list(tools: &[DialectTool], each: impl Fn(&DialectTool) -> Value) -> Value {
    tools.iter().map(each).collect()
}

/// Schema keywords that Gemini supports; it rejects requests with any other keyword.
const GEMINI_KEYWORDS: &[&str] = &[
    "type",
    "title",
    "description",
    "nullable",
    "enum",
    "default",
    "items",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
    "minimum",
    "maximum",
];

/// Reduces a schema to Gemini's subset of OpenAPI.
fn to_gemini_schema(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return json!({}) };
    let mut reduced = Map::new();
    for (word, value) in schema {
        match (word.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties: Map<String, Value> = properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), to_gemini_schema(schema)))
                    .collect();
                reduced.insert(word.clone(), properties.into());
            }
            ("items", items) => {
                reduced.insert(word.clone(), to_gemini_schema(items));
            }
            ("anyOf" | "oneOf", Value::Array(choices)) => {
                reduced.insert("anyOf".to_owned(), choices.iter().map(to_gemini_schema).collect());
            }
            ("const", Value::String(only)) => {
                reduced.insert("enum".to_owned(), json!([only]));
                reduced.entry("type").or_insert_with(|| "string".into());
            }
            ("type", Value::Array(types)) => {
                let mut named = types.iter().filter(|name| *name != "null");
                reduced
                    .insert(word.clone(), named.next().cloned().unwrap_or_else(|| "string".into()));
                if types.iter().any(|name| name == "null") {
                    reduced.insert("nullable".to_owned(), true.into());
                }
            }
            // Gemini supports only string enums.
            ("enum", Value::Array(values)) if !values.iter().all(Value::is_string) => {}
            (word, value) if GEMINI_KEYWORDS.contains(&word) => {
                reduced.insert(word.to_owned(), value.clone());
            }
            _ => {}
        }
    }
    reduced.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gemini_schema_keeps_only_supported_keywords() {
        let schema = json!({
            "$schema": "x", "type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {
                "a": {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "description": "d"},
                "additionalProperties": {"type": ["string", "null"], "format": "uri"},
                "c": {"type": "array", "items": {"oneOf": [{"const": "x"}, {"type": "object", "additionalProperties": true}]}},
            },
        });
        assert_eq!(
            to_gemini_schema(&schema),
            json!({
                "type": "object", "required": ["a"],
                "properties": {
                    "a": {"type": "integer", "minimum": 1, "description": "d"},
                    "additionalProperties": {"type": "string", "nullable": true},
                    "c": {"type": "array", "items": {"anyOf": [{"enum": ["x"], "type": "string"}, {"type": "object"}]}},
                },
            })
        );
    }
}
