//! Questions from servers or the agent to the user.
//!
//! A server may need a value or a visit to a web page before it can continue, and the agent may
//! need a choice that only the user can make. zero never answers such a question itself: the user
//! sees who asks and why, and the answer goes to that asker only. For permission to run a call, see
//! [`crate::approver`].

use serde_json::{Map, Value};
use zero_core::CallId;
use zero_core::event::QuestionOrigin;
use zero_core::sanitize::{escape_line, escape_lines};

use crate::tool::BoxFuture;

/// The origin of questions that the agent itself asks.
pub const AGENT_ORIGIN: &str = "the agent";

/// A question for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// Who asks, such as ``MCP server `github` `` or `the agent`, for use within a sentence. zero
    /// sets it, not the asker.
    pub origin: String,
    /// The call it belongs to, if known.
    pub call: Option<CallId>,
    /// The question. Untrusted text.
    pub message: String,
    /// The kind of answer that is requested.
    pub mode: ElicitationMode,
}

impl Elicitation {
    /// Who asks, for the beginning of a sentence.
    pub fn asker(&self) -> String {
        let mut characters = self.origin.chars();
        let first = characters.next().map(char::to_uppercase);
        first.into_iter().flatten().chain(characters).collect()
    }

    /// The same question with every hidden character in its text and labels shown as an escape, for
    /// clients that display it as it is. The values that an answer can contain stay as they are.
    #[must_use]
    pub fn to_visible(&self) -> Self {
        let mut visible = self.clone();
        visible.origin = escape_line(&self.origin).into_owned();
        visible.message = escape_lines(&self.message).into_owned();
        if let ElicitationMode::Form(schema) = &mut visible.mode {
            escape_labels(schema);
        }
        visible
    }
}

/// Escapes hidden characters in the titles and descriptions of a form.
fn escape_labels(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(label) if matches!(name.as_str(), "title" | "description") => {
                        *label = escape_lines(label).into_owned();
                    }
                    Value::Array(labels) if name == "enumNames" => {
                        for label in labels {
                            if let Value::String(label) = label {
                                *label = escape_line(label).into_owned();
                            }
                        }
                    }
                    value => escape_labels(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(escape_labels),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The kind of answer that is requested.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationMode {
    /// Values: a JSON Schema of an object with fields for text, numbers, booleans and choices.
    Form(Value),
    /// A visit to a web page. The URL is shown in full, and only the user opens it.
    Url(String),
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// Values that match the schema; none for a web page.
    Accept(Map<String, Value>),
    /// The user declined.
    Decline,
    /// No answer: the user left, or no user is available.
    Cancel,
}

/// Delivers questions to the user. Without an elicitor, questions are cancelled and the asker is
/// told so.
pub trait Elicitor: Send + Sync {
    /// Whether a user may be available. If not, the asker is told so at once.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Asks. May take as long as the user needs; the asker can give up meanwhile.
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer>;

    /// Asks what a sub-agent itself wants to know.
    fn elicit_for_subagent<'a>(
        &'a self,
        elicitation: &'a Elicitation,
        _origin: QuestionOrigin,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        self.elicit(elicitation)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn visible_question_escapes_labels_and_keeps_values() {
        let form = |label: &str, line: &str| {
            json!({"type": "object", "properties": {
                "title": {"type": "string", "title": label, "default": "d\u{202e}"},
                "one": {"oneOf": [{"const": "v\u{202e}", "title": label}]},
                "two": {"enum": ["e\u{202e}"], "enumNames": [line], "description": label},
            }})
        };
        let question = |origin: &str, message: &str, wanted| Elicitation {
            origin: origin.to_owned(),
            call: None,
            message: message.to_owned(),
            mode: ElicitationMode::Form(wanted),
        };
        let hidden = question("s\u{3164}", "a\n\u{202e}b", form("l\n\u{ad}", "l\n"));
        let shown = question("s\\u{3164}", "a\n\\u{202e}b", form("l\n\\u{ad}", "l\\n"));
        assert_eq!(hidden.to_visible(), shown);
        assert_eq!(shown.to_visible(), shown);
    }
}
