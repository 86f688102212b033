//! The processes that share a store, and which of them are alive.
//!
//! A run belongs to the process that executes it. If that process has died, what becomes of the run
//! depends on how the store is shared. Processes of one machine end it. In a database that several
//! machines share, another process continues it. Either way, a call whose outcome is not known is not
//! made again.

use std::any::Any;
use std::io;
use std::sync::Arc;

use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use crate::cluster_node::ClusterNode;

/// Held by a process while it serves the tools of a session. Dropping it, or the end of the process,
/// ends that.
pub type SessionLease = Arc<dyn Any + Send + Sync>;

/// The processes that share a store.
pub trait NodeMembership: Send + Sync {
    /// Unique name of this process.
    fn local_name(&self) -> &str;

    /// Whether the process with that name is alive.
    fn is_alive(&self, node: &str) -> BoxFuture<'_, bool>;

    /// Whether this process has a lease now.
    fn can_act(&self) -> bool {
        true
    }

    /// Changes whenever other processes may have taken sessions of this one over.
    fn lease_generation(&self) -> u64 {
        0
    }

    /// Whether this process may act for a session now. It held the session when a write succeeded that
    /// was sent in this generation. To be asked immediately before anything that cannot be undone.
    fn can_act_since(&self, _generation: u64) -> bool {
        true
    }

    /// This process among those of other machines, if they share a database.
    fn cluster(&self) -> Option<&ClusterNode> {
        None
    }

    /// Lets the other processes know that this one serves the tools of a session. Blocks on the disk.
    fn lease_session(&self, _session: &SessionId) -> io::Result<Option<SessionLease>> {
        Ok(None)
    }

    /// Whether another live process serves the tools of a session. A session whose state cannot be
    /// read counts as served.
    fn is_served_elsewhere(&self, _session: &SessionId) -> bool {
        false
    }
}

/// A process that is the only user of its store, so every unfinished run there was abandoned.
#[derive(Clone, Debug)]
pub struct SingleNode(String);

impl SingleNode {
    /// Creates the membership of a single process, under a name that no earlier process had.
    pub fn new(name: &str) -> Self {
        Self(format!("{name}-{:016x}", fastrand::u64(..)))
    }
}

impl NodeMembership for SingleNode {
    fn local_name(&self) -> &str {
        &self.0
    }

    fn is_alive(&self, node: &str) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(node == self.0))
    }
}
