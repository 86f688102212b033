//! Updates of running calls: only the latest of each call is kept until the run records it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use zero_core::text_shortening::head;
use zero_core::{CallProgress, FileLocation, ToolKind};
use zero_runtime::TextReader;

use crate::event::TokenUsage;

use zero_runtime::tool_backend::CallObserver;

/// Maximum size of a progress message, in bytes.
const PROGRESS_BYTES_MAX: usize = 8 * 1024;
/// How long a question waits for earlier updates to be recorded. After that it is asked anyway.
const RECORDED_TIMEOUT: Duration = Duration::from_secs(5);

/// Buffers the updates of a run's calls.
#[derive(Default)]
pub(crate) struct CallUpdateBuffer {
    latest: Mutex<PendingCallUpdates>,
    arrived: Notify,
}

/// Updates that were not taken yet.
#[derive(Default)]
pub(super) struct PendingCallUpdates {
    /// The updates, by call.
    pub(super) updates: BTreeMap<String, CallUpdate>,
    /// What calls used of the model for themselves.
    pub(super) used: Option<TokenUsage>,
    /// Callers that wait until these are in the ledger. Dropping the sender notifies them.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
}

/// The latest update of one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CallUpdate {
    /// Title, kind and locations.
    pub(super) described: Option<(String, ToolKind, Vec<FileLocation>)>,
    /// Progress.
    pub(super) progress: Option<CallProgress>,
    /// Key of the session of its sub-agent, once that is known.
    pub(super) subagent: Option<String>,
}

impl CallUpdateBuffer {
    pub(super) async fn wait_for_update(&self) {
        self.arrived.notified().await;
    }

    /// Lets the run look at its calls, although none has an update.
    pub(crate) fn wake(&self) {
        self.arrived.notify_one();
    }

    /// Takes all pending updates.
    pub(super) fn take(&self) -> PendingCallUpdates {
        std::mem::take(&mut *self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn update(&self, call: &str, change: impl FnOnce(&mut CallUpdate)) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        change(latest.updates.entry(call.to_owned()).or_default());
        drop(latest);
        self.arrived.notify_one();
    }

    /// Adds what a call used of the model for itself.
    pub(super) fn add_usage(&self, usage: TokenUsage) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest.used.get_or_insert_default() += usage;
        drop(latest);
        self.arrived.notify_one();
    }

    /// Waits until all updates so far are in the ledger, so that a user who is asked about a call
    /// has seen its description.
    pub(crate) async fn wait_until_recorded(&self) {
        let (wait, shown) = oneshot::channel();
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(wait);
        self.arrived.notify_one();
        // Nothing is ever sent; dropping the sender is the signal.
        let _ = tokio::time::timeout(RECORDED_TIMEOUT, shown).await;
    }
}

/// Observes one call.
pub(super) struct BufferedCallObserver {
    call: String,
    call_updates: Arc<CallUpdateBuffer>,
    reader: Option<Arc<dyn TextReader>>,
}

impl BufferedCallObserver {
    pub(super) fn new(
        call: String,
        call_updates: Arc<CallUpdateBuffer>,
        reader: Option<Arc<dyn TextReader>>,
    ) -> Self {
        Self { call, call_updates, reader }
    }
}

impl CallObserver for BufferedCallObserver {
    fn on_described(&self, title: String, kind: ToolKind, locations: Vec<FileLocation>) {
        self.call_updates
            .update(&self.call, |update| update.described = Some((title, kind, locations)));
    }

    fn on_progress(&self, mut progress: CallProgress) {
        progress.message.truncate(head(&progress.message, PROGRESS_BYTES_MAX).len());
        self.call_updates.update(&self.call, |update| update.progress = Some(progress));
    }

    fn on_subagent(&self, session_key: String) {
        self.call_updates.update(&self.call, |update| update.subagent = Some(session_key));
    }

    fn reader(&self) -> Option<Arc<dyn TextReader>> {
        self.reader.clone()
    }
}
