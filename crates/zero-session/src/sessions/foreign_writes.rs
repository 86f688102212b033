//! Tells when another process has written to the store.
//!
//! The bus knows only what this process writes. One task polls the store for all subscribers.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::store::Store;

/// How often the task looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// The interval if the store does not know whether others wrote.
const INTERVAL_UNKNOWN: Duration = Duration::from_secs(5);

/// Looks at the store from the first subscription on.
#[derive(Default)]
pub(super) struct ForeignWriteMonitor {
    writes: OnceLock<watch::Sender<()>>,
}

impl ForeignWriteMonitor {
    /// Changes after another process may have written.
    pub(super) fn subscribe(&self, store: &Arc<dyn Store>) -> watch::Receiver<()> {
        let start = || {
            let writes = watch::Sender::new(());
            tokio::spawn(monitor(Arc::downgrade(store), writes.clone()));
            writes
        };
        self.writes.get_or_init(start).subscribe()
    }
}

/// Runs until the store is gone.
async fn monitor(store: Weak<dyn Store>, writes: watch::Sender<()>) {
    let mut last = None;
    loop {
        let mut pause = INTERVAL;
        if writes.receiver_count() > 0 {
            let Some(store) = store.upgrade() else { return };
            match store.foreign_mark().await {
                // The first one, too: earlier writes are not known.
                mark @ Some(_) if mark != last => {
                    last = mark;
                    writes.send_replace(());
                }
                Some(_) => {}
                None => pause = INTERVAL_UNKNOWN,
            }
        } else if store.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite_store::SqliteStore;

    #[tokio::test]
    async fn subscribers_hear_of_other_processes_until_store_is_gone() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("sessions.db");
        let ours: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).unwrap());
        let other = rusqlite::Connection::open(&path).unwrap();
        let monitor = ForeignWriteMonitor::default();
        let mut writes = monitor.subscribe(&ours);
        for number in 0..3 {
            // The first time without a write: earlier writes are not known.
            writes.changed().await.unwrap();
            other.execute_batch(&format!("CREATE TABLE t{number} (n INTEGER)")).unwrap();
        }
        // Entries written while there was no subscriber are reported at once.
        drop(writes);
        let mut writes = monitor.subscribe(&ours);
        writes.changed().await.unwrap();
        drop((ours, monitor));
        assert!(writes.changed().await.is_err(), "the task has ended");
    }
}
