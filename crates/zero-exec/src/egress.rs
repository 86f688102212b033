//! The proxy through which confined commands reach exactly the hosts that are allowed.
//!
//! A confined command has no network but that of its session, and that has one way out: a port at
//! which this proxy listens from outside. It speaks SOCKS5 and HTTP. Each connection names a host; the [`ConnectionAuthorizer`] judges it; its name is
//! looked up once, every address of the answer is checked, and the connection goes to one of exactly
//! these addresses. Each leaves a record in the [`ConnectionLog`], with the host and never with a
//! path, a header or a password.
//!
//! Everything is bounded ([`EgressLimits`]): what a command does here can slow down or end its own
//! connections and nothing else. The proxy runs on a thread of its own, so it works whatever the
//! host's runtime is busy with, and ends when its [`EgressProxy`] is dropped.
//!
//! Not here: how the port comes into the sandbox, and the syntax of rules.

mod address_pinning;
mod client_connection;
mod connection_authorizer;
mod connection_log;
mod connection_trace;
mod http_request;
mod proxy_error;
mod proxy_request;
mod proxy_server;
mod refusals;
mod relay;
mod request_body;
mod sni;
mod socks;

use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zero_core::CallId;
use zero_policy::HostName;

pub use self::address_pinning::{
    AddressPinError, HostResolver, LookupError, SystemResolver, validate_addresses,
};
pub use self::connection_authorizer::{ConnectionAuthorizer, PolicyAuthorizer};
pub use self::connection_log::{
    ConnectionDecision, ConnectionLog, ConnectionRecord, ConnectionStatus,
};
pub use self::proxy_request::ConnectTarget;
use self::refusals::RefusalLog;
pub use self::refusals::{RefusalCursor, RefusalSummary, RefusedHost};

/// Threads that look names up and write records.
const HELPER_THREADS_MAX: usize = 16;
/// How long a proxy that ends waits for its connections to be written down.
const SHUTDOWN_MAX: Duration = Duration::from_secs(20);

/// What a proxy is made of.
pub struct EgressConfig {
    /// Where connections are recorded.
    pub log: Arc<dyn ConnectionLog>,
    /// Who decides.
    pub gatekeeper: Arc<dyn ConnectionAuthorizer>,
    /// What lies outside.
    pub internet: ResolverConfig,
    /// Its bounds.
    pub limits: EgressLimits,
}

impl EgressConfig {
    /// A proxy that looks names up as this machine does.
    pub fn new(log: Arc<dyn ConnectionLog>, gatekeeper: Arc<dyn ConnectionAuthorizer>) -> Self {
        Self {
            log,
            gatekeeper,
            internet: ResolverConfig::default(),
            limits: EgressLimits::default(),
        }
    }
}

/// What lies outside: who has which address, and which of them are not the open internet.
#[derive(Clone)]
pub struct ResolverConfig {
    /// Who looks names up.
    pub resolver: Arc<dyn HostResolver>,
    /// What is at an address that is not one of the open internet.
    pub inside: fn(IpAddr) -> Option<&'static str>,
}

impl Default for ResolverConfig {
    /// As this machine sees it.
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            inside: |address| HostName::from_address(address).private_reason(),
        }
    }
}

impl std::fmt::Debug for ResolverConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Internet").finish_non_exhaustive()
    }
}

/// The bounds of a proxy.
#[derive(Clone, Copy, Debug)]
pub struct EgressLimits {
    /// Connections at a time; more wait until one ends.
    pub connections_max: usize,
    /// Longest request head, in bytes.
    pub head_bytes_max: usize,
    /// How long a client may take to say what it wants.
    pub head_time: Duration,
    /// How long looking a name up may take.
    pub resolve_time: Duration,
    /// How long connecting may take, over all addresses tried.
    pub connect_time: Duration,
    /// How long a connection may be without a byte in either direction.
    pub idle_time: Duration,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            connections_max: 256,
            head_bytes_max: 64 * 1024,
            head_time: Duration::from_secs(30),
            resolve_time: Duration::from_secs(15),
            connect_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(5 * 60),
        }
    }
}

/// A running proxy. Dropping it closes all connections and writes them down.
pub struct EgressProxy {
    shared: Arc<ProxyState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What all connections of a proxy share.
struct ProxyState {
    config: EgressConfig,
    refusals: RefusalLog,
    /// The calls whose processes may be alive.
    calls: Mutex<Vec<Arc<LiveCall>>>,
    ended: CancellationToken,
}

/// A call whose processes may be alive.
struct LiveCall {
    id: CallId,
    /// The hosts that were judged for it, and allowed.
    hosts: Vec<HostName>,
}

impl EgressProxy {
    /// Starts a proxy that answers whoever connects to `listener`.
    pub fn start(config: EgressConfig, listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(HELPER_THREADS_MAX)
            .thread_name("zero-egress-help")
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let shared = Arc::new(ProxyState {
            config,
            refusals: RefusalLog::default(),
            calls: Mutex::new(Vec::new()),
            ended: CancellationToken::new(),
        });
        let served = shared.clone();
        let thread =
            std::thread::Builder::new().name("zero-egress".to_owned()).spawn(move || {
                runtime.block_on(proxy_server::serve(&served, listener, SHUTDOWN_MAX));
                // A lookup cannot be stopped; nobody waits for it.
                runtime.shutdown_background();
            })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// A place in the list of refused connections, for [`EgressProxy::refusals_since`].
    pub fn refusal_cursor(&self) -> RefusalCursor {
        self.shared.refusals.cursor()
    }

    /// What was refused since, but not what was certainly refused to other calls than this one.
    pub fn refusals_since(&self, mark: RefusalCursor, call: &CallId) -> RefusalSummary {
        self.shared.refusals.summarize_since(mark, call)
    }

    /// Notes that processes of a call may be alive, until what is returned is dropped. While there
    /// is exactly one such call, connections are recorded as its own.
    ///
    /// For as long, the hosts that were judged for the call and allowed are open. Whose connection
    /// one is cannot be told for certain, so they are open to all who come through here, that is to
    /// the other commands of the same session too.
    pub fn attribute(&self, call: CallId, judged: &[HostName]) -> AttributionGuard {
        let call = Arc::new(LiveCall { id: call, hosts: judged.to_vec() });
        self.shared.lock_calls().push(Arc::clone(&call));
        AttributionGuard { shared: self.shared.clone(), call }
    }

    /// Closes all connections, writes them down and ends. It does not wait for longer than a few
    /// seconds. Nothing happens the second time.
    pub fn end(&self) {
        self.shared.ended.cancel();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the proxy of the session ended by a panic");
        }
    }
}

impl ProxyState {
    fn lock_calls(&self) -> MutexGuard<'_, Vec<Arc<LiveCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call whose connection this must be.
    fn only_call(&self) -> Option<CallId> {
        let calls = self.lock_calls();
        let (first, others) = calls.split_first()?;
        others.iter().all(|call| call.id == first.id).then(|| first.id.clone())
    }

    /// The hosts that were judged for calls whose processes may be alive.
    fn allowed_hosts(&self) -> Vec<HostName> {
        self.lock_calls().iter().flat_map(|call| call.hosts.iter().cloned()).collect()
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for EgressProxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").finish_non_exhaustive()
    }
}

/// Says that processes of a call may be alive, as long as it lives.
pub struct AttributionGuard {
    shared: Arc<ProxyState>,
    call: Arc<LiveCall>,
}

impl Drop for AttributionGuard {
    fn drop(&mut self) {
        self.shared.lock_calls().retain(|call| !Arc::ptr_eq(call, &self.call));
    }
}
