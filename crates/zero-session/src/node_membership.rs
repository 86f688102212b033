//! The processes that share a store, and which of them are alive.
//!
//! A run belongs to the process that executes it. If that process has died, another one marks the
//! run as ended. It never resumes the run, because the effect of its last call is unknown.

use std::any::Any;
use std::io;
use std::sync::Arc;

use zero_core::SessionId;

/// Held by a process while it serves the tools of a session. Dropping it, or the end of the process,
/// ends that.
pub type SessionLease = Arc<dyn Any + Send + Sync>;

/// The processes that share a store.
pub trait NodeMembership: Send + Sync {
    /// Unique name of this process.
    fn local_name(&self) -> &str;

    /// Whether the process with that name is alive.
    fn is_alive(&self, node: &str) -> bool;

    /// Lets the other processes know that this one serves the tools of a session. Blocks on the disk.
    fn lease_session(&self, _session: &SessionId) -> io::Result<Option<SessionLease>> {
        Ok(None)
    }

    /// Whether another live process serves the tools of a session. What cannot be read counts as
    /// served.
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

    fn is_alive(&self, node: &str) -> bool {
        node == self.0
    }
}
