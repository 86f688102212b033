//! Pool of read-only connections.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::database_error::DatabaseError;
use super::database_file::{self, ConnectionAccess};
use crate::store::StoreError;

/// Maximum number of concurrent reads.
const READERS_MAX: usize = 4;
/// Maximum number of concurrent long reads, so that short reads always find a free connection.
const LONG_READERS_MAX: usize = 2;
/// How long a read waits for a connection.
const TURN_WAIT_MAX: Duration = Duration::from_secs(30);

/// Read-only connections, opened on first use.
pub(super) struct ReaderPool {
    turns: Arc<Semaphore>,
    long_turns: Arc<Semaphore>,
    idle: Arc<IdleConnections>,
}

struct IdleConnections {
    path: Arc<Path>,
    connections: Mutex<Vec<Connection>>,
}

impl ReaderPool {
    pub(super) fn new(path: Arc<Path>) -> Self {
        let idle = IdleConnections { path, connections: Mutex::new(Vec::new()) };
        Self {
            turns: Arc::new(Semaphore::new(READERS_MAX)),
            long_turns: Arc::new(Semaphore::new(LONG_READERS_MAX)),
            idle: Arc::new(idle),
        }
    }

    /// Runs a read on another thread, within one snapshot.
    pub(super) async fn read<T, R>(&self, verb: &'static str, read: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        self.read_with_permits(&[&self.turns], verb, read).await
    }

    /// Like [`Self::read`], for reads that may take long.
    pub(super) async fn read_long<T, R>(&self, verb: &'static str, read: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        self.read_with_permits(&[&self.long_turns, &self.turns], verb, read).await
    }

    async fn read_with_permits<T, R>(
        &self,
        queues: &[&Arc<Semaphore>],
        verb: &'static str,
        read: R,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let stopped =
            || StoreError::Broken { verb, why: "zero is stopping; start it again".to_owned() };
        let turn = async {
            let mut turns = Vec::with_capacity(queues.len());
            for queue in queues {
                turns.push(Arc::clone(queue).acquire_owned().await.map_err(|_| stopped())?);
            }
            Ok(turns)
        };
        let turn = match tokio::time::timeout(TURN_WAIT_MAX, turn).await {
            Err(_) => return Err(StoreError::Busy),
            Ok(turn) => turn?,
        };
        let idle = Arc::clone(&self.idle);
        let reading = tokio::task::spawn_blocking(move || {
            // Held by the task, since the caller may be dropped before the read is done.
            let _turn = turn;
            idle.read(read).map_err(|failure| failure.into_store_error(verb, &idle.path))
        });
        reading.await.map_err(|_| stopped())?
    }
}

impl IdleConnections {
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let waiting = self.connections.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match waiting {
            Some(connection) => connection,
            None => database_file::connect(&self.path, ConnectionAccess::Read)?,
        };
        // One transaction, so that all data comes from one snapshot.
        let transaction = connection.unchecked_transaction()?;
        let result = read(&transaction);
        let ended = transaction.finish();
        // After a database error the connection is dropped and the next read opens a new one.
        if ended.is_ok() && matches!(result, Ok(_) | Err(DatabaseError::Refused(_))) {
            self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[tokio::test]
    async fn short_reads_do_not_wait_for_long_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        let readers = Arc::new(ReaderPool::new(path.as_path().into()));
        let (go_on, wait) = sync_channel::<()>(0);
        let wait = Arc::new(Mutex::new(wait));
        let long: Vec<_> = (0..20)
            .map(|_| {
                let (readers, wait) = (Arc::clone(&readers), Arc::clone(&wait));
                tokio::spawn(async move {
                    let read = move |_: &Connection| {
                        let _ = wait.lock().unwrap().recv();
                        Ok(())
                    };
                    readers.read_long("read", read).await
                })
            })
            .collect();
        while readers.long_turns.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // The long reads are still blocked, and this short one completes.
        readers.read("look", |_| Ok(())).await.unwrap();
        drop(go_on);
        for long in long {
            long.await.unwrap().unwrap();
        }
    }
}
