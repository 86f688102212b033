//! [`McpMessageReader`], which validates a server's messages over HTTP before the SDK reads them,
//! with the same limits and repairs as over pipes.

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use zero_runtime::web::shorten_untrusted;

use super::error::McpHttpError;
use crate::wire::{ConnectionDiagnostics, McpMessageLimits, MessageIntake};

/// Reads the messages of one server.
pub(super) struct McpMessageReader {
    intake: MessageIntake<RoleClient>,
    diagnostics: ConnectionDiagnostics,
}

impl McpMessageReader {
    pub(super) fn new(bytes_max: usize, diagnostics: ConnectionDiagnostics) -> Self {
        let limits = McpMessageLimits { line_bytes_max: bytes_max, ..McpMessageLimits::default() };
        Self { intake: MessageIntake::new(limits, diagnostics.clone()), diagnostics }
    }

    /// Records a message that is about to be sent, so that its answer is recognized.
    pub(super) fn record_sent(&self, message: &ClientJsonRpcMessage) {
        self.intake.record_sent(message);
    }

    /// Records that a message was refused.
    pub(super) fn record_refusal(&self, why: &McpHttpError) {
        self.diagnostics.record_refusal(&why.to_string());
    }

    /// Reads the answer in a response body.
    pub(super) fn read_answer(
        &self,
        mut body: Vec<u8>,
    ) -> Result<ServerJsonRpcMessage, McpHttpError> {
        let intake = self.intake.receive(&mut body);
        intake.messages.into_iter().find(is_answer).ok_or_else(|| {
            let start = shorten_untrusted(&body).unwrap_or_else(|| "it is empty".to_owned());
            McpHttpError::unusable(format!("it is not an answer to the request: {start}"))
        })
    }

    /// Reads the messages of an event, and returns them as JSON for the SDK.
    pub(super) fn read_event(&self, data: String) -> Vec<EventMessage> {
        let mut data = data.into_bytes();
        let intake = self.intake.receive(&mut data);
        let message = |message: ServerJsonRpcMessage| {
            let text = serde_json::to_string(&message).ok()?;
            Some(EventMessage { text, is_answer: is_answer(&message) })
        };
        intake.messages.into_iter().filter_map(message).collect()
    }
}

/// A message of an event.
pub(super) struct EventMessage {
    pub(super) text: String,
    pub(super) is_answer: bool,
}

fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_))
}
