//! Questions that wait for a person: whether a call may run, and what a tool wants to know.
//!
//! A question and its answer are entries of the ledger: it is asked once it is written, and the
//! answer counts once it is written. The first answer counts; without one in time, or when the run
//! is stopped, the answer is no.

mod interaction_broker;
mod interaction_queue;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use zero_core::{RunId, SessionId};
use zero_runtime::ApprovalAnswer;

pub(crate) use self::interaction_broker::{InteractionBroker, RequestingRun};
use self::interaction_queue::{InteractionOutcome, InteractionQueue, InteractionRequest};
use crate::event::{ApprovalRequest, EventKind, UserQuestion};
use crate::sessions::ledger_recorder::LedgerRecorder;

/// Who speaks where nobody did.
const SYSTEM_ACTOR: &str = "zero";

/// Questions whether calls may run. Cheap to clone.
#[derive(Clone, Default)]
pub struct ApprovalQueue {
    waiting: Arc<InteractionQueue<ApprovalRequest, ApprovalAnswer>>,
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingApproval {
    /// Id of the session whose call waits for the answer.
    pub session: SessionId,
    /// The run that asks; `None` outside of any run.
    pub run: Option<RunId>,
    /// When it was asked, in milliseconds since 1970.
    pub created_ms: i64,
    /// What is asked.
    pub request: ApprovalRequest,
}

impl ApprovalQueue {
    /// The question of that id, while it waits.
    pub fn get(&self, id: &str) -> Option<PendingApproval> {
        self.waiting.get(id, to_pending_approval)
    }

    /// All that wait.
    pub fn list(&self) -> Vec<PendingApproval> {
        self.waiting.list(to_pending_approval)
    }

    /// Changes whenever one more is asked: for who hears of all of them, and not of one session.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.waiting.subscribe()
    }

    /// Answers. False when nobody waits for it any more. The first answer counts. One that was not
    /// offered counts for this one call.
    pub fn resolve(&self, id: &str, answer: ApprovalAnswer, by: &str) -> bool {
        let Some(pending) = self.get(id) else { return false };
        let offered = pending.request.options.iter().any(|option| option.id == answer.id());
        let answer = if offered { answer } else { answer.to_once() };
        self.waiting.resolve(
            id,
            InteractionOutcome { answer, shown: resolution_event(id, answer.id(), by) },
        )
    }

    /// Asks, and waits for the answer.
    async fn ask(
        &self,
        recorder: LedgerRecorder,
        run: Option<RunId>,
        asked: ApprovalRequest,
        most: Duration,
    ) -> ApprovalAnswer {
        let no = |word: &str| InteractionOutcome {
            answer: ApprovalAnswer::RejectOnce,
            shown: resolution_event(&asked.id, word, SYSTEM_ACTOR),
        };
        let asking = InteractionRequest {
            id: asked.id.clone(),
            shown: EventKind::ApprovalRequested(asked.clone()),
            recorder,
            run,
            most,
            expired: no("expired"),
            cancelled: no("cancelled"),
            asked,
        };
        self.waiting.ask(asking).await
    }

    /// Takes back what a run has asked, and waits until that is written.
    pub(crate) async fn withdraw(&self, run: &RunId) {
        self.waiting.withdraw(run).await;
    }
}

fn to_pending_approval(
    session: &SessionId,
    run: Option<&RunId>,
    created_ms: i64,
    request: &ApprovalRequest,
) -> PendingApproval {
    let (session, run) = (session.clone(), run.cloned());
    PendingApproval { session, run, created_ms, request: request.clone() }
}

fn resolution_event(id: &str, answer: &str, by: &str) -> EventKind {
    EventKind::ApprovalResolved { id: id.to_owned(), answer: answer.to_owned(), by: by.to_owned() }
}

/// Other questions. Cheap to clone.
#[derive(Clone, Default)]
pub struct QuestionQueue {
    waiting: Arc<InteractionQueue<UserQuestion, QuestionAnswer>>,
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingQuestion {
    /// Id of the session whose tool asks.
    pub session: SessionId,
    /// The run that asks; `None` outside of any run.
    pub run: Option<RunId>,
    /// What is asked.
    pub question: UserQuestion,
}

/// What a person said.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionAnswer {
    /// These values.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Nothing.
    Cancel,
}

impl QuestionAnswer {
    /// Stable word for the ledger.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl QuestionQueue {
    /// The question of that id, while it waits.
    pub fn get(&self, id: &str) -> Option<PendingQuestion> {
        self.waiting.get(id, to_pending_question)
    }

    /// All that wait.
    pub fn list(&self) -> Vec<PendingQuestion> {
        self.waiting.list(to_pending_question)
    }

    /// Answers. False when nobody waits for it any more.
    pub fn resolve(&self, id: &str, answer: QuestionAnswer) -> bool {
        self.waiting.resolve(id, question_outcome(id, answer))
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(
        &self,
        recorder: LedgerRecorder,
        run: Option<RunId>,
        asked: UserQuestion,
        most: Duration,
    ) -> QuestionAnswer {
        let asking = InteractionRequest {
            id: asked.id.clone(),
            shown: EventKind::QuestionAsked(asked.clone()),
            recorder,
            run,
            most,
            expired: question_outcome(&asked.id, QuestionAnswer::Cancel),
            cancelled: question_outcome(&asked.id, QuestionAnswer::Cancel),
            asked,
        };
        self.waiting.ask(asking).await
    }

    /// Takes back what a run has asked, and waits until that is written.
    pub(crate) async fn withdraw(&self, run: &RunId) {
        self.waiting.withdraw(run).await;
    }
}

fn to_pending_question(
    session: &SessionId,
    run: Option<&RunId>,
    _created_ms: i64,
    question: &UserQuestion,
) -> PendingQuestion {
    let (session, run) = (session.clone(), run.cloned());
    PendingQuestion { session, run, question: question.clone() }
}

fn question_outcome(id: &str, answer: QuestionAnswer) -> InteractionOutcome<QuestionAnswer> {
    let action = answer.action().to_owned();
    InteractionOutcome { answer, shown: EventKind::QuestionAnswered { id: id.to_owned(), action } }
}

#[cfg(test)]
mod tests;
