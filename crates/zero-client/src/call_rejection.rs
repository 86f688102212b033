//! Answers to calls that are not run here, so that the run at the gateway does not wait forever.

use serde::Deserialize as _;
use zero_core::event::ToolCallStatus;
use zero_core::{ErrorReason, ToolError, ToolOutcome};
use zero_wire::EventFrame;
use zero_wire::tools::{ToolsResultParams, ToolsUseEvent};

/// Why a call is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRejection {
    /// The tools are hosted elsewhere, or not at all.
    NotHosted,
    /// The tools are not ready, and the queue for them is full.
    QueueFull,
}

impl CallRejection {
    /// The result of a rejected call; `None` if the event is not a call.
    pub(crate) fn to_result(self, event: &EventFrame) -> Option<ToolsResultParams> {
        let wanted = ToolsUseEvent::deserialize(event.payload.as_ref()?).ok()?;
        let words = match self {
            Self::NotHosted => "the tools of this session are not here any more; open it again",
            Self::QueueFull => {
                "this call was not made: the tools are not ready yet, and too many calls wait for them; make it again"
            }
        };
        let reason = match self {
            Self::NotHosted => ErrorReason::ServerUnavailable,
            Self::QueueFull => ErrorReason::QueueFull,
        };
        let error = ToolError::failed(reason, words).with_tool(&wanted.tool_name);
        Some(to_result_params(&wanted, error.into()))
    }
}

/// The parameters of `tools/result` for an outcome.
pub(crate) fn to_result_params(wanted: &ToolsUseEvent, outcome: ToolOutcome) -> ToolsResultParams {
    ToolsResultParams {
        session_id: wanted.session_id.clone(),
        tool_call_id: wanted.tool_call_id.clone(),
        is_error: outcome.status() != ToolCallStatus::Completed,
        outcome: Some(Box::new(outcome)),
        content: Vec::new(),
        status: None,
        title: None,
        kind: None,
        display: None,
        locations: Vec::new(),
        plan: None,
    }
}
