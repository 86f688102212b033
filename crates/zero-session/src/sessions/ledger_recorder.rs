//! Writes into the ledger of one session and then tells who listens: in that order, one at a time.
//!
//! Several write at once: a run, a person's answer, another prompt that has to wait. Their entries
//! are in the order in which they called. Each write is a task of its own, so that what was written
//! is told even when whoever wanted it is gone.

use std::sync::Arc;

use tokio::sync::Mutex;
use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;

use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::event_bus::EventBus;
use crate::store::{BeginRunOutcome, NewEvent, NewRun, Store, StoreError};
use zero_runtime::ordered_lock::queue_for_lock;

/// An entry of now.
pub(crate) fn new_event(run: Option<&RunId>, what: EventKind) -> NewEvent {
    NewEvent { run: run.cloned(), time_ms: now_ms(), what }
}

/// The pen of one session's ledger. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LedgerRecorder {
    inner: Arc<LedgerRecorderInner>,
}

struct LedgerRecorderInner {
    store: Arc<dyn Store>,
    bus: Arc<dyn EventBus>,
    session: SessionId,
    /// Held from the write until all are told, so that everybody hears in the order of the ledger.
    order: Arc<Mutex<()>>,
}

impl LedgerRecorder {
    pub(crate) fn new(store: Arc<dyn Store>, bus: Arc<dyn EventBus>, session: SessionId) -> Self {
        let order = Arc::default();
        Self { inner: Arc::new(LedgerRecorderInner { store, bus, session, order }) }
    }

    /// Id of the session whose ledger this writes.
    pub(crate) fn session(&self) -> &SessionId {
        &self.inner.session
    }

    /// Writes and tells. The place of the entries in the ledger is fixed by this call, and not when
    /// the future is polled.
    pub(crate) fn write(
        &self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        run_detached(self.clone().write_in_task(entries))
    }

    /// The same for whoever is a task of its own already, and is never given up.
    pub(super) fn write_in_task(
        self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let place = queue_for_lock(&self.inner.order);
        async move {
            if entries.is_empty() {
                return Ok(());
            }
            let _order = place.await;
            let events = self.inner.store.append(&self.inner.session, entries).await?;
            self.inner.publish(events);
            Ok(())
        }
    }

    /// Begins a run, and tells how it begins.
    pub(crate) async fn begin_run(&self, run: NewRun) -> Result<BeginRunOutcome, StoreError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move {
            let _order = inner.order.lock().await;
            let begun = inner.store.begin_run(run).await?;
            if let BeginRunOutcome::Started(events) = &begun {
                inner.publish(events.clone());
            }
            Ok(begun)
        })
        .await
    }

    /// Settles a run, and tells how it ended.
    pub(crate) async fn end_run(
        &self,
        run: RunId,
        end: RunOutcome,
        usage: TokenUsage,
        last: Vec<NewEvent>,
    ) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move {
            let _order = inner.order.lock().await;
            if let Some(events) = inner.store.end_run(&run, end, usage, last).await? {
                inner.publish(events);
            }
            Ok(())
        })
        .await
    }
}

impl LedgerRecorderInner {
    fn publish(&self, events: Vec<Event>) {
        let events: Vec<Arc<Event>> = events.into_iter().map(Arc::new).collect();
        self.bus.publish(&self.session, &events);
    }
}

/// Does it to its end, whether or not anybody waits for it.
fn run_detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> impl Future<Output = Result<T, StoreError>> + Send {
    let task = tokio::spawn(work);
    async move {
        match task.await {
            Ok(done) => done,
            Err(error) => Err(StoreError::Broken { verb: "write", why: error.to_string() }),
        }
    }
}
