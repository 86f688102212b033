//! Conversion of questions to a form that every client can show, and of the submitted form to
//! answers.
//!
//! Each question becomes a choice and a text field for a free-text answer. None of the fields is
//! required: if both are empty, the question is not answered. Some clients can show choices but no
//! text fields, so `other` is one of the choices, too. If it is chosen without a text, the user
//! gives the text in their next message.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use zero_core::sanitize::escape_line;
use zero_core::{ErrorReason, ToolError};
use zero_runtime::schema::InputSchema;

use super::{ChoiceQuestion, OTHER, QuestionChoice};

/// Longest free-text answer, in characters.
pub(super) const FREE_TEXT_CHARS_MAX: usize = 4_000;
/// Title of the choice for a free-text answer.
const OTHER_TITLE: &str = "Other – in your own words";

/// The answer to one question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserQuestionAnswer {
    /// The chosen labels, the free text, or both.
    Answer(String),
    /// `other` was chosen without a text. Carries the labels chosen besides.
    FreeTextPending(Option<String>),
    /// Both fields were left empty.
    Unanswered,
}

/// The checked questions of one call.
#[derive(Debug)]
pub struct QuestionForm {
    questions: Vec<ChoiceQuestion>,
}

impl QuestionForm {
    pub(super) fn new(questions: Vec<ChoiceQuestion>) -> Self {
        Self { questions }
    }

    /// Returns the title of the call, in one line.
    pub(super) fn title(&self) -> String {
        match &self.questions[..] {
            [one] => escape_line(one.question.trim()).into_owned(),
            several => {
                let headers: Vec<Cow<'_, str>> =
                    several.iter().map(|question| escape_line(question.header.trim())).collect();
                headers.join(", ")
            }
        }
    }

    /// Returns the text above the form.
    pub(super) fn message(&self) -> String {
        match &self.questions[..] {
            [one] => one.question.trim().to_owned(),
            several => format!("{} questions", several.len()),
        }
    }

    /// Returns the JSON schema of the form. Field names sort in the order of the questions, since
    /// some clients sort them.
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
                // The text of a single question is the message of the form.
                if !is_alone {
                    choice.insert("description".to_owned(), text.trim().into());
                }
            }
            let own = json!({
                "type": "string",
                "title": format!("{}: other", header.trim()),
                "description": "Your own answer, if no option fits",
                "maxLength": FREE_TEXT_CHARS_MAX,
            });
            fields.insert(choice_field_name(index), choice);
            fields.insert(free_text_field_name(index), own);
        }
        json!({"type": "object", "properties": fields})
    }

    /// Returns the answer to each question, in their order.
    pub(super) fn parse_answers(
        &self,
        values: Map<String, Value>,
    ) -> Result<Vec<(String, UserQuestionAnswer)>, ToolError> {
        let checked = InputSchema::new(self.schema()).check(Value::Object(values));
        let values = checked.map_err(|_| {
            let message = "the submitted form does not match the questions, so nothing was chosen; ask in your reply instead";
            ToolError::failed(ErrorReason::RemoteFailure, message)
        })?;
        let reply = |(index, question): (usize, &ChoiceQuestion)| {
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
            let reply = match answer {
                answer if chose_other && own.is_none() => {
                    UserQuestionAnswer::FreeTextPending(answer)
                }
                Some(answer) => UserQuestionAnswer::Answer(answer),
                None => UserQuestionAnswer::Unanswered,
            };
            (question.question.trim().to_owned(), reply)
        };
        Ok(self.questions.iter().enumerate().map(reply).collect())
    }
}

fn option_schema(choice: &QuestionChoice) -> Value {
    let (label, description) = (choice.label.trim(), escape_line(choice.description.trim()));
    json!({"const": label, "title": format!("{} – {description}", escape_line(label))})
}

fn choice_field_name(index: usize) -> String {
    format!("q{}", index + 1)
}

fn free_text_field_name(index: usize) -> String {
    format!("q{}_other", index + 1)
}
