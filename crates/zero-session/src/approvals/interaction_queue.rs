//! A question of any kind, from the request until its answer is recorded.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};
use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;

use crate::event::EventKind;
use crate::sessions::ledger_recorder::{LedgerRecorder, new_event};
use crate::store::RunAddress;

/// Questions `Q` that wait for answers `A`.
pub(super) struct InteractionQueue<Q, A> {
    open: Mutex<BTreeMap<String, PendingInteraction<Q, A>>>,
    /// Notified when a question is resolved.
    changed: Notify,
    /// Counts the recorded questions.
    asked: watch::Sender<u64>,
    /// Assigns numbers to questions, for their order.
    numbers: AtomicU64,
}

/// A question, and the outcome if it is withdrawn.
pub(super) struct InteractionRequest<Q, A> {
    pub(super) id: String,
    pub(super) request: Q,
    /// The ledger entry that records the question; `None` if the ledger has it already.
    pub(super) shown: Option<EventKind>,
    pub(super) recorder: LedgerRecorder,
    pub(super) run: Option<RunId>,
    pub(super) cancelled: InteractionOutcome<A>,
}

/// An answer and the ledger entry that records it.
#[derive(Clone)]
pub(super) struct InteractionOutcome<A> {
    pub(super) answer: A,
    pub(super) shown: EventKind,
}

struct PendingInteraction<Q, A> {
    request: Q,
    recorder: LedgerRecorder,
    run: Option<RunId>,
    created_ms: i64,
    /// Increases with every question.
    number: u64,
    cancelled: InteractionOutcome<A>,
    /// Whether it is in the ledger.
    is_recorded: bool,
    /// `None` once an answer was accepted and is being recorded.
    answer: Option<oneshot::Sender<QuestionEnd<A>>>,
}

/// What becomes of a question in memory.
enum QuestionEnd<A> {
    Answered(A),
    /// It waits in the store. Whoever asks it waits until it is dropped.
    Parked,
}

impl<Q, A> PendingInteraction<Q, A> {
    fn is_of(&self, run: &RunAddress) -> bool {
        self.run.as_ref() == Some(&run.run) && *self.recorder.session() == run.session
    }

    fn can_park(&self) -> bool {
        self.is_recorded && self.answer.is_some()
    }
}

impl<Q, A> Default for InteractionQueue<Q, A> {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            changed: Notify::new(),
            asked: watch::Sender::new(0),
            numbers: AtomicU64::new(0),
        }
    }
}

impl<Q: Clone + Send + 'static, A: Clone + Send + 'static> InteractionQueue<Q, A> {
    pub(super) fn get<T>(
        &self,
        id: &str,
        show: impl Fn(&SessionId, Option<&RunId>, i64, &Q) -> T,
    ) -> Option<T> {
        let open = self.lock();
        let found = open.get(id).filter(|open| open.answer.is_some());
        found.map(|open| {
            show(open.recorder.session(), open.run.as_ref(), open.created_ms, &open.request)
        })
    }

    /// All pending questions, oldest first.
    pub(super) fn list<T>(
        &self,
        show: impl Fn(&SessionId, Option<&RunId>, i64, &Q) -> T,
    ) -> Vec<T> {
        let open = self.lock();
        let mut waiting: Vec<_> = open.values().filter(|open| open.answer.is_some()).collect();
        waiting.sort_unstable_by_key(|open| open.number);
        let show = |open: &PendingInteraction<Q, A>| {
            show(open.recorder.session(), open.run.as_ref(), open.created_ms, &open.request)
        };
        waiting.into_iter().map(show).collect()
    }

    /// A counter that changes whenever a question is recorded.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
    }

    /// Records the question and waits for the answer, as long as it takes. Dropping the future
    /// withdraws the question.
    pub(super) async fn ask(self: &Arc<Self>, asking: InteractionRequest<Q, A>) -> A {
        let InteractionRequest { id, request: asked, shown, recorder, run, cancelled } = asking;
        let no = cancelled.answer.clone();
        let (answer, answered) = oneshot::channel();
        let open = PendingInteraction {
            request: asked,
            recorder: recorder.clone(),
            run: run.clone(),
            created_ms: now_ms(),
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            cancelled: cancelled.clone(),
            is_recorded: false,
            answer: Some(answer),
        };
        // Recorded before it can be answered, so the ledger has the answer after the question.
        let shown = shown.into_iter().map(|shown| new_event(run.as_ref(), shown)).collect();
        let written = recorder.write(shown);
        self.lock().insert(id.clone(), open);
        let _withdraw = WithdrawGuard { waiting: Arc::clone(self), id: id.clone() };
        if written.await.is_err() {
            // The question was never visible, so no withdrawal is recorded.
            self.remove(&id);
            return no;
        }
        if let Some(open) = self.lock().get_mut(&id) {
            open.is_recorded = true;
        }
        self.asked.send_modify(|count| *count = count.wrapping_add(1));
        match answered.await {
            Ok(QuestionEnd::Answered(answer)) => answer,
            Ok(QuestionEnd::Parked) => std::future::pending().await,
            Err(_) => no,
        }
    }

    /// Answers a question. Returns false if it was already answered. The answer takes effect once
    /// it is recorded; if that fails, it becomes a rejection.
    pub(super) fn resolve(self: &Arc<Self>, id: &str, outcome: InteractionOutcome<A>) -> bool {
        let mut open = self.lock();
        let Some(question) = open.get_mut(id) else { return false };
        let Some(answer) = question.answer.take() else { return false };
        let (recorder, run) = (question.recorder.clone(), question.run.clone());
        drop(open);
        let (this, id) = (Arc::clone(self), id.to_owned());
        // Without a tokio runtime the process is shutting down and no task waits.
        let Ok(runtime) = Handle::try_current() else {
            self.remove(&id);
            return true;
        };
        // Durable, since an allowed call could run twice if a power cut made zero forget that it
        // began.
        let written = recorder.write_durable(vec![new_event(run.as_ref(), outcome.shown)]);
        runtime.spawn(async move {
            if written.await.is_ok() {
                // The receiver may be gone; the answer is in the ledger anyway.
                let _ = answer.send(QuestionEnd::Answered(outcome.answer));
            }
            this.remove(&id);
        });
        true
    }

    /// Withdraws the questions of a run and waits until all of them are resolved.
    pub(super) async fn withdraw(self: &Arc<Self>, run: &RunAddress) {
        let of_run = |open: &PendingInteraction<Q, A>| open.is_of(run);
        let open: Vec<(String, InteractionOutcome<A>)> = {
            let open = self.lock();
            let of_run = open.iter().filter(|(_, open)| of_run(open));
            of_run.map(|(id, open)| (id.clone(), open.cancelled.clone())).collect()
        };
        for (id, cancelled) in open {
            self.resolve(&id, cancelled);
        }
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.lock().values().any(of_run) {
                return;
            }
            changed.await;
        }
    }

    fn remove(&self, id: &str) {
        self.lock().remove(id);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PendingInteraction<Q, A>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the questions of a run in both queues, which stay open in the store. Returns false and forgets
/// nothing if an answer to one of them is being recorded, or has not reached all who wait: `waiting` has
/// the ids of the questions that they wait for.
pub(super) fn park<Q1, A1, Q2, A2>(
    one: &InteractionQueue<Q1, A1>,
    other: &InteractionQueue<Q2, A2>,
    run: &RunAddress,
    waiting: &HashSet<String>,
) -> bool
where
    Q1: Clone + Send + 'static,
    A1: Clone + Send + 'static,
    Q2: Clone + Send + 'static,
    A2: Clone + Send + 'static,
{
    let (mut one, mut other) = (one.lock(), other.lock());
    let is_there = |id: &String| one.contains_key(id) || other.contains_key(id);
    let can_park = waiting.iter().all(is_there)
        && one.values().all(|open| !open.is_of(run) || open.can_park())
        && other.values().all(|open| !open.is_of(run) || open.can_park());
    if can_park {
        take_parked(&mut one, run);
        take_parked(&mut other, run);
    }
    can_park
}

fn take_parked<Q, A>(open: &mut BTreeMap<String, PendingInteraction<Q, A>>, run: &RunAddress) {
    for (_, parked) in open.extract_if(.., |_, open| open.is_of(run)) {
        if let Some(answer) = parked.answer {
            // The receiver may be gone.
            let _ = answer.send(QuestionEnd::Parked);
        }
    }
}

/// Withdraws a question when the caller stops waiting.
struct WithdrawGuard<Q: Clone + Send + 'static, A: Clone + Send + 'static> {
    waiting: Arc<InteractionQueue<Q, A>>,
    id: String,
}

impl<Q: Clone + Send + 'static, A: Clone + Send + 'static> Drop for WithdrawGuard<Q, A> {
    fn drop(&mut self) {
        let cancelled = self.waiting.lock().get(&self.id).map(|open| open.cancelled.clone());
        if let Some(cancelled) = cancelled {
            self.waiting.resolve(&self.id, cancelled);
        }
    }
}
