//! Requests to the client during a call, in the protocol with a handshake.

use rmcp::model::{
    CallToolResult, ContentBlock, CreateMessageRequestParams, ElicitRequestParams, SamplingMessage,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::multi_round_tools::elicitation_schema;
use crate::single_round_tools::text_result;

/// Asks the client's model, and returns its answer.
pub(crate) async fn request_sampling(
    cx: &RequestContext<RoleServer>,
    prompt: &str,
) -> CallToolResult {
    let request = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    match cx.peer.create_message(request).await {
        Ok(answer) => {
            let text = answer.message.content.first().and_then(|block| block.as_text());
            text_result(format!("LLM response: {}", text.map_or("none", |text| text.text.as_str())))
        }
        Err(error) => unanswered_result(&error),
    }
}

/// Asks the user of the client, and returns the answer.
pub(crate) async fn request_elicitation(
    cx: &RequestContext<RoleServer>,
    message: &str,
    properties: Value,
) -> Result<CallToolResult, ErrorData> {
    let request = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: elicitation_schema(properties)?,
    };
    Ok(match cx.peer.create_elicitation(request).await {
        Ok(answer) => text_result(format!(
            "User response: {}",
            serde_json::to_string(&answer).unwrap_or_else(|error| error.to_string())
        )),
        Err(error) => unanswered_result(&error),
    })
}

/// A name and an address.
pub(crate) fn user_fields() -> Value {
    json!({
        "username": { "type": "string", "description": "Your name" },
        "email": { "type": "string", "description": "Your address" },
    })
}

/// A field of every kind, each with a default.
pub(crate) fn default_fields() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": { "type": "boolean", "default": true },
    })
}

/// A choice of every kind.
pub(crate) fn choice_fields() -> Value {
    let titled = |what: &str| {
        json!([
            { "const": "value1", "title": format!("First {what}") },
            { "const": "value2", "title": format!("Second {what}") },
            { "const": "value3", "title": format!("Third {what}") },
        ])
    };
    let untitled = ["option1", "option2", "option3"];
    json!({
        "untitledSingle": { "type": "string", "enum": untitled },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": untitled } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}

fn unanswered_result(error: &rmcp::ServiceError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("The client did not answer: {error}"))])
}
