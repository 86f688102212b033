//! How servers stand, for a person.

use serde::{Deserialize, Serialize};

use super::error::ServerUnavailableError;

/// How a server stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct McpServerStatus {
    /// Its name here.
    pub alias: String,
    /// What it is doing.
    pub state: ServerPhase,
    /// Whether it is started here, or reached by HTTP.
    pub reach: &'static str,
    /// Where it is written down.
    pub written_at: String,
    /// The version of the protocol that is spoken with it, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// What it calls itself, while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// Its tools.
    pub tools: Vec<McpToolStatus>,
    /// Roughly what a model pays to be shown all of them, in tokens.
    pub tokens: usize,
    /// Tools that cannot be used, with the reason.
    pub quarantined: Vec<QuarantinedTool>,
    /// What else is to be known, such as tools that were left out.
    pub notes: Vec<String>,
    /// Why it could not be used when it last could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ServerUnavailableError>,
    /// Seconds until it may be started again, while it rests after failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_s: Option<u64>,
    /// How often it was started.
    pub starts: u32,
}

/// What a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerPhase {
    /// Nobody knows its tools yet, and it does not run.
    Unknown,
    /// Its tools are known from last time; it is started by the first call.
    Known,
    /// It is being started.
    Starting,
    /// It runs.
    Ready,
    /// It could not be started, or ended by itself.
    Failed,
    /// It was stopped, by a person or because nobody used it.
    Stopped,
}

impl ServerPhase {
    /// Stable word for tables.
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

/// How a tool of a server stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpToolStatus {
    /// Its name here.
    pub name: String,
    /// The server's own name for it.
    pub own_name: String,
    /// Its title, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the server claims of it; nobody vouches for that.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub claims: String,
    /// Roughly what a model pays to be shown it, in tokens.
    pub tokens: usize,
    /// Whether its definition changed since a call of it was allowed.
    pub changed: bool,
}

/// A tool that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QuarantinedTool {
    /// The server's own name for it, as far as it could be read.
    pub tool: String,
    /// Why.
    pub reason: String,
}
