//! The MCP servers of a host, [`McpServerSet`], and their tools as tools of that host.
//!
//! No caller waits for a server that it does not use. Tools that are known from an earlier run are
//! registered immediately, and the first call of one starts its server. Servers whose tools are
//! unknown are started in the background, and their tools are registered when they are ready.
//! Servers are shared by all hosts of a [`ServerPool`], are restarted with a delay after failures,
//! and stop when they are idle.
//!
//! Servers are not trusted. The tool definitions of a server are limited, validated and pinned by
//! hash. Its claims, such as "read-only", are shown to the user but have no effect. A call is sent
//! only if the tool still has the definition under which the policy allowed it.

mod call_results;
mod client_handler;
mod client_transport;
mod connection;
mod connector;
pub mod credentials;
mod error;
mod handshake;
pub mod http;
mod identity;
pub mod login;
mod managed_server;
mod mcp_tool;
mod secrets;
mod server_binding;
mod server_cache;
mod server_pool;
pub mod server_process;
mod status;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
mod tool_call;
mod tool_changes;
mod tool_listing;
mod tool_names;
mod tool_pins;
mod tool_search;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use zero_core::sanitize;
use zero_runtime::{Elicitor, ServiceLauncher, ToolRegistry, ToolVisibility, erase};
use zero_sandbox::StateDir;
use zero_sandbox::expiry::{ExpiryMode, ExpiryReport, ExpiryRules};

pub use connector::RemoteServerAccess;
pub use error::ServerUnavailableError;
pub use server_pool::ServerPool;
pub use status::{McpServerStatus, McpToolStatus, QuarantinedTool, ServerPhase};
pub use tool_changes::ToolDefinitionChange;

use crate::server_definition::{McpServerDefinition, ServerAlias};
use client_transport::ServerConnector;
use connector::HostConnector;
use identity::ServerIdentity;
use managed_server::ManagedServer;
use server_binding::ServerBinding;
use server_cache::ServerCache;
use tool_search::ToolSearch;

/// Where the data about servers is, in zero's own folder.
const MCP: &str = "mcp";

/// Removes the approved tool definitions that the rules no longer keep.
pub fn expire_pins(
    state: &StateDir,
    rules: &ExpiryRules,
    mode: ExpiryMode,
) -> io::Result<ExpiryReport> {
    tool_pins::expire(&state.child(MCP), rules, mode)
}

/// Default limit for the cost of all tool schemas together, in tokens. Above it, the tools are
/// hidden and the model finds them with `ToolSearch`.
pub const SCHEMA_TOKENS_MAX: usize = 20_000;
/// Source of the `ToolSearch` tool in the registry.
const SEARCH_SOURCE: &str = "mcp";
/// Maximum number of servers that are started at the same time.
const STARTS_AT_ONCE: usize = 16;

/// What an [`McpServerSet`] needs.
pub struct McpServerSetConfig {
    /// Starts the processes of servers.
    pub services: ServiceLauncher,
    /// Network access and logins for servers over HTTP.
    pub web: RemoteServerAccess,
    /// The registry in which the tools are registered.
    pub registry: Arc<ToolRegistry>,
    /// zero's state directory.
    pub state: StateDir,
    /// The servers. The caller has checked that each is allowed and that the workspace is trusted.
    pub definitions: Vec<McpServerDefinition>,
    /// Limit for the cost of all tool schemas together, in tokens. Above it, the tools are hidden
    /// and the model finds them with `ToolSearch`.
    pub schema_tokens_max: usize,
    /// Asks the user the questions of servers; without one, the questions are cancelled.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// The servers that this process shares between hosts.
    pub pool: Arc<ServerPool>,
    /// What the sandbox of this host depends on, such as its workspace. Only hosts with the same
    /// value share servers.
    pub confined_by: String,
}

/// The MCP servers of one host.
pub struct McpServerSet {
    registry: Arc<ToolRegistry>,
    schema_tokens_max: usize,
    members: BTreeMap<ServerAlias, Arc<ServerBinding>>,
    /// Whether the tools are hidden; locked while tools are registered.
    deferred: Mutex<ToolVisibility>,
    /// Set once the tasks that follow the servers' listings have been started.
    following: OnceLock<()>,
}

/// The host has no server with this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no MCP server `{}`; there are: {}", .alias, .known.join(", "))]
pub struct UnknownServerError {
    alias: String,
    known: Vec<String>,
}

impl McpServerSet {
    /// Creates the servers of a host. Starts and registers nothing.
    pub fn new(config: McpServerSetConfig) -> Arc<Self> {
        let connector = Arc::new(HostConnector::new(config.services.clone(), config.web.clone()));
        Self::with_connector(config, connector)
    }

    pub(crate) fn with_connector(
        config: McpServerSetConfig,
        connector: Arc<dyn ServerConnector>,
    ) -> Arc<Self> {
        let McpServerSetConfig {
            registry,
            state,
            definitions,
            schema_tokens_max,
            elicitor,
            pool,
            ..
        } = config;
        let state = state.child(MCP);
        let elicits = elicitor.is_some();
        let mut members = BTreeMap::new();
        for definition in definitions {
            let identity = ServerIdentity::from_transport(&definition.transport);
            let key = identity.scoped_to(&json!([
                config.confined_by,
                elicits,
                state.path().as_os_str().as_encoded_bytes(),
                // Error messages contain the alias, and the timeout applies to the shared start.
                definition.alias.as_str(),
                definition.startup_timeout.as_millis().to_string(),
            ]));
            let lease = pool.lease(key, || {
                let catalogue = ServerCache::new(&state);
                ManagedServer::new(
                    identity,
                    definition.clone(),
                    Arc::clone(&connector),
                    catalogue,
                    elicits,
                )
            });
            let alias = definition.alias.clone();
            let member = ServerBinding::new(definition, lease, &state, elicitor.clone());
            members.insert(alias, Arc::new(member));
        }
        Arc::new(Self {
            registry,
            schema_tokens_max,
            members,
            deferred: Mutex::new(ToolVisibility::Always),
            following: OnceLock::new(),
        })
    }

    /// Registers the tools that are known from an earlier run. Starts no server.
    pub fn register_known(self: &Arc<Self>) {
        self.watch_all_listings();
        for member in self.members.values() {
            member.refresh();
        }
        self.register(self.members.values());
    }

    /// Starts the servers whose tools are unknown in the background, and registers whatever a
    /// server lists from now on. Must be called within a Tokio runtime.
    pub fn start_unknown(self: &Arc<Self>) {
        self.watch_all_listings();
        let servers = self.members.values().map(|member| Arc::clone(member.server()));
        let unknown: Vec<_> = servers.filter(|server| server.listing().is_none()).collect();
        tokio::spawn(async move {
            let starting = futures_util::stream::iter(unknown).for_each_concurrent(
                STARTS_AT_ONCE,
                |server| async move {
                    // A failure is part of its status.
                    let _ = server.open_connection().await;
                },
            );
            starting.await;
        });
    }

    /// Starts a server if necessary, and waits until its tools are registered.
    pub async fn wait_until_ready(&self, alias: &str) -> Result<(), ServerUnavailableError> {
        let member = self
            .find_binding(alias)
            .map_err(|error| ServerUnavailableError::new(error.to_string()))?;
        member.server().open_connection().await?;
        self.refresh_tools(member);
        Ok(())
    }

    /// Returns the status of all servers, by name.
    pub fn status(&self) -> Vec<McpServerStatus> {
        self.members.values().map(|member| member.status()).collect()
    }

    /// Starts all servers, waits for each up to its startup timeout, and returns the status of all.
    pub async fn probe(&self) -> Vec<McpServerStatus> {
        futures_util::stream::iter(self.members.values())
            .for_each_concurrent(STARTS_AT_ONCE, |member| async move {
                let _ = member.server().open_connection().await;
                self.refresh_tools(member);
            })
            .await;
        self.status()
    }

    /// Waits for the servers whose tools are unknown, each up to its startup timeout and at most
    /// `most`. Returns the status of those that have still listed nothing. A server that has failed
    /// is not started again.
    pub async fn wait_for_listings(&self, most: Duration) -> Vec<McpServerStatus> {
        let unlisted = |member: &&Arc<ServerBinding>| member.server().listing().is_none();
        futures_util::stream::iter(self.members.values().filter(unlisted))
            .for_each_concurrent(None, |member| async move {
                let server = member.server();
                if matches!(server.snapshot().phase, ServerPhase::Unknown | ServerPhase::Starting) {
                    let most = most.min(member.startup_timeout());
                    // The start continues in the background; its outcome is in the status.
                    let _ = tokio::time::timeout(most, server.open_connection()).await;
                }
                self.refresh_tools(member);
            })
            .await;
        self.members.values().filter(unlisted).map(|member| member.status()).collect()
    }

    /// Restarts a server, in every zero process that uses it and however often it failed.
    pub async fn reconnect(&self, alias: &str) -> Result<McpServerStatus, UnknownServerError> {
        let member = self.find_binding(alias)?;
        // A failure is part of the status.
        let _ = member.server().reconnect().await;
        self.refresh_tools(member);
        Ok(member.status())
    }

    /// Returns the tools of a server whose definition is not the approved one.
    pub fn changed_tools(
        &self,
        alias: &str,
    ) -> Result<Vec<ToolDefinitionChange>, UnknownServerError> {
        Ok(self.find_binding(alias)?.changed_tools())
    }

    /// Approves changed tools of a server. It approves the definitions that the user was shown,
    /// even if the server has changed them again.
    pub fn approve(
        &self,
        alias: &str,
        shown: &[ToolDefinitionChange],
    ) -> Result<(), ServerUnavailableError> {
        let member = self
            .find_binding(alias)
            .map_err(|error| ServerUnavailableError::new(error.to_string()))?;
        member.approve(shown)
    }

    /// Unregisters all tools and releases all servers. Servers that no other host uses are stopped.
    pub async fn stop(&self) {
        for member in self.members.values() {
            self.registry.remove_source(&member.source());
        }
        self.registry.remove_source(SEARCH_SOURCE);
        futures_util::stream::iter(self.members.values())
            .for_each_concurrent(STARTS_AT_ONCE, |member| member.end())
            .await;
    }

    fn find_binding(&self, alias: &str) -> Result<&Arc<ServerBinding>, UnknownServerError> {
        let found = self.members.iter().find(|(name, _)| name.as_str() == alias);
        found.map(|(_, member)| member).ok_or_else(|| UnknownServerError {
            alias: sanitize::to_line(alias),
            known: self.members.keys().map(ToString::to_string).collect(),
        })
    }

    /// Starts, once, a task for each server that registers whatever it lists.
    fn watch_all_listings(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        self.following.get_or_init(|| {
            for member in self.members.values() {
                runtime.spawn(Self::watch_listing(Arc::downgrade(self), Arc::clone(member)));
            }
        });
    }

    /// Registers whatever a server lists, until the host is gone.
    async fn watch_listing(servers: Weak<Self>, member: Arc<ServerBinding>) {
        let mut listings = member.server().subscribe_listings();
        while listings.changed().await.is_ok() {
            let Some(servers) = servers.upgrade() else { return };
            if member.has_ended() {
                return;
            }
            servers.refresh_tools(&member);
        }
    }

    /// Registers the tools of a server if it has listed new ones.
    fn refresh_tools(&self, member: &Arc<ServerBinding>) {
        if member.refresh() {
            self.register([member]);
        }
    }

    /// Registers the tools of servers: visible, or hidden behind `ToolSearch` if all together cost
    /// too many tokens.
    fn register<'a>(&self, changed: impl IntoIterator<Item = &'a Arc<ServerBinding>>) {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens: usize = self.members.values().map(|member| member.token_cost()).sum();
        let shown = match tokens > self.schema_tokens_max {
            true => ToolVisibility::WhenFound,
            false => ToolVisibility::Always,
        };
        if shown != *deferred {
            *deferred = shown;
            for member in self.members.values() {
                member.register(&self.registry, shown);
            }
            match shown {
                ToolVisibility::Always => self.registry.remove_source(SEARCH_SOURCE),
                ToolVisibility::WhenFound => self.register_search(),
            }
            return;
        }
        for member in changed {
            member.register(&self.registry, shown);
        }
    }

    fn register_search(&self) {
        let servers = self.members.keys().map(ToString::to_string).collect();
        let registry = Arc::downgrade(&self.registry);
        let search = erase(ToolSearch { registry, servers });
        let homeless = self.registry.replace(SEARCH_SOURCE, vec![(search, ToolVisibility::Always)]);
        if !homeless.is_empty() {
            tracing::warn!("another tool is named `ToolSearch`, so hidden tools cannot be found");
        }
    }
}
