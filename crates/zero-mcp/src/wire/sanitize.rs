//! Repairs a server's answers part by part, so that the SDK can parse them.
//!
//! The SDK parses a result as a whole or not at all: one tool without a schema, or one content
//! block of an unknown kind, and the whole answer is lost. Here each part is parsed by itself. A
//! problem is repaired if that changes nothing important. Otherwise the part is left out and
//! recorded, and the others are used.

mod call_result;
mod server_info;
mod tool_list;

use rmcp::model::{ErrorCode, ErrorData, ServerResult};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::McpMessageLimits;
use super::connection_diagnostics::{ConnectionDiagnostics, sanitize_sample};
use super::json_scan;
use super::pending_requests::McpRequestKind;

/// Parses the result of a request, or says why it cannot be used.
pub(super) fn read_result(
    request_kind: McpRequestKind,
    written: &[u8],
    limits: &McpMessageLimits,
    diagnostics: &ConnectionDiagnostics,
) -> Result<ServerResult, String> {
    if !written.starts_with(b"{") {
        return Err("its result is not an object".into());
    }
    let kind = ResultKind::read(written)?;
    match (request_kind, kind) {
        (McpRequestKind::Greeting, ResultKind::Complete) => {
            server_info::read_initialize_result(written, limits, diagnostics)
                .map(ServerResult::InitializeResult)
        }
        (McpRequestKind::Discovery, ResultKind::Complete) => {
            server_info::read_discover_result(written, limits, diagnostics)
                .map(ServerResult::DiscoverResult)
        }
        (McpRequestKind::ToolList, ResultKind::Complete) => {
            tool_list::read_tool_list(written, limits, diagnostics)
                .map(ServerResult::ListToolsResult)
        }
        (McpRequestKind::ToolCall, ResultKind::Complete) => {
            call_result::read_call_result(written, limits, diagnostics)
                .map(ServerResult::CallToolResult)
        }
        (McpRequestKind::ToolCall, ResultKind::InputRequired) => {
            read_whole(written, limits).map(ServerResult::InputRequiredResult)
        }
        (McpRequestKind::ToolCall, ResultKind::Task) => {
            read_whole(written, limits).map(ServerResult::CreateTaskResult)
        }
        (McpRequestKind::Other, _) => read_whole(written, limits),
        (_, _) => Err("its `resultType` does not fit this request".into()),
    }
}

/// Kind of a result, according to its `resultType`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultKind {
    Complete,
    InputRequired,
    Task,
}

impl ResultKind {
    fn read(written: &[u8]) -> Result<Self, String> {
        let mut kind = None;
        for piece in json_scan::members(written) {
            let piece = piece.map_err(|_| "its result is not valid JSON")?;
            if piece.key == b"resultType" {
                kind = Some(piece.value);
            }
        }
        match kind {
            None | Some(b"null" | br#""complete""#) => Ok(Self::Complete),
            Some(br#""input_required""#) => Ok(Self::InputRequired),
            Some(br#""task""#) => Ok(Self::Task),
            Some(other) => {
                let shown = sanitize_sample(&String::from_utf8_lossy(other));
                Err(format!("its `resultType` is {shown}, which is unknown"))
            }
        }
    }
}

/// Parses JSON that is used as a whole or not at all.
pub(super) fn read_whole<T: DeserializeOwned>(
    written: &[u8],
    limits: &McpMessageLimits,
) -> Result<T, String> {
    check_size(written, limits)?;
    serde_json::from_slice(written).map_err(|error| format!("it cannot be read: {error}"))
}

/// Checks depth and number of values.
pub(super) fn check_size(written: &[u8], limits: &McpMessageLimits) -> Result<(), String> {
    let weight = json_scan::weigh(written);
    // serde_json refuses a depth of 128.
    let depth_max = limits.depth_max.min(127);
    if weight.depth > depth_max {
        return Err(format!("it nests {} levels deep, more than {depth_max}", weight.depth));
    }
    if weight.nodes > limits.nodes_max {
        return Err(format!("it has more than {} values", limits.nodes_max));
    }
    Ok(())
}

/// Parses an error. It always returns one, because the waiting request must fail.
pub(super) fn read_error(written: &[u8], limits: &McpMessageLimits) -> ErrorData {
    if let Ok(error) = read_whole(written, limits) {
        return error;
    }
    let code = json_scan::member(written, "code")
        .and_then(|code| serde_json::from_slice(code).ok())
        .map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    let message = json_scan::member(written, "message").and_then(json_scan::parse_text);
    let message = message.or_else(|| json_scan::parse_text(written)).unwrap_or_else(|| {
        format!("an invalid error: {}", sanitize_sample(&String::from_utf8_lossy(written)))
    });
    ErrorData::new(code, message, None)
}

/// The number of values that the rest of a message may have.
struct NodeBudget<'a> {
    limits: &'a McpMessageLimits,
    nodes_left: usize,
}

impl<'a> NodeBudget<'a> {
    fn new(limits: &'a McpMessageLimits) -> Self {
        Self { limits, nodes_left: limits.nodes_max }
    }

    /// Parses a part if it fits into the rest.
    fn read<T: DeserializeOwned>(&mut self, piece: &[u8]) -> Result<T, String> {
        let limits = McpMessageLimits { nodes_max: self.nodes_left, ..*self.limits };
        check_size(piece, &limits)?;
        self.nodes_left = self.nodes_left.saturating_sub(json_scan::weigh(piece).nodes);
        serde_json::from_slice(piece).map_err(|error| format!("it is not valid JSON: {error}"))
    }
}

/// Removes a member that does not have the expected type.
fn remove_if_mistyped<T: DeserializeOwned>(
    object: &mut Map<String, Value>,
    key: &str,
    of: &str,
    diagnostics: &ConnectionDiagnostics,
) {
    let Some(value) = object.get(key) else { return };
    if value.is_null() {
        object.shift_remove(key);
    } else if T::deserialize(value).is_err() {
        object.shift_remove(key);
        diagnostics.record_repair(&format!("`{key}` of {of} was left out: it has the wrong type"));
    }
}

#[cfg(test)]
mod tests;
