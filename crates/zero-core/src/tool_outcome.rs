//! The outcome of a call: its result or its error.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::event::{ResultContent, ToolCallStatus};
use crate::tool_result::fields_bytes;
use crate::{
    ErrorReason, ErrorType, FileLocation, ResultDisplay, ToolError, ToolResult, ToolResultPart,
};

/// Most levels of a value in an outcome.
const DEPTH_MAX: usize = 64;

/// The outcome of a call. The ledger and every client get it whole; the model gets what a dialect
/// renders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// The call returned a result.
    Result(ToolResult),
    /// The call returned an error.
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
                metadata: crate::ResultMetadata::default(),
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
        let mut details = Map::new();
        details.extend(reason.map(|reason| ("reason".to_owned(), reason.into())));
        if !locations.is_empty() {
            details.insert("locations".to_owned(), json!(locations));
        }
        Self::Error(ToolError { tool: String::new(), error_type, message, details })
    }

    /// The same with values that are not nested too deeply; see [`limit_depth`].
    #[must_use]
    pub fn with_limited_depth(mut self) -> Self {
        match &mut self {
            Self::Result(result) => limit_depth(&mut result.structured),
            Self::Error(error) => error.details.values_mut().for_each(limit_depth),
        }
        self
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

    /// Places that the call touched. An error names them in `details.locations`.
    pub fn locations(&self) -> Cow<'_, [FileLocation]> {
        match self {
            Self::Result(result) => Cow::Borrowed(result.locations.as_slice()),
            Self::Error(error) => {
                let named = error.details.get("locations");
                let named = named.and_then(|named| Vec::<FileLocation>::deserialize(named).ok());
                Cow::Owned(named.unwrap_or_default())
            }
        }
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

/// Replaces what is nested more than [`DEPTH_MAX`] levels deep in a value by a note.
///
/// Records, frames and events add further levels, and their readers reject a depth of 128.
pub fn limit_depth(value: &mut Value) {
    fn limit(value: &mut Value, left: usize) {
        match value {
            Value::Array(items) if left > 0 => {
                items.iter_mut().for_each(|item| limit(item, left - 1));
            }
            Value::Object(fields) if left > 0 => {
                fields.values_mut().for_each(|field| limit(field, left - 1));
            }
            Value::Array(_) | Value::Object(_) => *value = "(nested too deeply)".into(),
            _ => {}
        }
    }
    limit(value, DEPTH_MAX);
}

#[cfg(test)]
mod tests {
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
            let locations = vec![FileLocation { path: "/a".into(), line: Some(1) }];
            let outcome = ToolOutcome::from_content(status, content, None, locations.clone());
            assert_eq!(outcome.status(), status);
            assert_eq!(*outcome.locations(), locations);
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
            metadata: crate::ResultMetadata::default(),
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
            metadata: crate::ResultMetadata::default(),
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

    #[test]
    fn deep_values_are_replaced_and_read_back() {
        let nest =
            |levels: usize| (0..levels).fold(Value::Null, |inner, _| serde_json::json!([inner]));
        let mut fine = nest(DEPTH_MAX);
        limit_depth(&mut fine);
        assert_eq!(fine, nest(DEPTH_MAX));
        let mut deep = nest(120);
        limit_depth(&mut deep);
        let details = [("data".to_owned(), nest(120))].into_iter().collect();
        let error = ToolError { details, ..ToolError::failed(ErrorReason::Io, "no") };
        let result = ToolResult {
            content: Vec::new(),
            display: ResultDisplay::markdown(""),
            structured: nest(120),
            locations: Vec::new(),
            metadata: crate::ResultMetadata::default(),
        };
        for outcome in [ToolOutcome::Error(error), ToolOutcome::Result(result)] {
            let text = serde_json::to_string(&outcome.with_limited_depth()).unwrap();
            assert!(text.contains("(nested too deeply)"));
            serde_json::from_str::<ToolOutcome>(&text).unwrap();
        }
    }
}
