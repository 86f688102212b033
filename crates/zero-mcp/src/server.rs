//! An MCP server with the tools of a [`ToolHost`].
//!
//! A client lists the whole registry in one dialect and calls its tools; every call takes the same
//! path as all other calls. If the policy requires approval, the user behind the client is asked by
//! elicitation. If the client does not support elicitation, the call is refused with a hint how to
//! allow it. Clients with a handshake (2024-11-05 to 2025-11-25) and stateless clients (2026-07-28)
//! are served in the same way, over stdio and over HTTP.

mod call_router;
mod client_sessions;
pub mod http;
mod legacy_form;
mod mcp_approver;
mod mcp_elicitor;
pub mod mcp_format;
mod parked_calls;
mod progress;
mod random_handle;
mod running_call;
mod service_handler;
mod stdio;
mod tool_list;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{Implementation, MetaObject, ProtocolVersion, ServerCapabilities};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use zero_core::ToolName;
use zero_runtime::{Dialect, DialectName, ToolHost};

pub use self::call_router::McpCallRouter;
pub use self::http::{
    McpHttpAccess, McpHttpConfig, McpHttpServerLimits, NetworkExposure, serve_handler_http,
    serve_http,
};
pub use self::mcp_approver::McpApprover;
pub use self::mcp_elicitor::McpElicitor;
pub use self::progress::McpObserver;
pub use self::stdio::{serve_lines, serve_stdio, serve_transport};
pub use self::tool_list::sort_tools;

use self::client_sessions::{HttpSessionMap, LazySession, OpenSessions};
use self::parked_calls::ParkedCalls;
use self::tool_list::McpToolListCache;

/// Key in `_meta` under which a result names the server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// How long to wait for stopped calls to end.
const CALLS_END_TIMEOUT: Duration = Duration::from_secs(10);

/// What a server needs.
pub struct McpServiceConfig {
    /// The tools. Its approver, elicitor and observer must use the same `router`.
    pub host: Arc<ToolHost>,
    /// Dialect of the tools' names and schemas.
    pub dialect: DialectName,
    /// Finds the client that made a call.
    pub router: Arc<McpCallRouter>,
    /// Tools to list first, in this order.
    pub order: Vec<ToolName>,
    /// Folders in which the tools work, for the instructions; commands run in the first.
    pub folders: Vec<PathBuf>,
    /// Cancelling it stops the server.
    pub stop: CancellationToken,
    /// Limits of the server.
    pub limits: McpServiceLimits,
}

impl McpServiceConfig {
    /// Creates the configuration of a server in zero's own dialect.
    pub fn new(host: Arc<ToolHost>, router: Arc<McpCallRouter>) -> Self {
        Self {
            host,
            dialect: DialectName::Canonical,
            router,
            order: Vec::new(),
            folders: Vec::new(),
            stop: CancellationToken::new(),
            limits: McpServiceLimits::default(),
        }
    }
}

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct McpServiceLimits {
    /// Maximum number of concurrent calls, including those that wait for an answer on an open
    /// request.
    pub calls_max: usize,
    /// Maximum number of subscriptions.
    pub listeners_max: usize,
    /// Maximum number of clients with a session of their own.
    pub sessions_max: usize,
    /// Maximum number of calls that wait for an answer without an open request.
    pub pending_max: usize,
    /// How long such a call waits.
    pub pending_age_max: Duration,
}

impl Default for McpServiceLimits {
    fn default() -> Self {
        Self {
            calls_max: 256,
            listeners_max: 64,
            sessions_max: 64,
            pending_max: 32,
            pending_age_max: Duration::from_secs(10 * 60),
        }
    }
}

/// Why a server ended without being stopped.
#[derive(Debug, thiserror::Error)]
pub enum McpServiceError {
    /// The client did not start as the protocol requires, or its connection broke.
    #[error("the connection could not be set up: {0}")]
    Handshake(String),
    /// The address is reachable from other machines, which was not allowed.
    #[error(
        "`{0}` can be reached from other machines; bind to a loopback address such as 127.0.0.1, or allow this explicitly"
    )]
    OpenAddress(std::net::SocketAddr),
    /// The client did not read.
    #[error("the client did not read its messages for {} s; the connection was closed", .0.as_secs())]
    UnreadOutput(Duration),
    /// The socket, stdin or stdout failed.
    #[error("could not read from or write to the MCP client")]
    Socket(#[source] std::io::Error),
}

/// State that all clients of a server share.
struct McpServiceState {
    host: Arc<ToolHost>,
    dialect: Arc<Dialect>,
    router: Arc<McpCallRouter>,
    listing: Arc<McpToolListCache>,
    pending: Arc<ParkedCalls>,
    /// Session of stateless requests.
    stateless_session: LazySession,
    sessions: OpenSessions,
    http_sessions: HttpSessionMap,
    /// Each running call holds a receiver, so that the server can wait for all of them.
    running: watch::Sender<()>,
    calls: Semaphore,
    listeners: Semaphore,
    clients: Arc<Semaphore>,
    limits: McpServiceLimits,
    info: rmcp::model::ServerConfig,
    /// Names the server in the results for stateless clients.
    server_meta: MetaObject,
    /// Counts how often clients should list the tools again.
    changes: watch::Receiver<u64>,
    stop: CancellationToken,
    _end: DropGuard,
}

impl McpServiceState {
    /// Creates the state, and starts the task that follows the registry.
    fn start(config: McpServiceConfig) -> Arc<Self> {
        let McpServiceConfig { host, dialect, router, order, folders, stop, limits } = config;
        let dialect = Arc::new(Dialect::new(dialect));
        let stop = stop.child_token();
        let listing = Arc::new(McpToolListCache::new(
            Arc::clone(host.registry()),
            Arc::clone(&dialect),
            order,
        ));
        let info = server_info(&folders);
        let mut server_meta = MetaObject::new();
        let name = serde_json::to_value(&info.server_info).unwrap_or_default();
        server_meta.0.insert(SERVER_INFO.to_owned(), name);
        let (announced, changes) = watch::channel(0);
        let registry_changes = host.registry().subscribe();
        tokio::spawn(tool_list::watch_changes(
            Arc::clone(&listing),
            registry_changes,
            announced,
            stop.clone(),
        ));
        Arc::new(Self {
            dialect,
            router,
            listing,
            pending: ParkedCalls::new(limits.pending_max, limits.pending_age_max),
            stateless_session: LazySession::default(),
            sessions: OpenSessions::default(),
            http_sessions: HttpSessionMap::default(),
            running: watch::Sender::new(()),
            calls: Semaphore::new(limits.calls_max),
            listeners: Semaphore::new(limits.listeners_max),
            clients: Arc::new(Semaphore::new(limits.sessions_max)),
            limits,
            info,
            server_meta,
            changes,
            _end: stop.clone().drop_guard(),
            stop,
            host,
        })
    }

    /// Ends every call and session, and waits until their commands have ended.
    async fn end(self: &Arc<Self>) {
        self.stop.cancel();
        self.pending.clear();
        let _ = tokio::time::timeout(CALLS_END_TIMEOUT, self.running.closed()).await;
        let server = Arc::clone(self);
        // Blocking: it waits for processes to exit.
        let _ = tokio::task::spawn_blocking(move || server.sessions.end_all()).await;
    }
}

/// Returns what the server tells clients and models about itself.
fn server_info(folders: &[PathBuf]) -> rmcp::model::ServerConfig {
    let capabilities =
        ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
    let folders: Vec<String> =
        folders.iter().map(|folder| format!("`{}`", folder.display())).collect();
    let place = match &folders[..] {
        [] => String::new(),
        folders => format!("The tools work in {}. ", folders.join(", ")),
    };
    let instructions = format!(
        "{place}Every call is checked against rules. Some calls run at once; for others the user \
         is asked first and may say no. A refusal says why, and how the call could be allowed; do \
         not try to work around it. Commands run in a sandbox."
    );
    rmcp::model::ServerConfig::new(capabilities)
        .with_server_info(
            Implementation::new("zero", env!("CARGO_PKG_VERSION"))
                .with_title("zero")
                .with_description("Tools for coding agents, behind one policy and a sandbox"),
        )
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
        .with_instructions(instructions)
}
