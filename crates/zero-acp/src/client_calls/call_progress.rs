//! Progress and result of a client's own call, in the form that the client receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use zero_core::event::ResultContent;
use zero_core::{CallProgress, FileDiff, FileLocation, ResultDisplay, ToolKind, ToolOutcome};
use zero_runtime::DialectName;
use zero_runtime::dialect::{
    RenderedResult, render_error_for_platform, render_for_platform, render_plain, render_result,
};
use zero_runtime::tool_backend::CallObserver;

use crate::output_buffer::OutputBuffer;

/// Progress messages that may wait to be sent.
const PROGRESS_WAITING_MAX: usize = 16;

/// The outcome of a call in the client's form: content, and the structured result or error for
/// programs.
pub(super) fn outcome_json(
    (dialect, tool): (DialectName, &str),
    outcome: &ToolOutcome,
) -> Map<String, Value> {
    let is_error = outcome.error().is_some();
    let content = match outcome {
        ToolOutcome::Result(result) => render_result(dialect, tool, result),
        ToolOutcome::Error(_) => render_plain(outcome),
    };
    let mut content: Vec<Value> = content
        .into_iter()
        .map(|piece| match piece {
            ResultContent::Text { text } if is_error => {
                let mark = if dialect == DialectName::Acp { "Error: " } else { "" };
                json!({"type": "text", "text": format!("{mark}{text}"), "isError": true})
            }
            ResultContent::Text { text } => json!({"type": "text", "text": text}),
            ResultContent::Image { mime, data } => json!({
                "type": "image",
                "source": {"type": "base64", "mediaType": mime, "data": data},
            }),
        })
        .collect();
    let mut fields = Map::new();
    match outcome {
        ToolOutcome::Result(result) => {
            if let ResultDisplay::Diff(FileDiff { path, unified, .. }) = &result.display {
                content.push(json!({"type": "diff", "path": path, "diff": unified}));
            }
            if !result.structured.is_null() {
                fields.insert("structured".to_owned(), result.structured.clone());
            }
            if !result.metadata.is_empty() {
                fields.insert("metadata".to_owned(), json!(result.metadata));
            }
            if dialect == DialectName::Qwen {
                let RenderedResult { content, display } =
                    render_for_platform(dialect, tool, result);
                fields.insert("llmContent".to_owned(), Value::Array(content));
                fields.insert("returnDisplay".to_owned(), display);
            }
        }
        ToolOutcome::Error(error) => {
            fields.insert("error".to_owned(), json!(error));
            if dialect == DialectName::Qwen {
                let RenderedResult { content, display } =
                    render_error_for_platform(dialect, tool, error);
                fields.insert("llmContent".to_owned(), Value::Array(content));
                fields.insert("returnDisplay".to_owned(), display);
            }
        }
    }
    fields.insert("content".to_owned(), Value::Array(content));
    fields.insert("isError".to_owned(), Value::Bool(is_error));
    fields
}

/// Observes a call. Progress that does not fit into the queue is dropped: the result is complete.
pub(super) struct ClientCallObserver {
    words: mpsc::Sender<ClientCallUpdate>,
    printed: Arc<OutputBuffer>,
    /// Whether output was printed and its progress message did not fit into the queue.
    is_untold: AtomicBool,
}

impl ClientCallObserver {
    /// Creates the observer and the receiver of its progress messages.
    pub(super) fn new() -> (Self, mpsc::Receiver<ClientCallUpdate>) {
        let (words, receiver) = mpsc::channel(PROGRESS_WAITING_MAX);
        (Self { words, printed: Arc::default(), is_untold: AtomicBool::new(false) }, receiver)
    }
}

/// Progress of a call that has not ended.
pub(super) enum ClientCallUpdate {
    Title(String),
    Progress(CallProgress),
    Output(Arc<OutputBuffer>),
}

impl ClientCallUpdate {
    pub(super) fn into_json(self, session: &str, call: &str) -> Value {
        let mut fields = json!({"sessionId": session, "toolCallId": call});
        match self {
            Self::Title(title) => fields["title"] = Value::String(title),
            Self::Progress(CallProgress { message, percentage }) => {
                fields["message"] = Value::String(message);
                if let Some(percentage) = percentage {
                    fields["percentage"] = Value::from(percentage);
                }
            }
            Self::Output(printed) => fields["output"] = Value::String(printed.take()),
        }
        fields
    }
}

impl CallObserver for ClientCallObserver {
    fn on_described(&self, title: String, _kind: ToolKind, _locations: Vec<FileLocation>) {
        let _ = self.words.try_send(ClientCallUpdate::Title(title));
    }

    fn on_progress(&self, progress: CallProgress) {
        let _ = self.words.try_send(ClientCallUpdate::Progress(progress));
    }

    fn on_output(&self, text: &str) {
        if self.printed.push(text) || self.is_untold.load(Ordering::Acquire) {
            let word = ClientCallUpdate::Output(Arc::clone(&self.printed));
            self.is_untold.store(self.words.try_send(word).is_err(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use zero_core::{ErrorReason, ErrorType, ToolError, ToolResult, ToolResultPart};

    use super::*;

    #[test]
    fn update_has_percentage_if_known() {
        let ids = |mut fields: Value| {
            fields["sessionId"] = json!("s");
            fields["toolCallId"] = json!("c");
            fields
        };
        let half = CallProgress { message: "half".to_owned(), percentage: Some(50) };
        for (update, expected) in [
            (ClientCallUpdate::Title("t".to_owned()), json!({"title": "t"})),
            (ClientCallUpdate::Progress(CallProgress::new("on")), json!({"message": "on"})),
            (ClientCallUpdate::Progress(half), json!({"message": "half", "percentage": 50})),
        ] {
            assert_eq!(update.into_json("s", "c"), ids(expected));
        }
    }

    #[test]
    fn result_content_uses_client_format() {
        let mut result = ToolResult::text("done");
        let (mime, data) = ("image/png".to_owned(), "AA==".to_owned());
        result.content.push(ToolResultPart::Image { mime, data });
        let (path, unified) = ("/a".to_owned(), "@@ -1 +1 @@".to_owned());
        result.display = ResultDisplay::Diff(FileDiff {
            path,
            unified,
            old_text: None,
            new_text: None,
            partial: false,
        });
        result.structured = json!({"replacements": 1});
        let called = (DialectName::Canonical, "Edit");
        let outcome = ToolOutcome::from(result);
        let fields = outcome_json(called, &outcome);
        let expected = json!([
            {"type": "text", "text": "done"},
            {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "AA=="}},
            {"type": "diff", "path": "/a", "diff": "@@ -1 +1 @@"},
        ]);
        assert_eq!(fields["content"], expected);
        assert_eq!(
            (&fields["isError"], &fields["structured"]),
            (&json!(false), &json!({"replacements": 1}))
        );
        let error = ToolError::new(ErrorType::PermissionDenied, ErrorReason::Denied, "no")
            .with_detail("matched_rule", "Bash(rm *)");
        let failed = outcome_json(called, &error.clone().into());
        assert_eq!(failed["content"], json!([{"type": "text", "text": "no", "isError": true}]));
        assert_eq!((&failed["isError"], &failed["error"]), (&json!(true), &json!(error)));
        let acp = outcome_json((DialectName::Acp, "edit_file"), &error.clone().into());
        let marked = json!([{"type": "text", "text": "Error: no", "isError": true}]);
        assert_eq!((&acp["content"], &acp["error"]), (&marked, &json!(error)));
        assert!(!fields.contains_key("llmContent") && !failed.contains_key("llmContent"));
        let qwen = outcome_json((DialectName::Qwen, "edit"), &outcome);
        let parts =
            json!([{"text": "done"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]);
        assert_eq!(qwen["llmContent"], parts);
        assert_eq!(qwen["returnDisplay"]["fileName"], "/a");
    }

    #[test]
    fn qwen_error_contains_output_and_details() {
        let error = ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, "too slow")
            .with_detail("output", "half\n");
        let fields = outcome_json((DialectName::Qwen, "run_shell_command"), &error.into());
        let facts = r#"{"tool":"run_shell_command","error_type":"timeout","message":"too slow","details":{"reason":"deadline"}}"#;
        let text = format!("{facts}\n\nhalf");
        assert_eq!(fields["llmContent"], json!([{"text": text}]));
        assert_eq!(fields["returnDisplay"], "too slow\n\nhalf");
    }
}
