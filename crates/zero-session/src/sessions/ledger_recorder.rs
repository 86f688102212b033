//! Writes entries to the ledger of one session and then publishes them, in that order, one write at
//! a time.
//!
//! Several writers are active at once: a run, an answer of the user, a prompt that is queued. Their
//! entries are in the order of their calls. Each write is a separate task, so written entries are
//! published even if the caller is dropped.

use std::sync::Arc;

use tokio::sync::Mutex;
use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;

use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::event_bus::EventBus;
use crate::store::{BeginRunOutcome, NewEvent, NewRun, Store, StoreError};
use zero_runtime::ordered_lock::queue_for_lock;

/// Creates an entry with the current time.
pub(crate) fn new_event(run: Option<&RunId>, what: EventKind) -> NewEvent {
    NewEvent { run: run.cloned(), time_ms: now_ms(), what }
}

/// Writes the ledger of one session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LedgerRecorder {
    inner: Arc<LedgerRecorderInner>,
}

struct LedgerRecorderInner {
    store: Arc<dyn Store>,
    bus: Arc<dyn EventBus>,
    session: SessionId,
    /// Held from the write until all subscribers have received the entries, to keep the order of
    /// the ledger.
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

    /// Writes and publishes entries. Their position in the ledger is fixed by this call, not by
    /// polling the future.
    pub(crate) fn write(
        &self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        run_detached(self.clone().write_in_task(entries))
    }

    /// Like [`Self::write`], for callers that already run in their own task and are never dropped.
    pub(super) fn write_in_task(
        self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let queued_lock = queue_for_lock(&self.inner.order);
        async move {
            if entries.is_empty() {
                return Ok(());
            }
            let _order = queued_lock.await;
            let events = self.inner.store.append(&self.inner.session, entries).await?;
            self.inner.publish(events);
            Ok(())
        }
    }

    /// Begins a run and publishes its first entries.
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

    /// Ends a run and publishes its last entries.
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

/// Runs a future to completion in its own task.
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
