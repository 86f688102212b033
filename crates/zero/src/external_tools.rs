//! Tools that come from outside: MCP servers, and the tool discovery command of the project.
//!
//! Tools known from the last time are available immediately. Servers and commands for the rest start
//! when a tool is requested, or in the background, so that only calls that need them wait.

use std::sync::Arc;
use std::time::Duration;

use zero_acp::SessionMcpServer;
use zero_core::{ErrorReason, ToolError};
use zero_exec::services::ServiceLauncher;
use zero_mcp::client::credentials::{CredentialVault, DesktopKeyring};
use zero_mcp::client::{
    McpServerSet, McpServerSetConfig, McpServerStatus, RemoteServerAccess, ServerPhase, ServerPool,
};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{ServerStartup, UnavailableServer};
use zero_runtime::{Elicitor, ToolHost};
use zero_settings::WorkspaceSettings;
use zero_tools::tool_discovery::{LIST_TIMEOUT, PREFIX, ToolDiscovery, ToolDiscoveryConfig};

use crate::AppContext;
use crate::settings_adapter::mcp_servers::{self, ConfiguredMcpServers};

/// Sources of external tools of a host.
pub(crate) struct ExternalTools {
    /// MCP servers.
    pub(crate) servers: Arc<McpServerSet>,
    /// Tool discovery command, if one is set.
    pub(crate) discovery: Option<Arc<ToolDiscovery>>,
    /// Whether the command may run before its tools are requested.
    discovers_unasked: bool,
    host: Arc<ToolHost>,
}

/// Waits for the MCP servers of a session.
pub(crate) struct McpServerArrivals(pub(crate) Arc<McpServerSet>);

impl ServerStartup for McpServerArrivals {
    fn wait_for_servers(&self, most: Duration) -> BoxFuture<'_, Vec<UnavailableServer>> {
        let absent = |status: McpServerStatus| UnavailableServer {
            why: match status.state {
                ServerPhase::Unknown | ServerPhase::Starting => None,
                _ => Some(status.last_error.map_or_else(|| "it exited".to_owned(), |e| e.message)),
            },
            name: status.alias,
        };
        Box::pin(
            async move { self.0.wait_for_listings(most).await.into_iter().map(absent).collect() },
        )
    }
}

impl AppContext {
    /// External tools in the settings. Starts and registers nothing; prints a note about servers that
    /// cannot be used.
    pub(crate) fn external_tools(
        &self,
        host: &Arc<ToolHost>,
        settings: &WorkspaceSettings,
        elicitor: Option<Arc<dyn Elicitor>>,
    ) -> ExternalTools {
        self.external_tools_with(host, settings, &[], elicitor)
    }

    /// Like [`Self::external_tools`], with the servers that an editor configures for a session.
    pub(crate) fn external_tools_with(
        &self,
        host: &Arc<ToolHost>,
        settings: &WorkspaceSettings,
        named: &[SessionMcpServer],
        elicitor: Option<Arc<dyn Elicitor>>,
    ) -> ExternalTools {
        let known = mcp_servers::configured_servers_with(
            settings,
            &self.config,
            host.workspace().cwd(),
            named,
        );
        for one in &known.problems {
            self.terminal.print_note(&format!(
                "cannot use MCP server `{}` ({}): {}",
                one.alias, one.written_at, one.why
            ));
        }
        self.external_tools_from(host, settings, known, elicitor)
    }

    /// External tools of these servers only, without notes about others.
    pub(crate) fn external_tools_from(
        &self,
        host: &Arc<ToolHost>,
        settings: &WorkspaceSettings,
        servers: ConfiguredMcpServers,
        elicitor: Option<Arc<dyn Elicitor>>,
    ) -> ExternalTools {
        let services = host.services();
        self.external_tools_started_by(services, host, settings, servers, elicitor)
    }

    /// The same, with servers that this launcher starts.
    pub(crate) fn external_tools_started_by(
        &self,
        services: ServiceLauncher,
        host: &Arc<ToolHost>,
        settings: &WorkspaceSettings,
        servers: ConfiguredMcpServers,
        elicitor: Option<Arc<dyn Elicitor>>,
    ) -> ExternalTools {
        let roots: Vec<String> =
            host.workspace().roots().map(|root| root.display().to_string()).collect();
        let servers = McpServerSet::new(McpServerSetConfig {
            services,
            web: web_access(host),
            registry: Arc::clone(host.registry()),
            state: host.state().clone(),
            definitions: servers.definitions,
            schema_tokens_max: settings.tool_schema_budget() as usize,
            elicitor,
            pool: Arc::new(ServerPool::default()),
            confined_by: roots.join("\n"),
        });
        let commands = settings.tool_commands();
        let discovers_unasked = commands.as_ref().is_some_and(|commands| commands.is_of_project);
        let discovery = commands.and_then(|commands| {
            Some(Arc::new(ToolDiscovery::new(ToolDiscoveryConfig {
                list: commands.discovery,
                call: commands.call?,
                folder: host.workspace().cwd().to_owned(),
                list_timeout: LIST_TIMEOUT,
                state: host.state().clone(),
                services: host.services(),
            })))
        });
        ExternalTools { servers, discovery, discovers_unasked, host: Arc::clone(host) }
    }
}

/// Network access for remote MCP servers, and the store of their logins.
pub(crate) fn web_access(host: &ToolHost) -> RemoteServerAccess {
    RemoteServerAccess {
        guard: host.network_guard().clone(),
        credentials: Arc::new(CredentialVault::new(host.state(), Arc::new(DesktopKeyring::LOGINS))),
    }
}

impl ExternalTools {
    /// Registers the tools known from the last time. Starts nothing.
    pub(crate) fn register_known(&self) {
        self.servers.register_known();
        if let Some(discovery) = &self.discovery {
            discovery.register_known(self.host.registry());
        }
    }

    /// Starts unknown servers in the background. The user's own discovery command may execute files of
    /// any folder, so it runs only when its tools are requested.
    pub(crate) fn start_unknown(&self) {
        self.servers.start_unknown();
        let discovery = self.discovery.clone().filter(|_| self.discovers_unasked);
        if let Some(discovery) = discovery.filter(|discovery| !discovery.has_run()) {
            let registry = Arc::clone(self.host.registry());
            tokio::spawn(async move {
                if let Err(error) = discovery.refresh(&registry).await {
                    tracing::warn!(%error, "the tool discovery command failed");
                }
            });
        }
    }

    /// Starts the server or command that provides the tool `name`, if there is one.
    pub(crate) async fn ensure_tool(&self, name: &str) -> Result<(), ToolError> {
        let Some((prefix, _)) = name.split_once("__") else { return Ok(()) };
        if self.host.registry().get(name).is_some() {
            return Ok(());
        }
        if prefix == PREFIX {
            let Some(discovery) = &self.discovery else { return Ok(()) };
            let refreshed = discovery.refresh(self.host.registry()).await;
            return refreshed.map(drop).map_err(|error| unavailable_error(&error));
        }
        if self.servers.status().iter().any(|server| server.alias == prefix) {
            let ready = self.servers.wait_until_ready(prefix).await;
            return ready.map_err(|error| error.to_tool_error(prefix));
        }
        Ok(())
    }

    /// Stops all servers.
    pub(crate) async fn stop(&self) {
        self.servers.stop().await;
    }
}

fn unavailable_error(error: &dyn std::error::Error) -> ToolError {
    ToolError::failed(ErrorReason::ServerUnavailable, error.to_string())
}
