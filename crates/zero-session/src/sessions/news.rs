//! What calls say while they run: only the latest of each is kept until the run has time for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use zero_core::Kind;
use zero_runtime::Reader;

use crate::event::Place;
use crate::hands::HandsWatch;

/// Longest that a call says of its progress, in bytes.
const PROGRESS_BYTES_MAX: usize = 8 * 1024;
/// How long a question waits for what was said before it. It is asked all the same then.
const SHOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the calls of a run have said.
#[derive(Default)]
pub(crate) struct News {
    latest: Mutex<Latest>,
    arrived: Notify,
}

/// What is new.
#[derive(Default)]
pub(super) struct Latest {
    /// What calls said, by call.
    pub(super) told: BTreeMap<String, Told>,
    /// Who waits until that is in the ledger. They are told by being dropped.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
}

/// What one call has said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// Title, kind and places.
    pub(super) described: Option<(String, Kind, Vec<Place>)>,
    /// How far it is.
    pub(super) progress: Option<String>,
}

impl News {
    /// Waits until there is something new.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// All that is new.
    pub(super) fn take(&self) -> Latest {
        std::mem::take(&mut *self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self, call: &str, change: impl FnOnce(&mut Told)) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        change(latest.told.entry(call.to_owned()).or_default());
        drop(latest);
        self.arrived.notify_one();
    }

    /// Waits until all that was said so far is in the ledger: who is asked about a call has seen
    /// what it is.
    pub(crate) async fn shown(&self) {
        let (wait, shown) = oneshot::channel();
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).waiting.push(wait);
        self.arrived.notify_one();
        // Nothing is ever sent; it is dropped when it is time.
        let _ = tokio::time::timeout(SHOWN_TIMEOUT, shown).await;
    }
}

/// Listens to one call.
pub(super) struct CallWatch {
    call: String,
    news: Arc<News>,
    reader: Option<Arc<dyn Reader>>,
}

impl CallWatch {
    pub(super) fn new(call: String, news: Arc<News>, reader: Option<Arc<dyn Reader>>) -> Self {
        Self { call, news, reader }
    }
}

impl HandsWatch for CallWatch {
    fn described(&self, title: String, kind: Kind, locations: Vec<Place>) {
        self.news.tell(&self.call, |told| told.described = Some((title, kind, locations)));
    }

    fn progress(&self, mut message: String) {
        message.truncate(message.floor_char_boundary(PROGRESS_BYTES_MAX));
        self.news.tell(&self.call, |told| told.progress = Some(message));
    }

    fn reader(&self) -> Option<Arc<dyn Reader>> {
        self.reader.clone()
    }
}
