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
    /// Those that can be used, in the order they are written.
    pub(crate) definitions: Vec<McpServerDefinition>,
    /// Those that cannot, each with why and what to do.
    pub(crate) problems: Vec<McpServerProblem>,
    /// Those that somebody turned off.
    pub(crate) turned_off: Vec<McpServerProblem>,
    /// Those of which a rule denies every tool, so that there is no reason to start them.
    pub(crate) denied: Vec<McpServerProblem>,
    /// What is written of a server and does nothing here.
    pub(crate) ignored: Vec<McpServerProblem>,
}

/// Something to tell of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpServerProblem {
    /// Its name as written.
    pub(crate) alias: String,
    /// What there is to say.
    pub(crate) why: String,
    /// Where it is written down, for a person.
    pub(crate) written_at: String,
}

#[cfg(test)]
mod tests;
