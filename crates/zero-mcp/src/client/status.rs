//! [`McpServerStatus`]: the status of a server and its tools, for `zero mcp` and similar commands.

use serde::{Deserialize, Serialize};

use super::error::ServerUnavailableError;

/// Status of a server, also printed as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct McpServerStatus {
    /// Name of the server in settings.
    pub alias: String,
    /// What it is doing.
    pub state: ServerPhase,
    /// `command` if zero starts it, `http` if it is reached over HTTP.
    pub reach: &'static str,
    /// Where it is configured.
    pub written_at: String,
    /// Protocol version, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Name and version that it reports, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// The tools that the host can use.
    pub tools: Vec<McpToolStatus>,
    /// Estimated tokens that all their schemas cost in a model request.
    pub tokens: usize,
    /// Tools that cannot be used, with the reason.
    pub quarantined: Vec<QuarantinedTool>,
    /// Further notes, such as tools that were left out.
    pub notes: Vec<String>,
    /// Its last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ServerUnavailableError>,
    /// Seconds until it may be started again, after failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_s: Option<u64>,
    /// How often it was started.
    pub starts: u32,
}

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerPhase {
    /// It does not run, and its tools are unknown.
    Unknown,
    /// It does not run, and its tools are known from an earlier run; the first call starts it.
    Known,
    /// It is being started.
    Starting,
    /// It runs.
    Ready,
    /// It could not be started, or ended by itself.
    Failed,
    /// It was stopped, by the user or because it was idle.
    Stopped,
}

impl ServerPhase {
    /// Returns a stable name for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Known => "known",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// Status of a tool, also printed as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpToolStatus {
    /// Name of the tool in the host.
    pub name: String,
    /// The server's name for it.
    pub own_name: String,
    /// Title, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the server claims about it; not verified.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claims: String,
    /// Estimated tokens that its schema costs in a model request.
    pub tokens: usize,
    /// Whether its definition has changed since a call of it was allowed.
    pub changed: bool,
}

/// A tool that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuarantinedTool {
    /// The server's name for it, as far as it could be read.
    pub tool: String,
    /// Why it cannot be used.
    pub reason: String,
}
