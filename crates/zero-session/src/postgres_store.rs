//! A session store in a Postgres database, if zero is built with the feature `cluster`.
//!
//! The database is the only truth: several gateways may share it. Every operation is one transaction,
//! in which the row of its session is locked; writes that a claim protects are conditional on its
//! number in the same transaction. No state is left in a connection, so that a pooler may give each
//! transaction another one.

#[cfg(not(feature = "cluster"))]
mod disabled;
#[cfg(feature = "cluster")]
mod enabled;

use std::sync::Arc;

#[cfg(not(feature = "cluster"))]
pub use self::disabled::PostgresStore;
#[cfg(feature = "cluster")]
pub use self::enabled::PostgresStore;
use crate::cluster_node::SharedSessionStore;
use crate::node_bus::NodeBusStore;
use crate::node_lease::NodeLeaseStore;
use crate::store::Store;

/// What one database serves for.
#[derive(Clone)]
pub struct PostgresPorts {
    /// The sessions.
    pub store: Arc<dyn Store>,
    /// The leases of the processes that share them.
    pub leases: Arc<dyn NodeLeaseStore>,
    /// What they know of each other's sessions.
    pub sessions: Arc<dyn SharedSessionStore>,
    /// What their bus needs, and a bus that needs nothing else.
    pub bus: Arc<dyn NodeBusStore>,
}

/// Where the database is, and which certificates it may have.
#[derive(Clone, Default)]
pub struct PostgresOptions {
    /// Address, such as `postgres://user@host:5432/database`. It may contain a password.
    pub url: String,
    /// The password, if the address contains none.
    pub password: Option<String>,
    /// Certificates of authorities that are trusted besides those of the system, in DER.
    pub extra_roots: Vec<Vec<u8>>,
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions").finish_non_exhaustive()
    }
}
