//! What a bus needs of the store that its processes share.

use std::fmt;
use std::sync::Arc;

use zero_runtime::tool::BoxFuture;

use super::{ClusterName, NodeBus};
use crate::last_seq_store::LastSeqStore;
use crate::store::StoreError;

/// The store of a cluster.
pub trait NodeBusStore: LastSeqStore {
    /// Which cluster it is.
    fn cluster(&self) -> BoxFuture<'_, Result<ClusterIdentity, StoreError>>;

    /// Joins a bus that needs nothing but this store, under a name that no other process has.
    fn join(
        self: Arc<Self>,
        node: &str,
    ) -> BoxFuture<'static, Result<Arc<dyn NodeBus>, StoreError>>;
}

/// Name and secret of a cluster, which are stored beside its sessions.
#[derive(Clone, Debug)]
pub struct ClusterIdentity {
    /// Its name.
    pub name: ClusterName,
    /// What only its processes know.
    pub secret: BusSecret,
}

/// What only the processes of a cluster know. Never shown.
#[derive(Clone)]
pub struct BusSecret([u8; BusSecret::BYTES]);

impl BusSecret {
    /// Its length.
    pub const BYTES: usize = 32;

    /// Wraps random bytes.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, to derive keys from them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for BusSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusSecret").finish_non_exhaustive()
    }
}
