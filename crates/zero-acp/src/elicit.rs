//! Questions that are no permissions, in whichever way the client can show them: as a form, as a
//! page, or, where it can do neither, as a choice among the options of a permission. What cannot be
//! shown is not answered, and whoever asked is told that nobody was there.

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, ElicitationAction, ElicitationFormMode, ElicitationSchema,
    ElicitationSessionScope, ElicitationUrlMode, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId,
};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use zero_runtime::{Elicitation, ElicitationAnswer, Wanted};

use crate::caps::Caps;
use crate::questions::ANSWER_MAX;
use crate::session::{Letter, Mailbox};
use crate::to_client::ToClient;

/// The option that chooses nothing.
const NONE: &str = "none";
/// Options that a client can be expected to show.
const OPTIONS_MAX: usize = 20;

/// Whom a question is put to, and how.
pub(crate) struct Asking {
    pub(crate) to_client: ToClient,
    pub(crate) session: SessionId,
    pub(crate) caps: Caps,
    /// The task of the session: it alone tells of calls.
    pub(crate) mailbox: Mailbox,
    /// What the question is called there.
    pub(crate) question: String,
}

impl Asking {
    /// Asks.
    pub(crate) async fn ask(&self, elicitation: &Elicitation) -> ElicitationAnswer {
        let message = format!("{} asks: {}", elicitation.origin, elicitation.message);
        let scope = ElicitationSessionScope::new(self.session.clone());
        match &elicitation.wanted {
            Wanted::Visit(url) if self.caps.opens_pages => {
                let id = format!("elicitation_{:032x}", fastrand::u128(..));
                let mode = ElicitationUrlMode::new(scope, id, url.clone());
                create(&self.to_client, CreateElicitationRequest::new(mode, message)).await
            }
            Wanted::Form(schema) if self.caps.shows_forms => {
                match serde_json::from_value::<ElicitationSchema>(schema.clone()) {
                    Ok(schema) => {
                        let mode = ElicitationFormMode::new(scope, schema);
                        let request = CreateElicitationRequest::new(mode, message);
                        create(&self.to_client, request).await
                    }
                    Err(_) => ElicitationAnswer::Cancel,
                }
            }
            Wanted::Form(schema) => match Choice::of(schema) {
                Some(choice) => self.choose(message, choice).await,
                None => ElicitationAnswer::Cancel,
            },
            Wanted::Visit(_) => ElicitationAnswer::Cancel,
        }
    }

    /// Shows the choice as the options of a permission for a call that does nothing else. Whoever
    /// takes the question back settles that call.
    async fn choose(&self, message: String, choice: Choice) -> ElicitationAnswer {
        let (shown, call) = oneshot::channel();
        let question = self.question.clone();
        self.mailbox.put(Letter::Choose { question, message, shown }).await;
        let Ok(call) = call.await else { return ElicitationAnswer::Cancel };
        let asked = RequestPermissionRequest::new(self.session.clone(), call, choice.options());
        let asked = self.to_client.ask(asked, ANSWER_MAX).await;
        let answer = match asked.map(|response| response.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => {
                choice.chosen(&selected.option_id.0)
            }
            Ok(_) | Err(_) => ElicitationAnswer::Cancel,
        };
        let told = match answer {
            ElicitationAnswer::Accept(_) => "allow_once",
            ElicitationAnswer::Decline => "reject_once",
            ElicitationAnswer::Cancel => "cancelled",
        };
        let question = self.question.clone();
        self.mailbox.put(Letter::Chosen { question, answer: told }).await;
        answer
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

    fn options(&self) -> Vec<PermissionOption> {
        let option = |(at, (_, title)): (usize, &(String, String))| {
            PermissionOption::new(at.to_string(), title.clone(), PermissionOptionKind::AllowOnce)
        };
        let mut options: Vec<PermissionOption> =
            self.values.iter().enumerate().map(option).collect();
        let kind = PermissionOptionKind::RejectOnce;
        options.push(PermissionOption::new(NONE, "None of these", kind));
        options
    }

    fn chosen(&self, option: &str) -> ElicitationAnswer {
        let at = option.parse::<usize>().ok();
        match at.and_then(|at| self.values.get(at)) {
            Some((value, _)) => {
                let value = Value::String(value.clone());
                ElicitationAnswer::Accept(Map::from_iter([(self.field.clone(), value)]))
            }
            None => ElicitationAnswer::Decline,
        }
    }
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
