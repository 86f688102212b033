//! Questions that are no permissions, in whichever way the client can show them: as a form, as a
//! page, or, where it can do neither, as a choice among the options of a permission. What cannot be
//! shown is not answered, and whoever asked is told that nobody was there.

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, ElicitationAction, ElicitationFormMode, ElicitationSchema,
    ElicitationSessionScope, ElicitationUrlMode, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, SessionUpdate, ToolCall,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use serde_json::{Map, Value};
use zero_runtime::{Elicitation, ElicitationAnswer, Wanted};

use crate::caps::Caps;
use crate::questions::ANSWER_MAX;
use crate::to_client::ToClient;

/// The option that chooses nothing.
const NONE: &str = "none";
/// Options that a client can be expected to show.
const OPTIONS_MAX: usize = 20;

/// Asks.
pub(crate) async fn ask(
    to_client: &ToClient,
    session: &SessionId,
    caps: &Caps,
    elicitation: &Elicitation,
) -> ElicitationAnswer {
    let message = format!("{} asks: {}", elicitation.origin, elicitation.message);
    let scope = ElicitationSessionScope::new(session.clone());
    match &elicitation.wanted {
        Wanted::Visit(url) if caps.opens_pages => {
            let id = format!("elicitation_{:032x}", fastrand::u128(..));
            let mode = ElicitationUrlMode::new(scope, id, url.clone());
            create(to_client, CreateElicitationRequest::new(mode, message)).await
        }
        Wanted::Form(schema) if caps.shows_forms => {
            match serde_json::from_value::<ElicitationSchema>(schema.clone()) {
                Ok(schema) => {
                    let mode = ElicitationFormMode::new(scope, schema);
                    create(to_client, CreateElicitationRequest::new(mode, message)).await
                }
                Err(_) => ElicitationAnswer::Cancel,
            }
        }
        Wanted::Form(schema) => match Choice::of(schema) {
            Some(choice) => choose(to_client, session, message, choice).await,
            None => ElicitationAnswer::Cancel,
        },
        Wanted::Visit(_) => ElicitationAnswer::Cancel,
    }
}

async fn create(to_client: &ToClient, request: CreateElicitationRequest) -> ElicitationAnswer {
    match to_client.ask(request, ANSWER_MAX).await.map(|response| response.action) {
        Ok(ElicitationAction::Accept(accepted)) => {
            let content = accepted.content.map(serde_json::to_value);
            match content {
                Some(Ok(Value::Object(content))) => ElicitationAnswer::Accept(content),
                _ => ElicitationAnswer::Accept(Map::new()),
            }
        }
        Ok(ElicitationAction::Decline) => ElicitationAnswer::Decline,
        Ok(_) => ElicitationAnswer::Cancel,
        Err(error) => {
            tracing::warn!(code = error.code.value(), "a question was not answered");
            ElicitationAnswer::Cancel
        }
    }
}

/// A form of one field with a few values.
struct Choice {
    field: String,
    /// Each value, and what it is called.
    values: Vec<(String, String)>,
}

impl Choice {
    fn of(schema: &Value) -> Option<Self> {
        let properties = schema.get("properties")?.as_object()?;
        let mut fields = properties.iter();
        let (Some((field, about)), None) = (fields.next(), fields.next()) else { return None };
        let named = |value: &Value| {
            let text = value.get("const")?.as_str()?;
            let title = value.get("title").and_then(Value::as_str).unwrap_or(text);
            Some((text.to_owned(), title.to_owned()))
        };
        let plain = |value: &Value| Some((value.as_str()?.to_owned(), value.as_str()?.to_owned()));
        let values: Option<Vec<_>> = match (about.get("oneOf"), about.get("enum")) {
            (Some(Value::Array(values)), _) => values.iter().map(named).collect(),
            (_, Some(Value::Array(values))) => values.iter().map(plain).collect(),
            _ => None,
        };
        let values = values.filter(|values| (1..=OPTIONS_MAX).contains(&values.len()))?;
        Some(Self { field: field.clone(), values })
    }
}

/// Shows the choice as the options of a permission for a call that does nothing else.
async fn choose(
    to_client: &ToClient,
    session: &SessionId,
    message: String,
    choice: Choice,
) -> ElicitationAnswer {
    let call = format!("question_{:032x}", fastrand::u128(..));
    to_client
        .update(session, SessionUpdate::ToolCall(ToolCall::new(call.clone(), message.clone())))
        .await;
    let mut options: Vec<PermissionOption> = Vec::new();
    for (at, (_, title)) in choice.values.iter().enumerate() {
        let kind = PermissionOptionKind::AllowOnce;
        options.push(PermissionOption::new(at.to_string(), title.clone(), kind));
    }
    options.push(PermissionOption::new(NONE, "None of these", PermissionOptionKind::RejectOnce));
    let shown = ToolCallUpdateFields::new().title(message).status(ToolCallStatus::Pending);
    let shown = ToolCallUpdate::new(call.clone(), shown);
    let asked = RequestPermissionRequest::new(session.clone(), shown, options);
    let answer = match to_client.ask(asked, ANSWER_MAX).await.map(|response| response.outcome) {
        Ok(RequestPermissionOutcome::Selected(selected)) => {
            let at = selected.option_id.0.parse::<usize>().ok();
            match at.and_then(|at| choice.values.get(at)) {
                Some((value, _)) => {
                    let value = Value::String(value.clone());
                    ElicitationAnswer::Accept(Map::from_iter([(choice.field.clone(), value)]))
                }
                None => ElicitationAnswer::Decline,
            }
        }
        Ok(_) | Err(_) => ElicitationAnswer::Cancel,
    };
    let status = match answer {
        ElicitationAnswer::Accept(_) => ToolCallStatus::Completed,
        ElicitationAnswer::Decline | ElicitationAnswer::Cancel => ToolCallStatus::Failed,
    };
    let ended = ToolCallUpdate::new(call, ToolCallUpdateFields::new().status(status));
    to_client.update(session, SessionUpdate::ToolCallUpdate(ended)).await;
    answer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: Option<(&str, &[(&str, &str)])>) {
        let choice = Choice::of(&schema).map(|choice| (choice.field, choice.values));
        let expected = expected.map(|(field, values)| {
            let own = |(value, title): &(&str, &str)| ((*value).to_owned(), (*title).to_owned());
            (field.to_owned(), values.iter().map(own).collect::<Vec<_>>())
        });
        assert_eq!(choice, expected);
    }

    #[test]
    fn one_field_with_a_few_values_is_a_choice() {
        let titled = json!({"properties": {"c": {"oneOf": [{"const": "r", "title": "Red"}]}}});
        check(titled, Some(("c", &[("r", "Red")])));
        check(
            json!({"properties": {"c": {"enum": ["a", "b"]}}}),
            Some(("c", &[("a", "a"), ("b", "b")])),
        );
        check(json!({"properties": {"c": {"type": "string"}}}), None);
        check(json!({"properties": {"c": {"enum": []}}}), None);
        check(json!({"properties": {"c": {"enum": ["a"]}, "d": {"enum": ["b"]}}}), None);
        check(json!({}), None);
    }
}
