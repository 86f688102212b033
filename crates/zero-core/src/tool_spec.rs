//! The specification of a tool.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolName;

/// The category of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCategory {
    /// Reads, writes and lists files.
    File,
    /// Finds files or text.
    Search,
    /// Builds, tests and runs programs.
    Development,
    /// Analyzes code.
    Code,
    /// Plans, tasks and memory.
    Project,
    /// Accesses the network.
    Network,
    /// Interacts with the user.
    Ui,
    /// Provided by an external source.
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

/// The kind of a call, for an icon in editors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads files.
    Read,
    /// Changes files.
    Edit,
    /// Removes files.
    Delete,
    /// Moves files.
    Move,
    /// Searches.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks or plans.
    Think,
    /// Fetches data from the network.
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

/// The risk of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// Reads only.
    Low,
    /// Changes local files.
    Medium,
    /// Affects the system.
    High,
    /// Destroys data.
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

/// The deadline class of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutClass {
    /// One file or folder.
    File,
    /// A search over many files.
    Search,
    /// A command.
    Command,
    /// A command under a name of a dialect whose platform allows more.
    Development,
    /// A tool of an MCP server.
    Mcp,
}

/// The specification of a tool: everything needed to list it, describe it to a model and authorize
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Canonical name.
    pub name: ToolName,
    /// Name for display.
    pub display_name: String,
    /// What it does and how to use it, for the model.
    pub description: String,
    /// JSON Schema 2020-12 of the input.
    pub input_schema: Value,
    /// JSON Schema 2020-12 of the structured result.
    pub output_schema: Value,
    /// Its category.
    pub category: ToolCategory,
    /// The kind of its calls, for an icon in editors.
    pub kind: ToolKind,
    /// Risk before the arguments are known.
    pub risk: RiskLevel,
    /// Its deadline class.
    pub timeout_class: TimeoutClass,
    /// Whether running it twice has the same effect as once.
    pub idempotent: bool,
    /// Another tool with the same input that runs instead if this one fails.
    pub fallback: Option<ToolName>,
}
