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
/// Choices of one form that somebody can be expected to make.
const CHOICES_MAX: usize = 8;

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
            Wanted::Form(schema) => match choices(schema) {
                Some(choices) => self.choose_each(&message, choices).await,
                None => ElicitationAnswer::Cancel,
            },
            Wanted::Visit(_) => ElicitationAnswer::Cancel,
        }
    }

    /// One choice after another. What none of the options fits is left out; whoever leaves out all
    /// of it has declined.
    async fn choose_each(&self, message: &str, choices: Vec<Choice>) -> ElicitationAnswer {
        let mut values = Map::new();
        for choice in choices {
            let asked = match &choice.about {
                Some(about) => format!("{message}\n{about}"),
                None => message.to_owned(),
            };
            match self.choose(asked, choice).await {
                ElicitationAnswer::Accept(chosen) => values.extend(chosen),
                ElicitationAnswer::Decline => {}
                ElicitationAnswer::Cancel => return ElicitationAnswer::Cancel,
            }
        }
        match values.is_empty() {
            true => ElicitationAnswer::Decline,
            false => ElicitationAnswer::Accept(values),
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

/// A field with a few values.
#[derive(Debug, PartialEq)]
struct Choice {
    field: String,
    /// What it is about, where the form has several.
    about: Option<String>,
    /// Each value, and what it is called.
    values: Vec<(String, String)>,
}

/// A form that is nothing but choices, beside texts that may be left out.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let properties = schema.get("properties")?.as_object()?;
    let required = schema.get("required").and_then(Value::as_array);
    let is_optional = |name: &str| !required.is_some_and(|all| all.iter().any(|one| one == name));
    let mut choices = Vec::new();
    for (name, about) in properties {
        match Choice::of(name, about) {
            Some(choice) => choices.push(choice),
            None if is_optional(name) && about.get("type") == Some(&Value::from("string")) => {}
            None => return None,
        }
    }
    if let [alone] = &mut choices[..] {
        alone.about = None;
    }
    (1..=CHOICES_MAX).contains(&choices.len()).then_some(choices)
}

impl Choice {
    fn of(field: &str, about: &Value) -> Option<Self> {
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
        let text = |key: &str| about.get(key).and_then(Value::as_str);
        let about = text("description").or_else(|| text("title")).map(str::to_owned);
        Some(Self { field: field.to_owned(), about, values })
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

    /// Each choice as `field about value=title …`.
    #[track_caller]
    fn check(schema: Value, expected: Option<&[&str]>) {
        let shown = |choice: Choice| {
            let values = choice.values.iter().map(|(value, title)| format!(" {value}={title}"));
            format!("{} {:?}{}", choice.field, choice.about, values.collect::<String>())
        };
        let found: Option<Vec<String>> =
            choices(&schema).map(|choices| choices.into_iter().map(shown).collect());
        let found: Option<Vec<&str>> =
            found.as_ref().map(|found| found.iter().map(String::as_str).collect());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn fields_with_a_few_values_are_choices() {
        let titled = json!({"properties": {"c": {"oneOf": [{"const": "r", "title": "Red"}]}}});
        check(titled, Some(&["c None r=Red"]));
        let plain = json!({"properties": {"c": {"title": "C", "enum": ["a", "b"]}}});
        check(plain, Some(&["c None a=a b=b"]));
        let several = json!({"properties": {
            "c": {"title": "C", "description": "Which?", "enum": ["a"]},
            "d": {"title": "D", "enum": ["b"]},
        }});
        check(several, Some(&["c Some(\"Which?\") a=a", "d Some(\"D\") b=b"]));
        check(json!({"properties": {"c": {"type": "string"}}}), None);
        check(json!({"properties": {"c": {"enum": []}}}), None);
        check(json!({}), None);
    }

    #[test]
    fn a_text_beside_a_choice_can_be_left_out_unless_it_is_needed() {
        let fields = json!({"c": {"enum": ["a"]}, "t": {"type": "string"}});
        check(json!({ "properties": fields }), Some(&["c None a=a"]));
        check(json!({"properties": fields, "required": ["c"]}), Some(&["c None a=a"]));
        check(json!({"properties": fields, "required": ["t"]}), None);
        let many = json!({"c": {"enum": ["a"]}, "m": {"type": "array", "items": {"enum": ["a"]}}});
        check(json!({ "properties": many }), None);
    }
}
