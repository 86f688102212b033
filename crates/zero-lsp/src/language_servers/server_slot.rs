//! The place of one server for one folder: whether it runs, who uses it, and how it fared.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::LanguageServerLimits;
use crate::connection::LspConnection;
use crate::error::LspError;

/// The place of one server for one folder.
#[derive(Default)]
pub(super) struct LanguageServerSlot {
    current: Mutex<Option<Arc<LspConnection>>>,
    /// Held by whoever starts it.
    failures: tokio::sync::Mutex<FailureLog>,
    users: AtomicUsize,
    used: Mutex<Option<Instant>>,
    has_place: AtomicBool,
}

/// How it failed lately.
#[derive(Default)]
struct FailureLog {
    times: Vec<Instant>,
    last: String,
}

/// A server in use. It stays for as long as this is held.
pub struct LanguageServerLease {
    connection: Arc<LspConnection>,
    slot: Arc<LanguageServerSlot>,
}

impl LanguageServerLease {
    /// Ends the server, whoever uses it: what it says may not be told.
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

/// The right to start it.
pub(super) struct LanguageServerStartGuard<'a> {
    slot: &'a LanguageServerSlot,
    failures: tokio::sync::MutexGuard<'a, FailureLog>,
}

impl LanguageServerSlot {
    /// It, if it runs.
    pub(super) fn lease_running(self: &Arc<Self>) -> Option<LanguageServerLease> {
        // Counted before it is looked at: who would end it for want of users sees this one.
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

    /// Waits until nobody else starts it.
    pub(super) async fn lock_start(&self) -> LanguageServerStartGuard<'_> {
        LanguageServerStartGuard { slot: self, failures: self.failures.lock().await }
    }

    /// Puts a server there that was just started. It ends once nobody used it for so long.
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

    /// Ends it.
    pub(super) async fn stop(&self) {
        let connection = self.current().take();
        if let Some(connection) = connection {
            connection.shut_down().await;
        }
    }

    /// Ends one that may not be asked any more, if it is still there. That is no failure of it.
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
        self.has_place.load(Ordering::Relaxed)
    }

    pub(super) fn mark_counted(&self) {
        self.has_place.store(true, Ordering::Relaxed);
    }

    pub(super) fn clear_counted(&self) {
        self.has_place.store(false, Ordering::Relaxed);
    }

    /// Whether it runs, or did, and nobody uses it.
    pub(super) fn is_idle(&self) -> bool {
        self.is_counted()
            && self.users.load(Ordering::Relaxed) == 0
            && self.failures.try_lock().is_ok()
    }

    /// When it was used last.
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
    /// Takes away one that died, and remembers it.
    pub(super) async fn remove_dead(&mut self, bounds: LanguageServerLimits) {
        let dead = self.slot.current().take();
        if let Some(dead) = dead {
            let why = dead.closed_error().await;
            self.record_failure(why.to_string());
        }
        let now = Instant::now();
        self.failures.times.retain(|time| now - *time < bounds.pause);
    }

    /// Refuses one that failed too often.
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

    /// Remembers that it failed.
    pub(super) fn record_failure(&mut self, why: String) {
        self.failures.times.push(Instant::now());
        self.failures.last = why;
    }
}

/// Ends a server once nobody used it for so long.
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
        // Whoever starts another one waits until this one has gone.
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
                "a language server ends: nobody asks"
            );
            slot.stop().await;
            slot.clear_counted();
            return;
        }
        drop(starting);
        // In use right now: it is looked at again when it may be due.
        slot.touch();
    }
}
