//! Other people's servers, and their tools as tools of a host.
//!
//! Nothing here makes anybody wait. The tools that are known from last time are there at once, and
//! the first call of one starts its server; servers that nobody knows yet are started in the
//! background and register when they are ready. Servers are shared by all hosts of a [`ServerPool`],
//! rest after failures, and stop when nobody uses them.
//!
//! Nothing here is believed either. What a server says of its tools is bounded, looked through and
//! pinned; what it claims of their harmlessness is shown and not counted; and a call goes to the
//! server only under the definition that it was judged by.

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
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use zero_core::sanitize;
use zero_runtime::{Elicitor, ServiceLauncher, ToolRegistry, ToolVisibility, erase};
use zero_sandbox::StateDir;

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

/// What all schemas together may cost before tools have to be looked for, in tokens.
pub const SCHEMA_TOKENS_MAX: usize = 20_000;
/// The source of the tool that looks for tools.
const SEARCH_SOURCE: &str = "mcp";
/// Servers that are started at a time.
const STARTS_AT_ONCE: usize = 16;

/// What the servers of a host are made of.
pub struct McpServerSetConfig {
    /// How programs are run.
    pub services: ServiceLauncher,
    /// How servers that run elsewhere are reached.
    pub web: RemoteServerAccess,
    /// Where their tools go.
    pub registry: Arc<ToolRegistry>,
    /// zero's own folder.
    pub state: StateDir,
    /// The servers. Each was allowed, and the workspace is trusted.
    pub definitions: Vec<McpServerDefinition>,
    /// What all schemas together may cost before tools have to be looked for, in tokens.
    pub schema_tokens_max: usize,
    /// How a server's questions reach the person; without one they are cancelled.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// What is shared with other hosts of this process.
    pub pool: Arc<ServerPool>,
    /// What confines the programs of this host, such as its workspace: only hosts that confine
    /// alike share servers.
    pub confined_by: String,
}

/// The MCP servers of one host.
pub struct McpServerSet {
    registry: Arc<ToolRegistry>,
    schema_tokens_max: usize,
    members: BTreeMap<ServerAlias, Arc<ServerBinding>>,
    /// Whether tools have to be looked for; held while tools are registered.
    deferred: Mutex<ToolVisibility>,
    /// Set once somebody listens to what servers list.
    following: OnceLock<()>,
}

/// A name that no server has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no MCP server `{}`; there are: {}", .alias, .known.join(", "))]
pub struct UnknownServerError {
    alias: String,
    known: Vec<String>,
}

impl McpServerSet {
    /// The servers of a host. Nothing is started, and nothing is registered yet.
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
        let state = state.child("mcp");
        let elicits = elicitor.is_some();
        let mut members = BTreeMap::new();
        for definition in definitions {
            let identity = ServerIdentity::from_transport(&definition.reach);
            let key = identity.scoped_to(&json!([
                config.confined_by,
                elicits,
                state.path().as_os_str().as_encoded_bytes(),
                // What it says when it fails names the one, and how long it may take is the other.
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

    /// Registers at once the tools that are known from last time. Nothing is started for it.
    pub fn register_known(self: &Arc<Self>) {
        self.watch_all_listings();
        for member in self.members.values() {
            member.refresh();
        }
        self.register(self.members.values());
    }

    /// Starts the servers in the background whose tools nobody knows yet, and sees to it that
    /// whatever a server lists from now on is registered. Must be called within a runtime.
    pub fn start_unknown(self: &Arc<Self>) {
        self.watch_all_listings();
        let servers = self.members.values().map(|member| Arc::clone(member.server()));
        let unknown: Vec<_> = servers.filter(|server| server.listing().is_none()).collect();
        tokio::spawn(async move {
            let starting = futures_util::stream::iter(unknown).for_each_concurrent(
                STARTS_AT_ONCE,
                |server| async move {
                    // Why it failed is to be seen in its status.
                    let _ = server.open_connection().await;
                },
            );
            starting.await;
        });
    }

    /// Starts a server unless it runs, and waits until its tools are registered.
    pub async fn wait_until_ready(&self, alias: &str) -> Result<(), ServerUnavailableError> {
        let member = self
            .find_binding(alias)
            .map_err(|error| ServerUnavailableError::new(error.to_string()))?;
        member.server().open_connection().await?;
        self.refresh_tools(member);
        Ok(())
    }

    /// How all servers stand, by name.
    pub fn status(&self) -> Vec<McpServerStatus> {
        self.members.values().map(|member| member.status()).collect()
    }

    /// Starts all servers at once and waits for each, as long as it may take to start; then how
    /// they stand.
    pub async fn probe(&self) -> Vec<McpServerStatus> {
        futures_util::stream::iter(self.members.values())
            .for_each_concurrent(STARTS_AT_ONCE, |member| async move {
                let _ = member.server().open_connection().await;
                self.refresh_tools(member);
            })
            .await;
        self.status()
    }

    /// Waits for the servers whose tools nobody knows yet, each as long as it may take to start and
    /// none longer than this; then how those stand that have listed nothing. One that failed is not
    /// started again for it.
    pub async fn wait_for_listings(&self, most: Duration) -> Vec<McpServerStatus> {
        let unlisted = |member: &&Arc<ServerBinding>| member.server().listing().is_none();
        futures_util::stream::iter(self.members.values().filter(unlisted))
            .for_each_concurrent(None, |member| async move {
                let server = member.server();
                if matches!(server.snapshot().phase, ServerPhase::Unknown | ServerPhase::Starting) {
                    let most = most.min(member.startup_timeout());
                    // Its start goes on without us; how it went is in its status.
                    let _ = tokio::time::timeout(most, server.open_connection()).await;
                }
                self.refresh_tools(member);
            })
            .await;
        self.members.values().filter(unlisted).map(|member| member.status()).collect()
    }

    /// Starts a server anew, here and in every zero that uses it, however often it failed.
    pub async fn reconnect(&self, alias: &str) -> Result<McpServerStatus, UnknownServerError> {
        let member = self.find_binding(alias)?;
        // Why it failed is in the status.
        let _ = member.server().reconnect().await;
        self.refresh_tools(member);
        Ok(member.status())
    }

    /// The tools of a server that are not what was approved, with what was.
    pub fn changed_tools(
        &self,
        alias: &str,
    ) -> Result<Vec<ToolDefinitionChange>, UnknownServerError> {
        Ok(self.find_binding(alias)?.changed_tools())
    }

    /// Takes changed tools of a server as approved. What counts is what the person was shown,
    /// whatever the server says meanwhile.
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

    /// Ends the use of all servers; those that nobody else uses are stopped. Their tools go.
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

    /// Sees to it, once, that whatever servers list is registered.
    fn watch_all_listings(self: &Arc<Self>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        self.following.get_or_init(|| {
            for member in self.members.values() {
                runtime.spawn(Self::watch_listing(Arc::downgrade(self), Arc::clone(member)));
            }
        });
    }

    /// Registers whatever a server lists, for as long as there is a host.
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

    /// Registers what a server listed, where that is news.
    fn refresh_tools(&self, member: &Arc<ServerBinding>) {
        if member.refresh() {
            self.register([member]);
        }
    }

    /// Puts the tools of servers where models find them: in the list, or, where all together cost
    /// too much, behind a search.
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
            tracing::warn!("something else is called `ToolSearch`, so tools cannot be looked for");
        }
    }
}
