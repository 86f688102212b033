//! Answers to calls that are not run here, so that the run at the gateway does not wait forever.

use serde::Deserialize as _;
use zero_core::event::{ResultContent, ToolCallStatus};
use zero_core::{ErrorReason, ResultDisplay, ToolError, ToolOutcome};
use zero_runtime::dialect::render_plain;
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
        let call = ToolsUseEvent::deserialize(event.payload.as_ref()?).ok()?;
        let message = match self {
            Self::NotHosted => {
                "this client no longer hosts the tools of the session; open the session again"
            }
            Self::QueueFull => {
                "the call was not made: the tools are not ready yet, and too many calls wait for them; try again"
            }
        };
        let reason = match self {
            Self::NotHosted => ErrorReason::ServerUnavailable,
            Self::QueueFull => ErrorReason::QueueFull,
        };
        let error = ToolError::failed(reason, message).with_tool(&call.tool_name);
        let outcome = ToolOutcome::from(error);
        let content = render_plain(&outcome);
        // The gateway may not have sent its capabilities yet. Every gateway accepts this form.
        Some(to_old_result_params(&call, outcome, content))
    }
}

/// The parameters of `tools/result` for an outcome.
pub(crate) fn to_result_params(call: &ToolsUseEvent, outcome: ToolOutcome) -> ToolsResultParams {
    ToolsResultParams {
        session_id: call.session_id.clone(),
        tool_call_id: call.tool_call_id.clone(),
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

/// The parameters of `tools/result` for a gateway that does not take an outcome. `content` is the
/// result for the model.
pub(crate) fn to_old_result_params(
    call: &ToolsUseEvent,
    outcome: ToolOutcome,
    mut content: Vec<ResultContent>,
) -> ToolsResultParams {
    // Gateways of earlier versions require the field, and empty content is not sent.
    if content.is_empty() {
        content.push(ResultContent::Text { text: "(no output)".to_owned() });
    }
    let status = outcome.status();
    let locations = outcome.locations().into_owned();
    let (display, plan) = match outcome {
        ToolOutcome::Error(_) => (None, None),
        ToolOutcome::Result(result) => match result.display {
            ResultDisplay::Plan { entries } => (None, Some(entries)),
            ResultDisplay::Markdown { text } if text.is_empty() => (None, None),
            display => (Some(display), None),
        },
    };
    ToolsResultParams {
        session_id: call.session_id.clone(),
        tool_call_id: call.tool_call_id.clone(),
        outcome: None,
        content: content.into_iter().map(Into::into).collect(),
        is_error: status != ToolCallStatus::Completed,
        status: Some(status),
        title: None,
        kind: None,
        display,
        locations,
        plan,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use zero_core::event::PlanEntry;
    use zero_core::{FileLocation, ToolResult};

    use super::*;

    fn written(outcome: ToolOutcome) -> Value {
        let call = ToolsUseEvent {
            session_id: "s".to_owned(),
            tool_call_id: "c".to_owned(),
            tool_name: "Plan".to_owned(),
            input: Value::Null,
            timeout_ms: None,
            subagent: None,
        };
        let content = render_plain(&outcome);
        serde_json::to_value(to_old_result_params(&call, outcome, content)).unwrap()
    }

    #[test]
    fn old_result_has_no_outcome_and_always_content() {
        let step = |word: &str| word.to_owned();
        let entries =
            vec![PlanEntry { content: step("a"), priority: step("high"), status: step("pending") }];
        let result = ToolResult {
            content: Vec::new(),
            display: ResultDisplay::Plan { entries },
            structured: Value::Null,
            locations: vec![FileLocation { path: "/a".into(), line: None }],
            metadata: zero_core::ResultMetadata::default(),
        };
        let expected = json!({
            "sessionId": "s",
            "toolCallId": "c",
            "content": [{"type": "text", "text": "(no output)"}],
            "isError": false,
            "status": "completed",
            "locations": [{"path": "/a"}],
            "plan": [{"content": "a", "priority": "high", "status": "pending"}],
        });
        assert_eq!(written(result.into()), expected);
        let denied =
            ToolError::new(zero_core::ErrorType::PermissionDenied, ErrorReason::Denied, "no");
        let expected = json!({
            "sessionId": "s",
            "toolCallId": "c",
            "content": [{"type": "text", "text": "no"}],
            "isError": true,
            "status": "denied",
        });
        assert_eq!(written(denied.into()), expected);
    }
}
