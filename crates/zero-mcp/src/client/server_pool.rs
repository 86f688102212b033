//! [`ServerPool`]: the servers of a process, shared between all hosts and sessions that would start
//! the same one.
//!
//! Ten sessions with the same server use one process, not ten. A server is the same if its alias,
//! its launch with variables and folder, its startup timeout and the sandbox of its host are the
//! same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::identity::ServerIdentity;
use super::managed_server::{ManagedServer, ServerLease};

/// The servers of a process. Hosts with the same pool share their servers.
#[derive(Default)]
pub struct ServerPool {
    servers: Mutex<BTreeMap<ServerIdentity, Weak<ManagedServer>>>,
}

impl ServerPool {
    /// Leases the server with this key, and creates it if it has no lease yet.
    pub(crate) fn lease(
        &self,
        key: ServerIdentity,
        new: impl FnOnce() -> ManagedServer,
    ) -> ServerLease {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, server| server.strong_count() > 0);
        if let Some(server) = servers.get(&key).and_then(Weak::upgrade) {
            return ServerLease::new(server);
        }
        let server = Arc::new(new());
        servers.insert(key, Arc::downgrade(&server));
        ServerLease::new(server)
    }
}
