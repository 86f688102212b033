//! Questions other than permissions, in a form that the client supports: a form, a URL, or else a
//! choice among permission options. A question that cannot be shown is cancelled.

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, ElicitationAction, ElicitationFormMode, ElicitationSchema,
    ElicitationSessionScope, ElicitationUrlMode, PermissionOption, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId,
};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use zero_runtime::{Elicitation, ElicitationAnswer, ElicitationMode};

use crate::client_features::ClientFeatures;
use crate::client_handle::ClientHandle;
use crate::client_questions::ANSWER_MAX;
use crate::session_message::{SessionMessage, SessionSender};

/// The option that selects nothing, or nothing more.
const NONE_OPTION: &str = "none";
const DONE_OPTION: &str = "done";
/// Most options of one permission request.
const OPTIONS_MAX: usize = 20;
/// Most choice fields of a form that is asked as permission requests.
const CHOICES_MAX: usize = 8;

/// Shows one elicitation to the user.
pub(crate) struct ElicitationDialog {
    pub(crate) to_client: ClientHandle,
    pub(crate) session: SessionId,
    pub(crate) caps: ClientFeatures,
    /// The session's task, which sends all updates about calls.
    pub(crate) sender: SessionSender,
    /// Id of the question in the session's task.
    pub(crate) question: String,
}

impl ElicitationDialog {
    /// Asks in the form that the client supports; `Cancel` if it supports none.
    pub(crate) async fn ask(&self, elicitation: &Elicitation) -> ElicitationAnswer {
        let elicitation = elicitation.to_visible();
        let message = format!("{} asks: {}", elicitation.asker(), elicitation.message);
        let scope = ElicitationSessionScope::new(self.session.clone());
        match &elicitation.mode {
            ElicitationMode::Url(url) if self.caps.opens_pages => {
                let id = format!("elicitation_{:032x}", fastrand::u128(..));
                let mode = ElicitationUrlMode::new(scope, id, url.clone());
                create_elicitation(&self.to_client, CreateElicitationRequest::new(mode, message))
                    .await
            }
            ElicitationMode::Form(schema) if self.caps.shows_forms => {
                match serde_json::from_value::<ElicitationSchema>(schema.clone()) {
                    Ok(schema) => {
                        let mode = ElicitationFormMode::new(scope, schema);
                        let request = CreateElicitationRequest::new(mode, message);
                        create_elicitation(&self.to_client, request).await
                    }
                    Err(_) => ElicitationAnswer::Cancel,
                }
            }
            ElicitationMode::Form(schema) => match parse_choice_fields(schema) {
                Some(choices) => self.choose_each(&message, choices).await,
                None => ElicitationAnswer::Cancel,
            },
            ElicitationMode::Url(_) => ElicitationAnswer::Cancel,
        }
    }

    /// Asks for one field after another. Fields without a selection are omitted; if all are, the
    /// answer is `Decline`.
    async fn choose_each(&self, message: &str, choices: Vec<ChoiceField>) -> ElicitationAnswer {
        let mut values = Map::new();
        for choice in choices {
            let asked = match &choice.about {
                Some(about) => format!("{message}\n{about}"),
                None => message.to_owned(),
            };
            let chosen = match choice.count {
                SelectionCount::One => self.choose_one(asked, choice).await,
                SelectionCount::Several { least, most } => {
                    self.choose_several(asked, choice, least, most).await
                }
            };
            match chosen {
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

    /// Asks for one value of a field.
    async fn choose_one(&self, message: String, choice: ChoiceField) -> ElicitationAnswer {
        match self.pick(message, choice.permission_options(&[], 1)).await {
            OptionPick::Value(at) => match choice.values.get(at) {
                Some((value, _)) => choice.to_answer(Value::String(value.clone())),
                None => ElicitationAnswer::Decline,
            },
            OptionPick::Nothing | OptionPick::Done => ElicitationAnswer::Decline,
            OptionPick::Cancelled => ElicitationAnswer::Cancel,
        }
    }

    /// Asks for several values, one request at a time, because a permission request has one answer.
    /// Each value is offered once, so the loop ends.
    async fn choose_several(
        &self,
        message: String,
        choice: ChoiceField,
        least: usize,
        most: usize,
    ) -> ElicitationAnswer {
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < most.min(choice.values.len()) {
            let text = match chosen.is_empty() {
                true => format!("{message}\n(several may be chosen, one after another)"),
                false => format!("{message}\nChosen: {}", choice.titles(&chosen)),
            };
            match self.pick(text, choice.permission_options(&chosen, least)).await {
                OptionPick::Value(at) if at < choice.values.len() && !chosen.contains(&at) => {
                    chosen.push(at);
                }
                OptionPick::Done if chosen.len() >= least.max(1) => break,
                OptionPick::Value(_) | OptionPick::Nothing | OptionPick::Done => {
                    return ElicitationAnswer::Decline;
                }
                OptionPick::Cancelled => return ElicitationAnswer::Cancel,
            }
        }
        chosen.sort_unstable();
        let values = chosen.iter().filter_map(|at| choice.values.get(*at));
        choice.to_answer(values.map(|(value, _)| Value::String(value.clone())).collect())
    }

    /// Shows options as those of a permission request for a call that does nothing. Withdrawing the
    /// question ends that call.
    async fn pick(&self, message: String, options: Vec<PermissionOption>) -> OptionPick {
        let (shown, call) = oneshot::channel();
        let question = self.question.clone();
        self.sender.send(SessionMessage::ShowChoice { question, message, shown }).await;
        let Ok(call) = call.await else { return OptionPick::Cancelled };
        let request = RequestPermissionRequest::new(self.session.clone(), call, options);
        let answer = self.to_client.request(request, ANSWER_MAX).await;
        let picked = match answer.map(|response| response.outcome) {
            Ok(RequestPermissionOutcome::Selected(selected)) => {
                OptionPick::from_option_id(&selected.option_id.0)
            }
            Ok(_) | Err(_) => OptionPick::Cancelled,
        };
        let answer = match picked {
            OptionPick::Value(_) | OptionPick::Done => "allow_once",
            OptionPick::Nothing => "reject_once",
            OptionPick::Cancelled => "cancelled",
        };
        let question = self.question.clone();
        self.sender.send(SessionMessage::ChoiceEnded { question, answer }).await;
        picked
    }
}

async fn create_elicitation(
    to_client: &ClientHandle,
    request: CreateElicitationRequest,
) -> ElicitationAnswer {
    match to_client.request(request, ANSWER_MAX).await.map(|response| response.action) {
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

/// The selected option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionPick {
    /// A value, by its index.
    Value(usize),
    /// No further value.
    Done,
    /// An option that is not a value; the question is declined.
    Nothing,
    /// The question was withdrawn or not answered.
    Cancelled,
}

impl OptionPick {
    fn from_option_id(id: &str) -> Self {
        match id {
            DONE_OPTION => Self::Done,
            id => id.parse().map_or(Self::Nothing, Self::Value),
        }
    }
}

/// How many values of a field can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectionCount {
    One,
    Several { least: usize, most: usize },
}

/// A field with a fixed set of values.
#[derive(Debug, PartialEq)]
struct ChoiceField {
    field: String,
    count: SelectionCount,
    /// The field's description, if the form has several fields.
    about: Option<String>,
    /// Each value with its title.
    values: Vec<(String, String)>,
}

/// The choice fields of a form; `None` if it has other fields than choices and optional texts, or more
/// than `CHOICES_MAX` choices. Optional texts are left out.
fn parse_choice_fields(schema: &Value) -> Option<Vec<ChoiceField>> {
    let properties = schema.get("properties")?.as_object()?;
    let required = schema.get("required").and_then(Value::as_array);
    let is_optional = |name: &str| !required.is_some_and(|all| all.iter().any(|one| one == name));
    let mut choices = Vec::new();
    for (name, about) in properties {
        match ChoiceField::parse(name, about) {
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

impl ChoiceField {
    fn parse(field: &str, about: &Value) -> Option<Self> {
        let named = |value: &Value| {
            let text = value.get("const")?.as_str()?;
            let title = value.get("title").and_then(Value::as_str).unwrap_or(text);
            Some((text.to_owned(), title.to_owned()))
        };
        let is_list = about.get("type").and_then(Value::as_str) == Some("array");
        let (of, titled) = match about.get("items").filter(|_| is_list) {
            Some(items) => (items, "anyOf"),
            None => (about, "oneOf"),
        };
        let names = of.get("enumNames").and_then(Value::as_array);
        let plain = |(at, value): (usize, &Value)| {
            let text = value.as_str()?;
            let name = names.and_then(|names| names.get(at)?.as_str()).unwrap_or(text);
            Some((text.to_owned(), name.to_owned()))
        };
        let values: Option<Vec<_>> = match (of.get(titled), of.get("enum")) {
            (Some(Value::Array(values)), _) => values.iter().map(named).collect(),
            (_, Some(Value::Array(values))) => values.iter().enumerate().map(plain).collect(),
            _ => None,
        };
        let figure = |key: &str| about.get(key)?.as_u64()?.try_into().ok();
        let count = match is_list {
            true => SelectionCount::Several {
                least: figure("minItems").unwrap_or(0),
                most: figure("maxItems").unwrap_or(usize::MAX),
            },
            false => SelectionCount::One,
        };
        let values = values.filter(|values| (1..=OPTIONS_MAX).contains(&values.len()))?;
        let text = |key: &str| about.get(key).and_then(Value::as_str);
        let about = text("description").or_else(|| text("title")).map(str::to_owned);
        Some(Self { field: field.to_owned(), count, about, values })
    }

    /// The options after `chosen` were selected; at least `least` values are required.
    fn permission_options(&self, chosen: &[usize], least: usize) -> Vec<PermissionOption> {
        let option = |(at, (_, title)): (usize, &(String, String))| {
            PermissionOption::new(at.to_string(), title.clone(), PermissionOptionKind::AllowOnce)
        };
        let left = self.values.iter().enumerate().filter(|(at, _)| !chosen.contains(at));
        let mut options: Vec<PermissionOption> = left.map(option).collect();
        if !chosen.is_empty() && chosen.len() >= least {
            let kind = PermissionOptionKind::AllowOnce;
            options.insert(0, PermissionOption::new(DONE_OPTION, "Done", kind));
        }
        let kind = PermissionOptionKind::RejectOnce;
        options.push(PermissionOption::new(NONE_OPTION, "None of these", kind));
        options
    }

    fn titles(&self, chosen: &[usize]) -> String {
        let titles = chosen.iter().filter_map(|at| self.values.get(*at));
        titles.map(|(_, title)| title.as_str()).collect::<Vec<_>>().join("; ")
    }

    fn to_answer(&self, value: Value) -> ElicitationAnswer {
        ElicitationAnswer::Accept(Map::from_iter([(self.field.clone(), value)]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Compares the fields, each written as `field about value=title …`.
    #[track_caller]
    fn check(schema: Value, expected: Option<&[&str]>) {
        let shown = |choice: ChoiceField| {
            let values = choice.values.iter().map(|(value, title)| format!(" {value}={title}"));
            let count = match choice.count {
                SelectionCount::One => String::new(),
                SelectionCount::Several { least, most } => format!("[{least}..={most}]"),
            };
            format!("{}{count} {:?}{}", choice.field, choice.about, values.collect::<String>())
        };
        let found: Option<Vec<String>> =
            parse_choice_fields(&schema).map(|choices| choices.into_iter().map(shown).collect());
        let found: Option<Vec<&str>> =
            found.as_ref().map(|found| found.iter().map(String::as_str).collect());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn enum_fields_become_choices() {
        let titled = json!({"properties": {"c": {"oneOf": [{"const": "r", "title": "Red"}]}}});
        check(titled, Some(&["c None r=Red"]));
        let plain = json!({"properties": {"c": {"title": "C", "enum": ["a", "b"]}}});
        check(plain, Some(&["c None a=a b=b"]));
        let named = json!({"properties": {"c": {"enum": ["a", "b"], "enumNames": ["A"]}}});
        check(named, Some(&["c None a=A b=b"]));
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
    fn optional_text_field_is_skipped_required_is_not() {
        let fields = json!({"c": {"enum": ["a"]}, "t": {"type": "string"}});
        check(json!({ "properties": fields }), Some(&["c None a=a"]));
        check(json!({"properties": fields, "required": ["c"]}), Some(&["c None a=a"]));
        check(json!({"properties": fields, "required": ["t"]}), None);
        let many =
            json!({"c": {"enum": ["a"]}, "m": {"type": "array", "items": {"type": "string"}}});
        check(json!({ "properties": many }), None);
    }

    #[test]
    fn multi_select_fields_become_choices() {
        let titled = json!({"properties": {"m": {"type": "array", "maxItems": 2,
            "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}}}});
        check(titled, Some(&["m[0..=2] None a=A b=B"]));
        let plain = json!({"properties": {"m": {"type": "array", "minItems": 1, "maxItems": 9,
            "items": {"enum": ["a"]}}}});
        check(plain, Some(&["m[1..=9] None a=a"]));
    }

    #[test]
    fn chosen_values_are_not_offered_again() {
        let schema = json!({"properties": {"m": {"type": "array", "items": {"enum": ["a", "b"]}}}});
        let choice = parse_choice_fields(&schema).unwrap().remove(0);
        let ids = |chosen: &[usize], least: usize| {
            let options = choice.permission_options(chosen, least);
            options.iter().map(|option| option.option_id.0.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[], 0), ["0", "1", "none"]);
        assert_eq!(ids(&[1], 0), ["done", "0", "none"]);
        assert_eq!(ids(&[1], 2), ["0", "none"]);
        assert_eq!(choice.titles(&[1, 0]), "b; a");
        for (id, expected) in [
            ("1", OptionPick::Value(1)),
            ("done", OptionPick::Done),
            ("none", OptionPick::Nothing),
            ("", OptionPick::Nothing),
        ] {
            assert_eq!(OptionPick::from_option_id(id), expected);
        }
    }
}
