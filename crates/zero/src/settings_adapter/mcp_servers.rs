//! From MCP servers in settings, and those that an editor names, to servers that can be started or
//! reached.

mod definition_builder;
mod editor_servers;

use zero_mcp::server_definition::McpServerDefinition;
pub(crate) use zero_settings::mcp_servers::COMMAND_ALIAS;

pub(crate) use self::definition_builder::{configured_servers, configured_servers_with};

/// The servers that settings describe.
#[derive(Debug, Default)]
pub(crate) struct ConfiguredMcpServers {
    /// The servers that can be used, in the order of the settings.
    pub(crate) definitions: Vec<McpServerDefinition>,
    /// Servers with invalid settings, each with the reason and a remedy.
    pub(crate) problems: Vec<UnavailableMcpServer>,
    /// Servers that are disabled in the settings.
    pub(crate) turned_off: Vec<UnavailableMcpServer>,
    /// Servers that are never started because a rule denies all their tools.
    pub(crate) denied: Vec<UnavailableMcpServer>,
    /// Settings of servers that have no effect in their file.
    pub(crate) ignored: Vec<UnavailableMcpServer>,
}

/// A server that is not used as configured, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnavailableMcpServer {
    /// Name of the server in the settings.
    pub(crate) alias: String,
    /// The reason, for the user.
    pub(crate) why: String,
    /// File and line of the entry, for the user.
    pub(crate) written_at: String,
}

#[cfg(test)]
mod tests;
