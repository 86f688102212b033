//! A simulated user who allows every call and accepts every form unchanged.

use serde_json::{Map, Value, json};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, Elicitation, ElicitationAnswer, Elicitor,
    elicitation::ElicitationMode,
};

/// Answers questions.
pub(crate) struct SimulatedUser;

impl Approver for SimulatedUser {
    fn name(&self) -> &str {
        "person"
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

impl Elicitor for SimulatedUser {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        let answer = match &elicitation.mode {
            ElicitationMode::Form(schema) => ElicitationAnswer::Accept(fill_form(schema)),
            ElicitationMode::Url(_) => ElicitationAnswer::Decline,
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Fills a form with its defaults, and with valid values for required fields without one.
fn fill_form(schema: &Value) -> Map<String, Value> {
    fill_fields(schema, |field, is_required| {
        let given = field.get("default").filter(|value| !value.is_null()).cloned();
        given.or_else(|| is_required.then(|| sample_value(field)))
    })
}

/// Returns a valid value for every required argument of a tool.
pub(crate) fn build_arguments(schema: &Value) -> Map<String, Value> {
    fill_fields(schema, |property, is_required| is_required.then(|| sample_value(property)))
}

fn fill_fields(
    schema: &Value,
    value: impl Fn(&Value, bool) -> Option<Value>,
) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let all = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(name, field)| Some((name.clone(), value(field, is_required(name))?))).collect()
}

fn sample_value(schema: &Value) -> Value {
    match schema.get("type").and_then(Value::as_str) {
        Some("number") => json!(1.5),
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    }
}
