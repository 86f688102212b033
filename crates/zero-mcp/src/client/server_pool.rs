//! The servers of a process, shared between all hosts and sessions that would start the same one.
//!
//! Ten sessions with the same server are one process and not ten. What makes it the same is its name,
//! how it is launched, down to its variables and folder, how long that may take, and what it is
//! confined by.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::identity::ServerIdentity;
use super::managed_server::{ManagedServer, ServerLease};

/// The servers of a process. Hosts that are given the same pool share their servers.
#[derive(Default)]
pub struct ServerPool {
    servers: Mutex<BTreeMap<ServerIdentity, Weak<ManagedServer>>>,
}

impl ServerPool {
    /// The server that somebody uses already under this key, or a new one.
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
