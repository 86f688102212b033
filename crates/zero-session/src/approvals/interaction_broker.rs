//! Asks the user on behalf of one session: approvals of its calls, and questions of its tools.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zero_core::{RiskLevel, RunId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallApprover, approval_request, new_question_id, question_expiry_ms,
};
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Elicitation, ElicitationAnswer, ElicitationMode, Elicitor,
    GrantRecord,
};

use super::{ApprovalQueue, QuestionAnswer, QuestionQueue, StoredGrants};
use crate::event::{ApprovalOption, ApprovalRequest, ApprovalSubject, UserQuestion};
use crate::sessions::call_updates::CallUpdateBuffer;
use crate::sessions::ledger_recorder::LedgerRecorder;
use crate::sessions::run_limiter::RunPermit;
use crate::sessions::work_clock::WorkClock;
use crate::store::Store;

/// Asks the user on behalf of one session.
pub(crate) struct InteractionBroker {
    approvals: ApprovalQueue,
    questions: QuestionQueue,
    recorder: LedgerRecorder,
    most: Duration,
    /// The active run of the session, whose calls ask; a session has one at a time.
    run: Mutex<Option<RequestingRun>>,
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
    pub(crate) news: Arc<CallUpdateBuffer>,
}

impl InteractionBroker {
    pub(crate) fn new(
        approvals: ApprovalQueue,
        questions: QuestionQueue,
        recorder: LedgerRecorder,
        store: &Arc<dyn Store>,
        most: Duration,
    ) -> Self {
        let grants = StoredGrants::new(store, recorder.session().clone(), Vec::new());
        Self { approvals, questions, recorder, most, run: Mutex::new(None), grants }
    }

    /// Sets the grants that the tools of the session start with, as the store has them.
    pub(crate) async fn set_known_grants(&self, grants: Vec<GrantRecord>) {
        self.grants.set_known(grants).await;
    }

    /// Sets the run whose calls ask from now on.
    pub(crate) fn set_run(&self, run: Option<RequestingRun>) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
    }

    fn current_run(&self) -> Option<RequestingRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks a tool's question.
    pub(crate) async fn ask_question(&self, question: UserQuestion) -> QuestionAnswer {
        let run = self.synced_run().await;
        let id = run.as_ref().map(|run| run.id.clone());
        let answer = self.questions.ask(self.recorder.clone(), id, question, self.most);
        wait_for_user(run, answer).await
    }

    /// Asks for approval.
    async fn ask_approval(
        &self,
        run: Option<RequestingRun>,
        request: ApprovalRequest,
    ) -> ApprovalAnswer {
        let id = run.as_ref().map(|run| run.id.clone());
        wait_for_user(run, self.approvals.ask(self.recorder.clone(), id, request, self.most)).await
    }

    /// The current run, once the updates of its calls are recorded.
    async fn synced_run(&self) -> Option<RequestingRun> {
        let run = self.current_run()?;
        run.news.wait_until_recorded().await;
        Some(run)
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
            expires_ms: question_expiry_ms(self.most),
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
            self.ask_approval(run, approval_request(call, question, self.most)).await
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
        let (schema, url) = match &elicitation.wanted {
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
