//! Connections that only read, beside the one that writes.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::failure::Failure;
use super::file::{self, Access};
use crate::store::StoreError;

/// How many read at a time.
const READERS_MAX: usize = 4;
/// How long one waits for its turn.
const TURN_WAIT_MAX: Duration = Duration::from_secs(30);

/// Those who read. They are opened when they are first needed.
pub(super) struct Readers {
    turns: Arc<Semaphore>,
    idle: Arc<Idle>,
}

struct Idle {
    path: Arc<Path>,
    connections: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: Arc<Path>) -> Self {
        let idle = Idle { path, connections: Mutex::new(Vec::new()) };
        Self { turns: Arc::new(Semaphore::new(READERS_MAX)), idle: Arc::new(idle) }
    }

    /// Has something read on another thread: all of it as it was at one moment.
    pub(super) async fn read<T, R>(&self, verb: &'static str, read: R) -> Result<T, StoreError>
    where
        T: Send + 'static,
        R: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let stopped =
            || StoreError::Broken { verb, why: "zero is stopping; start it again".to_owned() };
        let turn = Arc::clone(&self.turns).acquire_owned();
        let turn = match tokio::time::timeout(TURN_WAIT_MAX, turn).await {
            Err(_) => return Err(StoreError::Busy),
            Ok(turn) => turn.map_err(|_| stopped())?,
        };
        let idle = Arc::clone(&self.idle);
        let reading = tokio::task::spawn_blocking(move || {
            // Held here, not by the caller, who may go away before this is done.
            let _turn = turn;
            idle.read(read).map_err(|failure| failure.told(verb, &idle.path))
        });
        reading.await.map_err(|_| stopped())?
    }
}

impl Idle {
    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let waiting = self.connections.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match waiting {
            Some(connection) => connection,
            None => file::connect(&self.path, Access::Read)?,
        };
        // One transaction, so that what is read fits together.
        let transaction = connection.unchecked_transaction()?;
        let result = read(&transaction);
        let ended = transaction.finish();
        // After a failure of the file the next one to read starts afresh.
        if ended.is_ok() && matches!(result, Ok(_) | Err(Failure::Refused(_))) {
            self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        result
    }
}
