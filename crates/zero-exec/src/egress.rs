//! The proxy that connects confined commands to allowed hosts, and to no others.
//!
//! A confined command has only the network of its session, whose single exit is a port at which
//! this proxy listens from outside. The proxy speaks SOCKS5 and HTTP. Each connection names a host.
//! The [`ConnectionAuthorizer`] decides about the host; the name is resolved once, every returned
//! address is checked, and the connection goes to one of exactly these addresses. Each connection
//! is recorded in the [`ConnectionLog`] with its host, never with a path, a header or a password.
//!
//! Everything is bounded ([`EgressLimits`]): a command can slow down or end its own connections and
//! nothing else. The proxy runs on its own thread, so it does not depend on the host's runtime, and
//! ends when its [`EgressProxy`] is dropped.
//!
//! Not here: how the port gets into the sandbox, and the syntax of rules.

mod address_pinning;
mod client_connection;
mod connection_authorizer;
mod connection_log;
mod connection_trace;
mod held_connections;
mod http_request;
mod known_addresses;
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
use zero_policy::{
    ConnectDeniedError, ConnectPermission, HostName, NetworkScope, UserApproval, is_web_port,
};
use zero_sandbox::interface_addresses;

pub use self::address_pinning::{
    AddressPinError, HostResolver, LookupError, SystemResolver, validate_addresses,
};
pub use self::connection_authorizer::{ConnectionAuthorizer, PolicyAuthorizer};
pub use self::connection_log::{
    ConnectionDecision, ConnectionLog, ConnectionRecord, ConnectionStatus,
};
pub use self::held_connections::{
    ConnectionAnswer, ConnectionApprover, ConnectionQuestion, HeldConnections,
};
pub use self::proxy_error::suggest_remedy;
pub use self::proxy_request::ConnectTarget;
use self::proxy_request::ForwardMode;
use self::refusals::RefusalLog;
pub use self::refusals::{FailedHost, RefusalCursor, RefusalSummary, RefusedHost};

/// Threads for name lookups and audit records.
const HELPER_THREADS_MAX: usize = 16;
/// How long a proxy that shuts down waits until its connections are recorded.
const SHUTDOWN_MAX: Duration = Duration::from_secs(20);

/// The dependencies and limits of a proxy.
pub struct EgressConfig {
    /// Where connections are recorded.
    pub log: Arc<dyn ConnectionLog>,
    /// Decides which connections are allowed.
    pub authorizer: Arc<dyn ConnectionAuthorizer>,
    /// How host names are resolved.
    pub internet: ResolverConfig,
    /// The limits of each connection.
    pub limits: EgressLimits,
}

impl EgressConfig {
    /// A configuration that uses this machine's resolver and the default limits.
    pub fn new(log: Arc<dyn ConnectionLog>, authorizer: Arc<dyn ConnectionAuthorizer>) -> Self {
        Self {
            log,
            authorizer,
            internet: ResolverConfig::default(),
            limits: EgressLimits::default(),
        }
    }
}

/// How names are resolved, and which addresses are not public.
#[derive(Clone)]
pub struct ResolverConfig {
    /// Resolves host names.
    pub resolver: Arc<dyn HostResolver>,
    /// Describes the network of an address that is not public; `None` for a public address.
    pub inside: fn(IpAddr) -> Option<&'static str>,
}

impl Default for ResolverConfig {
    /// Uses this machine's resolver.
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            inside: |address| describe_inside(address, interface_addresses::is_own_address),
        }
    }
}

/// Why an address is not outside this machine and its private networks. An address that cannot be
/// compared with those of this machine counts as one of them.
fn describe_inside(
    address: IpAddr,
    is_own_address: impl Fn(IpAddr) -> io::Result<bool>,
) -> Option<&'static str> {
    let by_range = || HostName::from_address(address).private_reason();
    by_range().or_else(|| match is_own_address(address) {
        Ok(false) => None,
        Ok(true) => Some("an address of this machine"),
        Err(_) => Some("possibly an address of this machine, whose interfaces cannot be listed"),
    })
}

impl std::fmt::Debug for ResolverConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Internet").finish_non_exhaustive()
    }
}

/// The limits of a proxy.
#[derive(Clone, Copy, Debug)]
pub struct EgressLimits {
    /// Most simultaneous connections; further ones wait in the accept queue.
    pub connections_max: usize,
    /// Longest request head, in bytes.
    pub head_bytes_max: usize,
    /// How long a client may take to send its request head.
    pub head_time: Duration,
    /// How long a name lookup may take.
    pub resolve_time: Duration,
    /// How long connecting may take, over all tried addresses.
    pub connect_time: Duration,
    /// How long a connection may stay without traffic in either direction.
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

/// A running proxy. Dropping it closes all connections and records them.
pub struct EgressProxy {
    shared: Arc<ProxyState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that all connections of a proxy share.
struct ProxyState {
    config: EgressConfig,
    refusals: RefusalLog,
    /// The calls whose processes may be alive.
    calls: Mutex<Vec<Arc<LiveCall>>>,
    ended_token: CancellationToken,
}

/// A call whose processes may be alive.
struct LiveCall {
    id: CallId,
    /// The hosts that were allowed for this call.
    hosts: Vec<HostName>,
    /// The hosts that its commands were judged to use.
    scope: NetworkScope,
    /// Asks about other hosts; `None` if no user can be asked.
    connections: Option<Arc<HeldConnections>>,
}

impl EgressProxy {
    /// Starts a proxy that serves every client of `listener`.
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
            ended_token: CancellationToken::new(),
        });
        let served = shared.clone();
        let thread =
            std::thread::Builder::new().name("zero-egress".to_owned()).spawn(move || {
                runtime.block_on(proxy_server::serve(&served, listener, SHUTDOWN_MAX));
                // A lookup cannot be cancelled; do not wait for it.
                runtime.shutdown_background();
            })?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// The current position in the list of refused connections, for
    /// [`EgressProxy::refusals_since`].
    pub fn refusal_cursor(&self) -> RefusalCursor {
        self.shared.refusals.cursor()
    }

    /// The connections refused or failed since `mark`, without those that certainly belong to other
    /// calls. A connection whose question is still open was not made: its program has given up waiting.
    pub fn refusals_since(&self, mark: RefusalCursor, call: &CallId) -> RefusalSummary {
        let mut summary = self.shared.refusals.summarize_since(mark, call);
        for (ConnectTarget { host, port }, waited) in self.shared.open_questions(call) {
            let refusal = ConnectDeniedError::Unanswered { waited };
            summary.add(RefusedHost { host, port, refusal, call: Some(call.clone()) });
        }
        summary
    }

    /// Registers that processes of a call may be alive, until the returned guard is dropped. While
    /// exactly one call is registered, connections are recorded as its own.
    ///
    /// Until then, the hosts that were allowed for the call are open, and of the others those in
    /// `scope`. The proxy cannot tell for certain which command opened a connection, so these hosts
    /// are open to all commands of the session. `connections` asks about hosts that were not
    /// judged.
    pub fn attribute(
        &self,
        call: CallId,
        call_hosts: &[HostName],
        scope: NetworkScope,
        connections: Option<Arc<HeldConnections>>,
    ) -> AttributionGuard {
        let hosts = call_hosts.to_vec();
        let call = Arc::new(LiveCall { id: call, hosts, scope, connections });
        self.shared.lock_calls().push(Arc::clone(&call));
        AttributionGuard { shared: self.shared.clone(), call }
    }

    /// Closes all connections, records them and stops. Waits at most 20 s. A second
    /// call does nothing.
    pub fn end(&self) {
        self.shared.ended_token.cancel();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the session's proxy panicked");
        }
    }
}

impl ProxyState {
    fn lock_calls(&self) -> MutexGuard<'_, Vec<Arc<LiveCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that opened a connection, if only one call is alive.
    fn only_call(&self) -> Option<CallId> {
        let calls = self.lock_calls();
        let (first, others) = calls.split_first()?;
        others.iter().all(|call| call.id == first.id).then(|| first.id.clone())
    }

    /// Whether a host is one of those that the commands of the calls were judged to use, or it is
    /// not known of one of them which hosts it uses.
    fn is_judged(&self, host: &HostName) -> bool {
        let calls = self.lock_calls();
        let is_open = |call: &Arc<LiveCall>| match &call.scope {
            NetworkScope::Nothing => false,
            NetworkScope::Hosts(hosts) => hosts.contains(host),
            NetworkScope::Allowed => true,
        };
        calls.is_empty() || calls.iter().any(is_open)
    }

    /// Whether a connection may be made without asking, or with the user's approval.
    fn judge(
        &self,
        target: &ConnectTarget,
        approval: UserApproval,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        let hosts = self.allowed_hosts();
        let permit = self.config.authorizer.authorize_host(target, &hosts, approval)?;
        match approval == UserApproval::Given || self.is_judged(&target.host) {
            true => Ok(permit),
            false => Err(ConnectDeniedError::NotJudged),
        }
    }

    /// Why the host of a target cannot be reached whatever the user answers, as far as its addresses
    /// are known.
    fn known_refusal(&self, target: &ConnectTarget) -> Option<ConnectDeniedError> {
        let authorizer = &self.config.authorizer;
        let may_pin = |address, inside| authorizer.authorize_address(address, inside);
        self.config.internet.find_known_refusal(&target.host, may_pin)
    }

    /// What the user said about connections to this target.
    fn approval(&self, target: &ConnectTarget) -> UserApproval {
        let is_approved = |call: &Arc<LiveCall>| {
            call.connections.as_ref().is_some_and(|connections| connections.is_approved(target))
        };
        match self.lock_calls().iter().any(is_approved) {
            true => UserApproval::Given,
            false => UserApproval::Missing,
        }
    }

    /// The question about a refused connection, and the call that can ask it. `None` if no user can
    /// be asked, or if approval would not allow the connection.
    fn question(
        &self,
        target: &ConnectTarget,
        refusal: &ConnectDeniedError,
    ) -> Option<(Arc<HeldConnections>, ConnectionQuestion)> {
        if !refusal.can_be_approved() {
            return None;
        }
        let (connections, other_calls) = self.asking_call()?;
        self.judge(target, UserApproval::Given).ok()?;
        if let Some(address) = target.host.ip() {
            let inside = (self.config.internet.inside)(address);
            self.config.authorizer.authorize_address(address, inside).ok()?;
        }
        let is_grantable = *refusal == ConnectDeniedError::NoRule
            && is_web_port(target.port)
            && self.is_judged(&target.host);
        let (target, refusal) = (target.clone(), refusal.clone());
        Some((connections, ConnectionQuestion { target, refusal, is_grantable, other_calls }))
    }

    /// The call that can ask, and the number of other calls. The newest one asks: older ones are
    /// more likely to be servers.
    fn asking_call(&self) -> Option<(Arc<HeldConnections>, usize)> {
        let calls = self.lock_calls();
        let (call, connections) = calls.iter().rev().find_map(|call| {
            let connections = call.connections.as_ref().filter(|it| it.is_open())?;
            Some((call, Arc::clone(connections)))
        })?;
        let mut others: Vec<&CallId> =
            calls.iter().map(|other| &other.id).filter(|id| **id != call.id).collect();
        others.sort_unstable();
        others.dedup();
        Some((connections, others.len()))
    }

    /// What the user was asked about connections of a call and has not answered.
    fn open_questions(&self, call: &CallId) -> Vec<(ConnectTarget, Duration)> {
        let calls = self.lock_calls();
        let of_call = calls.iter().filter(|live| live.id == *call);
        let connections = of_call.filter_map(|live| live.connections.as_ref());
        connections.flat_map(|connections| connections.open_questions()).collect()
    }

    /// The hosts allowed for all calls whose processes may be alive.
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

/// Keeps a call registered as alive until dropped.
pub struct AttributionGuard {
    shared: Arc<ProxyState>,
    call: Arc<LiveCall>,
}

impl Drop for AttributionGuard {
    fn drop(&mut self) {
        self.shared.lock_calls().retain(|call| !Arc::ptr_eq(call, &self.call));
    }
}

/// Parses the head of a request to the proxy, with the empty line at its end: where it leads, and the
/// head that the server would get; none for a tunnel. For tests with hostile clients.
pub fn parse_proxy_request(head: &[u8]) -> Result<(ConnectTarget, Option<Vec<u8>>), String> {
    let (_, request) = http_request::parse(head).map_err(|error| error.to_string())?;
    let onward = match request.onward {
        ForwardMode::Tunnel => None,
        ForwardMode::Message { head, .. } => Some(head),
    };
    Ok((request.target, onward))
}

/// Checks the first bytes that a client sends through a tunnel to `host`: the error is why they are not
/// relayed, and `None` means that more bytes are needed. For tests with hostile clients.
pub fn check_tunnel_greeting(bytes: &[u8], host: &HostName) -> Option<Result<(), String>> {
    match sni::check_client_hello(bytes, host) {
        sni::ClientHelloCheck::Unfinished => None,
        sni::ClientHelloCheck::Accepted => Some(Ok(())),
        sni::ClientHelloCheck::Rejected(why) => Some(Err(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_public_address_is_inside() {
        let check = |address: [u8; 4], own: io::Result<bool>, expected: Option<&str>| {
            let own = move |_: IpAddr| match &own {
                Ok(own) => Ok(*own),
                Err(error) => Err(error.kind().into()),
            };
            assert_eq!(describe_inside(IpAddr::from(address), own), expected, "{address:?}");
        };
        let public = [93, 184, 216, 34];
        check(public, Ok(false), None);
        check(public, Ok(true), Some("an address of this machine"));
        let unknown = "possibly an address of this machine, whose interfaces cannot be listed";
        check(public, Err(io::ErrorKind::OutOfMemory.into()), Some(unknown));
        check([10, 0, 0, 7], Ok(true), Some("a private network"));
        check([169, 254, 169, 254], Ok(true), Some("a cloud metadata service"));
    }

    #[test]
    fn machine_interfaces_are_compared_by_default() {
        let inside = ResolverConfig::default().inside;
        assert_eq!(inside(IpAddr::from([93, 184, 216, 34])), None);
        assert_eq!(inside(IpAddr::from([127, 0, 0, 1])), Some("this machine"));
    }
}
