//! The person at the client, who accepts every form as it is, and the model, which is an echo.

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ProtocolVersion, Role,
    SamplingMessage, SamplingMessageContentBlock,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Map, Value, json};

/// Answers what a server asks.
pub(crate) struct Person;

impl ClientHandler for Person {
    fn get_info(&self) -> ClientConfig {
        let capabilities =
            ClientCapabilities::builder().enable_elicitation().enable_sampling().build();
        let me = Implementation::new("zero-conformance", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, me).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let schema = serde_json::to_value(&requested_schema)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(filled_in(&schema)))
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let first = request.messages.first().and_then(|message| message.content.first());
        let text = first.and_then(|block| block.as_text()).map_or("", |text| text.text.as_str());
        let reply = SamplingMessageContentBlock::text(format!("You said: {text}"));
        let message = SamplingMessage::new(Role::Assistant, reply);
        Ok(CreateMessageResult::new(message, "echo".to_owned()).with_stop_reason("endTurn"))
    }
}

/// The form with its defaults, and something that fits where a required field has none.
fn filled_in(schema: &Value) -> Value {
    let required = names(schema.get("required"));
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let content: Map<String, Value> = fields
        .filter_map(|(name, field)| {
            let given = field.get("default").filter(|value| !value.is_null()).cloned();
            let value = given.or_else(|| required.contains(name).then(|| fitting(field)))?;
            Some((name.clone(), value))
        })
        .collect();
    Value::Object(content)
}

/// Arguments for a tool: something that fits for every one that is required.
pub(crate) fn arguments(schema: &Map<String, Value>) -> Map<String, Value> {
    let required = names(schema.get("required"));
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties
        .filter(|(name, _)| required.contains(name))
        .map(|(name, property)| (name.clone(), fitting(property)))
        .collect()
}

fn names(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn fitting(schema: &Value) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some("number") => json!(1.5),
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    }
}
