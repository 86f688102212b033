//! What a tool says about itself.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolName;

/// The shelf a tool stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCategory {
    /// Reads, writes and lists files.
    File,
    /// Finds files or text.
    Search,
    /// Builds, tests and runs.
    Development,
    /// Understands code.
    Code,
    /// Plans, tasks and memory.
    Project,
    /// Reaches out.
    Network,
    /// Talks to the person.
    Ui,
    /// Comes from somewhere else.
    External,
}

impl ToolCategory {
    /// Stable word for tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Search => "search",
            Self::Development => "development",
            Self::Code => "code",
            Self::Project => "project",
            Self::Network => "network",
            Self::Ui => "ui",
            Self::External => "external",
        }
    }
}

/// How an editor should picture the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Looks at files.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves files.
    Move,
    /// Looks for something.
    Search,
    /// Runs something.
    Execute,
    /// Thinks or plans.
    Think,
    /// Gets something from elsewhere.
    Fetch,
    /// Anything else.
    Other,
}

impl ToolKind {
    /// Stable word for tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Search => "search",
            Self::Execute => "execute",
            Self::Think => "think",
            Self::Fetch => "fetch",
            Self::Other => "other",
        }
    }
}

/// How much harm a call can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// Only looks.
    Low,
    /// Changes local files.
    Medium,
    /// Acts on the system.
    High,
    /// Destroys.
    Critical,
}

impl RiskLevel {
    /// Stable word for tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for RiskLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which deadline a tool works under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutClass {
    /// One file or folder.
    File,
    /// A search over many files.
    Search,
    /// A command.
    Command,
    /// A tool of an MCP server.
    Mcp,
}

/// What a tool says about itself: enough to list it, describe it to a model and judge it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Canonical name.
    pub name: ToolName,
    /// Name for people.
    pub display_name: String,
    /// What it does and how to use it well, for the model.
    pub description: String,
    /// JSON Schema 2020-12 of the input.
    pub input_schema: Value,
    /// JSON Schema 2020-12 of the structured result.
    pub output_schema: Value,
    /// The shelf it stands on.
    pub category: ToolCategory,
    /// How an editor should picture it.
    pub kind: ToolKind,
    /// Risk before the call's own arguments are looked at.
    pub risk: RiskLevel,
    /// Which deadline it works under.
    pub timeout_class: TimeoutClass,
    /// Whether running it twice is the same as running it once.
    pub idempotent: bool,
    /// Another tool that takes the same input and can stand in when this one fails by itself.
    pub fallback: Option<ToolName>,
}
