//! Questions of a gateway to the user, asked as a form or an address.

use serde_json::{Map, Value, json};
use zero_core::event::UserQuestion;
use zero_runtime::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};

/// Asks a question. Returns `accept`, `decline` or `cancel`, and the values.
pub(crate) async fn elicit_answer(
    elicitor: &dyn Elicitor,
    question: UserQuestion,
) -> (&'static str, Map<String, Value>) {
    let UserQuestion { origin, message, schema, url, .. } = question;
    let mode = match url {
        Some(url) => ElicitationMode::Url(url),
        None => ElicitationMode::Form(schema.unwrap_or_else(|| json!({"type": "object"}))),
    };
    match elicitor.elicit(&Elicitation { origin, call: None, message, mode }).await {
        ElicitationAnswer::Accept(content) => ("accept", content),
        ElicitationAnswer::Decline => ("decline", Map::new()),
        ElicitationAnswer::Cancel => ("cancel", Map::new()),
    }
}
