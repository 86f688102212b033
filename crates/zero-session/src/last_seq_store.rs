//! Where sessions that others write to have new entries.

use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

use crate::store::StoreError;

/// A store that several processes write to.
pub trait LastSeqStore: Send + Sync {
    /// The sequence numbers of the newest entries of these sessions, in any order; none for a session
    /// that does not exist.
    fn last_seqs(
        &self,
        sessions: Vec<SessionId>,
    ) -> BoxFuture<'_, Result<Vec<(SessionId, u64)>, StoreError>>;
}
