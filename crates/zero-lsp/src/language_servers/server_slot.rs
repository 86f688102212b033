//! The slot of one server for one workspace folder ([`LanguageServerSlot`]): the running server,
//! its users and its failures.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::LanguageServerLimits;
use crate::connection::LspConnection;
use crate::error::LspError;

/// One server for one workspace folder: whether it runs, who uses it and how often it failed.
#[derive(Default)]
pub(super) struct LanguageServerSlot {
    current: Mutex<Option<Arc<LspConnection>>>,
    /// Locked by the caller that starts the server.
    failures: tokio::sync::Mutex<FailureLog>,
    users: AtomicUsize,
    used: Mutex<Option<Instant>>,
    counted: AtomicBool,
}

/// Recent failures of a server.
#[derive(Default)]
struct FailureLog {
    times: Vec<Instant>,
    last: String,
}

/// A server in use. It is not stopped as unused while the lease exists.
pub struct LanguageServerLease {
    connection: Arc<LspConnection>,
    slot: Arc<LanguageServerSlot>,
}

impl LanguageServerLease {
    /// Ends the server, even if others use it, because its replies must not be used.
    pub(super) async fn retire(&self, why: &str) {
        self.slot.retire(&self.connection, why).await;
    }
}

impl Deref for LanguageServerLease {
    type Target = LspConnection;

    fn deref(&self) -> &LspConnection {
        &self.connection
    }
}

impl Drop for LanguageServerLease {
    fn drop(&mut self) {
        self.slot.touch();
        self.slot.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The exclusive right to start the server of a slot.
pub(super) struct LanguageServerStartGuard<'a> {
    slot: &'a LanguageServerSlot,
    failures: tokio::sync::MutexGuard<'a, FailureLog>,
}

impl LanguageServerSlot {
    /// Returns a lease of the server if it is running.
    pub(super) fn lease_running(self: &Arc<Self>) -> Option<LanguageServerLease> {
        // Counted before the check, so that a concurrent stop for lack of users sees this one.
        self.users.fetch_add(1, Ordering::Relaxed);
        let current = self.current().clone().filter(|connection| connection.is_alive());
        match current {
            Some(connection) => {
                self.touch();
                Some(LanguageServerLease { connection, slot: Arc::clone(self) })
            }
            None => {
                self.users.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Waits until no other caller is starting the server.
    pub(super) async fn lock_start(&self) -> LanguageServerStartGuard<'_> {
        LanguageServerStartGuard { slot: self, failures: self.failures.lock().await }
    }

    /// Stores a server that was just started. It is stopped once it has been unused for `idle_max`.
    pub(super) fn install(
        self: &Arc<Self>,
        connection: LspConnection,
        idle_max: Duration,
    ) -> LanguageServerLease {
        let connection = Arc::new(connection);
        *self.current() = Some(Arc::clone(&connection));
        self.users.fetch_add(1, Ordering::Relaxed);
        self.touch();
        tokio::spawn(end_when_idle(Arc::downgrade(self), Arc::downgrade(&connection), idle_max));
        LanguageServerLease { connection, slot: Arc::clone(self) }
    }

    pub(super) async fn stop(&self) {
        let connection = self.current().take();
        if let Some(connection) = connection {
            connection.shut_down().await;
        }
    }

    /// Ends a server whose replies must not be used, if it is still the current one. This does not
    /// count as a failure.
    async fn retire(&self, connection: &Arc<LspConnection>, why: &str) {
        let _starting = self.lock_start().await;
        let connection = {
            let mut current = self.current();
            let is_this = current.as_ref().is_some_and(|now| Arc::ptr_eq(now, connection));
            if is_this { current.take() } else { None }
        };
        if let Some(connection) = connection {
            connection.terminate(why).await;
        }
    }

    pub(super) fn is_counted(&self) -> bool {
        self.counted.load(Ordering::Relaxed)
    }

    pub(super) fn mark_counted(&self) {
        self.counted.store(true, Ordering::Relaxed);
    }

    pub(super) fn clear_counted(&self) {
        self.counted.store(false, Ordering::Relaxed);
    }

    /// Returns whether a server occupies the slot and no call uses it.
    pub(super) fn is_idle(&self) -> bool {
        self.is_counted()
            && self.users.load(Ordering::Relaxed) == 0
            && self.failures.try_lock().is_ok()
    }

    pub(super) fn last_used(&self) -> Option<Instant> {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<LspConnection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LanguageServerStartGuard<'_> {
    /// Removes a server that exited, and records the failure.
    pub(super) async fn remove_dead(&mut self, bounds: LanguageServerLimits) {
        let dead = self.slot.current().take();
        if let Some(dead) = dead {
            let why = dead.closed_error().await;
            self.record_failure(why.to_string());
        }
        let now = Instant::now();
        self.failures.times.retain(|time| now - *time < bounds.pause);
    }

    /// Fails if the server failed too often recently.
    pub(super) fn check_failures(
        &self,
        server: &str,
        bounds: LanguageServerLimits,
    ) -> Result<(), LspError> {
        let FailureLog { times, last } = &*self.failures;
        match times.first() {
            Some(first) if times.len() >= bounds.failures_max => Err(LspError::CoolingDown {
                server: server.to_owned(),
                failures: times.len(),
                rest: bounds.pause.saturating_sub(first.elapsed()),
                why: last.clone(),
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn record_failure(&mut self, why: String) {
        self.failures.times.push(Instant::now());
        self.failures.last = why;
    }
}

/// Stops a server once it has been unused for the given time.
async fn end_when_idle(
    slot: Weak<LanguageServerSlot>,
    connection: Weak<LspConnection>,
    idle_max: Duration,
) {
    loop {
        let until = match slot.upgrade() {
            Some(slot) => slot.last_used().unwrap_or_else(Instant::now) + idle_max,
            None => return,
        };
        tokio::time::sleep_until(until).await;
        let (Some(slot), Some(connection)) = (slot.upgrade(), connection.upgrade()) else { return };
        // The lock makes a caller that starts a new server wait until this one has exited.
        let starting = slot.lock_start().await;
        let is_due = slot.users.load(Ordering::Relaxed) == 0
            && slot.last_used().is_none_or(|used| used.elapsed() >= idle_max);
        let is_this = slot.current().as_ref().is_some_and(|now| Arc::ptr_eq(now, &connection));
        if !is_this {
            return;
        }
        if is_due {
            tracing::debug!(
                server = connection.server_name(),
                "a language server is stopped: it is unused"
            );
            slot.stop().await;
            slot.clear_counted();
            return;
        }
        drop(starting);
        // In use: check again after the idle time.
        slot.touch();
    }
}
