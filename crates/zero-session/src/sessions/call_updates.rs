//! What calls say while they run: only the latest of each is kept until the run has time for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use zero_core::text_shortening::head;
use zero_core::{FileLocation, ToolKind};
use zero_runtime::TextReader;

use zero_runtime::tool_backend::CallObserver;

/// Longest that a call says of its progress, in bytes.
const PROGRESS_BYTES_MAX: usize = 8 * 1024;
/// How long a question waits for what was said before it. It is asked all the same then.
const RECORDED_TIMEOUT: Duration = Duration::from_secs(5);

/// What the calls of a run have said.
#[derive(Default)]
pub(crate) struct CallUpdateBuffer {
    latest: Mutex<PendingCallUpdates>,
    arrived: Notify,
}

/// What is new.
#[derive(Default)]
pub(super) struct PendingCallUpdates {
    /// What calls said, by call.
    pub(super) told: BTreeMap<String, CallUpdate>,
    /// Who waits until that is in the ledger. They are told by being dropped.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
}

/// What one call has said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CallUpdate {
    /// Title, kind and places.
    pub(super) described: Option<(String, ToolKind, Vec<FileLocation>)>,
    /// How far it is.
    pub(super) progress: Option<String>,
}

impl CallUpdateBuffer {
    /// Waits until there is something new.
    pub(super) async fn wait_for_update(&self) {
        self.arrived.notified().await;
    }

    /// All that is new.
    pub(super) fn take(&self) -> PendingCallUpdates {
        std::mem::take(&mut *self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn update(&self, call: &str, change: impl FnOnce(&mut CallUpdate)) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        change(latest.told.entry(call.to_owned()).or_default());
        drop(latest);
        self.arrived.notify_one();
    }

    /// Waits until all that was said so far is in the ledger: who is asked about a call has seen
    /// what it is.
    pub(crate) async fn wait_until_recorded(&self) {
        let (wait, shown) = oneshot::channel();
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(wait);
        self.arrived.notify_one();
        // Nothing is ever sent; it is dropped when it is time.
        let _ = tokio::time::timeout(RECORDED_TIMEOUT, shown).await;
    }
}

/// Listens to one call.
pub(super) struct BufferedCallObserver {
    call: String,
    news: Arc<CallUpdateBuffer>,
    reader: Option<Arc<dyn TextReader>>,
}

impl BufferedCallObserver {
    pub(super) fn new(
        call: String,
        news: Arc<CallUpdateBuffer>,
        reader: Option<Arc<dyn TextReader>>,
    ) -> Self {
        Self { call, news, reader }
    }
}

impl CallObserver for BufferedCallObserver {
    fn on_described(&self, title: String, kind: ToolKind, locations: Vec<FileLocation>) {
        self.news.update(&self.call, |told| told.described = Some((title, kind, locations)));
    }

    fn on_progress(&self, mut message: String) {
        message.truncate(head(&message, PROGRESS_BYTES_MAX).len());
        self.news.update(&self.call, |told| told.progress = Some(message));
    }

    fn reader(&self) -> Option<Arc<dyn TextReader>> {
        self.reader.clone()
    }
}
