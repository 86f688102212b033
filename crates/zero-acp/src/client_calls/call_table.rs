//! The client calls that have not ended. Call ids are unique within a session, and their number is
//! bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::rpc_error;

/// Concurrent calls of a session.
const CALLS_MAX: usize = 64;
/// Results that a client has not acknowledged. Further results are not sent.
const RESULTS_MAX: usize = 64;

/// The calls in progress.
pub(crate) struct CallTable {
    /// By session and call.
    calls: Mutex<HashMap<String, HashMap<String, CancellationToken>>>,
    pub(super) results: Arc<Semaphore>,
}

impl Default for CallTable {
    fn default() -> Self {
        Self { calls: Mutex::default(), results: Arc::new(Semaphore::new(RESULTS_MAX)) }
    }
}

impl CallTable {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, HashMap<String, CancellationToken>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels one call; does nothing if there is no such call.
    pub(crate) fn cancel(&self, session: &str, call: &str) {
        if let Some(cancel) = self.lock().get(session).and_then(|calls| calls.get(call)) {
            cancel.cancel();
        }
    }

    /// Cancels all calls of a session.
    pub(crate) fn cancel_all(&self, session: &str) {
        for cancel in self.lock().get(session).into_iter().flat_map(HashMap::values) {
            cancel.cancel();
        }
    }

    /// Whether a call is in progress and was cancelled.
    pub(crate) fn is_cancelled(&self, session: &str, call: &str) -> bool {
        let calls = self.lock();
        let call = calls.get(session).and_then(|calls| calls.get(call));
        call.is_some_and(CancellationToken::is_cancelled)
    }

    /// Whether a call is in progress.
    pub(crate) fn contains(&self, session: &str, call: &str) -> bool {
        self.lock().get(session).is_some_and(|calls| calls.contains_key(call))
    }

    /// Whether no call is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn register(
        self: &Arc<Self>,
        session: &str,
        call: &str,
    ) -> Result<CallGuard, Error> {
        let mut table = self.lock();
        let calls = table.entry(session.to_owned()).or_default();
        if calls.contains_key(call) {
            let message = "a call with this `toolCallId` is at work in this session; \
                           give each call its own";
            return Err(rpc_error::invalid_params(message));
        }
        if calls.len() >= CALLS_MAX {
            let message =
                format!("{CALLS_MAX} calls are at work in this session; wait for one to end");
            return Err(rpc_error::bad_request(message));
        }
        let cancel = CancellationToken::new();
        calls.insert(call.to_owned(), cancel.clone());
        let (session, call) = (session.to_owned(), call.to_owned());
        Ok(CallGuard { table: Arc::clone(self), session, call, cancel })
    }
}

/// A registered call; dropping the guard removes it from the table.
pub(crate) struct CallGuard {
    table: Arc<CallTable>,
    session: String,
    call: String,
    pub(super) cancel: CancellationToken,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(calls) = table.get_mut(&self.session) {
            calls.remove(&self.call);
            if calls.is_empty() {
                table.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_table_refuses_duplicate_ids_and_too_many_calls() {
        let table = Arc::new(CallTable::default());
        let first = table.register("s", "1").unwrap();
        assert!(table.register("s", "1").is_err());
        let elsewhere = table.register("t", "1").unwrap();
        table.cancel_all("s");
        assert!(first.cancel.is_cancelled() && !elsewhere.cancel.is_cancelled());
        assert!(table.is_cancelled("s", "1") && !table.is_cancelled("t", "1"));
        drop(first);
        let many: Vec<CallGuard> =
            (0..CALLS_MAX).map(|id| table.register("s", &id.to_string()).unwrap()).collect();
        assert!(table.register("s", "one more").is_err());
        drop((many, elsewhere));
        assert!(table.lock().is_empty());
    }
}
