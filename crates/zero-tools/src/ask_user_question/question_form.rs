//! Questions as a form that every face can show, and answers out of it.
//!
//! Each question is a choice and, beside it, a text of the person's own. Nothing of it is required:
//! whoever leaves out both has not answered. Some faces can show choices but take no text, so what is
//! none of the options can be chosen, too: whoever does so without a text says it later.

use serde_json::{Map, Value, json};
use zero_core::{ErrorReason, ToolError};
use zero_runtime::schema::InputSchema;

use super::{ChoiceQuestion, OTHER, QuestionChoice};
use crate::text_format::to_single_line;

/// Longest answer of the person's own, in characters.
pub(super) const FREE_TEXT_CHARS_MAX: usize = 4_000;
/// What the choice of none of the options is called.
const OTHER_TITLE: &str = "Other – in your own words";

/// What was said to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserQuestionAnswer {
    /// The chosen labels, the person's own words, or both.
    Answer(String),
    /// They will say it in their own words, beside what they chose.
    FreeTextPending(Option<String>),
    /// Both fields were left out.
    Unanswered,
}

/// Questions that fit together.
#[derive(Debug)]
pub struct QuestionForm {
    questions: Vec<ChoiceQuestion>,
}

impl QuestionForm {
    pub(super) fn new(questions: Vec<ChoiceQuestion>) -> Self {
        Self { questions }
    }

    /// What it is about, in one line.
    pub(super) fn title(&self) -> String {
        match &self.questions[..] {
            [one] => to_single_line(one.question.trim()),
            several => {
                let headers: Vec<String> =
                    several.iter().map(|question| to_single_line(question.header.trim())).collect();
                headers.join(", ")
            }
        }
    }

    /// What stands above the form.
    pub(super) fn message(&self) -> String {
        match &self.questions[..] {
            [one] => one.question.trim().to_owned(),
            several => format!("{} questions", several.len()),
        }
    }

    /// The form. Names sort in the order of the questions, since some faces sort them.
    pub(super) fn schema(&self) -> Value {
        let is_alone = self.questions.len() == 1;
        let mut fields = Map::new();
        for (index, question) in self.questions.iter().enumerate() {
            let ChoiceQuestion { question: text, header, options, multi_select } = question;
            let other = json!({"const": OTHER, "title": OTHER_TITLE});
            let options: Vec<Value> = options.iter().map(option_schema).chain([other]).collect();
            let mut choice = match multi_select {
                true => json!({"type": "array", "items": {"anyOf": options}}),
                false => json!({"type": "string", "oneOf": options}),
            };
            if let Some(choice) = choice.as_object_mut() {
                choice.insert("title".to_owned(), header.trim().into());
                // One that stands alone is the message.
                if !is_alone {
                    choice.insert("description".to_owned(), text.trim().into());
                }
            }
            let own = json!({
                "type": "string",
                "title": format!("{}: other", header.trim()),
                "description": "An answer of your own, if none of these fits",
                "maxLength": FREE_TEXT_CHARS_MAX,
            });
            fields.insert(choice_field_name(index), choice);
            fields.insert(free_text_field_name(index), own);
        }
        json!({"type": "object", "properties": fields})
    }

    /// What was said to each question, in their order.
    pub(super) fn parse_answers(
        &self,
        values: Map<String, Value>,
    ) -> Result<Vec<(String, UserQuestionAnswer)>, ToolError> {
        let checked = InputSchema::new(self.schema()).check(Value::Object(values));
        let values = checked.map_err(|_| {
            let message = "what came back does not fit the questions, so nothing was chosen; ask in your reply instead";
            ToolError::failed(ErrorReason::RemoteFailure, message)
        })?;
        let said = |(index, question): (usize, &ChoiceQuestion)| {
            let mut parts = match values.get(choice_field_name(index)) {
                Some(Value::Array(labels)) => labels.iter().filter_map(Value::as_str).collect(),
                Some(Value::String(label)) => vec![label.as_str()],
                _ => Vec::new(),
            };
            let options = parts.len();
            parts.retain(|part| *part != OTHER);
            let chose_other = parts.len() < options;
            let own =
                values.get(free_text_field_name(index)).and_then(Value::as_str).map(str::trim);
            let own = own.filter(|own| !own.is_empty());
            parts.extend(own);
            let answer = (!parts.is_empty()).then(|| parts.join(", "));
            let said = match answer {
                answer if chose_other && own.is_none() => {
                    UserQuestionAnswer::FreeTextPending(answer)
                }
                Some(answer) => UserQuestionAnswer::Answer(answer),
                None => UserQuestionAnswer::Unanswered,
            };
            (question.question.trim().to_owned(), said)
        };
        Ok(self.questions.iter().enumerate().map(said).collect())
    }
}

fn option_schema(choice: &QuestionChoice) -> Value {
    let (label, description) = (choice.label.trim(), to_single_line(choice.description.trim()));
    json!({"const": label, "title": format!("{} – {description}", to_single_line(label))})
}

fn choice_field_name(index: usize) -> String {
    format!("q{}", index + 1)
}

fn free_text_field_name(index: usize) -> String {
    format!("q{}_other", index + 1)
}
