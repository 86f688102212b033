//! The proxy through which confined commands reach exactly the hosts that are allowed.
//!
//! A confined command has no network of its own but one port, behind which this proxy stands. It
//! speaks SOCKS5 and HTTP. Each connection names a host; the [`Gatekeeper`] judges it; its name is
//! looked up once, every address of the answer is checked, and the connection goes to one of exactly
//! these addresses. Each leaves a row in the audit log, with the host and never with a path, a
//! header or a password.
//!
//! Everything is bounded ([`EgressLimits`]): what a command does here can slow down or end its own
//! connections and nothing else. The proxy runs on a thread of its own, so it works whatever the
//! host's runtime is busy with, and ends when its [`Egress`] is dropped.
//!
//! Not here: how a connection comes out of the sandbox, and the syntax of rules.

mod body;
mod client;
mod failure;
mod gate;
mod http;
mod pin;
mod refusals;
mod relay;
mod request;
mod server;
mod socket;
mod socks;
mod trace;

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zero_core::{CallId, SessionId};
use zero_policy::HostName;
use zero_sandbox::{StateDir, Workspace};

pub use self::gate::{Gatekeeper, PolicyGate};
pub use self::pin::{Resolver, SystemResolver};
use self::refusals::RefusalList;
pub use self::refusals::{Mark, Refusals, RefusedHost};
use self::socket::SocketFile;
use crate::audit::Audit;

/// Threads that look names up and write audit rows.
const HELPER_THREADS_MAX: usize = 16;
/// How long a proxy that ends waits for its connections to be written down.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// What a proxy is made of.
pub struct EgressConfig {
    /// Where zero keeps its own state: the socket and the audit log.
    pub state: StateDir,
    /// The workspace, for the audit log.
    pub workspace: Workspace,
    /// The session whose commands come through here, for the audit log.
    pub session: Option<SessionId>,
    /// Who decides.
    pub gatekeeper: Arc<dyn Gatekeeper>,
    /// Who looks names up.
    pub resolver: Arc<dyn Resolver>,
    /// What is at an address that is not one of the open internet.
    pub inside: fn(IpAddr) -> Option<&'static str>,
    /// Its bounds.
    pub limits: EgressLimits,
}

impl EgressConfig {
    /// A proxy that looks names up as this machine does.
    pub fn new(state: StateDir, workspace: Workspace, gatekeeper: Arc<dyn Gatekeeper>) -> Self {
        Self {
            state,
            workspace,
            session: None,
            gatekeeper,
            resolver: Arc::new(SystemResolver),
            inside: |address| HostName::address(address).is_private(),
            limits: EgressLimits::default(),
        }
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

/// A running proxy. Dropping it closes all connections, writes them down, and removes the socket.
pub struct Egress {
    shared: Arc<Shared>,
    socket: SocketFile,
    thread: Option<JoinHandle<()>>,
}

/// What all connections of a proxy share.
struct Shared {
    config: EgressConfig,
    audit: Audit,
    refusals: RefusalList,
    /// The calls whose processes may be alive.
    calls: Mutex<Vec<CallId>>,
    ended: CancellationToken,
}

impl Egress {
    /// Starts a proxy.
    pub fn start(config: EgressConfig) -> io::Result<Self> {
        let (socket, listener) = SocketFile::bind(&config.state)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(HELPER_THREADS_MAX)
            .thread_name("zero-egress-help")
            .build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::UnixListener::from_std(listener)?
        };
        let shared = Arc::new(Shared {
            audit: Audit::new(&config.state),
            config,
            refusals: RefusalList::default(),
            calls: Mutex::new(Vec::new()),
            ended: CancellationToken::new(),
        });
        let served = shared.clone();
        let thread =
            std::thread::Builder::new().name("zero-egress".to_owned()).spawn(move || {
                runtime.block_on(server::serve(&served, listener, FAREWELL_MAX));
                // A lookup cannot be stopped; nobody waits for it.
                runtime.shutdown_background();
            })?;
        Ok(Self { shared, socket, thread: Some(thread) })
    }

    /// The socket to which connections are passed on.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// A place in the list of refused connections, for [`Egress::refusals_since`].
    pub fn mark(&self) -> Mark {
        self.shared.refusals.mark()
    }

    /// What was refused since.
    pub fn refusals_since(&self, mark: Mark) -> Refusals {
        self.shared.refusals.since(mark)
    }

    /// Notes that processes of a call may be alive, until what is returned is dropped. While there
    /// is exactly one such call, connections are recorded as its own.
    pub fn attribute(&self, call: CallId) -> Attribution {
        self.shared.calls().push(call.clone());
        Attribution { shared: self.shared.clone(), call }
    }
}

impl Shared {
    fn calls(&self) -> std::sync::MutexGuard<'_, Vec<CallId>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call whose connection this must be.
    fn only_call(&self) -> Option<CallId> {
        match &self.calls()[..] {
            [call] => Some(call.clone()),
            _ => None,
        }
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.shared.ended.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the proxy of the session ended by a panic");
        }
    }
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("socket", &self.socket()).finish_non_exhaustive()
    }
}

/// Says that processes of a call may be alive, as long as it lives.
pub struct Attribution {
    shared: Arc<Shared>,
    call: CallId,
}

impl Drop for Attribution {
    fn drop(&mut self) {
        let mut calls = self.shared.calls();
        if let Some(at) = calls.iter().position(|call| *call == self.call) {
            calls.swap_remove(at);
        }
    }
}
