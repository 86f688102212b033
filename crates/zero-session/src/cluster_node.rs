//! This process among those of several machines that share a database.
//!
//! A machine has a name, its home: the tools of a session that work on a disk stay with it. Each process
//! has a lease and a name that no other had, which begins with its home.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use crate::event::Event;
use crate::last_seq_store::LastSeqStore;
use crate::node_bus::NodeBus;
use crate::node_lease::{LeaseHolder, LeaseRules, NodeLeaseStore};
use crate::node_membership::NodeMembership;
use crate::store::{ClaimEpoch, LedgerReadLimit, StoreError};

/// Between the home and the rest of the name of a process.
pub const HOME_SEPARATOR: char = '/';
/// How much longer than a lease a process waits for that of an earlier one with its home.
const HOME_WAIT_MARGIN: Duration = Duration::from_secs(2);
const HOME_WAIT_STEP: Duration = Duration::from_millis(100);

/// New entries by session, those of a session in their order.
pub type EventsBySession = Vec<(SessionId, Vec<Event>)>;

/// What the processes know of each other's sessions.
pub trait SharedSessionStore: LastSeqStore {
    /// Entries of several sessions, of each after a sequence number, in their order. `most.entries` is the
    /// limit of each session, `most.bytes` that of all together; the first entry always fits. A session
    /// without new entries, or for which nothing was left, is missing.
    fn new_events(
        &self,
        after: Vec<(SessionId, u64)>,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<EventsBySession, StoreError>>;

    /// Sessions with unfinished runs that no process executes: their process has no lease any more, or has
    /// handed them over. Not those in which a run waits for an answer. At most
    /// [`AbandonedSession::LIST_MAX`].
    fn abandoned_sessions(&self) -> BoxFuture<'_, Result<Vec<AbandonedSession>, StoreError>>;

    /// Gives a session a home, unless it has one; returns the one that it has.
    fn bind_home(
        &self,
        session: &SessionId,
        home: &str,
    ) -> BoxFuture<'_, Result<String, StoreError>>;

    /// Where requests for a session are executed.
    fn placement(&self, session: &SessionId)
    -> BoxFuture<'_, Result<SessionPlacement, StoreError>>;

    /// Records that a client hosts the tools of a session at a process.
    fn set_tool_server(
        &self,
        session: &SessionId,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Removes what [`Self::set_tool_server`] recorded, unless another process has since.
    fn clear_tool_server(
        &self,
        session: &SessionId,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Sessions with unfinished runs of a process whose tools a client hosts at another live one.
    fn misplaced_sessions(&self, node: &str) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;

    /// The connections of this process.
    fn connections(&self) -> StoreConnections;
}

/// Connections of this process to the store that it shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreConnections {
    /// Those that are open.
    pub open: u64,
    /// Those of them that are in use.
    pub used: u64,
    /// Operations that wait for one.
    pub waiting: u64,
    /// How many can be open.
    pub most: u64,
}

/// The home of a process, from its name.
pub fn home_of(node: &str) -> &str {
    node.split(HOME_SEPARATOR).next().unwrap_or(node)
}

/// A session with unfinished runs that no process executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbandonedSession {
    /// Its id.
    pub session: SessionId,
    /// The machine on whose disk its tools work.
    pub home: Option<String>,
    /// Whether a client hosts its tools.
    pub has_client_tools: bool,
}

impl AbandonedSession {
    /// Most sessions of a list.
    pub const LIST_MAX: u64 = 256;
}

/// Which processes have to do with a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPlacement {
    /// The live process that executes its unfinished runs.
    pub holder: Option<String>,
    /// The live process at which a client hosts its tools.
    pub tool_server: Option<String>,
    /// The machine on whose disk its tools work.
    pub home: Option<String>,
    /// The live process of that machine.
    pub home_node: Option<String>,
}

impl SessionPlacement {
    /// The process that executes requests for the session, if it is not any.
    pub fn executor(&self) -> Option<&str> {
        self.holder.as_deref().or(self.tool_server.as_deref()).or(self.home_node.as_deref())
    }
}

/// This process.
pub struct ClusterNode {
    home: String,
    lease: LeaseHolder,
    leases: Arc<dyn NodeLeaseStore>,
    sessions: Arc<dyn SharedSessionStore>,
    bus: Option<Arc<dyn NodeBus>>,
    takeovers: AtomicU64,
}

impl ClusterNode {
    /// Registers this process, which holds the lock of its home. If an earlier process with the home was
    /// killed, its lease has to run out first.
    pub async fn start(
        leases: Arc<dyn NodeLeaseStore>,
        sessions: Arc<dyn SharedSessionStore>,
        home: &str,
        rules: LeaseRules,
    ) -> Result<Self, StoreError> {
        let until = Instant::now() + rules.duration + HOME_WAIT_MARGIN;
        let prefix = format!("{home}{HOME_SEPARATOR}");
        loop {
            let live = leases.list_live_nodes().await?;
            if !live.iter().any(|node| node.name.starts_with(&prefix)) {
                break;
            }
            if Instant::now() >= until {
                let why = format!(
                    "another gateway with the name `{home}` uses the database; a name belongs to a state folder, so this one may be a copy: stop the other one, or remove the file `node-name` in the state folder of this one"
                );
                return Err(StoreError::Broken { verb: "register this gateway", why });
            }
            tokio::time::sleep(HOME_WAIT_STEP).await;
        }
        let name = format!("{prefix}{:016x}", fastrand::u64(..));
        let lease = LeaseHolder::start(Arc::clone(&leases), &name, rules).await?;
        let takeovers = AtomicU64::new(0);
        Ok(Self { home: home.to_owned(), lease, leases, sessions, bus: None, takeovers })
    }

    /// Gives the process a bus that it has joined under its name.
    #[must_use]
    pub fn with_bus(self, bus: Arc<dyn NodeBus>) -> Self {
        Self { bus: Some(bus), ..self }
    }

    /// What connects it with the other processes.
    pub fn bus(&self) -> Option<&Arc<dyn NodeBus>> {
        self.bus.as_ref()
    }

    /// Name of the machine.
    pub fn home(&self) -> &str {
        &self.home
    }

    /// What the processes know of each other's sessions.
    pub fn sessions(&self) -> &dyn SharedSessionStore {
        &*self.sessions
    }

    /// The leases of all processes.
    pub fn leases(&self) -> &dyn NodeLeaseStore {
        &*self.leases
    }

    /// Counts a run of another process that continues here.
    pub(crate) fn count_takeover(&self) {
        self.takeovers.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs of other processes that were continued here.
    pub fn takeovers(&self) -> u64 {
        self.takeovers.load(Ordering::Relaxed)
    }

    /// See [`LeaseHolder::confirmed_claims`].
    pub fn confirmed_claims(
        &self,
    ) -> watch::Receiver<Option<Arc<BTreeMap<SessionId, ClaimEpoch>>>> {
        self.lease.confirmed_claims()
    }

    /// Ends the lease at once, so that others need not wait for it to run out. Nothing may be done for a
    /// session any more.
    pub async fn end(&self) -> Result<(), StoreError> {
        self.lease.end().await
    }
}

impl NodeMembership for ClusterNode {
    fn local_name(&self) -> &str {
        self.lease.node()
    }

    fn is_alive(&self, node: &str) -> BoxFuture<'_, bool> {
        let node = node.to_owned();
        Box::pin(async move {
            if node == self.local_name() {
                return true;
            }
            // A failed read does not prove that a process is dead.
            let live = self.leases.list_live_nodes().await;
            live.map_or(true, |live| live.iter().any(|live| live.name == node))
        })
    }

    fn can_act(&self) -> bool {
        self.lease.can_act()
    }

    fn lease_generation(&self) -> u64 {
        self.lease.generation()
    }

    fn can_act_since(&self, generation: u64) -> bool {
        self.lease.can_act_since(generation)
    }

    fn cluster(&self) -> Option<&ClusterNode> {
        Some(self)
    }
}
