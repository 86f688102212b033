//! What a client is told of a call of its own: how it is coming along, and its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use zero_core::ToolKind;
use zero_core::event::{CallDisplay, FilePosition, ResultContent, ToolCallStatus};
use zero_runtime::tool_backend::{BackendResult, CallObserver};

use crate::output_buffer::OutputBuffer;

/// Words about a call that wait to be told.
const PROGRESS_WAITING_MAX: usize = 16;

/// The result in the client's form.
pub(super) fn content_json(end: &BackendResult) -> Vec<Value> {
    let is_error = end.status != ToolCallStatus::Completed;
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
    if let Some(CallDisplay::Diff { path, unified, .. }) = &end.display {
        told.push(json!({"type": "diff", "path": path, "diff": unified}));
    }
    told
}

/// Hears of a call. What finds no room is not told: the result has everything.
pub(super) struct ClientCallObserver {
    words: mpsc::Sender<CallProgress>,
    printed: Arc<OutputBuffer>,
    /// Whether something was printed and the word about it found no room.
    is_untold: AtomicBool,
}

impl ClientCallObserver {
    /// Hears of a call, and passes on what it hears.
    pub(super) fn new() -> (Self, mpsc::Receiver<CallProgress>) {
        let (words, heard) = mpsc::channel(PROGRESS_WAITING_MAX);
        (Self { words, printed: Arc::default(), is_untold: AtomicBool::new(false) }, heard)
    }
}

/// Something about a call that is not over.
pub(super) enum CallProgress {
    Title(String),
    Message(String),
    Output(Arc<OutputBuffer>),
}

impl CallProgress {
    pub(super) fn into_json(self, session: &str, call: &str) -> Value {
        let (name, text) = match self {
            Self::Title(title) => ("title", title),
            Self::Message(message) => ("message", message),
            Self::Output(printed) => ("output", printed.take()),
        };
        json!({"sessionId": session, "toolCallId": call, name: text})
    }
}

impl CallObserver for ClientCallObserver {
    fn on_described(&self, title: String, _kind: ToolKind, _locations: Vec<FilePosition>) {
        let _ = self.words.try_send(CallProgress::Title(title));
    }

    fn on_progress(&self, message: String) {
        let _ = self.words.try_send(CallProgress::Message(message));
    }

    fn on_output(&self, text: &str) {
        if self.printed.push(text) || self.is_untold.load(Ordering::Acquire) {
            let word = CallProgress::Output(Arc::clone(&self.printed));
            self.is_untold.store(self.words.try_send(word).is_err(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_content_uses_client_format() {
        let mut end = BackendResult::from_text(ToolCallStatus::Completed, "done");
        end.content.push(ResultContent::Image { mime: "image/png".into(), data: "AA==".into() });
        let (path, unified) = ("/a".to_owned(), "@@ -1 +1 @@".to_owned());
        end.display = Some(CallDisplay::Diff {
            path,
            unified,
            old_text: None,
            new_text: None,
            partial: false,
        });
        let told = content_json(&end);
        let expected = json!([
            {"type": "text", "text": "done"},
            {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "AA=="}},
            {"type": "diff", "path": "/a", "diff": "@@ -1 +1 @@"},
        ]);
        assert_eq!(Value::Array(told), expected);
        let failed = content_json(&BackendResult::from_text(ToolCallStatus::Denied, "no"));
        assert_eq!(Value::Array(failed), json!([{"type": "text", "text": "no", "isError": true}]));
    }
}
