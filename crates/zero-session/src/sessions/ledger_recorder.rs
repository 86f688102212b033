//! Writes entries to the ledger of one session and then publishes them, in that order, one write at
//! a time.
//!
//! Several writers are active at once: a run, an answer of the user, a prompt that is queued. Their
//! entries are in the order of their calls. Each write is a separate task, so written entries are
//! published even if the caller is dropped.
//!
//! A write may be stored although its answer is lost. What a run writes again is therefore looked for
//! among the entries that the ledger has since, and entries that nobody was told about are published
//! with the next ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};

use tokio::sync::Mutex;
use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;

use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::event_bus::EventBus;
use crate::sessions::run_events::read_run_events;
use crate::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, LedgerReadLimit, NewEvent, NewRun, RunAddress,
    RunRecord, Store, StoreError, TranscriptPosition,
};
use zero_runtime::ordered_lock::queue_for_lock;
use zero_runtime::tool::BoxFuture;

/// Entries that are read at once after the answer to a write was lost.
const LOST_PAGE: LedgerReadLimit = LedgerReadLimit { entries: 1024, bytes: 4 << 20 };

/// Creates an entry with the current time.
pub(crate) fn new_event(run: Option<&RunId>, kind: EventKind) -> NewEvent {
    NewEvent { run: run.cloned(), time_ms: now_ms(), kind }
}

/// [`Store::append`] or [`Store::append_durable`].
type AppendOperation = for<'a> fn(
    &'a (dyn Store + 'static),
    &SessionId,
    Option<ClaimEpoch>,
    Vec<NewEvent>,
) -> BoxFuture<'a, Result<Vec<Event>, StoreError>>;

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
    claims: StdMutex<RecorderClaims>,
}

/// The claims under which this process writes.
#[derive(Default)]
struct RecorderClaims {
    /// The newest claim on the session.
    newest: ClaimEpoch,
    /// The claim that each unfinished run began with. A run keeps it: if another process took the
    /// session over meanwhile, a newer claim of this process does not revive the run.
    runs: HashMap<RunId, ClaimEpoch>,
    /// Number of the newest entry that this process wrote and was told about.
    newest_seq: u64,
    /// Whether the ledger may have entries after that one which this process wrote.
    has_unpublished: bool,
    /// Runs with a write that failed and may be stored nevertheless, with the number of the newest entry
    /// before the first such write.
    uncertain: HashMap<RunId, u64>,
}

/// The first of some entries, as far as the ledger has them.
#[derive(Clone, Copy, Debug, Default)]
struct StoredEntries {
    count: usize,
    /// Number of the last of them.
    last_seq: Option<u64>,
}

impl RecorderClaims {
    /// Notes that a write failed. It may be stored if only its answer was lost.
    fn note_failure(&mut self, run: Option<&RunId>, error: &StoreError) {
        if !error.is_passing() {
            return;
        }
        // Without an entry of its own, this process does not know where those begin.
        self.has_unpublished |= self.newest_seq > 0;
        if let Some(run) = run {
            self.uncertain.entry(run.clone()).or_insert(self.newest_seq);
        }
    }
}

impl LedgerRecorder {
    pub(crate) fn new(store: Arc<dyn Store>, bus: Arc<dyn EventBus>, session: SessionId) -> Self {
        let (order, claims) = (Arc::default(), StdMutex::default());
        Self { inner: Arc::new(LedgerRecorderInner { store, bus, session, order, claims }) }
    }

    /// Id of the session whose ledger this writes.
    pub(crate) fn session(&self) -> &SessionId {
        &self.inner.session
    }

    /// The claim that writes of a run need. That of a run which this process does not execute is
    /// no session's.
    pub(crate) fn run_claim(&self, run: &RunId) -> ClaimEpoch {
        self.inner.lock_claims().runs.get(run).copied().unwrap_or_default()
    }

    /// Whether a run has begun in this process and not ended.
    pub(crate) fn executes(&self, run: &RunId) -> bool {
        self.inner.lock_claims().runs.contains_key(run)
    }

    /// Claims the session; see [`Store::claim`].
    pub(crate) async fn claim(
        &self,
        node: &str,
        dead: Option<ClaimEpoch>,
    ) -> Result<ClaimOutcome, StoreError> {
        let outcome = self.inner.store.claim(&self.inner.session, node, dead).await?;
        if let ClaimOutcome::Claimed(claim) = outcome {
            self.inner.lock_claims().newest = claim;
        }
        Ok(outcome)
    }

    /// Claims the session of a run anew, so that nothing that this process sent before can be stored any
    /// more. Fails if another process has claimed it meanwhile.
    pub(crate) async fn renew_claim(&self, run: &RunId, node: &str) -> Result<(), StoreError> {
        let inner = &self.inner;
        let _order = inner.order.lock().await;
        let known = self.run_claim(run);
        let outcome = inner.store.claim(&inner.session, node, Some(known)).await?;
        let renewed = match outcome {
            // The next number is its own, too, if the answer to an earlier attempt was lost. With a
            // higher one, another process had the session in between.
            ClaimOutcome::Claimed(claim) if claim.0 == known.0.saturating_add(1) => claim,
            _ => return Err(StoreError::ClaimLost(inner.session.to_string())),
        };
        let mut claims = inner.lock_claims();
        claims.newest = renewed;
        claims.runs.values_mut().filter(|claim| **claim == known).for_each(|it| *it = renewed);
        Ok(())
    }

    /// Writes and publishes entries of a run that an earlier attempt may have stored. That attempt cannot
    /// succeed any more: the [claim was renewed](Self::renew_claim) since.
    pub(crate) async fn write_unless_stored(
        &self,
        run: &RunId,
        entries: &[NewEvent],
    ) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let inner = &self.inner;
        let _order = inner.order.lock().await;
        let StoredEntries { count, last_seq } = inner.find_stored(run, entries).await?;
        // What is written next is after these.
        let since = |seq: u64| inner.lock_claims().uncertain.insert(run.clone(), seq);
        last_seq.map(since);
        let left = entries.get(count..).unwrap_or_default();
        if left.is_empty() {
            return inner.publish_lost().await;
        }
        let claim = Some(self.run_claim(run));
        let written = inner.store.append_durable(&inner.session, claim, left.to_vec()).await;
        if let Ok([.., last]) = written.as_deref() {
            since(last.seq);
        }
        inner.publish_written(Some(run), written).await
    }

    /// Whether a write of the run failed that may be stored nevertheless.
    pub(crate) fn has_uncertain_writes(&self, run: &RunId) -> bool {
        self.inner.lock_claims().uncertain.contains_key(run)
    }

    /// Writes and publishes entries. Their position in the ledger is fixed by this call, not by
    /// polling the future.
    pub(crate) fn write(
        &self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        run_detached(self.clone().write_in_task(entries))
    }

    /// Like [`Self::write`], for entries that must survive a power cut.
    pub(crate) fn write_durable(
        &self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        run_detached(self.clone().write_durable_in_task(entries))
    }

    /// Like [`Self::write`], for callers that already run in their own task and are never dropped.
    pub(super) fn write_in_task(
        self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        self.write_with(|store, session, claim, new| store.append(session, claim, new), entries)
    }

    /// Like [`Self::write_in_task`], for entries that must survive a power cut.
    pub(super) fn write_durable_in_task(
        self,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        self.write_with(
            |store, session, claim, new| store.append_durable(session, claim, new),
            entries,
        )
    }

    fn write_with(
        self,
        append: AppendOperation,
        entries: Vec<NewEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let queued_lock = queue_for_lock(&self.inner.order);
        async move {
            if entries.is_empty() {
                return Ok(());
            }
            let _order = queued_lock.await;
            let run = entries.iter().find_map(|entry| entry.run.clone());
            let claim = run.as_ref().map(|run| self.run_claim(run));
            let written = append(&*self.inner.store, &self.inner.session, claim, entries).await;
            self.inner.publish_written(run.as_ref(), written).await
        }
    }

    /// Begins a run and publishes its first entries. A run that this process has begun without being told
    /// is begun now.
    pub(crate) async fn begin_run(&self, run: NewRun) -> Result<BeginRunOutcome, StoreError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move {
            let _order = inner.order.lock().await;
            let (id, node) = (run.id.clone(), run.node.clone());
            let mut outcome = inner.store.begin_run(run.clone()).await;
            if outcome.as_ref().is_err_and(StoreError::is_passing) {
                // The connection may have been cut after the commit.
                outcome = inner.store.begin_run(run).await;
            }
            let outcome = match outcome? {
                BeginRunOutcome::AlreadyStarted(known) if inner.is_lost_begin(&known, &node) => {
                    inner.find_lost_begin(known, &node).await?
                }
                outcome => outcome,
            };
            if let BeginRunOutcome::Started { events, claim } = &outcome {
                inner.lock_claims().runs.insert(id, *claim);
                inner.publish(events.clone());
            }
            Ok(outcome)
        })
        .await
    }

    /// Stores a rewind and publishes its entry; see [`Store::rewind`].
    pub(crate) async fn rewind(
        &self,
        claim: ClaimEpoch,
        position: Option<TranscriptPosition>,
        entry: NewEvent,
    ) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move {
            let _order = inner.order.lock().await;
            let event = inner.store.rewind(&inner.session, claim, position, entry).await?;
            inner.publish(vec![event]);
            Ok(())
        })
        .await
    }

    /// Continues a parked run under the newest claim of this process.
    pub(crate) async fn adopt_run(&self, run: &RunId, node: &str) -> Result<(), StoreError> {
        let claim = self.inner.lock_claims().newest;
        self.inner.store.adopt_run(&RunAddress::new(self.session(), run), claim, node).await?;
        self.inner.lock_claims().runs.insert(run.clone(), claim);
        Ok(())
    }

    /// Gives up a run that is parked, so that any process can continue it.
    pub(crate) async fn release_run(&self, run: &RunId) -> Result<(), StoreError> {
        let claim = self.inner.lock_claims().runs.remove(run).unwrap_or_default();
        self.inner.store.release_claim(&self.inner.session, claim).await
    }

    /// Whether a stored run was begun by this process, which was not told.
    pub(crate) fn is_lost_begin(&self, run: &RunRecord, node: &str) -> bool {
        self.inner.is_lost_begin(run, node)
    }

    /// Ends a run and publishes its last entries. A run of another process needs a claim on the
    /// session first. Can be repeated with the same entries, if the [claim is renewed](Self::renew_claim)
    /// after an attempt that may have been stored.
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
            let claim = {
                let claims = inner.lock_claims();
                claims.runs.get(&run).copied().unwrap_or(claims.newest)
            };
            let stored = inner.find_stored(&run, &last).await?;
            let left = last.get(stored.count..).unwrap_or_default().to_vec();
            let address = RunAddress::new(&inner.session, &run);
            let ended = inner.store.end_run(&address, claim, end, usage, left).await;
            let is_settled = match &ended {
                Ok(_) => true,
                Err(error) => matches!(error, StoreError::ClaimLost(_) | StoreError::NoSession(_)),
            };
            // It had ended, if there are no entries.
            let published = inner.publish_written(Some(&run), ended.map(Option::unwrap_or_default));
            let published = published.await;
            if is_settled {
                let mut claims = inner.lock_claims();
                claims.runs.remove(&run);
                claims.uncertain.remove(&run);
            }
            published
        })
        .await
    }
}

impl LedgerRecorderInner {
    fn lock_claims(&self) -> MutexGuard<'_, RecorderClaims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the first entries in the ledger, if an attempt to write them has stored them and its answer
    /// was lost.
    async fn find_stored(
        &self,
        run: &RunId,
        entries: &[NewEvent],
    ) -> Result<StoredEntries, StoreError> {
        let since = self.lock_claims().uncertain.get(run).copied();
        let Some(since) = since else { return Ok(StoredEntries::default()) };
        let mut events = read_run_events(&*self.store, &self.session, run).await?;
        events.retain(|event| event.seq > since);
        let is_same = |(event, entry): &(&Event, &NewEvent)| {
            event.time_ms == entry.time_ms && event.kind == entry.kind
        };
        // Other entries of the run may have been written before or after the attempt.
        let find = |at| {
            let stored: &[Event] = events.get(at..).unwrap_or_default();
            let same = stored.iter().zip(entries).take_while(is_same);
            let (count, last_seq) =
                same.fold((0, None), |(count, _), (event, _)| (count + 1, Some(event.seq)));
            StoredEntries { count, last_seq }
        };
        Ok((0..events.len()).map(find).max_by_key(|found| found.count).unwrap_or_default())
    }

    /// Whether a stored run was begun by this process, which was not told.
    fn is_lost_begin(&self, run: &RunRecord, node: &str) -> bool {
        run.node == node
            && run.session == self.session
            && run.end.is_none()
            && !self.lock_claims().runs.contains_key(&run.id)
    }

    /// The outcome of the begin that this process was not told of.
    async fn find_lost_begin(
        &self,
        run: RunRecord,
        node: &str,
    ) -> Result<BeginRunOutcome, StoreError> {
        match self.store.claim(&self.session, node, None).await? {
            ClaimOutcome::Claimed(claim) => {
                let events = read_run_events(&*self.store, &self.session, &run.id).await?;
                let has_started =
                    events.iter().any(|event| matches!(event.kind, EventKind::RunStarted { .. }));
                Ok(match has_started {
                    true => BeginRunOutcome::AlreadyStarted(run),
                    false => BeginRunOutcome::Started { events, claim },
                })
            }
            ClaimOutcome::Held(_) => Ok(BeginRunOutcome::AlreadyStarted(run)),
        }
    }

    /// Publishes what was written, after everything that was written without an answer.
    async fn publish_written(
        &self,
        run: Option<&RunId>,
        written: Result<Vec<Event>, StoreError>,
    ) -> Result<(), StoreError> {
        match written {
            Ok(events) if !self.lock_claims().has_unpublished => self.publish(events),
            Ok(events) => {
                if let Err(error) = self.publish_lost().await {
                    // Who follows the session sees the gap, and reads the ledger.
                    tracing::warn!(session = %self.session, %error, "entries are announced late");
                    self.publish(events);
                }
            }
            Err(error) => {
                self.lock_claims().note_failure(run, &error);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Publishes all entries after the newest one that was published.
    async fn publish_lost(&self) -> Result<(), StoreError> {
        loop {
            let after = self.lock_claims().newest_seq;
            let events = self.store.events(&self.session, after, LOST_PAGE).await?;
            if events.is_empty() {
                self.lock_claims().has_unpublished = false;
                return Ok(());
            }
            self.publish(events);
        }
    }

    fn publish(&self, events: Vec<Event>) {
        if let Some(last) = events.last() {
            let newest_seq = &mut self.lock_claims().newest_seq;
            *newest_seq = last.seq.max(*newest_seq);
        }
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
