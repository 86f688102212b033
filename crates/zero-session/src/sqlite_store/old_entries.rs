//! Entries as earlier versions wrote them.

use serde::Deserialize;
use zero_core::{FileLocation, ResultDisplay, ToolOutcome};

use crate::event::{EventKind, ResultContent, ToolCallStatus};

/// The end of a call up to version 2: what the model was told, and what the person saw.
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

/// An entry of an earlier version; `None` for what is none.
pub(super) fn parse(body: &str) -> Option<EventKind> {
    let OldToolEnded { call, status, content, display, locations } =
        serde_json::from_str(body).ok()?;
    let outcome = ToolOutcome::from_content(status, content, display, locations);
    Some(EventKind::tool_ended(call, outcome))
}
