//! What a client is told of a call of its own: how it is coming along, and its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use zero_core::Kind;
use zero_core::event::{Place, ResultContent, Shown, ToolStatus};
use zero_session::hands::{CallEnd, HandsWatch};

use crate::printed::Printed;

/// Words about a call that wait to be told.
const WORDS_MAX: usize = 16;

/// The result in the client's form.
pub(super) fn told_content(end: &CallEnd) -> Vec<Value> {
    let is_error = end.status != ToolStatus::Completed;
    let mut told: Vec<Value> = end
        .content
        .iter()
        .map(|piece| match piece {
            ResultContent::Text { text } if is_error => {
                json!({"type": "text", "text": text, "isError": true})
            }
            ResultContent::Text { text } => json!({"type": "text", "text": text}),
            ResultContent::Image { mime, data } => json!({
                "type": "image",
                "source": {"type": "base64", "mediaType": mime, "data": data},
            }),
        })
        .collect();
    if let Some(Shown::Diff { path, unified, .. }) = &end.display {
        told.push(json!({"type": "diff", "path": path, "diff": unified}));
    }
    told
}

/// Hears of a call. What finds no room is not told: the result has everything.
pub(super) struct Watch {
    words: mpsc::Sender<Word>,
    printed: Arc<Printed>,
    /// Whether something was printed and the word about it found no room.
    is_untold: AtomicBool,
}

impl Watch {
    /// Hears of a call, and passes on what it hears.
    pub(super) fn new() -> (Self, mpsc::Receiver<Word>) {
        let (words, heard) = mpsc::channel(WORDS_MAX);
        (Self { words, printed: Arc::default(), is_untold: AtomicBool::new(false) }, heard)
    }
}

/// Something about a call that is not over.
pub(super) enum Word {
    Title(String),
    Message(String),
    Printed(Arc<Printed>),
}

impl Word {
    pub(super) fn told(self, session: &str, call: &str) -> Value {
        let (name, text) = match self {
            Self::Title(title) => ("title", title),
            Self::Message(message) => ("message", message),
            Self::Printed(printed) => ("output", printed.take()),
        };
        json!({"sessionId": session, "toolCallId": call, name: text})
    }
}

impl HandsWatch for Watch {
    fn described(&self, title: String, _kind: Kind, _locations: Vec<Place>) {
        let _ = self.words.try_send(Word::Title(title));
    }

    fn progress(&self, message: String) {
        let _ = self.words.try_send(Word::Message(message));
    }

    fn printed(&self, text: &str) {
        if self.printed.push(text) || self.is_untold.load(Ordering::Acquire) {
            let word = Word::Printed(Arc::clone(&self.printed));
            self.is_untold.store(self.words.try_send(word).is_err(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_told_in_the_clients_form() {
        let mut end = CallEnd::words(ToolStatus::Completed, "done");
        end.content.push(ResultContent::Image { mime: "image/png".into(), data: "AA==".into() });
        let (path, unified) = ("/a".to_owned(), "@@ -1 +1 @@".to_owned());
        end.display =
            Some(Shown::Diff { path, unified, old_text: None, new_text: None, partial: false });
        let told = told_content(&end);
        let expected = json!([
            {"type": "text", "text": "done"},
            {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "AA=="}},
            {"type": "diff", "path": "/a", "diff": "@@ -1 +1 @@"},
        ]);
        assert_eq!(Value::Array(told), expected);
        let failed = told_content(&CallEnd::words(ToolStatus::Denied, "no"));
        assert_eq!(Value::Array(failed), json!([{"type": "text", "text": "no", "isError": true}]));
    }
}
