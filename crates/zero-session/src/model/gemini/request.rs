//! Encodes requests of the Gemini API.

use serde_json::{Map, Value, json};

use super::VENDOR_PREFIX;
use crate::event::ResultContent;
use crate::message::MessageRole;
use crate::model::conversation::{
    ConversationTurn, NEVER_RUN, TurnImage, TurnPart, TurnToolCall, TurnToolResult,
    arguments_object, build_turns, sanitize_tool_name,
};
use crate::model::model_name::{ParsedModelName, can_be_same_model};
use crate::model::{ModelInfo, ModelRequest, ModelToolDefinition, ThinkingEffort};
use crate::output_schema::OutputSchema;

/// Value that the API accepts in place of a signature for calls of another model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// The first version that signs its calls, takes a thinking level, and accepts images in tool
/// results.
const SIGNING_VERSION_MIN: (u32, u32) = (3, 0);

/// The body of a request without the tools.
pub(super) fn build_body(info: &ModelInfo, request: &ModelRequest) -> Value {
    let turns = build_turns(&request.messages, |opaque| find_signature(opaque, info).is_some());
    let mut body = Map::new();
    if !request.system.trim().is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": [{"text": request.system}]}));
    }
    let contents: Vec<Value> = turns.iter().map(|turn| encode_turn(turn, info)).collect();
    body.insert("contents".into(), Value::Array(contents));
    let output_tokens_max =
        request.output_tokens_max.unwrap_or(u64::MAX).min(info.output_tokens_max).max(1);
    let mut config = Map::new();
    config.insert("maxOutputTokens".into(), json!(output_tokens_max));
    if let Some(thinking) = thinking_config(info, request.thinking) {
        config.insert("thinkingConfig".into(), thinking);
    }
    // The API refuses both a schema and tools in most models.
    let schema = request.output_schema.as_ref().filter(|_| request.tools.is_empty());
    if let Some(schema) = schema.and_then(OutputSchema::as_object_schema) {
        config.insert("responseMimeType".into(), json!("application/json"));
        config.insert("responseJsonSchema".into(), schema.clone());
    }
    body.insert("generationConfig".into(), Value::Object(config));
    Value::Object(body)
}

/// Builds the `tools` field; `None` if there are no tools.
pub(super) fn build_tools(tools: &[ModelToolDefinition]) -> Option<Value> {
    let declarations: Vec<Value> = tools.iter().map(function_declaration).collect();
    (!declarations.is_empty()).then(|| json!([{"functionDeclarations": declarations}]))
}

/// Declares a tool. Its schema goes into `parametersJsonSchema`, which accepts any JSON Schema and
/// ignores unknown keywords. The older `parameters` field has its own schema dialect and rejects
/// much of what foreign tools use (`$ref`, `const`, `additionalProperties`), so their schemas would
/// have to be reduced. Only `$schema` is omitted; it is of no use to the model.
fn function_declaration(tool: &ModelToolDefinition) -> Value {
    let mut schema = tool.input_schema.clone();
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("$schema");
    }
    json!({
        "name": sanitize_tool_name(&tool.name),
        "description": tool.description,
        "parametersJsonSchema": schema,
    })
}

/// The thinking configuration; `None` for models that do not think and reject the field.
fn thinking_config(info: &ModelInfo, level: ThinkingEffort) -> Option<Value> {
    let name = ParsedModelName::parse(&info.id, VENDOR_PREFIX)?;
    let shows_thoughts = level != ThinkingEffort::Off;
    match name.version {
        Some(version) if version < (2, 5) => None,
        Some(version) if version < SIGNING_VERSION_MIN => {
            // The pro model cannot disable thinking; this is its minimum.
            let least = if name.kind.as_deref() == Some("pro") { 128 } else { 0 };
            let budget = match level {
                ThinkingEffort::Default => return Some(json!({"includeThoughts": true})),
                ThinkingEffort::Off => least,
                ThinkingEffort::Low => 2_048,
                ThinkingEffort::Medium => 8_192,
                ThinkingEffort::High => 24_576,
            };
            Some(json!({"includeThoughts": shows_thoughts, "thinkingBudget": budget}))
        }
        Some(version) => {
            let level = match level {
                ThinkingEffort::Default => return Some(json!({"includeThoughts": true})),
                // These models cannot disable thinking; this is the minimum that all of them
                // accept.
                ThinkingEffort::Off | ThinkingEffort::Low => "LOW",
                // The first pro model accepted only low and high; its default is in between.
                ThinkingEffort::Medium
                    if version == SIGNING_VERSION_MIN && name.kind.as_deref() == Some("pro") =>
                {
                    return Some(json!({"includeThoughts": true}));
                }
                ThinkingEffort::Medium => "MEDIUM",
                ThinkingEffort::High => "HIGH",
            };
            Some(json!({"includeThoughts": shows_thoughts, "thinkingLevel": level}))
        }
        // An alias such as `latest` does not reveal the version, so the effort is left to the
        // model.
        None => Some(json!({"includeThoughts": shows_thoughts})),
    }
}

/// The signature of a part, if it comes from this API and this model.
fn find_signature<'a>(opaque: &'a Value, info: &ModelInfo) -> Option<&'a str> {
    let model = opaque["model"].as_str().unwrap_or(&info.id);
    let signature = opaque["thoughtSignature"].as_str()?;
    (!signature.is_empty() && can_be_same_model(model, &info.id, VENDOR_PREFIX))
        .then_some(signature)
}

/// Whether the model signs its calls, judged by its name.
fn is_signing(info: &ModelInfo) -> bool {
    ParsedModelName::parse(&info.id, VENDOR_PREFIX)
        .is_some_and(|name| name.version.is_none_or(|version| version >= SIGNING_VERSION_MIN))
}

fn encode_turn(turn: &ConversationTurn<'_>, info: &ModelInfo) -> Value {
    let role = match turn.role {
        MessageRole::User => "user",
        MessageRole::Assistant => "model",
    };
    let mut images = Vec::new();
    let answers = turn.pieces.iter().filter_map(|piece| match piece {
        TurnPart::ToolResult(answer) => Some(result_part(answer, info, &mut images)),
        _ => None,
    });
    // All results come first, then the images that cannot be part of them, then the rest.
    let mut parts: Vec<Value> = answers.collect();
    parts.append(&mut images);
    let mut calls = 0;
    parts.extend(turn.pieces.iter().filter_map(|piece| match piece {
        TurnPart::ToolResult(_) => None,
        TurnPart::Text(text) => Some(json!({"text": text})),
        TurnPart::OrphanedResult(text) => Some(json!({"text": text})),
        TurnPart::Image(image) => Some(image_part(*image, info)),
        TurnPart::Thinking { text, opaque } => Some(thought_part(text, opaque, info)),
        TurnPart::Call(call) => {
            calls += 1;
            Some(call_part(call, info, calls == 1))
        }
    }));
    json!({"role": role, "parts": parts})
}

/// A thought, or the signature of a text, which is a separate part without text.
fn thought_part(text: &str, opaque: &Value, info: &ModelInfo) -> Value {
    let mut part = Map::new();
    part.insert("text".into(), json!(text));
    if opaque["part"] != "text" {
        part.insert("thought".into(), json!(true));
    }
    if let Some(signature) = find_signature(opaque, info) {
        part.insert("thoughtSignature".into(), json!(signature));
    }
    Value::Object(part)
}

/// A call. Newer models require a signature on the first call of a turn only.
fn call_part(call: &TurnToolCall<'_>, info: &ModelInfo, is_first: bool) -> Value {
    let mut function = Map::new();
    if let Some(id) = original_id(call) {
        function.insert("id".into(), json!(id));
    }
    function.insert("name".into(), json!(sanitize_tool_name(call.name)));
    function.insert("args".into(), arguments_object(call.input));
    let mut part = Map::new();
    part.insert("functionCall".into(), Value::Object(function));
    let signature = find_signature(call.opaque, info)
        .or_else(|| (is_first && is_signing(info)).then_some(NO_SIGNATURE));
    if let Some(signature) = signature {
        part.insert("thoughtSignature".into(), json!(signature));
    }
    Value::Object(part)
}

/// The id that the API assigned, if any. Without one, calls and results are matched by name and
/// order.
fn original_id<'a>(call: &TurnToolCall<'a>) -> Option<&'a str> {
    call.opaque["id"].as_str()
}

/// Result of a call. Images that cannot be part of it go to `images`.
fn result_part(answer: &TurnToolResult<'_>, info: &ModelInfo, images: &mut Vec<Value>) -> Value {
    let name = sanitize_tool_name(answer.call.name);
    let mut words = Vec::new();
    let mut inside = Vec::new();
    for content in answer.content.unwrap_or_default() {
        match content {
            ResultContent::Text { text } => words.push(text.clone()),
            ResultContent::Image { mime, data } => {
                let part = image_part(TurnImage { mime, data }, info);
                match part["text"].as_str() {
                    Some(text) => words.push(text.to_owned()),
                    None if is_signing(info) => inside.push(part),
                    None => {
                        images.push(json!({"text": format!("(Image from `{name}`:)")}));
                        images.push(part);
                    }
                }
            }
        }
    }
    if answer.content.is_none() {
        words.push(NEVER_RUN.to_owned());
    }
    let mut response = Map::new();
    if let Some(id) = original_id(&answer.call) {
        response.insert("id".into(), json!(id));
    }
    response.insert("name".into(), json!(name));
    let field = if answer.is_error { "error" } else { "output" };
    response.insert("response".into(), json!({ field: words.join("\n") }));
    if !inside.is_empty() {
        response.insert("parts".into(), Value::Array(inside));
    }
    json!({"functionResponse": response})
}

/// An image, or a text in its place if the model or the API would reject it.
fn image_part(image: TurnImage<'_>, info: &ModelInfo) -> Value {
    let TurnImage { mime, data } = image;
    if !info.takes_images {
        return json!({"text": "(An image, which this model cannot see.)"});
    }
    match mime {
        "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif" => {
            json!({"inlineData": {"mimeType": mime, "data": data}})
        }
        other => {
            json!({"text": format!("(An image of the type `{other}`, which is not supported.)")})
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
