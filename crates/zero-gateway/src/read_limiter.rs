//! Limits expensive reads of sessions.
//!
//! A history request makes zero read, parse and write megabytes. A read waits in three FIFO queues:
//! the queue of its connection, of its owner, and of the gateway. A connection has one slot in its
//! owner's queue and an owner has few slots in the gateway's queue, so sending more requests does
//! not gain a larger share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zero_session::store::StoreError;

/// Limits for expensive reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLimits {
    /// Maximum number of concurrent reads.
    pub(crate) total_max: usize,
    /// Maximum number of concurrent reads per owner.
    pub(crate) owner_max: usize,
    /// Maximum number of queued and running reads per owner.
    pub(crate) requests_max: usize,
    /// Maximum time in the queue.
    pub(crate) wait_max: Duration,
}

/// Limits concurrent reads.
pub(crate) struct ReadLimiter {
    limits: ReadLimits,
    all: Arc<Semaphore>,
    by_name: Arc<Mutex<HashMap<String, OwnerReads>>>,
}

struct OwnerReads {
    slots: Arc<Semaphore>,
    request_count: usize,
}

/// Reason why a read cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadLimitError {
    /// The owner has too many queued reads.
    TooMany {
        /// The limit.
        max: usize,
    },
    /// The read waited too long.
    Timeout,
}

/// The right to perform a read, released on drop.
pub(crate) struct ReadPermit {
    _permits: [OwnedSemaphorePermit; 3],
    _request: ReadRequestGuard,
}

impl ReadLimiter {
    pub(crate) fn new(limits: ReadLimits) -> Self {
        Self { limits, all: Arc::new(Semaphore::new(limits.total_max)), by_name: Arc::default() }
    }

    /// Creates the queue of a connection.
    pub(crate) fn connection_queue() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(1))
    }

    /// Waits for a permit. Dropping the future leaves every queue.
    pub(crate) async fn acquire(
        &self,
        name: &str,
        connection: &Arc<Semaphore>,
    ) -> Result<ReadPermit, ReadLimitError> {
        let (request, owner_reads) = self.register_request(name)?;
        let permits = async {
            let connection = Arc::clone(connection).acquire_owned().await.ok()?;
            let owner_reads = owner_reads.acquire_owned().await.ok()?;
            let total = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some([connection, owner_reads, total])
        };
        match timeout(self.limits.wait_max, permits).await {
            Ok(Some(permits)) => Ok(ReadPermit { _permits: permits, _request: request }),
            // The semaphores are never closed.
            Ok(None) | Err(_) => Err(ReadLimitError::Timeout),
        }
    }

    fn register_request(
        &self,
        name: &str,
    ) -> Result<(ReadRequestGuard, Arc<Semaphore>), ReadLimitError> {
        let mut by_name = lock(&self.by_name);
        let new = || OwnerReads {
            slots: Arc::new(Semaphore::new(self.limits.owner_max)),
            request_count: 0,
        };
        let owner_reads = by_name.entry(name.to_owned()).or_insert_with(new);
        if owner_reads.request_count >= self.limits.requests_max {
            return Err(ReadLimitError::TooMany { max: self.limits.requests_max });
        }
        owner_reads.request_count += 1;
        let request_guard =
            ReadRequestGuard { by_name: Arc::clone(&self.by_name), name: name.to_owned() };
        Ok((request_guard, Arc::clone(&owner_reads.slots)))
    }
}

/// Counts a queued or running read of an owner until dropped.
struct ReadRequestGuard {
    by_name: Arc<Mutex<HashMap<String, OwnerReads>>>,
    name: String,
}

impl Drop for ReadRequestGuard {
    fn drop(&mut self) {
        let mut by_name = lock(&self.by_name);
        if let Entry::Occupied(mut owner_reads) = by_name.entry(std::mem::take(&mut self.name)) {
            owner_reads.get_mut().request_count = owner_reads.get().request_count.saturating_sub(1);
            if owner_reads.get().request_count == 0 {
                owner_reads.remove();
            }
        }
    }
}

fn lock(
    by_name: &Mutex<HashMap<String, OwnerReads>>,
) -> MutexGuard<'_, HashMap<String, OwnerReads>> {
    by_name.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a closure on a blocking thread, so that it does not delay any connection.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| StoreError::Broken {
        verb: "make an answer of what it has",
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const LIMITS: ReadLimits = ReadLimits {
        total_max: 3,
        owner_max: 2,
        requests_max: 4,
        wait_max: Duration::from_secs(30),
    };

    /// Returns a permit if one is available now.
    fn try_acquire(
        reads: &ReadLimiter,
        name: &str,
        connection: &Arc<Semaphore>,
    ) -> Option<ReadPermit> {
        reads.acquire(name, connection).now_or_never().map(|turn| turn.ok().unwrap())
    }

    #[tokio::test]
    async fn one_owner_cannot_take_all_permits() {
        let reads = ReadLimiter::new(LIMITS);
        let connections = [(); 5].map(|()| ReadLimiter::connection_queue());
        let first = try_acquire(&reads, "ann", &connections[0]).unwrap();
        assert!(try_acquire(&reads, "ann", &connections[0]).is_none(), "one of a connection");
        let _second = try_acquire(&reads, "ann", &connections[1]).unwrap();
        assert!(try_acquire(&reads, "ann", &connections[2]).is_none(), "two of an owner");
        let _third = try_acquire(&reads, "bob", &connections[3]).unwrap();
        assert!(try_acquire(&reads, "eve", &connections[4]).is_none(), "three of all");
        drop(first);
        assert!(try_acquire(&reads, "eve", &connections[4]).is_some());
    }

    #[tokio::test]
    async fn frequent_reader_is_not_served_before_rare_one() {
        let reads = ReadLimiter::new(ReadLimits { total_max: 1, requests_max: 100, ..LIMITS });
        let (busy, other) = (ReadLimiter::connection_queue(), ReadLimiter::connection_queue());
        let held = try_acquire(&reads, "ann", &busy).unwrap();
        let mut many: Vec<_> = (0..50).map(|_| Box::pin(reads.acquire("ann", &busy))).collect();
        for waiting in &mut many {
            assert!(futures_util::poll!(waiting).is_pending());
        }
        let mut one = Box::pin(reads.acquire("bob", &other));
        assert!(futures_util::poll!(&mut one).is_pending());
        drop(held);
        assert!(futures_util::poll!(&mut one).is_ready(), "fifty came before it");
    }

    #[tokio::test]
    async fn departed_waiter_is_forgotten() {
        let reads = ReadLimiter::new(LIMITS);
        let connection = ReadLimiter::connection_queue();
        let held = try_acquire(&reads, "ann", &connection).unwrap();
        let mut waiting = Vec::new();
        for _ in 1..LIMITS.requests_max {
            let mut turn = Box::pin(reads.acquire("ann", &connection));
            assert!(futures_util::poll!(&mut turn).is_pending());
            waiting.push(turn);
        }
        let refused = reads.acquire("ann", &connection).await.err();
        assert_eq!(refused, Some(ReadLimitError::TooMany { max: 4 }));
        waiting.clear();
        drop(held);
        assert!(lock(&reads.by_name).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn acquire_times_out() {
        let reads = ReadLimiter::new(LIMITS);
        let connection = ReadLimiter::connection_queue();
        let _held = try_acquire(&reads, "ann", &connection).unwrap();
        assert_eq!(reads.acquire("ann", &connection).await.err(), Some(ReadLimitError::Timeout));
    }
}
