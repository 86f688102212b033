//! What became of a call: its result, or why there is none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{ResultContent, ToolCallStatus};
use crate::tool_result::fields_bytes;
use crate::{
    ErrorReason, ErrorType, FileLocation, ResultDisplay, ToolError, ToolResult, ToolResultPart,
};

/// What became of a call. The ledger, the wire and every client are given it whole; only a model is
/// given what a dialect makes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It gave a result.
    Result(ToolResult),
    /// It gave none.
    Error(ToolError),
}

impl ToolOutcome {
    /// An outcome of which only this is known: how the call ended, and what was shown of it.
    pub fn from_content(
        status: ToolCallStatus,
        content: Vec<ResultContent>,
        display: Option<ResultDisplay>,
        locations: Vec<FileLocation>,
    ) -> Self {
        if status == ToolCallStatus::Completed {
            return Self::Result(ToolResult {
                content: content.into_iter().map(ToolResultPart::from).collect(),
                display: display.unwrap_or_else(|| ResultDisplay::markdown("")),
                structured: Value::Null,
                locations,
            });
        }
        let texts = content.into_iter().filter_map(|piece| match piece {
            ResultContent::Text { text } => Some(text),
            ResultContent::Image { .. } => None,
        });
        let message = texts.collect::<Vec<_>>().join("\n");
        let error_type = match status {
            ToolCallStatus::Denied => ErrorType::PermissionDenied,
            _ => ErrorType::ExecutionFailed,
        };
        let reason = match status {
            ToolCallStatus::Cancelled => Some("cancelled"),
            ToolCallStatus::Interrupted => Some("interrupted"),
            _ => None,
        };
        let details = reason.map(|reason| ("reason".to_owned(), reason.into()));
        let details = details.into_iter().collect();
        Self::Error(ToolError { tool: String::new(), error_type, message, details })
    }

    /// How the call ended, in one word.
    pub fn status(&self) -> ToolCallStatus {
        let Self::Error(error) = self else { return ToolCallStatus::Completed };
        match (error.error_type, error.reason()) {
            (_, Some(ErrorReason::Cancelled)) => ToolCallStatus::Cancelled,
            (_, Some(ErrorReason::Interrupted)) => ToolCallStatus::Interrupted,
            // The operating system's no is a failure; policy and people deny.
            (
                ErrorType::PermissionDenied,
                Some(ErrorReason::AccessDenied | ErrorReason::ReadOnly),
            ) => ToolCallStatus::Failed,
            (ErrorType::PermissionDenied, _) => ToolCallStatus::Denied,
            _ => ToolCallStatus::Failed,
        }
    }

    /// The result, where there is one.
    pub fn result(&self) -> Option<&ToolResult> {
        match self {
            Self::Result(result) => Some(result),
            Self::Error(_) => None,
        }
    }

    /// The error, where there is one.
    pub fn error(&self) -> Option<&ToolError> {
        match self {
            Self::Result(_) => None,
            Self::Error(error) => Some(error),
        }
    }

    /// Places that the call touched.
    pub fn locations(&self) -> &[FileLocation] {
        self.result().map_or(&[], |result| &result.locations)
    }

    /// Estimated size: the bytes of its texts and media.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Result(result) => result.bytes(),
            Self::Error(error) => {
                error.tool.len() + error.message.len() + fields_bytes(&error.details)
            }
        }
    }
}

impl From<ToolError> for ToolOutcome {
    fn from(error: ToolError) -> Self {
        Self::Error(error)
    }
}

impl From<ToolResult> for ToolOutcome {
    fn from(result: ToolResult) -> Self {
        Self::Result(result)
    }
}

impl From<Result<ToolResult, ToolError>> for ToolOutcome {
    fn from(outcome: Result<ToolResult, ToolError>) -> Self {
        outcome.map_or_else(Self::Error, Self::Result)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::FileDiff;
    use crate::tool_result::{RemainingLines, SearchHit};

    #[test]
    fn status_is_derived_from_error() {
        use ErrorReason as Reason;
        use ErrorType::{ExecutionFailed, PermissionDenied, Timeout};
        for (error_type, reason, expected) in [
            (PermissionDenied, Reason::Denied, ToolCallStatus::Denied),
            (PermissionDenied, Reason::Rejected, ToolCallStatus::Denied),
            (PermissionDenied, Reason::AccessDenied, ToolCallStatus::Failed),
            (PermissionDenied, Reason::ReadOnly, ToolCallStatus::Failed),
            (ExecutionFailed, Reason::Cancelled, ToolCallStatus::Cancelled),
            (ExecutionFailed, Reason::Interrupted, ToolCallStatus::Interrupted),
            (Timeout, Reason::Deadline, ToolCallStatus::Failed),
        ] {
            let outcome = ToolOutcome::from(ToolError::new(error_type, reason, ""));
            assert_eq!(outcome.status(), expected, "{reason:?}");
        }
        assert_eq!(ToolOutcome::from(ToolResult::text("")).status(), ToolCallStatus::Completed);
    }

    #[test]
    fn outcome_from_content_has_its_status() {
        use ToolCallStatus::{Cancelled, Completed, Denied, Failed, Interrupted};
        for status in [Completed, Failed, Denied, Cancelled, Interrupted] {
            let content = vec![ResultContent::Text { text: "a".into() }];
            let outcome = ToolOutcome::from_content(status, content, None, Vec::new());
            assert_eq!(outcome.status(), status);
            assert_eq!(outcome.error().map_or("a", |error| &error.message), "a");
        }
    }

    #[test]
    fn size_counts_every_text() {
        let long = || "x".repeat(1000);
        let note = || Some(long());
        let hit = SearchHit { file: long(), line: 1, text: long(), is_match: true };
        let result = ToolResult {
            content: vec![
                ToolResultPart::Lines { first: 1, text: long(), rest: None, note: note() },
                ToolResultPart::Matches { hits: vec![hit], numbered: true, note: note() },
                ToolResultPart::Resource { uri: long(), mime: long(), data: long() },
            ],
            display: ResultDisplay::markdown(long()),
            structured: json!({ long(): [1, long()] }),
            locations: vec![FileLocation { path: long().into(), line: None }],
        };
        let bytes = ToolOutcome::from(result).bytes();
        assert!((12_000..12_100).contains(&bytes), "{bytes}");
        let mut error = ToolError::invalid(ErrorReason::NoMatch, long());
        error.tool = long();
        error.details = [(long(), json!([]))].into_iter().collect();
        let bytes = ToolOutcome::from(error).bytes();
        assert!((3_000..3_100).contains(&bytes), "{bytes}");
    }

    #[test]
    fn every_part_survives_json() {
        let diff = FileDiff {
            path: "a".into(),
            unified: "+b".into(),
            old_text: None,
            new_text: Some("b".into()),
            partial: true,
        };
        let media = || ("image/png".to_owned(), "AA==".to_owned());
        let (mime, data) = media();
        let (audio_mime, audio) = media();
        let (other_mime, other) = media();
        let hit = SearchHit { file: "a".into(), line: 1, text: "x".into(), is_match: true };
        let rest = Some(RemainingLines { next: 2, total_lines: 3 });
        let result = ToolResult {
            content: vec![
                ToolResultPart::Text("a".into()),
                ToolResultPart::Lines { first: 1, text: "b".into(), rest, note: None },
                ToolResultPart::Matches { hits: vec![hit], numbered: true, note: None },
                ToolResultPart::Diff { summary: "s".into(), diff: diff.clone() },
                ToolResultPart::Image { mime, data },
                ToolResultPart::Audio { mime: audio_mime, data: audio },
                ToolResultPart::Resource { uri: "u".into(), mime: other_mime, data: other },
            ],
            display: ResultDisplay::Diff(diff),
            structured: json!({"exit_code": 7}),
            locations: vec![FileLocation { path: "/a".into(), line: Some(1) }],
        };
        for outcome in [
            ToolOutcome::from(result),
            ToolError::invalid(ErrorReason::NoMatch, "no").with_detail("file", "a").into(),
        ] {
            let written = serde_json::to_string(&outcome).unwrap();
            assert_eq!(serde_json::from_str::<ToolOutcome>(&written).unwrap(), outcome);
        }
        let written = serde_json::to_value(ToolOutcome::from(ToolResult::text("a"))).unwrap();
        let expected = json!({"result": {
            "content": [{"text": "a"}],
            "display": {"type": "markdown", "text": ""},
            "structured": Value::Null,
        }});
        assert_eq!(written, expected);
    }
}
