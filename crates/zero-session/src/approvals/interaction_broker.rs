//! Asks the user on behalf of one session: approvals of its calls, and questions of its tools.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zero_core::event::QuestionOrigin;
use zero_core::{RiskLevel, RunId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallApprover, approval_request, new_question_id, question_expiry_ms,
};
use zero_runtime::{
    AGENT_ORIGIN, ApprovalAnswer, ApprovalQuestion, ApprovalReply, Elicitation, ElicitationAnswer,
    ElicitationMode, Elicitor, GrantRecord,
};

use super::{ApprovalQueue, QuestionAnswer, QuestionQueue, QuestionRecord, StoredGrants};
use crate::event::{ApprovalOption, ApprovalRequest, ApprovalSubject, EventKind, UserQuestion};
use crate::open_question::QuestionContent;
use crate::sessions::call_updates::CallUpdateBuffer;
use crate::sessions::ledger_recorder::{LedgerRecorder, new_event};
use crate::sessions::run_limiter::RunPermit;
use crate::sessions::work_clock::WorkClock;
use crate::store::{RunAddress, Store};

/// Asks the user on behalf of one session.
pub(crate) struct InteractionBroker {
    approvals: ApprovalQueue,
    questions: QuestionQueue,
    recorder: LedgerRecorder,
    /// The active run of the session, whose calls ask; a session has one at a time.
    run: Mutex<Option<RequestingRun>>,
    waits: Mutex<UserWaits>,
    /// Questions that the active run asked before it was parked.
    earlier: Mutex<Vec<EarlierQuestion>>,
    grants: Arc<StoredGrants>,
}

/// The run whose calls ask.
#[derive(Clone)]
pub(crate) struct RequestingRun {
    /// Id of the run, recorded with its questions.
    pub(crate) id: RunId,
    /// The run's permit, released while it waits for the user.
    pub(crate) permit: Arc<RunPermit>,
    /// The run's clock, which stands still while it waits for the user.
    pub(crate) clock: Arc<WorkClock>,
    /// Updates of its calls, which are recorded before a question about them.
    pub(crate) call_updates: Arc<CallUpdateBuffer>,
}

/// A question that a run asked before it was parked, and the answer that it got since.
#[expect(clippy::large_enum_variant, reason = "few at a time, each for a moment")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EarlierQuestion {
    /// Whether a call may run, or the run continue.
    Approval(Box<ApprovalRequest>, Option<ApprovalAnswer>),
    /// A form.
    Form(UserQuestion, Option<QuestionAnswer>),
}

impl EarlierQuestion {
    /// The question, without an answer.
    pub(crate) fn new(content: QuestionContent) -> Self {
        match content {
            QuestionContent::Approval(request) => Self::Approval(Box::new(request), None),
            QuestionContent::Form(question) => Self::Form(question, None),
        }
    }

    fn content(&self) -> QuestionContent {
        match self {
            Self::Approval(request, _) => QuestionContent::Approval((**request).clone()),
            Self::Form(question, _) => QuestionContent::Form(question.clone()),
        }
    }

    fn origin(&self) -> Option<&QuestionOrigin> {
        match self {
            Self::Approval(request, _) => request.subagent.as_deref(),
            Self::Form(question, _) => question.subagent.as_deref(),
        }
    }

    fn is_answered(&self) -> bool {
        match self {
            Self::Approval(_, answer) => answer.is_some(),
            Self::Form(_, answer) => answer.is_some(),
        }
    }

    /// Notes the answer, if this is the question and it has none.
    pub(crate) fn answer(&mut self, id: &str, parked_answer: &ParkedAnswer) -> bool {
        match (self, parked_answer) {
            (
                Self::Approval(request, answer @ None),
                ParkedAnswer::Approval { answer: given, .. },
            ) if request.id == id => {
                *answer = Some(*given);
                true
            }
            (Self::Form(question, answer @ None), ParkedAnswer::Form(given))
                if question.id == id =>
            {
                *answer = Some(given.clone());
                true
            }
            _ => false,
        }
    }
}

/// An answer to a question of a parked run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParkedAnswer {
    /// To an approval request, with the name of who answers.
    Approval { answer: ApprovalAnswer, by: String },
    /// To a form.
    Form(QuestionAnswer),
}

impl ParkedAnswer {
    /// The entry that records it.
    pub(crate) fn to_event(&self, id: &str) -> EventKind {
        let id = id.to_owned();
        match self {
            Self::Approval { answer, by } => {
                let (answer, by) = (answer.id().to_owned(), by.clone());
                EventKind::ApprovalResolved { id, answer, by }
            }
            Self::Form(answer) => {
                EventKind::QuestionAnswered { id, action: answer.action().to_owned() }
            }
        }
    }
}

/// What waits for the user, as far as a run can be parked meanwhile: questions of a run and of its
/// sub-agents.
#[derive(Default)]
struct UserWaits {
    /// The questions, by numbers of their own.
    questions: HashMap<u64, QuestionWait>,
    /// The runs of sub-agents, by their sessions.
    subagents: HashMap<String, SubagentWait>,
    next_number: u64,
    /// When the newest of them began to wait.
    since: Option<Instant>,
}

/// A question that waits.
struct QuestionWait {
    id: String,
    /// The session that asks: that of a sub-agent, or the own one.
    session: String,
    /// The call of that session that has not begun and waits for approval; empty if the question is whether the
    /// run may continue, `None` for a question of the agent itself.
    call: Option<String>,
}

/// The run of a sub-agent, as far as its parent can be parked meanwhile.
struct SubagentWait {
    /// The session that started it, and its call.
    parent: String,
    task: String,
    /// The calls that it waits for, if it waits for nothing else.
    calls: Option<Vec<String>>,
    run: ParkableRun,
}

/// How a run is parked with the one that started it.
#[derive(Clone)]
pub(crate) struct ParkableRun {
    /// Cancelled when it has to park.
    pub(crate) park: CancellationToken,
    /// Cancelled when it has parked, or ended.
    pub(crate) done: CancellationToken,
}

impl UserWaits {
    /// Whether nothing but the user can let these calls of a session go on. A run without calls waits for the
    /// user's leave to continue.
    fn is_waiting(&self, session: &str, calls: &[String]) -> bool {
        let mut asked = self.questions.values().filter(|question| question.session == session);
        if calls.is_empty() {
            return asked.any(|question| question.call.as_deref() == Some(""));
        }
        // The tool that asks for the agent runs alone.
        if calls.len() == 1 && asked.clone().any(|question| question.call.is_none()) {
            return true;
        }
        calls.iter().all(|call| {
            asked.clone().any(|question| question.call.as_ref() == Some(call))
                || self.subagents.iter().any(|(child, wait)| {
                    let is_it = wait.parent == session && wait.task == *call;
                    is_it && wait.calls.as_ref().is_some_and(|calls| self.is_waiting(child, calls))
                })
        })
    }
}

impl InteractionBroker {
    pub(crate) fn new(
        approvals: ApprovalQueue,
        questions: QuestionQueue,
        recorder: LedgerRecorder,
        store: &Arc<dyn Store>,
    ) -> Self {
        let grants = StoredGrants::new(store, recorder.session().clone(), Vec::new());
        Self {
            approvals,
            questions,
            recorder,
            run: Mutex::new(None),
            waits: Mutex::default(),
            earlier: Mutex::default(),
            grants,
        }
    }

    /// Sets the grants that the tools of the session start with, as the store has them.
    pub(crate) async fn set_known_grants(&self, grants: Vec<GrantRecord>) {
        self.grants.set_known(grants).await;
    }

    /// Sets the run whose calls ask from now on, and what it asked before it was parked.
    pub(crate) fn set_run(&self, run: Option<RequestingRun>, earlier: Vec<EarlierQuestion>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
        *self.lock_earlier() = earlier;
    }

    fn current_run(&self) -> Option<RequestingRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Since when nothing but the user can let these calls go on; `None` if one of them works. A
    /// run without calls waits for the user's leave to continue.
    pub(crate) fn waiting_since(&self, calls: &[String]) -> Option<Instant> {
        let waits = self.lock_waits();
        waits.since.filter(|_| waits.is_waiting(self.recorder.session().as_str(), calls))
    }

    /// Forgets the questions of a run and of its sub-agents, which stay open in the store; false if one is
    /// being answered. Then none of them can go on.
    pub(crate) fn park(&self, run: &RunId) -> bool {
        let run = RunAddress::new(self.recorder.session(), run);
        let waiting = self.lock_waits().questions.values().map(|it| it.id.clone()).collect();
        self.approvals.park(&self.questions, &run, &waiting)
    }

    /// Notes that a call of a session has started a sub-agent, until the guard is dropped.
    pub(crate) fn add_subagent(
        self: &Arc<Self>,
        session: &SessionId,
        parent: &SessionId,
        task: &str,
        run: ParkableRun,
    ) -> SubagentWaitGuard {
        let (parent, task) = (parent.to_string(), task.to_owned());
        let wait = SubagentWait { parent, task, calls: None, run };
        self.lock_waits().subagents.insert(session.to_string(), wait);
        SubagentWaitGuard { broker: Arc::clone(self), session: session.to_string() }
    }

    /// Notes which calls the run of a sub-agent waits for, if it waits for nothing else.
    pub(crate) fn set_subagent_calls(&self, session: &SessionId, calls: Option<Vec<String>>) {
        let is_idle = calls.is_some();
        if let Some(wait) = self.lock_waits().subagents.get_mut(session.as_str()) {
            wait.calls = calls;
        }
        if let Some(run) = self.current_run().filter(|_| is_idle) {
            run.call_updates.wake();
        }
    }

    /// The runs of all sub-agents.
    pub(crate) fn subagent_runs(&self) -> Vec<ParkableRun> {
        self.lock_waits().subagents.values().map(|wait| wait.run.clone()).collect()
    }

    /// The session of the sub-agent that this call had started when its run was parked.
    pub(crate) fn parked_subagent(&self, task: &str) -> Option<String> {
        let earlier = self.lock_earlier();
        let mut steps =
            earlier.iter().filter_map(EarlierQuestion::origin).flat_map(|origin| &origin.path);
        steps.find(|step| step.task == task).map(|step| step.session.clone())
    }

    /// What a sub-agent and those below it asked before they were parked, as its own session would have it.
    pub(crate) fn earlier_questions_of(&self, session: &SessionId) -> Vec<QuestionContent> {
        let earlier = self.lock_earlier();
        let contents = earlier.iter().map(EarlierQuestion::content);
        contents.filter_map(|content| content.seen_from(session.as_str())).collect()
    }

    /// The sessions of all sub-agents that are parked and do not go on yet.
    pub(crate) fn parked_subagents(&self) -> Vec<String> {
        let earlier = self.lock_earlier();
        let origins = earlier.iter().filter_map(EarlierQuestion::origin);
        let sessions = origins.flat_map(|origin| &origin.path).map(|step| step.session.clone());
        sessions.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// Withdraws what a sub-agent and those below it asked before they were parked and do not ask any more.
    /// Returns their sessions.
    pub(crate) async fn withdraw_earlier_of(&self, session: &SessionId) -> Vec<String> {
        let is_its = |it: &mut EarlierQuestion| {
            it.origin().is_some_and(|origin| origin.passes(session.as_str()))
        };
        let unused: Vec<EarlierQuestion> = self.lock_earlier().extract_if(.., is_its).collect();
        let run = self.current_run();
        let mut sessions = BTreeSet::from([session.to_string()]);
        for question in unused {
            let path = question.origin().map(|origin| origin.path.as_slice()).unwrap_or_default();
            let below = path.iter().skip_while(|step| step.session != session.as_str());
            sessions.extend(below.map(|step| step.session.clone()));
            if !question.is_answered() {
                self.record_withdrawal(run.as_ref(), &question.content()).await;
            }
        }
        sessions.into_iter().collect()
    }

    /// Notes the answer to a question that was asked before the run was parked and not yet again.
    /// Returns false if there is none.
    pub(crate) fn answer_earlier(&self, id: &str, answer: &ParkedAnswer) -> bool {
        let mut earlier = self.lock_earlier();
        earlier.iter_mut().any(|question| question.answer(id, answer))
    }

    /// Asks a tool's question.
    pub(crate) async fn ask_question(&self, mut question: UserQuestion) -> QuestionAnswer {
        let run = self.synced_run().await;
        let id = run.as_ref().map(|run| run.id.clone());
        let record = match self.take_earlier_form(&question) {
            Some((_, Some(answer))) => return answer,
            Some((id, None)) => {
                question.id = id;
                QuestionRecord::Present
            }
            None => QuestionRecord::New,
        };
        let is_kept = question.origin == AGENT_ORIGIN || question.subagent.is_some();
        let _wait = is_kept.then(|| {
            let session = self.asking_session(question.subagent.as_deref());
            self.begin_wait(&run, QuestionWait { id: question.id.clone(), session, call: None })
        });
        let answer = self.questions.ask(self.recorder.clone(), id, question, record);
        wait_for_user(run, answer).await
    }

    /// Asks for approval. An answer to an earlier question counts if exactly the same question is
    /// asked again; a question that differs goes to the user.
    async fn ask_approval(
        &self,
        run: Option<RequestingRun>,
        mut request: ApprovalRequest,
    ) -> ApprovalAnswer {
        let mut record = QuestionRecord::New;
        let earlier = self.take_earlier_approval(&request.call, request.subagent.as_deref());
        if let Some((before, answer)) = earlier {
            let is_same = is_same_request(&before, &request);
            match answer {
                Some(answer) if is_same || !answer.is_allow() => return answer,
                Some(_) => {}
                None if is_same => {
                    request.id = before.id;
                    record = QuestionRecord::Present;
                }
                None => {
                    let before = QuestionContent::Approval(*before);
                    self.record_withdrawal(run.as_ref(), &before).await;
                }
            }
        }
        let id = run.as_ref().map(|run| run.id.clone());
        let origin = request.subagent.as_deref();
        let call = match (request.subject, origin) {
            (ApprovalSubject::Call, _) => Some(request.call.clone()),
            (ApprovalSubject::SubagentCall, Some(origin)) => Some(origin.call.clone()),
            (ApprovalSubject::SubagentCall, None) | (ApprovalSubject::Connection, _) => None,
        };
        let _wait = call.map(|call| {
            let (id, session) = (request.id.clone(), self.asking_session(origin));
            self.begin_wait(&run, QuestionWait { id, session, call: Some(call) })
        });
        let answer_future = self.approvals.ask(self.recorder.clone(), id, request, record);
        wait_for_user(run, answer_future).await
    }

    /// The session that asks.
    fn asking_session(&self, origin: Option<&QuestionOrigin>) -> String {
        origin.map_or(self.recorder.session().as_str(), QuestionOrigin::session).to_owned()
    }

    fn take_earlier_approval(
        &self,
        call: &str,
        origin: Option<&QuestionOrigin>,
    ) -> Option<(Box<ApprovalRequest>, Option<ApprovalAnswer>)> {
        let mut earlier = self.lock_earlier();
        let is_it = |it: &EarlierQuestion| matches!(it, EarlierQuestion::Approval(request, _) if request.call == call && request.subagent.as_deref() == origin);
        let at = earlier.iter().position(is_it)?;
        match earlier.remove(at) {
            EarlierQuestion::Approval(request, answer) => Some((request, answer)),
            EarlierQuestion::Form(..) => None,
        }
    }

    fn take_earlier_form(
        &self,
        question: &UserQuestion,
    ) -> Option<(String, Option<QuestionAnswer>)> {
        let mut earlier = self.lock_earlier();
        let is_same = |known: &UserQuestion| {
            UserQuestion { id: question.id.clone(), ..known.clone() } == *question
        };
        let is_it =
            |it: &EarlierQuestion| matches!(it, EarlierQuestion::Form(known, _) if is_same(known));
        let at = earlier.iter().position(is_it)?;
        match earlier.remove(at) {
            EarlierQuestion::Form(known, answer) => Some((known.id, answer)),
            EarlierQuestion::Approval(..) => None,
        }
    }

    /// Records that an earlier question is no longer asked.
    async fn record_withdrawal(&self, run: Option<&RequestingRun>, question: &QuestionContent) {
        let entry = new_event(run.map(|run| &run.id), question.withdrawal_event());
        if let Err(error) = self.recorder.write(vec![entry]).await {
            tracing::warn!(%error, "the withdrawal of a question could not be recorded");
        }
    }

    /// The questions that were asked before this run was parked and are not asked any more.
    pub(crate) fn take_unused_questions(&self, run: &RunId) -> Vec<QuestionContent> {
        if self.current_run().is_none_or(|current| current.id != *run) {
            return Vec::new();
        }
        let unused = std::mem::take(&mut *self.lock_earlier()).into_iter();
        unused
            .filter(|question| !question.is_answered())
            .map(|question| question.content())
            .collect()
    }

    /// Notes that a question waits, until the guard is dropped.
    fn begin_wait(
        &self,
        run: &Option<RequestingRun>,
        question: QuestionWait,
    ) -> QuestionWaitGuard<'_> {
        let mut waits = self.lock_waits();
        let number = waits.next_number;
        waits.next_number = number.wrapping_add(1);
        waits.questions.insert(number, question);
        waits.since = Some(Instant::now());
        drop(waits);
        if let Some(run) = run {
            run.call_updates.wake();
        }
        QuestionWaitGuard { broker: self, number }
    }

    /// The current run, once the updates of its calls are recorded.
    async fn synced_run(&self) -> Option<RequestingRun> {
        let run = self.current_run()?;
        run.call_updates.wait_until_recorded().await;
        Some(run)
    }

    fn lock_waits(&self) -> MutexGuard<'_, UserWaits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_earlier(&self) -> MutexGuard<'_, Vec<EarlierQuestion>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the same is asked about the same call.
fn is_same_request(before: &ApprovalRequest, now: &ApprovalRequest) -> bool {
    let before =
        ApprovalRequest { id: now.id.clone(), expires_ms: now.expires_ms, ..before.clone() };
    before == *now
}

/// Something that waits for the user until this is dropped.
struct QuestionWaitGuard<'a> {
    broker: &'a InteractionBroker,
    number: u64,
}

impl Drop for QuestionWaitGuard<'_> {
    fn drop(&mut self) {
        self.broker.lock_waits().questions.remove(&self.number);
    }
}

/// The run of a sub-agent, until this is dropped.
pub(crate) struct SubagentWaitGuard {
    broker: Arc<InteractionBroker>,
    session: String,
}

impl Drop for SubagentWaitGuard {
    fn drop(&mut self) {
        self.broker.lock_waits().subagents.remove(&self.session);
    }
}

impl InteractionBroker {
    /// Asks whether a run that repeats itself may continue. It has the form of an approval request,
    /// so that every client can show it.
    /// For a sub-agent, with its name.
    pub(crate) async fn ask_to_continue(
        &self,
        why: String,
        subagent: Option<(&str, QuestionOrigin)>,
    ) -> ApprovalAnswer {
        let title = "Let the agent continue";
        let (title, origin) = match subagent {
            Some((name, origin)) => (format!("sub-agent `{name}`: {title}"), Some(origin)),
            None => (title.to_owned(), None),
        };
        let option = |answer: ApprovalAnswer, name: &str| ApprovalOption {
            id: answer.id().to_owned(),
            name: name.to_owned(),
        };
        let task = origin.as_ref().and_then(|origin| origin.path.first());
        let request = ApprovalRequest {
            subject: match origin {
                Some(_) => ApprovalSubject::SubagentCall,
                None => ApprovalSubject::Call,
            },
            id: new_question_id(),
            call: task.map(|step| step.task.clone()).unwrap_or_default(),
            tool: "zero".to_owned(),
            title,
            reason: why,
            risk: RiskLevel::Low.as_str().to_owned(),
            commands: Vec::new(),
            effects: Vec::new(),
            preview: None,
            input: None,
            options: vec![
                option(ApprovalAnswer::AllowOnce, "Continue"),
                option(ApprovalAnswer::RejectOnce, "Stop it"),
            ],
            cwd: String::new(),
            expires_ms: question_expiry_ms(),
            subagent: origin.map(Box::new),
        };
        // The loop itself has already recorded its updates; waiting for them here would deadlock.
        self.ask_approval(self.current_run(), request).await
    }
}

impl CallApprover for InteractionBroker {
    fn ask<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let run = self.synced_run().await;
            self.ask_approval(run, approval_request(call, question)).await
        })
    }

    fn ask_for_subagent<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
        origin: QuestionOrigin,
    ) -> BoxFuture<'a, ApprovalReply> {
        Box::pin(async move {
            let run = self.synced_run().await;
            let request = ApprovalRequest {
                subagent: Some(Box::new(origin)),
                ..approval_request(call, question)
            };
            self.ask_approval(run, request).await.into()
        })
    }

    fn store_grants(&self, grants: Vec<GrantRecord>) {
        self.grants.replace(grants);
    }

    fn take_revoked_grants(&self) -> BoxFuture<'_, Vec<GrantRecord>> {
        Box::pin(self.grants.take_revoked())
    }
}

impl InteractionBroker {
    async fn ask_form(
        &self,
        elicitation: &Elicitation,
        origin: Option<QuestionOrigin>,
    ) -> ElicitationAnswer {
        let (schema, url) = match &elicitation.mode {
            ElicitationMode::Form(schema) => (Some(schema.clone()), None),
            ElicitationMode::Url(url) => (None, Some(url.clone())),
        };
        let question = UserQuestion {
            id: new_question_id(),
            origin: elicitation.origin.clone(),
            message: elicitation.message.clone(),
            schema,
            url,
            subagent: origin.map(Box::new),
        };
        match self.ask_question(question).await {
            QuestionAnswer::Accept(values) => ElicitationAnswer::Accept(values),
            QuestionAnswer::Decline => ElicitationAnswer::Decline,
            QuestionAnswer::Cancel => ElicitationAnswer::Cancel,
        }
    }
}

impl Elicitor for InteractionBroker {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(self.ask_form(elicitation, None))
    }

    fn elicit_for_subagent<'a>(
        &'a self,
        elicitation: &'a Elicitation,
        origin: QuestionOrigin,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(self.ask_form(elicitation, Some(origin)))
    }
}

/// Waits for the user. The permit of the run is released meanwhile.
async fn wait_for_user<T>(run: Option<RequestingRun>, answer: impl Future<Output = T>) -> T {
    let Some(run) = run else { return answer.await };
    let pause = run.permit.pause();
    let _waiting = run.clock.pause();
    let answer = answer.await;
    pause.resume().await;
    answer
}
