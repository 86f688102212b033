//! Calls that nobody makes, and what the gateway is told of them: a run would wait for ever.

use serde::Deserialize as _;
use zero_core::event::ToolCallStatus;
use zero_runtime::tool_backend::BackendResult;
use zero_wire::EventFrame;
use zero_wire::tools::{ToolsResultParams, ToolsUseEvent};

/// Why tools do not do what they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRejection {
    /// They are hosted elsewhere, or by nobody.
    NotHosted,
    /// They are not ready, and too much waits for that.
    QueueFull,
}

impl CallRejection {
    /// The answer to a call; none to what is no call.
    pub(crate) fn to_result(self, event: &EventFrame) -> Option<ToolsResultParams> {
        let wanted = ToolsUseEvent::deserialize(event.payload.as_ref()?).ok()?;
        let words = match self {
            Self::NotHosted => "the tools of this session are not here any more; open it again",
            Self::QueueFull => {
                "this call was not made: the tools are not ready yet, and too many calls wait for them; make it again"
            }
        };
        let end = BackendResult::from_text(ToolCallStatus::Failed, words);
        Some(ToolsResultParams {
            session_id: wanted.session_id,
            tool_call_id: wanted.tool_call_id,
            content: end.content.into_iter().map(Into::into).collect(),
            is_error: true,
            status: Some(end.status),
            title: None,
            kind: None,
            display: None,
            locations: Vec::new(),
            plan: None,
        })
    }
}
