//! One request to use a tool.

use std::time::Duration;

use serde_json::Value;

use crate::{CallId, SessionId};

/// One request to use a tool, as it arrived: nothing in it has been checked yet.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// Names this call in every record of it.
    pub id: CallId,
    /// The session that asked, if there is one.
    pub session: Option<SessionId>,
    /// The tool's name in the caller's dialect.
    pub tool: String,
    /// The arguments in the caller's dialect.
    pub input: Value,
    /// A shorter deadline than the tool's own, if the caller wants one.
    pub timeout: Option<Duration>,
}
