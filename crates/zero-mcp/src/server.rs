//! Our tools for whoever speaks MCP.
//!
//! A client lists the whole registry in one dialect and calls it; every call takes the one path all
//! calls take. What policy would ask a person is asked of the person behind the client, by
//! elicitation; a client that cannot ask is told how the call could be allowed. Clients that shake
//! hands (2024-11-05 to 2025-11-25) and clients whose every request stands alone (2026-07-28) are
//! served alike, over stdio and over HTTP.

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

/// Where a result says whose it is.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// How long calls that were stopped may take to end.
const CALLS_END_TIMEOUT: Duration = Duration::from_secs(10);

/// What a server is made of.
pub struct McpServiceConfig {
    /// The tools. Its approver, elicitor and observer reach clients through `board`.
    pub host: Arc<ToolHost>,
    /// How they are named and shaped.
    pub dialect: DialectName,
    /// Where questions of calls find their clients.
    pub board: Arc<McpCallRouter>,
    /// Tools that are listed first, in this order.
    pub order: Vec<ToolName>,
    /// The folders the tools work in, for the instructions; the first is where commands run.
    pub folders: Vec<PathBuf>,
    /// Ends the server.
    pub stop: CancellationToken,
    /// Its bounds.
    pub limits: McpServiceLimits,
}

impl McpServiceConfig {
    /// A server of a host, in zero's own dialect.
    pub fn new(host: Arc<ToolHost>, board: Arc<McpCallRouter>) -> Self {
        Self {
            host,
            dialect: DialectName::Canonical,
            board,
            order: Vec::new(),
            folders: Vec::new(),
            stop: CancellationToken::new(),
            limits: McpServiceLimits::default(),
        }
    }
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct McpServiceLimits {
    /// Calls at once, those that wait for an answer on an open request among them.
    pub calls_max: usize,
    /// Subscriptions at once.
    pub listeners_max: usize,
    /// Clients with a session of their own at once.
    pub sessions_max: usize,
    /// Calls that wait for an answer without an open request.
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

/// Why a server ended that was not told to.
#[derive(Debug, thiserror::Error)]
pub enum McpServiceError {
    /// The client did not begin as the protocol wants, or its connection broke.
    #[error("the connection could not be set up: {0}")]
    Handshake(String),
    /// The address is open to other machines and nobody said that it may be.
    #[error(
        "`{0}` can be reached from other machines; bind to a loopback address such as 127.0.0.1, or say that this is wanted"
    )]
    OpenAddress(std::net::SocketAddr),
    /// The client did not read what it was sent.
    #[error("the client did not read what it was sent for {} s; the connection was given up", .0.as_secs())]
    UnreadOutput(Duration),
    /// The socket, or stdin or stdout, failed.
    #[error("could not use the connection")]
    Socket(#[source] std::io::Error),
}

/// What all clients of a server share.
struct McpServiceState {
    host: Arc<ToolHost>,
    dialect: Arc<Dialect>,
    board: Arc<McpCallRouter>,
    listing: Arc<McpToolListCache>,
    pending: Arc<ParkedCalls>,
    /// Of requests that stand alone.
    alone: LazySession,
    sessions: OpenSessions,
    http_sessions: HttpSessionMap,
    /// Listened to by each call whose commands may still be there.
    running: watch::Sender<()>,
    calls: Semaphore,
    listeners: Semaphore,
    clients: Arc<Semaphore>,
    limits: McpServiceLimits,
    info: rmcp::model::ServerConfig,
    /// Says in a result whose it is, to clients whose requests stand alone.
    whose: MetaObject,
    /// Counts how often clients should list again.
    changes: watch::Receiver<u64>,
    stop: CancellationToken,
    _end: DropGuard,
}

impl McpServiceState {
    /// Starts what a server does by itself.
    fn start(config: McpServiceConfig) -> Arc<Self> {
        let McpServiceConfig { host, dialect, board, order, folders, stop, limits } = config;
        let dialect = Arc::new(Dialect::new(dialect));
        let stop = stop.child_token();
        let listing = Arc::new(McpToolListCache::new(
            Arc::clone(host.registry()),
            Arc::clone(&dialect),
            order,
        ));
        let info = server_info(&folders);
        let mut whose = MetaObject::new();
        let name = serde_json::to_value(&info.server_info).unwrap_or_default();
        whose.0.insert(SERVER_INFO.to_owned(), name);
        let (told, changes) = watch::channel(0);
        let news = host.registry().subscribe();
        tokio::spawn(tool_list::watch_changes(Arc::clone(&listing), news, told, stop.clone()));
        Arc::new(Self {
            dialect,
            board,
            listing,
            pending: ParkedCalls::new(limits.pending_max, limits.pending_age_max),
            alone: LazySession::default(),
            sessions: OpenSessions::default(),
            http_sessions: HttpSessionMap::default(),
            running: watch::Sender::new(()),
            calls: Semaphore::new(limits.calls_max),
            listeners: Semaphore::new(limits.listeners_max),
            clients: Arc::new(Semaphore::new(limits.sessions_max)),
            limits,
            info,
            whose,
            changes,
            _end: stop.clone().drop_guard(),
            stop,
            host,
        })
    }

    /// Ends every call and session; returns when their commands are gone.
    async fn end(self: &Arc<Self>) {
        self.stop.cancel();
        self.pending.clear();
        let _ = tokio::time::timeout(CALLS_END_TIMEOUT, self.running.closed()).await;
        let server = Arc::clone(self);
        // It waits for processes to die.
        let _ = tokio::task::spawn_blocking(move || server.sessions.end_all()).await;
    }
}

/// Who we are, and what a model should know about it.
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
        "{place}Every call is checked against rules: some run at once, some are asked of the \
         person first, who may say no. A refusal says why and how the call could be allowed; do \
         not try to get round it. Commands run in a sandbox."
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
