//! Runs that wait for the user in the store, and how they continue.
//!
//! A run is parked when its process ends, is killed, or drops it because nothing but an answer can
//! let it go on. The process that gets the answer claims the session, records the answer and
//! continues the run: calls that had ended keep their results, calls that had not begun are planned
//! and judged again, and calls that may have run in part are not repeated. The answer counts if
//! exactly the same is asked again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use zero_core::event::ApprovalSubject;
use zero_core::{CallId, ErrorReason, RunId, SessionId, ToolError, ToolOutcome};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::FolderAccess;

use crate::approvals::{EarlierQuestion, ParkedAnswer};
use crate::event::{Event, EventKind, RunOutcome};
use crate::key::SessionAddress;
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput};
use crate::model::ThinkingEffort;
use crate::open_question::{OpenQuestion, QuestionContent, QuestionScope};
use crate::output_schema::OutputSchema;
use crate::sessions::interrupted_runs::INTERRUPTED;
use crate::sessions::ledger_recorder::new_event;
use crate::sessions::run_events::read_run_events;
use crate::sessions::session_state::{ActiveRun, QueuedPrompt, ResumedRun, SessionState};
use crate::sessions::subagent_run::SubagentRun;
use crate::sessions::subagents::STOPPED_BY;
use crate::sessions::{Prompt, SessionError, SessionManagerInner};
use crate::store::{ClaimEpoch, RunAddress, RunRecord, SessionRecord, StoreError};
use crate::turn::{ResumePoint, ResumedCall, ResumedWait, transcript_repair};

/// Most sub-agents that are looked at above one.
const DEPTH_MAX: usize = 64;

/// The unfinished runs of a session that was claimed.
struct ClaimedRuns {
    claim: ClaimEpoch,
    /// The one that continues with an answer.
    parked: Option<(RunRecord, Arc<ActiveRun>, ResumedRun)>,
    /// Those behind it that a dead process left, if they can be continued.
    others: Vec<RunRecord>,
}

impl SessionManagerInner {
    /// Whether a run of this process has its answer already.
    pub(super) fn is_being_answered(&self, run: &RunAddress) -> bool {
        self.lock_active_runs().contains_key(run)
    }

    /// Answers a question that no run in memory waits for. Returns false if the question is no
    /// longer open.
    pub(super) async fn answer_parked(
        self: &Arc<Self>,
        id: &str,
        answer: ParkedAnswer,
        folder_access: &FolderAccess,
    ) -> Result<bool, SessionError> {
        let Some(question) = self.config.store.open_question(id).await? else { return Ok(false) };
        let state = self.session_state(&question.session);
        let answered = async {
            let _order = state.sending.lock().await;
            if self.resolve_in_memory(id, &answer) {
                return Ok(true);
            }
            if self.is_being_answered(&question.run_address()) {
                return self.answer_resumed(&state, &question, id, &answer).await;
            }
            let ClaimedRuns { claim, parked, others } =
                self.claim_parked_run(&state, Some(&question.run), folder_access).await?;
            let Some((run, active, mut resumed)) = parked else {
                self.continue_runs(&state, claim, others).await?;
                return Ok(false);
            };
            if !resumed.earlier.iter_mut().any(|question| question.answer(id, &answer)) {
                // Another process was faster.
                self.release_parked_run(&state, &active).await;
                return Ok(false);
            }
            let recorded = new_event(Some(&run.id), answer.to_event(id));
            if let Err(error) = state.recorder.write_durable(vec![recorded]).await {
                self.release_parked_run(&state, &active).await;
                return Err(error.into());
            }
            self.enqueue_resumed(&state, &run, active, resumed, folder_access);
            self.continue_runs(&state, claim, others).await?;
            Ok(true)
        };
        let answered = answered.await;
        self.evict_state(&state);
        answered
    }

    fn resolve_in_memory(&self, id: &str, answer: &ParkedAnswer) -> bool {
        match answer {
            ParkedAnswer::Approval { answer, by } => self.approvals.resolve(id, *answer, by),
            ParkedAnswer::Form(answer) => self.questions.resolve(id, answer.clone()),
        }
    }

    /// Answers a question of a run that continues and has not asked it again yet.
    async fn answer_resumed(
        &self,
        state: &SessionState,
        question: &OpenQuestion,
        id: &str,
        answer: &ParkedAnswer,
    ) -> Result<bool, SessionError> {
        if !state.asker.answer_earlier(id, answer) {
            return Ok(false);
        }
        let recorded = new_event(Some(&question.run), answer.to_event(id));
        state.recorder.write_durable(vec![recorded]).await?;
        Ok(true)
    }

    /// Claims a session whose process has died, and continues the run that is parked in it.
    pub(super) async fn resume_parked_run(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        folder_access: &FolderAccess,
    ) -> Result<(), SessionError> {
        let ClaimedRuns { claim, parked, others } =
            self.claim_parked_run(state, None, folder_access).await?;
        if let Some((run, active, resumed)) = parked {
            self.enqueue_resumed(state, &run, active, resumed, folder_access);
        }
        self.continue_runs(state, claim, others).await
    }

    /// Claims a session and takes the run that is parked in it, if there is one. Ends the other runs
    /// that a dead process left there, unless the caller can continue them. The caller holds the lock of the session's prompts.
    async fn claim_parked_run(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        run_id: Option<&RunId>,
        folder_access: &FolderAccess,
    ) -> Result<ClaimedRuns, SessionError> {
        let (store, recorder) = (&self.config.store, &state.recorder);
        let session = recorder.session();
        let record = store.session_by_id(session).await?;
        let record = record.ok_or_else(|| StoreError::NoSession(session.to_string()))?;
        if run_id.is_some() {
            self.check_home(&record).await?;
            self.check_folder_access(&record, folder_access)?;
        }
        let claim = self.take_claim(recorder).await?;
        // Read after the claim: from here on, only this process writes to these runs.
        let open = store.open_questions(QuestionScope::Session(session)).await?;
        let node = self.config.nodes.local_name();
        let (mut parked, mut others) = (None, Vec::new());
        for run in store.unfinished_runs(Some(session)).await? {
            if run.node == node || self.is_being_answered(&run.address()) {
                continue;
            }
            let mut earlier = open.iter().filter(|question| question.run == run.id).cloned();
            let point = match (run.has_open_question, &parked) {
                (true, None) => {
                    let open: Vec<_> = earlier.clone().map(|it| it.content).collect();
                    self.read_resume_point(&run, &open).await?
                }
                _ => None,
            };
            match point {
                Some(point) => {
                    let earlier = earlier.by_ref().map(|it| EarlierQuestion::new(it.content));
                    let resumed = ResumedRun { point, earlier: earlier.collect() };
                    parked = Some((run, resumed));
                }
                None if self.config.nodes.cluster().is_some() => others.push(run),
                None => {
                    let end = RunOutcome::Interrupted;
                    self.finish_interrupted_run(recorder, claim, &run, end).await?;
                }
            }
        }
        let nothing = |others| ClaimedRuns { claim, parked: None, others };
        let Some((run, resumed)) = parked else { return Ok(nothing(others)) };
        let Some(active) = self.register_run(&run.id, &record, None)? else {
            return Ok(nothing(others));
        };
        if let Err(error) = recorder.adopt_run(&run.id, node).await {
            self.unregister_run(&active);
            return Err(error.into());
        }
        Ok(ClaimedRuns { claim, parked: Some((run, active, resumed)), others })
    }

    /// Continues the run of a sub-agent that was parked with the run of its parent, given what it asked.
    /// Returns nothing if it cannot be continued; then it has ended.
    pub(super) async fn continue_subagent(
        self: &Arc<Self>,
        record: &SessionRecord,
        subagent: Arc<SubagentRun>,
        asked: &[QuestionContent],
        folder_access: &FolderAccess,
    ) -> Result<Option<Arc<ActiveRun>>, SessionError> {
        let (store, state) = (&self.config.store, self.session_state(&record.id));
        let _order = state.sending.lock().await;
        let claim = self.take_claim(&state.recorder).await?;
        let mut parked = None;
        for run in store.unfinished_runs(Some(&record.id)).await? {
            if self.is_being_answered(&run.address()) {
                continue;
            }
            let point = match parked {
                None => self.read_resume_point(&run, asked).await?,
                Some(_) => None,
            };
            match point {
                Some(point) => parked = Some((run, point)),
                None => {
                    let end = RunOutcome::Interrupted;
                    self.finish_interrupted_run(&state.recorder, claim, &run, end).await?;
                }
            }
        }
        let Some((run, point)) = parked else { return Ok(None) };
        subagent.calls.take_many(count_made_calls(&point));
        let Some(active) = self.register_run(&run.id, record, Some(subagent))? else {
            return Ok(None);
        };
        if let Err(error) = state.recorder.adopt_run(&run.id, self.config.nodes.local_name()).await
        {
            self.unregister_run(&active);
            return Err(error.into());
        }
        let resumed = ResumedRun { point, earlier: Vec::new() };
        self.enqueue_resumed(&state, &run, Arc::clone(&active), resumed, folder_access);
        Ok(Some(active))
    }

    /// The open question for which a sub-agent waits that works in this session, or one above it.
    pub(super) async fn question_of_subagent(
        &self,
        session: &SessionId,
    ) -> Result<Option<OpenQuestion>, SessionError> {
        let store = &self.config.store;
        let mut top = session.clone();
        for _ in 0..DEPTH_MAX {
            let record = store.session_by_id(&top).await?;
            match record.and_then(|record| record.parent) {
                Some(parent) => top = parent,
                None => break,
            }
        }
        if top == *session {
            return Ok(None);
        }
        let open = store.open_questions(QuestionScope::Session(&top)).await?;
        Ok(open.into_iter().find(|question| {
            question.content.origin().is_some_and(|origin| origin.passes(session.as_str()))
        }))
    }

    /// Ends the parked runs of sub-agents, given their sessions. Those at work end with their parent.
    pub(super) fn end_parked_subagents<'a>(
        self: &'a Arc<Self>,
        sessions: &'a [String],
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            for session in sessions {
                let Ok(session) = SessionId::new(session.clone()) else { continue };
                if let Err(error) = self.end_parked_subagent(&session).await {
                    tracing::warn!(%session, %error, "the run of a parked sub-agent could not be ended");
                }
            }
        })
    }

    async fn end_parked_subagent(
        self: &Arc<Self>,
        session: &SessionId,
    ) -> Result<(), SessionError> {
        let unfinished = self.config.store.unfinished_runs(Some(session)).await?;
        if unfinished.is_empty() || !self.active_runs_in(session).is_empty() {
            return Ok(());
        }
        let state = self.session_state(session);
        let ended = async {
            let _order = state.sending.lock().await;
            let claim = self.take_claim(&state.recorder).await?;
            for run in unfinished {
                let is_open = self.config.store.run(&run.address()).await?;
                if is_open.is_some_and(|run| run.end.is_none())
                    && !self.is_being_answered(&run.address())
                {
                    let end = RunOutcome::Aborted { by: STOPPED_BY.to_owned() };
                    self.finish_interrupted_run(&state.recorder, claim, &run, end).await?;
                }
            }
            Ok(())
        };
        let ended = ended.await;
        self.evict_state(&state);
        ended
    }

    fn enqueue_resumed(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        run: &RunRecord,
        active: Arc<ActiveRun>,
        resumed: ResumedRun,
        folder_access: &FolderAccess,
    ) {
        let options = &run.options;
        let thinking = options.thinking.as_deref();
        let prompt = Prompt {
            thinking: ThinkingEffort::ALL.into_iter().find(|it| Some(it.as_str()) == thinking),
            timeout: options.timeout_ms.map(std::time::Duration::from_millis),
            budget: options.budget,
            // It was usable when the run began.
            output_schema: options.output_schema.clone().and_then(|it| OutputSchema::new(it).ok()),
            folder_access: folder_access.clone(),
            ..Prompt::default()
        };
        let job = QueuedPrompt { prompt, active, resumed: Some(resumed) };
        let presence = state.enqueue_first(job);
        self.ensure_worker(state, presence);
    }

    /// Where a parked run continues; `None` if the store does not have what is needed.
    async fn read_resume_point(
        &self,
        run: &RunRecord,
        open: &[QuestionContent],
    ) -> Result<Option<ResumePoint>, SessionError> {
        let store = &self.config.store;
        let events = match read_run_events(&**store, &run.session, &run.id).await {
            Err(StoreError::Damaged { .. }) => return Ok(None),
            events => events?,
        };
        match store.transcript(&run.session, None).await {
            Err(StoreError::Damaged { .. }) => Ok(None),
            transcript => Ok(find_resume_point(&events, &transcript?.messages, open)),
        }
    }

    /// Ends the parked runs of a session: the one with the id, or all. Returns those that ended.
    pub(super) async fn end_parked_runs(
        self: &Arc<Self>,
        session: &SessionId,
        run_id: Option<&RunId>,
        end: RunOutcome,
    ) -> Result<Vec<RunId>, SessionError> {
        let store = &self.config.store;
        let mut parked = store.unfinished_runs(Some(session)).await?;
        parked.retain(|run| {
            run.has_open_question
                && run_id.is_none_or(|requested_run| *requested_run == run.id)
                && !self.is_being_answered(&run.address())
        });
        let mut dead = Vec::new();
        for run in parked {
            if !self.config.nodes.is_alive(&run.node).await {
                dead.push(run);
            }
        }
        let parked = dead;
        if parked.is_empty() {
            return Ok(Vec::new());
        }
        let state = self.session_state(session);
        let ended = async {
            let _order = state.sending.lock().await;
            let claim = self.take_claim(&state.recorder).await?;
            let mut ended = Vec::new();
            for run in parked {
                let is_open = store.run(&run.address()).await?.is_some_and(|run| run.end.is_none());
                if is_open && !self.is_being_answered(&run.address()) {
                    let end = end.clone();
                    self.finish_interrupted_run(&state.recorder, claim, &run, end).await?;
                    ended.push(run.id);
                }
            }
            Ok(ended)
        };
        let ended = ended.await;
        self.evict_state(&state);
        ended
    }

    /// Ends a parked run that was to continue and did not get its turn.
    pub(super) async fn end_unstarted_resumption(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        active: &ActiveRun,
        end: RunOutcome,
    ) {
        let (store, recorder) = (&self.config.store, &state.recorder);
        let ended = async {
            if let Some(run) = store.run(&active.address()).await?.filter(|run| run.end.is_none()) {
                let claim = recorder.run_claim(&active.run);
                self.finish_interrupted_run(recorder, claim, &run, end).await?;
            }
            Ok::<_, SessionError>(())
        };
        if let Err(error) = ended.await {
            tracing::error!(run = %active.run, %error, "the end of a run could not be recorded");
        }
        self.unregister_run(active);
    }

    /// Fails if a run is parked in a session: it needs the tools that it began with.
    pub(super) async fn check_not_parked(
        &self,
        address: &SessionAddress,
    ) -> Result<(), SessionError> {
        let record = self.require_session(address).await?;
        let open = self.config.store.open_questions(QuestionScope::Session(&record.id)).await?;
        let of_subagent = self.question_of_subagent(&record.id).await?;
        let mut open = open.iter().chain(&of_subagent);
        match open.find(|question| !self.is_being_answered(&question.run_address())) {
            Some(question) => Err(SessionError::Busy(format!(
                "a run of this session waits for an answer; answer it with `zero questions answer {} ANSWER`, or reset the session",
                question.content.id()
            ))),
            None => Ok(()),
        }
    }
}

/// A call of the ledger of a parked run.
#[derive(Default)]
struct UnfinishedCall {
    id: String,
    /// Whether it was announced as waiting for others and has not begun.
    waits: bool,
    /// Whether the user allowed it, so that it may have run.
    is_approved: bool,
    outcome: Option<ToolOutcome>,
}

/// Where a parked run continues, given its events, the transcript of its session and its open
/// questions. `None` if they do not fit together.
fn find_resume_point(
    events: &[Event],
    messages: &[ModelMessage],
    open: &[QuestionContent],
) -> Option<ResumePoint> {
    let usage = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::UsageReported { run_usage, .. } => Some(*run_usage),
        _ => None,
    });
    let usage = usage.unwrap_or_default();
    let last = messages.last()?;
    let waits = match last.role {
        MessageRole::User => ResumedWait::Guard(guard_reason(open)?),
        MessageRole::Assistant => ResumedWait::Calls(resumed_calls(events, last, open)?),
    };
    // Requests that were tried again count too, which only makes the limit stricter.
    let turns = u32::try_from(usage.requests).unwrap_or(u32::MAX);
    Some(ResumePoint { waits, usage, turns, model: find_fallback(events) })
}

/// The model that a run with these events fell back to last.
pub(super) fn find_fallback(events: &[Event]) -> Option<String> {
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::ModelFallback { to, .. } => Some(to.clone()),
        _ => None,
    })
}

/// Why the user is asked whether the run may continue.
fn guard_reason(open: &[QuestionContent]) -> Option<String> {
    open.iter().find_map(|question| match question {
        QuestionContent::Approval(request) if request.call.is_empty() => {
            Some(request.reason.clone())
        }
        _ => None,
    })
}

fn resumed_calls(
    events: &[Event],
    reply: &ModelMessage,
    open: &[QuestionContent],
) -> Option<Vec<ResumedCall>> {
    let mut known = read_calls(events);
    // A call that started a sub-agent is made again, and continues it.
    let requested_ids: HashSet<&str> =
        open.iter().filter_map(QuestionContent::waiting_call).collect();
    let has_form = open.iter().any(|question| question.waiting_call().is_none());
    let mut calls = Vec::new();
    for block in &reply.blocks {
        let MessageBlock::ToolUse { id, name, input, .. } = block else { continue };
        let call = known.remove(id.as_str())?;
        calls.push((call, id, name, input));
    }
    // The tool that asks for the agent runs alone and changes nothing.
    let begun = |call: &UnfinishedCall| call.outcome.is_none() && !call.waits;
    let asks_alone = has_form && calls.iter().filter(|(call, ..)| begun(call)).count() == 1;
    let resume = |(call, id, name, input): (UnfinishedCall, &String, &String, &ToolInput)| {
        let is_asked = requested_ids.contains(call.id.as_str()) && !call.is_approved;
        let is_repeated = call.waits || is_asked || asks_alone;
        let is_end_recorded = call.outcome.is_some();
        let interrupted = || ToolError::failed(ErrorReason::Interrupted, INTERRUPTED).into();
        let outcome = call.outcome.or_else(|| (!is_repeated).then(interrupted));
        Some(ResumedCall {
            id: CallId::new(call.id).ok()?,
            transcript_id: id.clone(),
            name: name.clone(),
            input: input.clone(),
            outcome,
            is_end_recorded,
            waits_for_others: call.waits,
        })
    };
    let calls: Vec<ResumedCall> = calls.into_iter().map(resume).collect::<Option<_>>()?;
    (!calls.is_empty()).then_some(calls)
}

/// The calls of the current transcript, by their ids in it.
fn read_calls(events: &[Event]) -> HashMap<&str, UnfinishedCall> {
    let mut calls: HashMap<&str, UnfinishedCall> = HashMap::new();
    let mut requests: HashMap<&str, &str> = HashMap::new();
    for event in events {
        let find = |calls: &mut HashMap<&str, UnfinishedCall>,
                    id: &str,
                    change: &dyn Fn(&mut UnfinishedCall)| {
            calls.values_mut().filter(|call| call.id == id).for_each(change);
        };
        match &event.kind {
            // Ids are unique in one transcript only, and a summary begins a new one.
            EventKind::Compacted { .. } => calls.clear(),
            EventKind::ToolStarted { call, waits, transcript_id: Some(id), .. } => {
                let begun =
                    UnfinishedCall { id: call.clone(), waits: *waits, ..UnfinishedCall::default() };
                calls.insert(id, begun);
            }
            EventKind::ToolUpdated { call, begins: true, .. } => {
                find(&mut calls, call, &|call| call.waits = false);
            }
            EventKind::ToolEnded { call, outcome, .. } => {
                find(&mut calls, call, &|call| call.outcome = Some(outcome.clone()));
            }
            EventKind::ApprovalRequested(request) if request.subject == ApprovalSubject::Call => {
                requests.insert(&request.id, &request.call);
                // It is asked again because something has changed, and has not begun.
                find(&mut calls, &request.call, &|call| call.is_approved = false);
            }
            EventKind::ApprovalResolved { id, answer, .. } if answer.starts_with("allow") => {
                if let Some(call) = requests.get(id.as_str()) {
                    find(&mut calls, call, &|call| call.is_approved = true);
                }
            }
            _ => {}
        }
    }
    calls
}

/// The calls that had not ended, by their ids in the ledger.
pub(super) fn open_calls(point: &ResumePoint) -> Vec<String> {
    let ResumedWait::Calls(calls) = &point.waits else { return Vec::new() };
    let open = calls.iter().filter(|call| !call.is_end_recorded);
    open.map(|call| call.id.as_str().to_owned()).collect()
}

/// How many calls the run has made. Those that are made again do not count yet.
pub(super) fn count_made_calls(point: &ResumePoint) -> u64 {
    let left = match &point.waits {
        ResumedWait::Calls(calls) => calls.iter().filter(|call| call.outcome.is_none()).count(),
        ResumedWait::Guard(_) | ResumedWait::Model => 0,
    };
    point.usage.tool_calls.saturating_sub(left as u64)
}

/// Whether the user made the call, without a model.
pub(super) fn is_direct_call(point: &ResumePoint) -> bool {
    let ResumedWait::Calls(calls) = &point.waits else { return false };
    calls.iter().all(|call| call.transcript_id.starts_with("direct-"))
}

/// A valid transcript, in which the last calls have no results yet if they are still made.
pub(super) fn repair_before(
    mut messages: Vec<ModelMessage>,
    point: &ResumePoint,
) -> Vec<ModelMessage> {
    let last = match &point.waits {
        ResumedWait::Calls(_) => messages.pop(),
        ResumedWait::Guard(_) | ResumedWait::Model => None,
    };
    let mut repaired = transcript_repair::repair(messages);
    repaired.extend(last);
    repaired
}
