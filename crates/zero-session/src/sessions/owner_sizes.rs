//! How much the sessions of each owner take. Measuring them reads all sessions, so it is done now and
//! then only.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::store::{OwnerSize, Store, StoreError};

/// How long the measured sizes are used. Sessions grow slowly against the limit of an owner.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);

/// The sizes of all owners' sessions, as last measured.
#[derive(Debug, Default)]
pub(super) struct OwnerSizes(Mutex<Option<(Instant, HashMap<String, u64>)>>);

impl OwnerSizes {
    /// The size of an owner's sessions, if it is not below the limit. A size above the limit is
    /// measured again, so that removals take effect at once.
    pub(super) async fn excess(
        &self,
        store: &dyn Store,
        owner: &str,
        bytes_max: u64,
    ) -> Result<Option<u64>, StoreError> {
        let mut measured = self.0.lock().await;
        let of = |sizes: &HashMap<String, u64>| sizes.get(owner).copied().unwrap_or(0);
        if let Some((when, sizes)) = &*measured
            && when.elapsed() < MEASURE_INTERVAL
            && of(sizes) < bytes_max
        {
            return Ok(None);
        }
        let sizes = store.owner_sizes().await?.into_iter();
        let sizes = sizes.map(|OwnerSize { owner, bytes }| (owner, bytes)).collect();
        let (_, sizes) = measured.insert((Instant::now(), sizes));
        Ok(Some(of(sizes)).filter(|bytes| *bytes >= bytes_max))
    }
}
