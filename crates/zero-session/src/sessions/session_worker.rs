//! Executes the prompts of one session, one after another, and records how each ended.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span};
use zero_core::{Budget, RunId};
use zero_runtime::DialectName;
use zero_runtime::tool_backend::{FolderAccess, ToolBackendError};

use crate::agent::{AgentProfile, DIRECT};
use crate::approvals::RequestingRun;
use crate::direct_model::{DirectModel, is_direct};
use crate::event::{EventKind, RunOutcome, TokenUsage};
use crate::model::known_models::dialect_for;
use crate::model::{ModelClient, ModelInfo, ThinkingEffort};
use crate::output_schema::OutputSchema;
use crate::sessions::call_updates::CallUpdateBuffer;
use crate::sessions::ledger_outbox::LedgerOutbox;
use crate::sessions::ledger_recorder::new_event;
use crate::sessions::parked_runs;
use crate::sessions::prompt_resolution::{PromptContext, PromptResolution};
use crate::sessions::run_budget::{BudgetCheck, RunBudget};
use crate::sessions::run_driver::{CallTally, DriveOutcome, ParkTimer, RunCompletion, RunDriver};
use crate::sessions::run_limiter::RunPermit;
use crate::sessions::session_state::{
    ActiveBackend, ActiveRun, QueuedPrompt, ResumedRun, SessionState,
};
use crate::sessions::subagent_run::CallAllowance;
use crate::sessions::unsaved_messages::UnsavedRest;
use crate::sessions::work_clock::WorkClock;
use crate::sessions::{
    Prompt, SessionError, SessionManagerInner, UnrecordedEnd, prompt_attachments, prompts,
};
use crate::store::{SessionRecord, StoreError, TranscriptPosition};
use crate::turn::{
    ParallelCalls, ResumePoint, ResumedWait, Turn, TurnConfig, TurnGoal, transcript_repair,
};

/// Delays before further attempts to record the end of a run; the last one is repeated.
const FINISH_RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    FINISH_RETRY_DELAY_MAX,
];
const FINISH_RETRY_DELAY_MAX: Duration = Duration::from_secs(5);
/// Attempts to record the end of a run after which its subscribers are informed.
const QUIET_ATTEMPTS_MAX: usize = 4;

/// How long background jobs keep the backend of a session that gets no prompt.
const IDLE_JOBS_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Executes prompts until none arrives for a while, then closes the session's backend. Background
/// jobs end with it, so it stays open while one runs.
pub(super) async fn run_worker(
    inner: Weak<SessionManagerInner>,
    state: Arc<SessionState>,
    closing: CancellationToken,
) {
    let (mut idle_since, mut is_subagent) = (Instant::now(), false);
    loop {
        // An idle worker must not keep the session manager alive.
        let Some(strong) = inner.upgrade() else { return };
        let idle_backend = strong.config.limits.idle_backend;
        if let Some(job) = state.next_prompt() {
            is_subagent = job.active.subagent.is_some();
            match strong.process_prompt(&state, job).await {
                None => {
                    idle_since = Instant::now();
                    continue;
                }
                // A parked run keeps nothing in memory. No prompt came since it was parked.
                Some(order) => {
                    state.drop_backend().await;
                    let is_released = state.release_worker();
                    drop(order);
                    if is_released {
                        strong.evict_state(&state);
                        return;
                    }
                    continue;
                }
            }
        }
        // Its tools are closed by its parent, and it rarely gets another prompt.
        let idle_backend = if is_subagent { Duration::ZERO } else { idle_backend };
        drop(strong);
        tokio::select! {
            idle = timeout(idle_backend, state.work.notified()) => {
                let is_expired = idle_since.elapsed() >= IDLE_JOBS_MAX;
                if idle.is_ok() || (!is_expired && state.has_running_jobs().await) {
                    continue;
                }
            }
            () = closing.cancelled() => {}
        }
        state.drop_backend().await;
        if state.release_worker() {
            if let Some(inner) = inner.upgrade() {
                inner.evict_state(&state);
            }
            return;
        }
    }
}

impl SessionManagerInner {
    /// Executes one prompt, from the queue to its end. Returns a guard if the run was parked, which
    /// keeps prompts from being queued.
    async fn process_prompt(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        job: QueuedPrompt,
    ) -> Option<OwnedMutexGuard<()>> {
        let QueuedPrompt { prompt, active, resumed } = job;
        // Traces contain the run and its outcome, never any content.
        let span = tracing::info_span!(
            "run",
            run_id = %active.run,
            session_id = %active.session,
            session_key = Empty,
            agent = Empty,
            model = Empty,
            outcome = Empty,
            error_kind = Empty,
            input_tokens = Empty,
            output_tokens = Empty,
        );
        let processed = self.process_in_span(&span, state, prompt, &active, resumed);
        processed.instrument(span.clone()).await
    }

    async fn process_in_span(
        self: &Arc<Self>,
        span: &Span,
        state: &Arc<SessionState>,
        prompt: Prompt,
        active: &ActiveRun,
        resumed: Option<ResumedRun>,
    ) -> Option<OwnedMutexGuard<()>> {
        let mut outbox =
            LedgerOutbox::new(state.recorder.clone(), active.run.clone(), &self.config.nodes);
        let (permit, call_updates) = (self.run_limiter.permit_for(&active.owner), Arc::default());
        let (point, earlier) = match resumed {
            Some(ResumedRun { point, earlier }) => (Some(point), earlier),
            None => (None, Vec::new()),
        };
        let worked_ms = point.as_ref().map_or(0, |point| point.usage.work_ms);
        let asking = RequestingRun {
            id: active.run.clone(),
            permit: Arc::clone(&permit),
            clock: WorkClock::start(Duration::from_millis(worked_ms)),
            call_updates,
        };
        state.asker.set_run(Some(asking.clone()), earlier);
        let placed = match permit.try_acquire() {
            true => Ok(()),
            false => self.wait_for_permit(active, &permit, &mut outbox).await,
        };
        let completion = match placed {
            Err(_) if self.is_store_lost(active, &outbox) && active.requested_stop().is_none() => {
                self.continue_after_outage(state, active, &mut outbox).await;
                return None;
            }
            Err(end) => RunCompletion::new(end, outbox.usage()),
            Ok(()) => {
                let _running = CounterGuard::new(&self.counted.running);
                let driven = self.drive_run(state, active, asking, prompt, point, &mut outbox);
                let driven = tokio::select! {
                    biased;
                    driven = AssertUnwindSafe(driven).catch_unwind() => driven,
                    () = active.wait_for_forced_handover() => Ok(DriveOutcome::HandedOver),
                };
                // Another process must not continue what was asked to stop.
                let driven = match (driven, active.requested_stop()) {
                    (Ok(DriveOutcome::HandedOver), Some(end)) => {
                        Ok(DriveOutcome::Ended(RunCompletion::new(end, outbox.usage())))
                    }
                    (driven, _) => driven,
                };
                match driven {
                    Ok(DriveOutcome::Ended(ended)) => ended,
                    Ok(DriveOutcome::Parked(order)) => {
                        span.record("outcome", "parked");
                        active.mark_parked();
                        self.release_parked_run(state, active).await;
                        return Some(order);
                    }
                    // The panic message is already in the log.
                    Err(_) => RunCompletion::new(internal_error(), outbox.usage()),
                    Ok(DriveOutcome::HandedOver) => {
                        span.record("outcome", "handed_over");
                        if self.is_store_lost(active, &outbox) {
                            self.approvals.withdraw(&active.address()).await;
                            self.questions.withdraw(&active.address()).await;
                            state.asker.set_run(None, Vec::new());
                            self.continue_after_outage(state, active, &mut outbox).await;
                            return None;
                        }
                        // Text that was shown is kept, and calls that were running get an unknown
                        // outcome.
                        if let Err(error) = outbox.flush().await {
                            tracing::warn!(%error, "the last events of a run were not stored");
                        }
                        self.approvals.withdraw(&active.address()).await;
                        self.questions.withdraw(&active.address()).await;
                        self.release_parked_run(state, active).await;
                        return None;
                    }
                }
            }
        };
        record_end(span, &completion);
        // Only the end remains to be written, which may take time on a slow disk.
        let _over = permit.pause();
        self.finish_run(state, active, completion, outbox).await;
        state.asker.set_run(None, Vec::new());
        None
    }

    /// Gives up a run that waits for the user in the store.
    pub(super) async fn release_parked_run(&self, state: &SessionState, active: &ActiveRun) {
        state.asker.set_run(None, Vec::new());
        if let Err(error) = state.recorder.release_run(&active.run).await {
            let (session, run) = (&active.session, &active.run);
            tracing::warn!(%session, %run, %error, "only this process can continue a parked run");
        }
        self.lock_active_runs().remove(&active.address());
        active.done.cancel();
    }

    /// Waits until fewer runs are active, and records that.
    async fn wait_for_permit(
        &self,
        active: &ActiveRun,
        permit: &RunPermit,
        outbox: &mut LedgerOutbox,
    ) -> Result<(), RunOutcome> {
        outbox.push(EventKind::Notice {
            topic: "queued".to_owned(),
            text: self.run_limiter.wait_reason(),
        });
        if let Err(error) = outbox.flush().await {
            return Err(run_end_from_error(&error.into()));
        }
        tokio::select! {
            biased;
            end = active.wait_for_stop() => Err(end),
            () = permit.acquire_queued() => Ok(()),
        }
    }

    async fn drive_run(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        active: &ActiveRun,
        asking: RequestingRun,
        prompt: Prompt,
        point: Option<ResumePoint>,
        outbox: &mut LedgerOutbox,
    ) -> DriveOutcome {
        let access = prompt.folder_access.clone();
        // A run that was parked has what it left of its time.
        let worked = point.as_ref().map_or(0, |point| point.usage.work_ms);
        let time_left =
            prompt.timeout.map(|most| most.saturating_sub(Duration::from_millis(worked)));
        let deadline = time_left.and_then(|left| Instant::now().checked_add(left));
        let prepared = match point {
            Some(point) => self.prepare_resumed(active, prompt, point, outbox).await,
            None => self.prepare(state, active, prompt, outbox, &asking.call_updates).await,
        };
        let completion = match prepared {
            Ok(PreparedRun::Turn(prepared)) => {
                let PreparedTurn {
                    turn,
                    agent,
                    record,
                    model,
                    dialect,
                    run_budget: own,
                    budget,
                    calls,
                    position,
                } = *prepared;
                let shell = RunDriver {
                    inner: self,
                    state,
                    active,
                    agent: &agent,
                    session: &record,
                    folder_access: &access,
                    prompt_budget: own,
                    calls,
                    model,
                    dialect,
                    outbox,
                    permit: asking.permit,
                    call_updates: asking.call_updates,
                    deadline,
                    budget,
                    clock: asking.clock,
                    parking: ParkTimer::default(),
                    call_tally: CallTally::default(),
                    position,
                };
                return shell.run(*turn).await;
            }
            Ok(PreparedRun::Ended(end)) => RunCompletion::new(end, outbox.usage()),
            Err(SessionError::Store(error)) if self.waits_for_store(active, &error) => {
                outbox.mark_broken(error);
                return DriveOutcome::HandedOver;
            }
            Err(error) => RunCompletion::new(run_end_from_error(&error), outbox.usage()),
        };
        DriveOutcome::Ended(completion)
    }

    /// Everything before the first model request. A command may end the run here.
    async fn prepare(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        active: &ActiveRun,
        prompt: Prompt,
        outbox: &mut LedgerOutbox,
        call_updates: &CallUpdateBuffer,
    ) -> Result<PreparedRun, SessionError> {
        let store = &self.config.store;
        let record = store.session_by_id(&active.session).await?;
        let record = record.ok_or(StoreError::NoSession(active.session.to_string()))?;
        let subagent = active.subagent.as_deref();
        let agent = match subagent {
            Some(subagent) => subagent.profile.clone(),
            None => self.find_agent(&record.agent)?.clone(),
        };
        let model = self.model_for(&record, &agent);
        let named = model.as_ref().map(|model| model.info().name.clone());
        let requested_model = record.model.clone().or_else(|| agent.model.clone());
        let name = named.unwrap_or_else(|_| requested_model.unwrap_or_else(|| DIRECT.to_owned()));
        let span = Span::current();
        span.record("session_key", display(&record.key));
        span.record("agent", &*agent.id).record("model", &*name);
        let parent = subagent.map(|subagent| Box::new(subagent.parent.clone()));
        outbox.push(EventKind::RunStarted { agent: agent.id.clone(), model: name, parent });
        // The first events are published before any step that may take long.
        outbox.flush().await?;
        let dialect = match subagent {
            // Tools that a client hosts are offered in one dialect at a time.
            Some(subagent) => subagent.dialect,
            None => choose_dialect(&agent, model.as_ref().ok().map(|model| model.info())),
        };
        let context = PromptContext {
            state,
            record: &record,
            agent: &agent,
            model: model.as_ref().ok(),
            dialect,
        };
        let slashed = tokio::select! {
            biased;
            end = active.wait_for_stop() => return Ok(PreparedRun::Ended(end)),
            slashed = self.resolve_prompt(&context, &prompt, &active.run) => slashed,
        };
        let mut attachments = prompt.attachments.clone();
        let is_command = matches!(&model, Ok(model) if is_direct(&**model));
        let slashed = match slashed {
            PromptResolution::Prompt(text) => tokio::select! {
                biased;
                end = active.wait_for_stop() => return Ok(PreparedRun::Ended(end)),
                text = self.mask_prompt(state, &agent, &prompt.folder_access, text) => match text {
                    // Only users mention files.
                    Ok((text, _)) if is_command || subagent.is_some() => {
                        PromptResolution::Prompt(text)
                    }
                    Ok((text, backend)) => tokio::select! {
                        biased;
                        end = active.wait_for_stop() => return Ok(PreparedRun::Ended(end)),
                        attached = prompt_attachments::attach_mentions(&backend, text, outbox, call_updates) => {
                            let (text, images) = attached?;
                            attachments.extend(images);
                            PromptResolution::Prompt(text)
                        }
                    },
                    Err(error) => {
                        let (kind, message) = ("tool_host".to_owned(), error.to_string());
                        return Ok(PreparedRun::Ended(RunOutcome::Failed { kind, message }));
                    }
                },
            },
            slashed => slashed,
        };
        if prompt.output_schema.is_some() && !matches!(slashed, PromptResolution::Prompt(_)) {
            let message = "the answer to this command is not JSON; send a prompt to the model, or leave out the schema";
            let kind = "output_schema".to_owned();
            let end = RunOutcome::Failed { kind, message: message.to_owned() };
            return Ok(PreparedRun::Ended(end));
        }
        let answer = |text: &str| TurnGoal::Answer(prompts::build_message(text, &attachments));
        let (goal, model, dialect) = match slashed {
            PromptResolution::Answer(text) => {
                outbox.push(EventKind::Text { text });
                return Ok(PreparedRun::Ended(RunOutcome::Completed));
            }
            PromptResolution::Compact(focus) => (TurnGoal::Compact(focus), model?, dialect),
            PromptResolution::Prompt(text) => (answer(&text), model?, dialect),
            PromptResolution::Direct(text) => {
                (answer(&text), Arc::new(DirectModel::new()) as _, DialectName::Canonical)
            }
        };
        let is_answer = matches!(goal, TurnGoal::Answer(_));
        if is_answer && !prompt.attachments.is_empty() && !model.info().takes_images {
            outbox.push(EventKind::Notice {
                topic: "images".to_owned(),
                text: format!(
                    "the model `{}` does not accept images and gets only the text of this prompt; choose another model to have them seen",
                    model.info().name
                ),
            });
        }
        let run_budget = subagent.map_or(prompt.budget, |subagent| subagent.budget);
        let mut budget = self.run_budget(active, &record, run_budget, &*model);
        let BudgetCheck { notices, end } = budget.check(&**store, TokenUsage::default()).await?;
        let unpriced =
            (budget.limits_cost() && model.info().prices.is_none() && !is_direct(&*model))
                .then(|| unknown_price_notice(&model.info().name));
        for text in unpriced.into_iter().chain(notices) {
            outbox.push(EventKind::Notice { topic: "budget".to_owned(), text });
        }
        if let Some(end) = end {
            return Ok(PreparedRun::Ended(end));
        }
        let transcript = store.transcript(&record.id, None).await?;
        let position = transcript.end();
        let messages = transcript_repair::repair(transcript.messages);
        let thinking = prompt.thinking.or_else(|| session_thinking(&record));
        let options = ReplyOptions { thinking, output_schema: prompt.output_schema };
        let config = self.turn_config(&record, &agent, &*model, dialect, &budget, options);
        let turn = Box::new(Turn::new(config, messages, goal));
        let calls = match active.subagent.as_deref() {
            Some(subagent) => subagent.calls.clone(),
            None => Arc::new(CallAllowance::new(budget.calls_max())),
        };
        let prepared = PreparedTurn {
            turn,
            agent,
            record,
            model,
            dialect,
            run_budget,
            budget,
            calls,
            position,
        };
        Ok(PreparedRun::Turn(Box::new(prepared)))
    }

    /// Like [`Self::prepare`] for a run that was parked.
    async fn prepare_resumed(
        self: &Arc<Self>,
        active: &ActiveRun,
        prompt: Prompt,
        point: ResumePoint,
        outbox: &mut LedgerOutbox,
    ) -> Result<PreparedRun, SessionError> {
        let store = &self.config.store;
        outbox.resume(parked_runs::open_calls(&point), point.usage);
        let record = store.session_by_id(&active.session).await?;
        let record = record.ok_or(StoreError::NoSession(active.session.to_string()))?;
        let subagent = active.subagent.as_deref();
        let agent = match subagent {
            Some(subagent) => subagent.profile.clone(),
            None => self.find_agent(&record.agent)?.clone(),
        };
        let (model, dialect) = match parked_runs::is_direct_call(&point) {
            true => (Arc::new(DirectModel::new()) as _, DialectName::Canonical),
            false => {
                // The transcript is in the dialect of the first model, whichever answers now.
                let first = self.model_for(&record, &agent)?;
                let dialect = match subagent {
                    Some(subagent) => subagent.dialect,
                    None => choose_dialect(&agent, Some(first.info())),
                };
                (self.model_from(&record, &agent, point.model.as_deref())?, dialect)
            }
        };
        if !matches!(point.waits, ResumedWait::Model) {
            outbox.push(EventKind::Notice {
                topic: "resumed".to_owned(),
                text: "the run continues where it waited for an answer".to_owned(),
            });
        }
        outbox.flush().await?;
        let run_budget = subagent.map_or(prompt.budget, |subagent| subagent.budget);
        let mut budget = self.run_budget(active, &record, run_budget, &*model);
        // Whether it is used up is checked before the next request, as if it had not been parked.
        let BudgetCheck { notices, .. } = budget.check(&**store, point.usage).await?;
        for text in notices {
            outbox.push(EventKind::Notice { topic: "budget".to_owned(), text });
        }
        let transcript = store.transcript(&record.id, None).await?;
        let position = transcript.end();
        let messages = parked_runs::repair_before(transcript.messages, &point);
        let thinking = prompt.thinking.or_else(|| session_thinking(&record));
        let options = ReplyOptions { thinking, output_schema: prompt.output_schema };
        let config = self.turn_config(&record, &agent, &*model, dialect, &budget, options);
        let calls = match active.subagent.as_deref() {
            Some(subagent) => subagent.calls.clone(),
            None => {
                let made = parked_runs::count_made_calls(&point);
                let left = budget.calls_max().map(|most| most.saturating_sub(made));
                Arc::new(CallAllowance::new(left))
            }
        };
        let turn = Box::new(Turn::new(config, messages, TurnGoal::Resume(point)));
        let prepared = PreparedTurn {
            turn,
            agent,
            record,
            model,
            dialect,
            run_budget,
            budget,
            calls,
            position,
        };
        Ok(PreparedRun::Turn(Box::new(prepared)))
    }

    fn turn_config(
        &self,
        record: &SessionRecord,
        agent: &AgentProfile,
        model: &dyn ModelClient,
        dialect: DialectName,
        budget: &RunBudget,
        options: ReplyOptions,
    ) -> TurnConfig {
        let output_schema = options.output_schema.filter(|_| !is_direct(model));
        TurnConfig {
            dialect: (!is_direct(model)).then_some(dialect),
            call_seed: fastrand::u128(..),
            turns_max: agent.turns_max.unwrap_or(self.config.limits.turns_max),
            calls_max: budget.calls_max(),
            parallel_calls: ParallelCalls {
                reads_max: self.config.limits.parallel_calls_max,
                tasks_max: self.config.limits.subagents.parallel_max,
            },
            thinking: options.thinking.unwrap_or(agent.thinking),
            context_window: model.info().context_window,
            takes_images: model.info().takes_images,
            prices: model.info().prices,
            compact_at_percent: self.config.limits.compact_at_percent,
            repeats_before_asking: self.config.limits.repeats_before_asking,
            context_tokens: record.context_tokens,
            output_schema,
        }
    }

    /// The budgets of a run. Commands that the user runs without a model are not limited.
    fn run_budget(
        &self,
        active: &ActiveRun,
        session: &SessionRecord,
        run_budget: Budget,
        model: &dyn ModelClient,
    ) -> RunBudget {
        let (rules, own) = match is_direct(model) {
            true => Default::default(),
            false => (self.config.limits.budgets, run_budget),
        };
        let root = active.subagent.as_ref().map(|subagent| &subagent.parent.root);
        RunBudget::new(&rules, own, &active.run, session, day_start_ms(), root)
    }

    /// A prompt for a model, without the values of secrets that the tools know, and these tools. If it
    /// cannot ask them, no model gets the prompt.
    async fn mask_prompt(
        &self,
        state: &SessionState,
        agent: &AgentProfile,
        folder_access: &FolderAccess,
        mut text: String,
    ) -> Result<(String, ActiveBackend), ToolBackendError> {
        let now = self.backend_for(state, agent, folder_access).await?;
        now.backend.secret_mask().await.mask_string(&mut text);
        Ok((text, now))
    }

    /// Records the end of a run and notifies waiters. If the store fails, it retries until the store
    /// works again or the process ends; in that case, the next start ends the run. Meanwhile it tells those who
    /// follow the run. It gives up if the store is damaged, which does not pass.
    pub(super) async fn finish_run(
        self: &Arc<Self>,
        state: &SessionState,
        active: &ActiveRun,
        completion: RunCompletion,
        mut outbox: LedgerOutbox,
    ) {
        let RunCompletion { end, mut usage, mut unsaved } = completion;
        usage.failed_runs = u64::from(end.is_failure());
        self.approvals.withdraw(&active.address()).await;
        self.questions.withdraw(&active.address()).await;
        // Its error is kept.
        let _ = outbox.wait_for_write().await;
        if self.is_store_lost(active, &outbox)
            && let Err(error) = self.wait_for_store(state, active, &mut outbox).await
        {
            return self.give_up(active, &error);
        }
        // What an attempt of the run to write something has done is not known.
        let is_passing = outbox.failure().is_some_and(StoreError::is_passing);
        let mut is_uncertain =
            is_passing || !unsaved.is_empty() || state.recorder.has_uncertain_writes(&active.run);
        let mut last = outbox.close("the run ended before this call did").await;
        // Those that were to go on and did not.
        let subagents = match active.subagent {
            None => state.asker.parked_subagents(),
            Some(_) => Vec::new(),
        };
        let unused = state.asker.take_unused_questions(&active.run).into_iter();
        last.extend(
            unused.map(|question| new_event(Some(&active.run), question.withdrawal_event())),
        );
        last.push(new_event(Some(&active.run), EventKind::RunEnded { end: end.clone(), usage }));
        active.mark_over();
        self.end_parked_subagents(&subagents).await;
        let mut delays = FINISH_RETRY_DELAYS.into_iter();
        let mut unrecorded = None;
        let mut attempts = 0_usize;
        loop {
            let (session, run) = (&active.session, &active.run);
            let recorded = async {
                if is_uncertain {
                    let node = self.config.nodes.local_name();
                    state.recorder.renew_claim(run, node).await?;
                }
                self.save_rest(state, run, &mut unsaved).await?;
                let last = last.clone();
                state.recorder.end_run(run.clone(), end.clone(), usage, last).await
            };
            let Err(error) = recorded.await else { break };
            is_uncertain |= error.is_passing();
            tracing::error!(%session, %run, %error, "the end of a run could not be recorded");
            if matches!(error, StoreError::NoSession(_) | StoreError::ClaimLost(_)) {
                let is_fenced = matches!(error, StoreError::ClaimLost(_));
                self.counted.fenced.fetch_add(u64::from(is_fenced), Ordering::Relaxed);
                break;
            }
            unrecorded.get_or_insert_with(|| CounterGuard::new(&self.counted.unrecorded));
            attempts += 1;
            if attempts >= QUIET_ATTEMPTS_MAX {
                let is_abandoned = matches!(error, StoreError::Damaged { .. });
                self.unrecorded_ends.report(UnrecordedEnd {
                    session: session.clone(),
                    run: run.clone(),
                    message: unrecorded_message(&error, is_abandoned),
                    is_abandoned,
                });
                if is_abandoned {
                    break;
                }
            }
            sleep(delays.next().unwrap_or(FINISH_RETRY_DELAY_MAX)).await;
        }
        let add = |counter: &AtomicU64, more: u64| counter.fetch_add(more, Ordering::Relaxed);
        add(&self.counted.ended, 1);
        add(&self.counted.failed, u64::from(matches!(end, RunOutcome::Failed { .. })));
        add(&self.counted.input_tokens, usage.input_tokens);
        add(&self.counted.output_tokens, usage.output_tokens);
        self.lock_active_runs().remove(&active.address());
        active.done.cancel();
    }

    /// Completes the transcript of a run whose store failed. A damaged one keeps no run from ending.
    async fn save_rest(
        &self,
        state: &SessionState,
        run: &RunId,
        unsaved: &mut UnsavedRest,
    ) -> Result<(), StoreError> {
        let (store, session) = (&*self.config.store, state.recorder.session());
        match unsaved.save(store, session, state.recorder.run_claim(run)).await {
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::error!(%session, %error, "the end of a run is missing in its transcript");
                Ok(())
            }
            saved => saved,
        }
    }
}

fn unrecorded_message(error: &StoreError, is_abandoned: bool) -> String {
    match is_abandoned {
        true => format!("the run has ended, and its end cannot be recorded: {error}"),
        false => format!(
            "the run has ended, and its end could not be recorded yet; zero tries until it can: {error}"
        ),
    }
}

/// Adds the outcome of a run to its span; a failure only with its kind.
fn record_end(span: &Span, RunCompletion { end, usage, .. }: &RunCompletion) {
    let outcome = match end {
        RunOutcome::Completed => "completed",
        RunOutcome::MaxTurns { .. } => "max_turns",
        RunOutcome::MaxTokens => "max_tokens",
        RunOutcome::Budget { .. } => "budget",
        RunOutcome::Refused { .. } => "refused",
        RunOutcome::Aborted { .. } => "aborted",
        RunOutcome::Failed { .. } => "failed",
        RunOutcome::Interrupted => "interrupted",
    };
    span.record("outcome", outcome);
    if let RunOutcome::Failed { kind, .. } = end {
        span.record("error_kind", &**kind);
    }
    span.record("input_tokens", usage.input_tokens).record("output_tokens", usage.output_tokens);
}

/// Result of the preparation.
enum PreparedRun {
    /// There is work for the model.
    Turn(Box<PreparedTurn>),
    /// The run has already ended.
    Ended(RunOutcome),
}

/// How the answer to a prompt is to be.
struct ReplyOptions {
    /// `None` for that of the agent.
    thinking: Option<ThinkingEffort>,
    output_schema: Option<OutputSchema>,
}

/// What a turn is run with.
struct PreparedTurn {
    turn: Box<Turn>,
    agent: AgentProfile,
    record: SessionRecord,
    model: Arc<dyn ModelClient>,
    dialect: DialectName,
    /// The budget of the user's prompt.
    run_budget: Budget,
    budget: RunBudget,
    calls: Arc<CallAllowance>,
    /// Where the messages of the run begin.
    position: TranscriptPosition,
}

/// Counts a run while it is in some state.
struct CounterGuard<'a>(&'a AtomicU64);

impl<'a> CounterGuard<'a> {
    fn new(counter: &'a AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for CounterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Midnight of today here, in milliseconds since the Unix epoch.
pub(super) fn day_start_ms() -> i64 {
    let now = jiff::Zoned::now();
    now.start_of_day().unwrap_or(now).timestamp().as_millisecond()
}

fn unknown_price_notice(model: &str) -> String {
    format!(
        "the price of `{model}` is not known; for the budget its tokens cost as much as those of the most expensive model that zero knows, until `models` in the settings names its prices"
    )
}

fn internal_error() -> RunOutcome {
    let message = "internal error, see zero's log; send the prompt again";
    RunOutcome::Failed { kind: "internal".to_owned(), message: message.to_owned() }
}

pub(super) fn run_end_from_error(error: &SessionError) -> RunOutcome {
    let kind = match error {
        SessionError::Model(error) => error.kind.as_str(),
        SessionError::Store(_) => "store",
        SessionError::ToolBackend(_) => "tool_host",
        SessionError::Full(_) => "session_full",
        SessionError::NoAgent { .. } | SessionError::Invalid(_) => "invalid_request",
        _ => "internal",
    };
    RunOutcome::Failed { kind: kind.to_owned(), message: error.to_string() }
}

fn session_thinking(record: &SessionRecord) -> Option<ThinkingEffort> {
    let word = record.thinking.as_deref()?;
    ThinkingEffort::ALL.into_iter().find(|thinking| thinking.as_str() == word)
}

/// The tool dialect of an agent: its own, or the one of the model's family.
pub(super) fn choose_dialect(agent: &AgentProfile, model: Option<&ModelInfo>) -> DialectName {
    let of_model = || model.map(|model| dialect_for(&model.family));
    agent.dialect.or_else(of_model).unwrap_or(DialectName::Canonical)
}
