//! The calls that hosts have started, so that a rewind can find the changes that they made.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zero_core::CallId;

/// The ids of calls that were started. Several hosts may share it.
#[derive(Debug, Default)]
pub struct StartedCalls(Mutex<BTreeSet<String>>);

impl StartedCalls {
    /// Whether this call was started. The journal has its id as text.
    pub fn contains(&self, call: &str) -> bool {
        self.lock().contains(call)
    }

    pub(crate) fn add(&self, call: &CallId) {
        self.lock().insert(call.to_string());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
