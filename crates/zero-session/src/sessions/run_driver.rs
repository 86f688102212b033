//! Performs the actions of a [`Turn`] and feeds the results back.
//!
//! One task per run waits for everything at once: the model, the calls, the user, the disk and stop
//! requests. Each call is a separate task, so one that hangs or panics does not affect the rest.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use zero_core::event::QuestionOrigin;
use zero_core::{Budget, ErrorReason, ToolCall, ToolError, ToolOutcome};
use zero_runtime::DialectName;
use zero_runtime::skills::{SKILL_TOOL, SKILLS_SOURCE};
use zero_runtime::tool::BoxFuture;

use crate::agent::{AgentProfile, AgentRegistry};
use crate::direct_model::is_direct;
use crate::event::{EventKind, RootRun, RunOutcome, TokenUsage, ToolCallStatus};
use crate::message::ModelMessage;
use crate::model::{
    ModelClient, ModelError, ModelErrorKind, ModelEvent, ModelReply, ModelRequest, ModelStream,
};
use crate::open_question::QuestionScope;
use crate::sessions::call_updates::{
    BufferedCallObserver, CallUpdate, CallUpdateBuffer, PendingCallUpdates,
};
use crate::sessions::current_plan::read_current_plan;
use crate::sessions::ledger_outbox::LedgerOutbox;
use crate::sessions::model_reader::ModelReader;
use crate::sessions::request_usage::RequestUsage;
use crate::sessions::run_budget::{BudgetCheck, RunBudget};
use crate::sessions::run_limiter::RunPermit;
use crate::sessions::session_growth::SessionGrowth;
use crate::sessions::session_state::{ActiveBackend, ActiveRun, BackendLocation, SessionState};
use crate::sessions::session_worker;
use crate::sessions::subagent_run::CallAllowance;
use crate::sessions::subagents::{TaskParent, run_task};
use crate::sessions::task_tool;
use crate::sessions::unsaved_messages::{UnsavedMessages, UnsavedRest};
use crate::sessions::work_clock::WorkClock;
use crate::sessions::{SessionError, SessionManagerInner};
use crate::store::{SessionPatch, SessionRecord, StoreError, TranscriptPosition, TranscriptStart};
use crate::turn::call_batch::{CALLS_USED_UP, NOT_RUN, TASK_TOOL};
use crate::turn::{
    LoopGuardAnswer, RequestContext, TranscriptSummary, Turn, TurnAction, TurnInput,
};
use zero_runtime::tool_backend::{
    AgentDefinition, FolderAccess, ToolBackendError, ToolCatalog, UnavailableServer,
};

/// Time limit for cancelled calls to end.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// Time limit for a backend to return its tool catalog.
pub(super) const CATALOG_TIMEOUT: Duration = Duration::from_secs(60);

/// Shortest time between two looks at the working time.
const WORK_TIME_STEP: Duration = Duration::from_millis(10);

/// Delay before another attempt to park a run.
const PARK_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long calls may take to end after the store was lost.
const OUTAGE_CALLS_MAX: Duration = Duration::from_secs(5 * 60);

/// Delay before the next attempt to reach a client that was lost during an attempt.
const RETRY_DELAY: Duration = Duration::from_millis(10);
/// How long to wait before a store that did not answer is asked again.
const STORE_RETRY_DELAY: Duration = Duration::from_millis(250);

/// The dependencies of a run.
pub(super) struct RunDriver<'a> {
    pub(super) inner: &'a Arc<SessionManagerInner>,
    pub(super) state: &'a Arc<SessionState>,
    pub(super) active: &'a ActiveRun,
    pub(super) agent: &'a AgentProfile,
    pub(super) session: &'a SessionRecord,
    /// The budget of the user's prompt.
    pub(super) prompt_budget: Budget,
    /// The calls that it and its sub-agents may still make.
    pub(super) calls: Arc<CallAllowance>,
    /// Folders that the sender of the prompt may use.
    pub(super) folder_access: &'a FolderAccess,
    pub(super) model: Arc<dyn ModelClient>,
    pub(super) dialect: DialectName,
    pub(super) outbox: &'a mut LedgerOutbox,
    /// Held while the run is active, released while it waits.
    pub(super) permit: Arc<RunPermit>,
    /// Updates of its calls.
    pub(super) call_updates: Arc<CallUpdateBuffer>,
    /// Deadline of the run.
    pub(super) deadline: Option<Instant>,
    /// What the run may spend.
    pub(super) budget: RunBudget,
    /// How long it has worked.
    pub(super) clock: Arc<WorkClock>,
    /// When it can be parked, if it only waits for the user.
    pub(super) parking: ParkTimer,
    /// What its calls took.
    pub(super) call_tally: CallTally,
    /// Where the messages of the run begin.
    pub(super) position: TranscriptPosition,
}

/// What the calls of a run took since it began or was resumed.
#[derive(Debug, Default)]
pub(super) struct CallTally {
    /// When calls that run began, on the run's clock. Not those of sub-agents, whose calls count for
    /// themselves.
    begun: HashMap<String, Duration>,
    time: Duration,
    failed: u64,
}

impl CallTally {
    /// Looks at an entry of the run.
    fn add(&mut self, kind: &EventKind, now: Duration) {
        let EventKind::ToolEnded { call, status, .. } = kind else { return };
        if let Some(begun) = self.begun.remove(call) {
            self.time = self.time.saturating_add(now.saturating_sub(begun));
        }
        if *status == ToolCallStatus::Failed {
            self.failed = self.failed.saturating_add(1);
        }
    }
}

/// When a run that only waits for the user is parked.
#[derive(Clone, Debug, Default)]
pub(super) struct ParkTimer {
    /// Whether it was asked to park at once.
    is_requested: bool,
    /// Whether the run of its parent has asked it to park.
    is_ordered: bool,
    /// Not before this time, after an attempt that failed.
    not_before: Option<Instant>,
    /// What the run that the user started was last told of this one, if it is of a sub-agent.
    reported_calls: Option<Vec<String>>,
}

/// Why a call was not run that had not begun when another process was to continue its run.
const LEFT_BEFORE_RUN: &str =
    "not run: the gateway was stopped or lost its database before it began; make the call again";

/// What became of a run.
pub(super) enum DriveOutcome {
    /// It ended.
    Ended(RunCompletion),
    /// It stopped where it is, so that another process continues it.
    HandedOver,
    /// It waits for the user and is in the store. No prompt can be queued until the guard is dropped.
    Parked(OwnedMutexGuard<()>),
}

/// Outcome and token usage of a run.
pub(super) struct RunCompletion {
    pub(super) end: RunOutcome,
    pub(super) usage: TokenUsage,
    /// What is missing in its transcript, because the store failed.
    pub(super) unsaved: UnsavedRest,
}

impl RunCompletion {
    /// The end of a run whose messages are in its transcript.
    pub(super) fn new(end: RunOutcome, usage: TokenUsage) -> Self {
        Self { end, usage, unsaved: UnsavedRest::default() }
    }
}

/// Work in progress.
struct RunState<'a> {
    turn: Turn,
    todo: VecDeque<TurnAction>,
    unsaved: UnsavedMessages<'a>,
    growth: SessionGrowth,
    cancel: CancellationToken,
    asking: Option<ModelStream>,
    looking: Option<BoxFuture<'a, Result<RunContext, ToolBackendError>>>,
    guarding: Option<BoxFuture<'a, LoopGuardAnswer>>,
    summarising: Option<BoxFuture<'a, Result<TranscriptSummary, ModelError>>>,
    calls: JoinSet<ToolOutcome>,
    call_ids: HashMap<Id, String>,
    call_updates: Arc<CallUpdateBuffer>,
    /// Callers that wait until call updates are in the ledger.
    waiting: Vec<oneshot::Sender<()>>,
    backend: Option<ActiveBackend>,
    /// Agents that files define; `None` if the run may not start sub-agents.
    agents: Option<Vec<AgentDefinition>>,
    /// Whether the run was asked to stop.
    stopping: bool,
    /// When calls that do not end are abandoned.
    give_up: Option<Instant>,
    /// Until when calls may end, if another process is to continue the run. Nothing else begins.
    leaving: Option<Instant>,
}

/// What the next request is made with.
struct RunContext {
    context: RequestContext,
    backend: ActiveBackend,
    /// Agents that files define; `None` if the run may not start sub-agents.
    agents: Option<Vec<AgentDefinition>>,
    /// Servers whose tools are missing.
    missing_servers: Vec<UnavailableServer>,
}

/// Signals that end a run from outside. The futures live as long as the run, because recreating
/// them for each model event would be slower than processing the event.
struct StopSignals<'a> {
    stopped: BoxFuture<'a, RunOutcome>,
    late: Pin<Box<Sleep>>,
    /// When the working time may be used up.
    worked: Pin<Box<Sleep>>,
    park: BoxFuture<'a, ()>,
    park_order: BoxFuture<'a, ()>,
    handover: BoxFuture<'a, Instant>,
}

/// The next event for the driver.
enum DriverEvent {
    Input(TurnInput),
    Written(Result<(), StoreError>),
    Saved(Result<(), StoreError>),
    ContextLoaded(Result<RunContext, ToolBackendError>),
    CallJoined(Result<(Id, ToolOutcome), JoinError>),
    CallUpdated,
    PermitQueued,
    GraceExpired,
    WorkTimeUsed,
    ParkRequested,
    ParkDue,
    /// The run that started this one parks, and nothing but an answer can let either go on.
    ParkOrdered,
    /// Another process is to continue the run; calls may end until then.
    HandoverRequested(Instant),
    HandoverDue,
}

impl<'a> RunDriver<'a> {
    /// Runs a turn until it ends or is parked.
    pub(super) async fn run(mut self, turn: Turn) -> DriveOutcome {
        let cancel = CancellationToken::new();
        // Cancels everything that the run started, however it ends.
        let _cancel = cancel.clone().drop_guard();
        let mut under_way = RunState {
            turn,
            todo: VecDeque::new(),
            unsaved: UnsavedMessages::new(self.position),
            growth: SessionGrowth::with_limit(self.inner.config.limits.session_bytes_max),
            cancel,
            asking: None,
            looking: None,
            guarding: None,
            summarising: None,
            calls: JoinSet::new(),
            call_ids: HashMap::new(),
            call_updates: Arc::clone(&self.call_updates),
            waiting: Vec::new(),
            backend: None,
            agents: None,
            stopping: false,
            give_up: None,
            leaving: None,
        };
        let (active, deadline) = (self.active, self.deadline);
        let _parkable = active.subagent.as_ref().map(|subagent| {
            let (parent, run) = (&subagent.parent, active.parkable());
            subagent.asker.add_subagent(&active.session, &parent.session, &parent.call, run)
        });
        let mut alarms = StopSignals {
            stopped: Box::pin(active.wait_for_stop()),
            late: Box::pin(sleep_until(deadline.unwrap_or_else(Instant::now))),
            worked: Box::pin(sleep(self.work_time_left())),
            park: Box::pin(active.wait_for_park_request()),
            park_order: Box::pin(active.wait_for_park_order()),
            handover: Box::pin(active.wait_for_handover()),
        };
        active.set_hands_itself_over(true);
        under_way.step(TurnInput::Begin);
        loop {
            while let Some(action) = under_way.next_action() {
                if let Some(end) = self.perform(action, &mut under_way).await {
                    return DriveOutcome::Ended(self.finish(end, under_way).await);
                }
            }
            if !under_way.waiting.is_empty() {
                self.flush(&mut under_way).await;
                under_way.waiting.clear();
                continue;
            }
            // A run that was asked to stop ends here, and goes on nowhere.
            if let Some(until) = under_way.leaving
                && !under_way.stopping
                && self.active.requested_stop().is_none()
                && let Some(left) = self.try_leave(&mut under_way, until).await
            {
                return left;
            }
            self.outbox.start_write();
            self.start_saving(&mut under_way);
            match self.next_event(&mut under_way, &mut alarms).await {
                DriverEvent::WorkTimeUsed => {
                    if self.end_if_over_budget(&mut under_way).await.is_none() {
                        let left = self.work_time_left().max(WORK_TIME_STEP);
                        alarms.worked.as_mut().reset(Instant::now() + left);
                    }
                }
                DriverEvent::ParkDue => {
                    if let Some(order) = self.try_park(&mut under_way).await {
                        return DriveOutcome::Parked(order);
                    }
                    self.parking.not_before = Some(Instant::now() + PARK_RETRY_DELAY);
                }
                DriverEvent::ParkOrdered => {
                    if let Some(order) = self.park_with_parent(&mut under_way).await {
                        return DriveOutcome::Parked(order);
                    }
                }
                next => self.handle_event(next, &mut under_way),
            }
        }
    }

    /// Leaves the run to another process once its calls have ended, or may take no longer.
    async fn try_leave(
        &mut self,
        under_way: &mut RunState<'a>,
        until: Instant,
    ) -> Option<DriveOutcome> {
        let now = Instant::now();
        if self.park_time(under_way).is_some_and(|at| at <= now)
            && let Some(order) = self.try_park(under_way).await
        {
            return Some(DriveOutcome::Parked(order));
        }
        if !under_way.calls.is_empty() && now < until {
            return None;
        }
        // What was shown and said is stored before another process reads it.
        self.save(under_way).await;
        self.flush(under_way).await;
        Some(DriveOutcome::HandedOver)
    }

    /// When the run is parked; `None` while it does anything but wait for the user. The run of a sub-agent is
    /// parked by the one that the user started.
    fn park_time(&self, under_way: &RunState<'a>) -> Option<Instant> {
        if self.active.subagent.is_some() {
            return None;
        }
        let calls = self.waiting_calls(under_way)?;
        let since = self.state.asker.waiting_since(&calls)?;
        let due = match self.parking.is_requested {
            true => Instant::now(),
            false => since + self.inner.config.limits.park_after,
        };
        Some(self.parking.not_before.map_or(due, |not_before| due.max(not_before)))
    }

    /// The calls that the run waits for, if it does nothing else. A client that hosts the tools would take its
    /// questions with it.
    fn waiting_calls(&self, under_way: &RunState<'a>) -> Option<Vec<String>> {
        let is_idle = !under_way.stopping
            && under_way.todo.is_empty()
            && under_way.asking.is_none()
            && under_way.looking.is_none()
            && under_way.summarising.is_none();
        let is_local =
            under_way.backend.as_ref().is_none_or(|now| now.at == BackendLocation::Local);
        (is_idle && is_local).then(|| under_way.call_ids.values().cloned().collect())
    }

    /// Tells the run that the user started whether this one, of a sub-agent, can be parked with it.
    fn report_waiting_calls(&mut self, under_way: &RunState<'a>) {
        let Some(subagent) = &self.active.subagent else { return };
        // A prompt that waits behind it would begin.
        let calls = self.waiting_calls(under_way).filter(|_| self.state.queue_load().0 == 0);
        if calls != self.parking.reported_calls {
            self.parking.reported_calls.clone_from(&calls);
            subagent.asker.set_subagent_calls(&self.active.session, calls);
        }
    }

    /// Parks the run of a sub-agent, whose questions are only in the store now; not if it has to end.
    async fn park_with_parent(
        &mut self,
        under_way: &mut RunState<'a>,
    ) -> Option<OwnedMutexGuard<()>> {
        self.parking.is_ordered = true;
        let sending = Arc::clone(&self.state.sending);
        let order = tokio::select! {
            biased;
            _ = self.active.wait_for_stop() => return None,
            order = sending.lock_owned() => order,
        };
        self.save(under_way).await;
        self.flush(under_way).await;
        (!self.outbox.is_broken()).then_some(order)
    }

    /// Parks the run, if the store has all of it: its calls are dropped before they began, and
    /// the process that continues the run makes them again.
    async fn try_park(&mut self, under_way: &mut RunState<'a>) -> Option<OwnedMutexGuard<()>> {
        let state = self.state;
        let order = Arc::clone(&state.sending).try_lock_owned().ok()?;
        self.flush(under_way).await;
        let open = self
            .inner
            .config
            .store
            .open_questions(QuestionScope::Session(state.recorder.session()))
            .await;
        let is_kept =
            open.is_ok_and(|open| open.iter().any(|question| question.run == self.active.run));
        let can_park = is_kept
            && !self.outbox.is_broken()
            && self.park_time(under_way).is_some()
            && state.queue_load().0 == 0;
        if !can_park || !state.asker.park(&self.active.run) {
            return None;
        }
        // From here on, no answer reaches anything in memory.
        let subagents = state.asker.subagent_runs();
        subagents.iter().for_each(|run| run.park.cancel());
        for run in subagents {
            run.done.cancelled().await;
        }
        Some(order)
    }

    /// Performs one action. Returns the outcome if it ends the run.
    async fn perform(
        &mut self,
        action: TurnAction,
        under_way: &mut RunState<'a>,
    ) -> Option<RunOutcome> {
        match action {
            // A summary that could not be stored is not announced.
            TurnAction::Show(EventKind::Compacted { .. }) if self.outbox.is_broken() => {}
            TurnAction::Show(mut kind) => {
                if let EventKind::UsageReported { run_usage, .. } = &mut kind {
                    *run_usage = self.with_work(*run_usage);
                }
                mask_input(under_way.backend.as_ref(), &mut kind).await;
                under_way.growth.add(&kind);
                if let Some(subagent) = &self.active.subagent {
                    subagent.progress.observe(&kind);
                }
                self.call_tally.add(&kind, self.clock.elapsed());
                self.outbox.push(kind);
            }
            TurnAction::Save(messages) => under_way.unsaved.add(messages),
            TurnAction::StartTranscript(messages) => {
                self.restart_transcript(messages, under_way).await
            }
            TurnAction::LoadContext => {
                under_way.looking = Some(self.load_context(under_way.backend.as_ref()));
            }
            TurnAction::AskModel(request) => {
                // The shown part of a reply follows messages that are in the transcript, so that a
                // killed run can be completed from the ledger.
                self.save(under_way).await;
                if under_way.growth.is_due()
                    && let Some(end) = self.end_if_full(under_way).await
                {
                    under_way.stop(end);
                    return None;
                }
                self.end_if_over_budget(under_way).await?;
                let cancel = under_way.cancel.child_token();
                under_way.asking = Some(self.ask_model(request, cancel));
            }
            TurnAction::Summarise(request) => {
                self.end_if_over_budget(under_way).await?;
                let cancel = under_way.cancel.child_token();
                let request_usage = RequestUsage::new(&request, &under_way.call_updates);
                let stream = self.ask_model(request, cancel);
                // The plan is read from the ledger, so its entries must be written first.
                self.flush(under_way).await;
                let (inner, session) = (self.inner, self.state.recorder.session());
                under_way.summarising = Some(Box::pin(async move {
                    let plan = read_current_plan(&*inner.config.store, session).await;
                    Ok(TranscriptSummary { plan, ..read_summary(stream, request_usage).await? })
                }));
            }
            TurnAction::AskUser(message) => {
                // The user sees what the question is about before it is asked.
                self.flush(under_way).await;
                under_way.guarding =
                    Some(Box::pin(ask_to_continue(self.state, self.active, message)));
            }
            TurnAction::RunCall { call, read_only } => {
                match read_only {
                    true => self.flush(under_way).await,
                    false => self.flush_durable(under_way).await,
                }
                self.start_call(call, under_way);
            }
            TurnAction::CancelCalls => {
                under_way.cancel.cancel();
                under_way.give_up = Some(Instant::now() + CANCEL_GRACE);
            }
            TurnAction::Finish(end) => return Some(end),
        }
        None
    }

    /// The outcome if the session is full; everything done so far is kept.
    async fn end_if_full(&mut self, under_way: &mut RunState<'a>) -> Option<RunOutcome> {
        self.flush(under_way).await;
        let (session, owner) = (self.state.recorder.session(), &self.active.owner);
        match self.inner.check_session_size(session, owner).await.err()? {
            SessionError::Store(error) if self.inner.waits_for_store(self.active, &error) => {
                self.stop_on_store_error(Err(error), under_way);
                None
            }
            error => Some(session_worker::run_end_from_error(&error)),
        }
    }

    /// Stops the run if a budget is used up; `None` if it must not go on.
    async fn end_if_over_budget(&mut self, under_way: &mut RunState<'a>) -> Option<()> {
        let usage = self.with_work(under_way.turn.usage());
        match self.budget.check(&*self.inner.config.store, usage).await {
            Ok(BudgetCheck { notices, end }) => {
                for text in notices {
                    self.outbox.push(EventKind::Notice { topic: "budget".to_owned(), text });
                }
                match end {
                    Some(end) => under_way.stop(end),
                    None => return Some(()),
                }
            }
            Err(error) => self.stop_on_store_error(Err(error), under_way),
        }
        None
    }

    /// Adds the times that the driver knows, and the calls that failed.
    fn with_work(&self, usage: TokenUsage) -> TokenUsage {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        TokenUsage {
            work_ms: millis(self.clock.elapsed()),
            failed_calls: usage.failed_calls.saturating_add(self.call_tally.failed),
            call_ms: usage.call_ms.saturating_add(millis(self.call_tally.time)),
            ..usage
        }
    }

    fn work_time_left(&self) -> Duration {
        self.budget.time_max().unwrap_or_default().saturating_sub(self.clock.elapsed())
    }

    /// Sends the request once the run has a permit.
    fn ask_model(&self, request: ModelRequest, cancel: CancellationToken) -> ModelStream {
        let (permit, model) = (Arc::clone(&self.permit), Arc::clone(&self.model));
        let asking = async move {
            permit.acquire().await;
            model.stream(request, cancel)
        };
        Box::pin(asking.into_stream().flatten())
    }

    /// Waits until all events and messages are written: concurrently, since the store groups
    /// concurrent writes.
    async fn flush(&mut self, under_way: &mut RunState<'a>) {
        if self.outbox.is_broken() {
            return;
        }
        self.start_saving(under_way);
        let (flushed, saved) = tokio::join!(self.outbox.flush(), under_way.unsaved.wait_for_save());
        self.stop_on_store_error(flushed, under_way);
        self.stop_on_store_error(saved, under_way);
        self.save(under_way).await;
    }

    /// Like [`Self::flush`] for a call with side effects: a power cut must not make the session
    /// forget that it began. The messages are written first, so that they reach the disk with it.
    async fn flush_durable(&mut self, under_way: &mut RunState<'a>) {
        self.save(under_way).await;
        if !self.outbox.is_broken() {
            let flushed = self.outbox.flush_durable().await;
            self.stop_on_store_error(flushed, under_way);
        }
    }

    /// Starts saving messages, unless that is in progress.
    fn start_saving(&self, under_way: &mut RunState<'a>) {
        if !self.outbox.is_broken() && !under_way.unsaved.is_empty() {
            let (store, session) = (&*self.inner.config.store, self.state.recorder.session());
            let claim = self.state.recorder.run_claim(&self.active.run);
            under_way.unsaved.start_save(store, session, claim);
        }
    }

    /// Saves all messages.
    async fn save(&mut self, under_way: &mut RunState<'a>) {
        while !under_way.unsaved.is_empty() && !self.outbox.is_broken() {
            self.start_saving(under_way);
            let saved = under_way.unsaved.wait_for_save().await;
            self.stop_on_store_error(saved, under_way);
        }
    }

    async fn restart_transcript(
        &mut self,
        messages: Vec<Arc<ModelMessage>>,
        under_way: &mut RunState<'a>,
    ) {
        self.save(under_way).await;
        if self.outbox.is_broken() {
            return;
        }
        let (store, session) = (&self.inner.config.store, self.state.recorder.session());
        let (claim, why) =
            (self.state.recorder.run_claim(&self.active.run), TranscriptStart::Compacted);
        let count = messages.len() as u64;
        match store.start_transcript(session, claim, why, messages).await {
            Ok(transcript) => under_way
                .unsaved
                .start_transcript(TranscriptPosition { transcript, messages: count }),
            Err(error) => self.stop_on_store_error(Err(error), under_way),
        }
    }

    /// Ends the run after a write error: nothing may happen that is not recorded. If the store may come
    /// back, calls that run may end, and the run waits for it.
    fn stop_on_store_error(
        &mut self,
        result: Result<(), StoreError>,
        under_way: &mut RunState<'a>,
    ) {
        let Err(error) = result else { return };
        if self.inner.waits_for_store(self.active, &error) {
            self.outbox.mark_broken(error);
            return under_way.leave(Instant::now() + OUTAGE_CALLS_MAX);
        }
        let message = format!("{error}; the run was stopped, since its events could not be stored");
        self.outbox.mark_broken(error);
        under_way.stop(RunOutcome::Failed { kind: "store".to_owned(), message });
    }

    /// Loads the tool catalog. The location of the tools is read each time, since a client may have
    /// attached its own. If the client that this run used is lost and announced that it reconnects,
    /// the run waits for it.
    fn load_context(
        &self,
        before: Option<&ActiveBackend>,
    ) -> BoxFuture<'a, Result<RunContext, ToolBackendError>> {
        let (inner, state, agent, dialect) = (self.inner, self.state, self.agent, self.dialect);
        let (filters, may_delegate) = (self.tool_filters(), self.may_delegate());
        let (permit, folder_access) = (Arc::clone(&self.permit), self.folder_access);
        let most = before.map_or(Duration::ZERO, |before| before.backend.reconnect_grace());
        let deadline = Instant::now() + most;
        // A line that runs without a model needs no tools of servers, except the one that it calls.
        let waits_for_servers = before.is_none() && !is_direct(&*self.model);
        let waits_for_store = inner.can_wait_for_store(self.active);
        Box::pin(async move {
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                let now = match inner.backend_for(state, agent, folder_access).await {
                    // Nothing was begun. If another process takes the run meanwhile, the next write is refused.
                    Err(ToolBackendError::StoreUnavailable(_)) if waits_for_store => {
                        tokio::time::sleep(STORE_RETRY_DELAY).await;
                        continue;
                    }
                    Err(away @ ToolBackendError::ClientDisconnected { .. }) => {
                        let _elsewhere = permit.pause();
                        state.wait_for_client_backend(left).await.ok_or(away)?
                    }
                    found => found?,
                };
                let _elsewhere = (now.at == BackendLocation::Client).then(|| permit.pause());
                let missing_servers = match waits_for_servers {
                    true => now.backend.wait_for_servers().await,
                    false => Vec::new(),
                };
                match load_catalog(&now, dialect).await {
                    // The client was lost again, or its loss was not known until now.
                    Err(ToolBackendError::ClientDisconnected { .. }) if !left.is_zero() => {
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                    catalog => {
                        let agents = (may_delegate && now.backend.takes_subagents())
                            .then_some(&inner.config.agents);
                        let context = build_context(agent, &filters, catalog?, now, agents);
                        return Ok(RunContext { missing_servers, ..context });
                    }
                }
            }
        })
    }

    fn start_call(&mut self, call: ToolCall, under_way: &mut RunState<'a>) {
        let id = String::from(call.id.clone());
        let now = match (&under_way.backend, self.outbox.is_broken()) {
            (Some(now), false) => now.clone(),
            _ => {
                let text = "not run: zero could not record its start";
                let outcome = cancelled_call(&call.tool, text);
                return under_way.step(TurnInput::CallEnded { call: id, outcome });
            }
        };
        let watch = Arc::new(BufferedCallObserver::new(
            id.clone(),
            Arc::clone(&under_way.call_updates),
            ModelReader::from_model(&self.model, &under_way.call_updates),
        ));
        let (dialect, tool) = (self.dialect, call.tool.clone());
        let cancel = under_way.cancel.child_token();
        let permit = Arc::clone(&self.permit);
        if !self.calls.take() {
            let error = ToolError::failed(ErrorReason::ResourceExhausted, CALLS_USED_UP);
            let error = error.with_tool(&tool);
            return under_way.step(TurnInput::CallEnded { call: id, outcome: error.into() });
        }
        if tool == TASK_TOOL
            && let Some(agents) = &under_way.agents
        {
            let parent = self.task_parent(now, agents.clone());
            let calling = async move {
                // The sub-agent has a permit of its own.
                let pause = permit.pause();
                let outcome = run_task(parent, call, cancel, watch).await;
                pause.resume().await;
                outcome
            };
            let task = under_way.calls.spawn(calling.in_current_span());
            under_way.call_ids.insert(task.id(), id);
            return;
        }
        self.call_tally.begun.insert(id.clone(), self.clock.elapsed());
        let (state, most) = (Arc::clone(self.state), now.backend.reconnect_grace());
        let (inner, handover) = (Arc::clone(self.inner), self.active.handover_token());
        let generation = self.outbox.generation();
        let calling = async move {
            let now = match now.at {
                // The call has not started, so it can start once the client is back.
                BackendLocation::Client if now.closed.is_cancelled() => {
                    let back = cancel.run_until_cancelled(wait_for_client(&state, dialect, most));
                    match handover.run_until_cancelled(back).await {
                        Some(back) => back.flatten().unwrap_or(now),
                        None => return cancelled_call(&tool, LEFT_BEFORE_RUN),
                    }
                }
                _ => now,
            };
            let gone = |what: &str| {
                let text = format!("{} {what}", now.backend.location());
                ToolError::failed(ErrorReason::ServerUnavailable, text).with_tool(&tool).into()
            };
            let _elsewhere = match now.at {
                BackendLocation::Client => Some(permit.pause()),
                BackendLocation::Local => {
                    let acquired = cancel.run_until_cancelled(permit.acquire());
                    match handover.run_until_cancelled(acquired).await {
                        Some(Some(())) => None,
                        Some(None) => return cancelled_call(&tool, NOT_RUN),
                        None => return cancelled_call(&tool, LEFT_BEFORE_RUN),
                    }
                }
            };
            // Nothing begins any more once another process is to continue the run.
            if handover.is_cancelled() {
                return cancelled_call(&tool, LEFT_BEFORE_RUN);
            }
            if now.closed.is_cancelled() {
                return gone("is no longer connected, so this was not run");
            }
            // Its begin is stored. From here on, another process may have taken the session over.
            if !inner.config.nodes.can_act_since(generation) {
                return cancelled_call(&tool, "not run: this gateway has lost its database");
            }
            tokio::select! {
                biased;
                end = now.backend.call(call, dialect, cancel, watch) => end,
                () = now.closed.cancelled(), if now.at == BackendLocation::Client => {
                    gone("disconnected while this ran; whether it happened is not known")
                }
            }
        };
        let task = under_way.calls.spawn(calling.in_current_span());
        under_way.call_ids.insert(task.id(), id);
    }

    /// The tools that this agent and those above it may use, each as in their profiles.
    fn tool_filters(&self) -> Vec<Vec<String>> {
        let above = self.active.subagent.iter().flat_map(|subagent| &subagent.tool_filters);
        above.chain(&self.agent.tools).cloned().collect()
    }

    /// Whether this run may start sub-agents, if its tools take them.
    fn may_delegate(&self) -> bool {
        self.depth() < self.inner.config.limits.subagents.depth_max && !is_direct(&*self.model)
    }

    /// How many runs are above it.
    fn depth(&self) -> u32 {
        self.active.subagent.as_ref().map_or(0, |subagent| subagent.depth)
    }

    fn task_parent(&self, backend: ActiveBackend, agents: Vec<AgentDefinition>) -> TaskParent {
        let root = match &self.active.subagent {
            Some(subagent) => subagent.parent.root.clone(),
            None => RootRun {
                session: self.session.id.clone(),
                run: self.active.run.clone(),
                agent: self.agent.id.clone(),
            },
        };
        TaskParent {
            inner: Arc::clone(self.inner),
            session: self.session.clone(),
            run: self.active.run.clone(),
            agent: self.agent.clone(),
            model: self.model.info().name.clone(),
            dialect: self.dialect,
            folder_access: self.folder_access.clone(),
            backend,
            agents,
            asker: match &self.active.subagent {
                Some(subagent) => Arc::clone(&subagent.asker),
                None => Arc::clone(&self.state.asker),
            },
            path: match &self.active.subagent {
                Some(subagent) => subagent.path.clone(),
                None => Vec::new(),
            },
            depth: self.depth(),
            root,
            tool_filters: self.tool_filters(),
            budget: self.prompt_budget,
            calls: Arc::clone(&self.calls),
        }
    }

    /// Waits for the next event.
    async fn next_event(
        &mut self,
        under_way: &mut RunState<'a>,
        alarms: &mut StopSignals<'a>,
    ) -> DriverEvent {
        self.report_waiting_calls(under_way);
        let (writing, full) = (self.outbox.is_writing(), self.outbox.is_full());
        let saving = under_way.unsaved.is_saving();
        let (may_stop, calling) = (!under_way.stopping, !under_way.calls.is_empty());
        let has_deadline = self.deadline.is_some();
        let has_work_time = self.budget.time_max().is_some();
        let (give_up, park_at) = (under_way.give_up, self.park_time(under_way));
        let is_parked_with_parent = self.parking.is_ordered;
        let is_park_requested = self.parking.is_requested;
        let (leaving, may_leave) = (under_way.leaving, !under_way.stopping);
        let leave = async move {
            match leaving {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        };
        let parking = async move {
            match park_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let patience = async move {
            match give_up {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            end = &mut alarms.stopped, if may_stop => DriverEvent::Input(TurnInput::Stop(end)),
            () = &mut alarms.park_order, if may_stop && !is_parked_with_parent => {
                DriverEvent::ParkOrdered
            }
            () = &mut alarms.late, if may_stop && has_deadline => {
                DriverEvent::Input(TurnInput::Stop(RunOutcome::Aborted { by: "timeout".to_owned() }))
            }
            () = &mut alarms.worked, if may_stop && has_work_time => DriverEvent::WorkTimeUsed,
            until = &mut alarms.handover, if leaving.is_none() && may_leave => {
                DriverEvent::HandoverRequested(until)
            }
            () = leave, if may_leave => DriverEvent::HandoverDue,
            written = self.outbox.wait_for_write(), if writing => DriverEvent::Written(written),
            saved = under_way.unsaved.wait_for_save(), if saving => DriverEvent::Saved(saved),
            Some(joined) = under_way.calls.join_next_with_id(), if calling => DriverEvent::CallJoined(joined),
            () = under_way.call_updates.wait_for_update() => DriverEvent::CallUpdated,
            () = self.permit.wait_until_queued(), if may_stop => DriverEvent::PermitQueued,
            looked = await_pending(&mut under_way.looking) => DriverEvent::ContextLoaded(looked),
            answer = await_pending(&mut under_way.guarding) => DriverEvent::Input(TurnInput::Guard(answer)),
            summary = await_pending(&mut under_way.summarising) => DriverEvent::Input(TurnInput::Summary(summary)),
            input = next_model_input(&mut under_way.asking), if !full => DriverEvent::Input(input),
            () = patience, if calling => DriverEvent::GraceExpired,
            () = &mut alarms.park, if !is_park_requested => DriverEvent::ParkRequested,
            () = parking, if may_stop => DriverEvent::ParkDue,
        }
    }

    fn handle_event(&mut self, next: DriverEvent, under_way: &mut RunState<'a>) {
        match next {
            DriverEvent::Input(TurnInput::Stop(end)) => under_way.stop(end),
            DriverEvent::Input(input) => {
                if matches!(input, TurnInput::Model(ModelEvent::Retrying { .. })) {
                    self.inner.counted.model_retries.fetch_add(1, Ordering::Relaxed);
                }
                if matches!(input, TurnInput::Summary(_)) {
                    // The attempts that failed count before the run may end.
                    under_way.collect_call_updates();
                }
                under_way.step(input);
            }
            DriverEvent::Written(written) | DriverEvent::Saved(written) => {
                self.stop_on_store_error(written, under_way)
            }
            DriverEvent::ContextLoaded(looked) => {
                let context = looked.map(|found| {
                    let RunContext { context, backend, agents, missing_servers } = found;
                    for missing in missing_servers {
                        let (topic, text) = ("mcp_server".to_owned(), missing.to_string());
                        self.outbox.push(EventKind::Notice { topic, text });
                    }
                    for problem in self.state.new_agent_problems(agents.iter().flatten()) {
                        let text = format!("an agent cannot be used: {problem}");
                        let topic = "agents".to_owned();
                        self.outbox.push(EventKind::Notice { topic, text });
                    }
                    under_way.backend = Some(backend);
                    under_way.agents = agents;
                    context
                });
                under_way.step(TurnInput::Context(context));
            }
            DriverEvent::CallUpdated => under_way.collect_call_updates(),
            DriverEvent::PermitQueued => {
                let text = self.inner.run_limiter.wait_reason();
                self.outbox.push(EventKind::Notice { topic: "queued".to_owned(), text });
            }
            DriverEvent::CallJoined(joined) => under_way.handle_joined_call(joined),
            DriverEvent::GraceExpired => under_way.abandon_calls(),
            DriverEvent::ParkRequested => self.parking.is_requested = true,
            DriverEvent::HandoverRequested(until) => {
                under_way.leave(until);
                self.parking.is_requested = true;
            }
            // Handled before, because they read the store, or by the next look at the run.
            DriverEvent::WorkTimeUsed
            | DriverEvent::ParkDue
            | DriverEvent::ParkOrdered
            | DriverEvent::HandoverDue => {}
        }
    }

    async fn finish(&mut self, end: RunOutcome, under_way: RunState<'a>) -> RunCompletion {
        let RunState { turn, mut unsaved, .. } = under_way;
        let (store, session) = (&*self.inner.config.store, self.state.recorder.session());
        let claim = self.state.recorder.run_claim(&self.active.run);
        let is_broken = self.outbox.is_broken();
        let save = async {
            // Messages of a failed save may be stored: what is missing is found with the end of the run.
            let saved = unsaved.wait_for_save().await;
            if saved.is_ok() && !is_broken {
                unsaved.start_save(store, session, claim);
                let _ = unsaved.wait_for_save().await;
            }
        };
        let context_tokens = Some(turn.context_tokens());
        let patch = SessionPatch { context_tokens, ..SessionPatch::default() };
        let patch = async {
            if let Err(error) = self.inner.patch_by_id(session, patch).await {
                tracing::warn!(%session, %error, "context tokens could not be stored");
            }
        };
        tokio::join!(save, patch);
        let usage = self.with_work(turn.usage());
        RunCompletion { end, usage, unsaved: unsaved.into_rest() }
    }
}

/// Replaces secret values in the arguments of a call that is shown.
async fn mask_input(backend: Option<&ActiveBackend>, kind: &mut EventKind) {
    if let (EventKind::ToolStarted { input, title, .. }, Some(now)) = (kind, backend) {
        let secrets = now.backend.secret_mask().await;
        secrets.mask_json(input);
        secrets.mask_string(title);
    }
}

/// Loads the tool catalog in a dialect.
pub(super) async fn load_catalog(
    now: &ActiveBackend,
    dialect: DialectName,
) -> Result<ToolCatalog, ToolBackendError> {
    let slow = |_| {
        ToolBackendError::Workspace(format!(
            "{} did not list its tools within {} s; try again",
            now.backend.location(),
            CATALOG_TIMEOUT.as_secs()
        ))
    };
    tokio::select! {
        catalog = tokio::time::timeout(CATALOG_TIMEOUT, now.backend.load_catalog(dialect)) => catalog.map_err(slow)?,
        () = now.closed.cancelled() => Err(ToolBackendError::ClientDisconnected { host: now.backend.location() }),
    }
}

/// Waits for a lost client until it is attached again and ready for calls in a dialect.
async fn wait_for_client(
    state: &SessionState,
    dialect: DialectName,
    most: Duration,
) -> Option<ActiveBackend> {
    let now = state.wait_for_client_backend(most).await?;
    load_catalog(&now, dialect).await.ok().map(|_| now)
}

impl RunState<'_> {
    fn step(&mut self, input: TurnInput) {
        self.todo.extend(self.turn.step(input));
    }

    /// The next action. If another process is to continue the run, nothing begins any more, and only what
    /// ended is recorded.
    fn next_action(&mut self) -> Option<TurnAction> {
        if self.leaving.is_none() || self.stopping {
            return self.todo.pop_front();
        }
        let begins_something = |action: &TurnAction| match action {
            TurnAction::Show(_)
            | TurnAction::Save(_)
            | TurnAction::StartTranscript(_)
            | TurnAction::CancelCalls
            | TurnAction::Finish(_) => false,
            TurnAction::LoadContext
            | TurnAction::AskModel(_)
            | TurnAction::Summarise(_)
            | TurnAction::AskUser(_)
            | TurnAction::RunCall { .. } => true,
        };
        loop {
            if let Some(at) = self.todo.iter().position(|action| !begins_something(action)) {
                return self.todo.remove(at);
            }
            let is_call = |action: &TurnAction| matches!(action, TurnAction::RunCall { .. });
            let at = self.todo.iter().position(is_call)?;
            let Some(TurnAction::RunCall { call, .. }) = self.todo.remove(at) else { return None };
            let outcome = cancelled_call(&call.tool, LEFT_BEFORE_RUN);
            self.step(TurnInput::CallEnded { call: call.id.into(), outcome });
        }
    }

    /// Begins nothing more. Calls may end until then.
    fn leave(&mut self, until: Instant) {
        self.leaving.get_or_insert(until);
        // Whoever continues the run asks again. A question to the user waits there.
        self.asking = None;
        self.looking = None;
        self.summarising = None;
    }

    fn stop(&mut self, end: RunOutcome) {
        self.stopping = true;
        self.asking = None;
        if self.summarising.take().is_some() {
            // What it used until now.
            self.collect_call_updates();
        }
        self.step(TurnInput::Stop(end));
    }

    fn collect_call_updates(&mut self) {
        let PendingCallUpdates { updates, used, waiting } = self.call_updates.take();
        if let Some(usage) = used {
            self.step(TurnInput::Used(usage));
        }
        self.waiting.extend(waiting);
        for (call, update) in updates {
            let CallUpdate { described, progress, subagent } = update;
            if let Some((title, kind, locations)) = described {
                self.step(TurnInput::Described { call: call.clone(), title, kind, locations });
            }
            if let Some(session_key) = subagent {
                self.step(TurnInput::Subagent { call: call.clone(), session_key });
            }
            if let Some(progress) = progress {
                self.step(TurnInput::Progress { call, progress });
            }
        }
    }

    /// Ends calls that do not end by themselves, without waiting for their tasks: a task that
    /// blocks cannot be stopped.
    fn abandon_calls(&mut self) {
        self.calls.abort_all();
        self.give_up = None;
        for (_, call) in std::mem::take(&mut self.call_ids) {
            let text = "did not stop when cancelled; whether it happened is not known";
            let outcome = cancelled_call("", text);
            self.step(TurnInput::CallEnded { call, outcome });
        }
    }

    fn handle_joined_call(&mut self, joined: Result<(Id, ToolOutcome), JoinError>) {
        // Updates of a call are recorded before its end.
        self.collect_call_updates();
        let (task, outcome) = match joined {
            Ok(ended) => ended,
            Err(error) => (error.id(), panicked_call_result()),
        };
        if let Some(call) = self.call_ids.remove(&task) {
            self.step(TurnInput::CallEnded { call, outcome });
        }
    }
}

/// The result of a cancelled call.
fn cancelled_call(tool: &str, text: &'static str) -> ToolOutcome {
    ToolError::failed(ErrorReason::Cancelled, text).with_tool(tool).into()
}

/// The result of a call whose task panicked.
fn panicked_call_result() -> ToolOutcome {
    let text = "the tool failed because of an internal error; whether it happened is not known";
    ToolError::failed(ErrorReason::Panic, text).into()
}

/// The system prompt and the tools that an agent may use: those that every filter allows, and the one
/// that starts sub-agents if there is a registry of them.
fn build_context(
    agent: &AgentProfile,
    filters: &[Vec<String>],
    mut catalog: ToolCatalog,
    backend: ActiveBackend,
    agents: Option<&AgentRegistry>,
) -> RunContext {
    let agents = restrict_catalog(agent, filters, &mut catalog, agents);
    let system = crate::system_prompt::system_prompt(agent, &catalog, jiff::Zoned::now().date());
    let context = RequestContext { system, tools: catalog.tools };
    RunContext { context, backend, agents, missing_servers: Vec::new() }
}

/// Leaves the tools that every filter allows, and adds the one that starts sub-agents. Returns the
/// agents of the catalog that it can start, if there is a registry.
pub(super) fn restrict_catalog(
    agent: &AgentProfile,
    filters: &[Vec<String>],
    catalog: &mut ToolCatalog,
    agents: Option<&AgentRegistry>,
) -> Option<Vec<AgentDefinition>> {
    let is_wanted = |name: &str| {
        filters.iter().all(|filter| filter.iter().any(|pattern| matches_pattern(pattern, name)))
    };
    if !filters.is_empty() {
        let tools = catalog.tools.iter().filter(|tool| is_wanted(&tool.canonical));
        catalog.tools = tools.cloned().collect();
        // Without the tool, the list of skills is of no use.
        if !is_wanted(SKILL_TOOL) {
            catalog.instructions.retain(|file| file.path != SKILLS_SOURCE);
        }
    }
    agents.filter(|_| is_wanted(TASK_TOOL)).map(|configured| {
        let task = task_tool::catalog_entry(&agent.id, configured, &catalog.agents);
        catalog.tools = catalog.tools.with_tool(task);
        std::mem::take(&mut catalog.agents)
    })
}

fn matches_pattern(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// Awaits the pending work; never returns if there is none.
async fn await_pending<T>(work: &mut Option<BoxFuture<'_, T>>) -> T {
    let Some(under_way) = work else { return pending().await };
    let done = under_way.await;
    *work = None;
    done
}

/// The next event of the model; never returns without a request.
async fn next_model_input(asking: &mut Option<ModelStream>) -> TurnInput {
    let Some(stream) = asking else { return pending().await };
    let input = match stream.next().await {
        Some(Ok(event)) => TurnInput::Model(event),
        Some(Err(error)) => TurnInput::ModelFailed(error),
        None => TurnInput::ModelFailed(stream_cut_error()),
    };
    if matches!(input, TurnInput::ModelFailed(_) | TurnInput::Model(ModelEvent::Done(_))) {
        *asking = None;
    }
    input
}

fn stream_cut_error() -> ModelError {
    let text = "the model's answer ended before it was complete; send the prompt again";
    ModelError::new(ModelErrorKind::Server, text)
}

async fn read_summary(
    mut stream: ModelStream,
    mut request_usage: RequestUsage,
) -> Result<TranscriptSummary, ModelError> {
    let mut fallbacks = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event?;
        request_usage.observe(&event);
        match event {
            ModelEvent::FellBack(fallback) => fallbacks.push(fallback),
            ModelEvent::Done(ModelReply { blocks, stop, usage }) => {
                // The turn counts an attempt for each of them.
                let counted = fallbacks.len() as u64;
                request_usage.failed_attempts =
                    request_usage.failed_attempts.saturating_sub(counted);
                let text = ModelMessage::assistant(blocks).text();
                let plan = Vec::new();
                return Ok(TranscriptSummary { text, stop, usage, plan, fallbacks });
            }
            _ => {}
        }
    }
    Err(stream_cut_error())
}

async fn ask_to_continue(state: &SessionState, active: &ActiveRun, why: String) -> LoopGuardAnswer {
    let answer = match &active.subagent {
        Some(subagent) => {
            let origin = QuestionOrigin { path: subagent.path.clone(), call: String::new() };
            subagent.asker.ask_to_continue(why, Some((&subagent.name, origin))).await
        }
        None => state.asker.ask_to_continue(why, None).await,
    };
    match answer.is_allow() {
        true => LoopGuardAnswer::Continue,
        false => LoopGuardAnswer::Stop,
    }
}
