//! [`ServerBinding`], a server in one host: its alias there, the tools that settings select, and
//! their registration.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_core::ToolName;
use zero_runtime::tool::AnyTool;
use zero_runtime::{Elicitor, ToolRegistry, ToolVisibility};
use zero_sandbox::StateDir;

use super::error::ServerUnavailableError;
use super::managed_server::{ManagedServer, ServerLease};
use super::mcp_tool::{McpTool, ToolOrigin};
use super::sanitize;
use super::status::{McpServerStatus, McpToolStatus, QuarantinedTool, ServerPhase};
use super::tool_changes::ToolDefinitionChange;
use super::tool_listing::ToolListing;
use super::tool_names;
use super::tool_pins::{PinSnapshot, PinState, ToolPins};
use crate::server_definition::{McpServerDefinition, ServerTransport};

/// A server in one host.
pub(crate) struct ServerBinding {
    origin: Arc<ToolOrigin>,
    lease: Mutex<Option<ServerLease>>,
    bound_tools: Mutex<BoundTools>,
}

/// The tools of the server in the host.
#[derive(Default)]
struct BoundTools {
    /// The listing that the tools were built from.
    listing: Option<Arc<ToolListing>>,
    tools: Vec<Arc<McpTool>>,
    /// Listed tools that this host cannot use.
    quarantined: Vec<QuarantinedTool>,
    /// Tools whose name is taken in the registry.
    homeless: Vec<QuarantinedTool>,
    /// Number of tools that the settings exclude.
    unwanted: usize,
}

impl ServerBinding {
    pub(crate) fn new(
        definition: McpServerDefinition,
        lease: ServerLease,
        state: &StateDir,
        elicitor: Option<Arc<dyn Elicitor>>,
    ) -> Self {
        let server = Arc::clone(lease.server());
        let pins = ToolPins::new(state, &definition.alias, &definition.transport);
        let origin = Arc::new(ToolOrigin { definition, server, pins, elicitor });
        Self { origin, lease: Mutex::new(Some(lease)), bound_tools: Mutex::default() }
    }

    pub(crate) fn server(&self) -> &Arc<ManagedServer> {
        &self.origin.server
    }

    /// Returns the startup timeout.
    pub(crate) fn startup_timeout(&self) -> Duration {
        self.origin.definition.startup_timeout
    }

    /// Returns the source name of its tools in the registry.
    pub(crate) fn source(&self) -> String {
        format!("mcp:{}", self.origin.definition.alias)
    }

    /// Rebuilds the tools from the server's last listing. Returns whether there was a new one.
    pub(crate) fn refresh(&self) -> bool {
        let Some(listing) = self.origin.server.listing() else { return false };
        let mut bound_tools = self.bound_tools();
        if bound_tools
            .listing
            .as_ref()
            .is_some_and(|own_listing| Arc::ptr_eq(own_listing, &listing))
        {
            return false;
        }
        *bound_tools = self.build_tools(listing);
        true
    }

    fn build_tools(&self, listing: Arc<ToolListing>) -> BoundTools {
        let definition = &self.origin.definition;
        let is_wanted = |name: &String| {
            let is_allowed =
                definition.tools_allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
            is_allowed && !definition.tools_denied.contains(name)
        };
        let mut bound_tools = BoundTools::default();
        let (wanted, unwanted): (Vec<_>, Vec<_>) =
            listing.tools.values().partition(|tool| is_wanted(&tool.name));
        bound_tools.unwanted = unwanted.len();
        let names = tool_names::assign_names(
            &definition.alias,
            wanted.iter().map(|tool| tool.name.as_str()),
        );
        for (tool, name) in wanted.into_iter().zip(names) {
            match name {
                Ok(name) => {
                    let tool = McpTool::new(Arc::clone(&self.origin), name, tool.clone());
                    bound_tools.tools.push(Arc::new(tool));
                }
                Err(reason) => {
                    bound_tools
                        .quarantined
                        .push(QuarantinedTool { tool: sanitize::to_line(&tool.name), reason });
                }
            }
        }
        bound_tools.listing = Some(listing);
        bound_tools
    }

    /// Estimates the tokens that all its schemas cost in a model request.
    pub(crate) fn token_cost(&self) -> usize {
        self.bound_tools().tools.iter().map(|tool| tool.token_cost()).sum()
    }

    /// Registers its tools.
    pub(crate) fn register(&self, registry: &ToolRegistry, shown: ToolVisibility) {
        let mut bound_tools = self.bound_tools();
        if self.has_ended() || bound_tools.listing.is_none() {
            return;
        }
        let tools =
            bound_tools.tools.iter().map(|tool| (Arc::clone(tool) as Arc<dyn AnyTool>, shown));
        let homeless = registry.replace(&self.source(), tools.collect());
        let taken = |name: &ToolName| QuarantinedTool {
            tool: name.to_string(),
            reason: "another tool has that name already".to_owned(),
        };
        bound_tools.homeless = homeless.iter().map(|tool| taken(&tool.spec().name)).collect();
    }

    /// Returns the tools whose definition is not the approved one.
    pub(crate) fn changed_tools(&self) -> Vec<ToolDefinitionChange> {
        let pins = &self.origin.pins;
        let pinned = pins.snapshot();
        let bound_tools = self.bound_tools();
        let tools = bound_tools.tools.iter();
        let changed = tools.filter(|tool| is_changed(tool, &pinned));
        let shown = changed.map(|tool| ToolDefinitionChange {
            name: tool.spec().name.to_string(),
            tool: tool.remote_name().to_owned(),
            before: pins.approved_definition(tool.remote_name()),
            after: tool.definition().clone(),
        });
        shown.collect()
    }

    /// Approves the definitions that the user was shown.
    pub(crate) fn approve(
        &self,
        shown: &[ToolDefinitionChange],
    ) -> Result<(), ServerUnavailableError> {
        let definitions = shown.iter().map(|tool| &tool.after);
        self.origin
            .pins
            .pin(definitions)
            .map_err(|error| ServerUnavailableError::new(error.to_string()))
    }

    /// Returns its status.
    pub(crate) fn status(&self) -> McpServerStatus {
        let snapshot = self.origin.server.snapshot();
        let definition = &self.origin.definition;
        let bound_tools = self.bound_tools();
        let connection = snapshot.connection.filter(|connection| connection.is_open());
        let listing = bound_tools.listing.as_deref();
        let pinned = self.origin.pins.snapshot();
        let mut notes = Vec::new();
        notes.extend(listing.and_then(|listing| listing.cut.clone()));
        if bound_tools.unwanted > 0 {
            notes.push(format!(
                "{} of its tools are excluded by its settings",
                bound_tools.unwanted
            ));
        }
        notes.extend(self.origin.pins.load_error());
        let secrets = &self.origin.server.secrets;
        let noted = connection.iter().flat_map(|connection| connection.monitor.notes());
        notes.extend(noted.map(|note| secrets.redact(&note)));
        let quarantined = listing.into_iter().flat_map(|listing| &listing.quarantined);
        let quarantined = quarantined.chain(&bound_tools.quarantined).chain(&bound_tools.homeless);
        McpServerStatus {
            alias: definition.alias.to_string(),
            // `Ready` without an open connection means that it has just ended.
            state: match snapshot.phase {
                ServerPhase::Ready if connection.is_none() => ServerPhase::Failed,
                phase => phase,
            },
            reach: match definition.transport {
                ServerTransport::Command(_) => "command",
                ServerTransport::Http(_) => "http",
            },
            written_at: definition.written_at.clone(),
            protocol: connection.as_ref().map(|c| c.info.protocol_version.as_str().to_owned()),
            implementation: connection.as_ref().and_then(|connection| {
                let info = connection.info.server_info.as_ref()?;
                Some(sanitize::to_line(&format!("{} {}", info.name, info.version)))
            }),
            tools: bound_tools.tools.iter().map(|tool| tool_status(tool, &pinned)).collect(),
            tokens: bound_tools.tools.iter().map(|tool| tool.token_cost()).sum(),
            quarantined: quarantined.cloned().collect(),
            notes,
            last_error: snapshot.last_error,
            retry_in_s: snapshot.rests_for.map(|left| left.as_secs().max(1)),
            starts: snapshot.starts,
        }
    }

    /// Whether the host has released it.
    pub(crate) fn has_ended(&self) -> bool {
        self.lease().is_none()
    }

    /// Releases it, and stops the server if no other host uses it.
    pub(crate) async fn end(&self) {
        let lease = self.lease().take();
        if let Some(lease) = lease {
            lease.end().await;
        }
    }

    fn bound_tools(&self) -> MutexGuard<'_, BoundTools> {
        self.bound_tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease(&self) -> MutexGuard<'_, Option<ServerLease>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tool_status(tool: &McpTool, pinned: &PinSnapshot) -> McpToolStatus {
    let definition = tool.definition();
    McpToolStatus {
        name: tool.spec().name.to_string(),
        own_name: sanitize::to_line(tool.remote_name()),
        title: definition.title.as_deref().map(sanitize::to_line),
        claims: definition.claims.to_text(),
        tokens: tool.token_cost(),
        changed: is_changed(tool, pinned),
    }
}

fn is_changed(tool: &McpTool, pinned: &PinSnapshot) -> bool {
    pinned.pin_state(tool.remote_name(), tool.hash()) == PinState::Changed
}
