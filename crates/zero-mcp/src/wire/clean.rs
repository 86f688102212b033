//! Makes what a server answers fit for the SDK's types, piece by piece.
//!
//! The SDK reads a result as a whole or not at all: one tool without a schema, one content block of
//! a kind that it does not know, and the answer is lost. Here each piece is read by itself. What is
//! wrong with one is mended where that changes nothing of importance, or the piece is left out and
//! noted, and its neighbours work.

mod call;
mod greeting;
mod tools;

use rmcp::model::{ErrorCode, ErrorData, ServerResult};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Limits;
use super::json;
use super::ledger::Asked;
use super::troubles::{Troubles, sample};

/// Reads the result of what was asked, or says why it cannot be taken.
pub(super) fn result(
    asked: Asked,
    written: &[u8],
    limits: &Limits,
    troubles: &Troubles,
) -> Result<ServerResult, String> {
    if !written.starts_with(b"{") {
        return Err("its result is no object".into());
    }
    let kind = ResultKind::read(written)?;
    match (asked, kind) {
        (Asked::Greeting, ResultKind::Complete) => {
            greeting::greeting(written, limits, troubles).map(ServerResult::InitializeResult)
        }
        (Asked::Discovery, ResultKind::Complete) => {
            greeting::discovery(written, limits, troubles).map(ServerResult::DiscoverResult)
        }
        (Asked::ToolList, ResultKind::Complete) => {
            tools::list(written, limits, troubles).map(ServerResult::ListToolsResult)
        }
        (Asked::ToolCall, ResultKind::Complete) => {
            call::complete(written, limits, troubles).map(ServerResult::CallToolResult)
        }
        (Asked::ToolCall, ResultKind::InputRequired) => {
            whole(written, limits).map(ServerResult::InputRequiredResult)
        }
        (Asked::ToolCall, ResultKind::Task) => {
            whole(written, limits).map(ServerResult::CreateTaskResult)
        }
        (Asked::Other, _) => whole(written, limits),
        (_, _) => Err("its `resultType` is none that this request can have".into()),
    }
}

/// What kind of result it says it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResultKind {
    Complete,
    InputRequired,
    Task,
}

impl ResultKind {
    fn read(written: &[u8]) -> Result<Self, String> {
        let mut kind = None;
        for piece in json::members(written) {
            let piece = piece.map_err(|_| "its result is no valid JSON")?;
            if piece.key == b"resultType" {
                kind = Some(piece.value);
            }
        }
        match kind {
            None | Some(b"null" | br#""complete""#) => Ok(Self::Complete),
            Some(br#""input_required""#) => Ok(Self::InputRequired),
            Some(br#""task""#) => Ok(Self::Task),
            Some(other) => {
                let shown = sample(&String::from_utf8_lossy(other));
                Err(format!("its `resultType` is {shown}, which is unknown"))
            }
        }
    }
}

/// Reads something that is taken as a whole or not at all.
pub(super) fn whole<T: DeserializeOwned>(written: &[u8], limits: &Limits) -> Result<T, String> {
    fits(written, limits)?;
    serde_json::from_slice(written).map_err(|error| format!("it cannot be read: {error}"))
}

/// Whether a piece is neither too deep nor too much.
pub(super) fn fits(written: &[u8], limits: &Limits) -> Result<(), String> {
    let weight = json::weigh(written);
    // The parser refuses the last level by itself.
    let depth_max = limits.depth_max.min(127);
    if weight.depth > depth_max {
        return Err(format!("it nests {} levels deep; {depth_max} are taken", weight.depth));
    }
    if weight.nodes > limits.nodes_max {
        return Err(format!("it holds more than {} values", limits.nodes_max));
    }
    Ok(())
}

/// Reads an error. There always is one in the end: the one who waits must learn that it failed.
pub(super) fn error(written: &[u8], limits: &Limits) -> ErrorData {
    if let Ok(error) = whole(written, limits) {
        return error;
    }
    let code = json::member(written, "code")
        .and_then(|code| serde_json::from_slice(code).ok())
        .map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    let message = json::member(written, "message").and_then(json::text);
    let message = message.or_else(|| json::text(written)).unwrap_or_else(|| {
        format!("an error that cannot be read: {}", sample(&String::from_utf8_lossy(written)))
    });
    ErrorData::new(code, message, None)
}

/// What is left of the nodes that a message may have, as its pieces are read.
struct Budget<'a> {
    limits: &'a Limits,
    nodes_left: usize,
}

impl<'a> Budget<'a> {
    fn new(limits: &'a Limits) -> Self {
        Self { limits, nodes_left: limits.nodes_max }
    }

    /// Reads a piece if it fits into what is left.
    fn read<T: DeserializeOwned>(&mut self, piece: &[u8]) -> Result<T, String> {
        let limits = Limits { nodes_max: self.nodes_left, ..*self.limits };
        fits(piece, &limits)?;
        self.nodes_left = self.nodes_left.saturating_sub(json::weigh(piece).nodes);
        serde_json::from_slice(piece).map_err(|error| format!("it is no valid JSON: {error}"))
    }
}

/// Leaves a member out unless it has the type it should have.
fn keep_if<T: DeserializeOwned>(
    object: &mut Map<String, Value>,
    key: &str,
    of: &str,
    troubles: &Troubles,
) {
    let Some(value) = object.get(key) else { return };
    if value.is_null() {
        object.shift_remove(key);
    } else if T::deserialize(value).is_err() {
        object.shift_remove(key);
        troubles.mended(&format!("`{key}` of {of} was left out: it has the wrong type"));
    }
}

#[cfg(test)]
mod tests;
