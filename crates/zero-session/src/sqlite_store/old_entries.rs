//! Converts entries of earlier versions.

use serde::Deserialize;
use zero_core::{FileLocation, ResultDisplay, ToolOutcome};

use crate::event::{EventKind, ResultContent, ToolCallStatus};

/// The end of a call up to version 2: the content for the model and the content for the user.
#[derive(Deserialize)]
#[serde(tag = "type", rename = "tool_ended")]
struct OldToolEnded {
    call: String,
    status: ToolCallStatus,
    content: Vec<ResultContent>,
    display: Option<ResultDisplay>,
    #[serde(default)]
    locations: Vec<FileLocation>,
}

/// Parses an entry of an earlier version; `None` if it is not one.
pub(super) fn parse(body: &str) -> Option<EventKind> {
    let OldToolEnded { call, status, content, display, locations } =
        serde_json::from_str(body).ok()?;
    let outcome = ToolOutcome::from_content(status, content, display, locations);
    Some(EventKind::tool_ended(call, outcome))
}
