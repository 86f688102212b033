//! Asks the user on behalf of one session: approvals of its calls, and questions of its tools.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use zero_core::{RiskLevel, RunId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallApprover, approval_request, new_question_id, question_expiry_ms,
};
use zero_runtime::{
    AGENT_ORIGIN, ApprovalAnswer, ApprovalQuestion, Elicitation, ElicitationAnswer,
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

/// What waits for the user, as far as a run can be parked meanwhile.
#[derive(Default)]
struct UserWaits {
    /// Calls that wait for approval and have not begun.
    calls: HashSet<String>,
    /// Questions of the agent itself.
    forms: usize,
    /// When the newest of them began to wait.
    since: Option<Instant>,
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
    pub(crate) fn waiting_since<'a>(
        &self,
        mut calls: impl ExactSizeIterator<Item = &'a str>,
    ) -> Option<Instant> {
        let waits = self.lock_waits();
        // The tool that asks for the agent runs alone.
        let is_form = waits.forms > 0 && calls.len() == 1;
        let is_guard = calls.len() == 0 && waits.calls.contains("");
        let all_wait = calls.len() > 0 && calls.all(|call| waits.calls.contains(call));
        waits.since.filter(|_| is_form || is_guard || all_wait)
    }

    /// Forgets the questions of a run, which stay open in the store; false if one is being
    /// answered.
    pub(crate) fn park(&self, run: &RunId) -> bool {
        let run = RunAddress::new(self.recorder.session(), run);
        self.approvals.park(&run) && self.questions.park(&run)
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
        let _wait = (question.origin == AGENT_ORIGIN).then(|| self.begin_wait(&run, None));
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
        if let Some((before, answer)) = self.take_earlier_approval(&request.call) {
            let is_same = is_same_request(&before, &request);
            match answer {
                Some(answer) if is_same || !answer.is_allow() => return answer,
                Some(_) => {}
                None if is_same => {
                    request.id = before.id;
                    record = QuestionRecord::Present;
                }
                None => self.withdraw_earlier(run.as_ref(), *before).await,
            }
        }
        let id = run.as_ref().map(|run| run.id.clone());
        let _wait = (request.subject == ApprovalSubject::Call)
            .then(|| self.begin_wait(&run, Some(request.call.clone())));
        let answer_future = self.approvals.ask(self.recorder.clone(), id, request, record);
        wait_for_user(run, answer_future).await
    }

    fn take_earlier_approval(
        &self,
        call: &str,
    ) -> Option<(Box<ApprovalRequest>, Option<ApprovalAnswer>)> {
        let mut earlier = self.lock_earlier();
        let is_it = |it: &EarlierQuestion| matches!(it, EarlierQuestion::Approval(request, _) if request.call == call);
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
    async fn withdraw_earlier(&self, run: Option<&RequestingRun>, request: ApprovalRequest) {
        let withdrawn = QuestionContent::Approval(request).withdrawal_event();
        let entry = new_event(run.map(|run| &run.id), withdrawn);
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
            .filter_map(|question| match question {
                EarlierQuestion::Approval(request, None) => {
                    Some(QuestionContent::Approval(*request))
                }
                EarlierQuestion::Form(question, None) => Some(QuestionContent::Form(question)),
                _ => None,
            })
            .collect()
    }

    /// Notes that a call waits, or a question of the agent if no call is given.
    fn begin_wait(
        &self,
        run: &Option<RequestingRun>,
        call: Option<String>,
    ) -> QuestionWaitGuard<'_> {
        let mut waits = self.lock_waits();
        match &call {
            Some(call) => drop(waits.calls.insert(call.clone())),
            None => waits.forms += 1,
        }
        waits.since = Some(Instant::now());
        drop(waits);
        if let Some(run) = run {
            run.call_updates.wake();
        }
        QuestionWaitGuard { broker: self, call }
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
    call: Option<String>,
}

impl Drop for QuestionWaitGuard<'_> {
    fn drop(&mut self) {
        let mut waits = self.broker.lock_waits();
        match &self.call {
            Some(call) => drop(waits.calls.remove(call)),
            None => waits.forms = waits.forms.saturating_sub(1),
        }
    }
}

impl InteractionBroker {
    /// Asks whether a run that repeats itself may continue. It has the form of an approval request,
    /// so that every client can show it.
    pub(crate) async fn ask_to_continue(&self, why: String) -> ApprovalAnswer {
        let option = |answer: ApprovalAnswer, name: &str| ApprovalOption {
            id: answer.id().to_owned(),
            name: name.to_owned(),
        };
        let request = ApprovalRequest {
            subject: ApprovalSubject::Call,
            id: new_question_id(),
            call: String::new(),
            tool: "zero".to_owned(),
            title: "Let the agent continue".to_owned(),
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

    fn store_grants(&self, grants: Vec<GrantRecord>) {
        self.grants.replace(grants);
    }

    fn take_revoked_grants(&self) -> BoxFuture<'_, Vec<GrantRecord>> {
        Box::pin(self.grants.take_revoked())
    }
}

impl Elicitor for InteractionBroker {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
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
        };
        Box::pin(async move {
            match self.ask_question(question).await {
                QuestionAnswer::Accept(values) => ElicitationAnswer::Accept(values),
                QuestionAnswer::Decline => ElicitationAnswer::Decline,
                QuestionAnswer::Cancel => ElicitationAnswer::Cancel,
            }
        })
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
