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

pub use self::interaction_broker::request_of;
pub(crate) use self::interaction_broker::{InteractionBroker, RequestingRun};
use self::interaction_queue::{InteractionOutcome, InteractionQueue, InteractionRequest};
use crate::event::{ApprovalRequest, EventKind, UserQuestion};
use crate::sessions::ledger_recorder::LedgerRecorder;

/// Who speaks where nobody did.
const NOBODY: &str = "zero";

/// Questions whether calls may run. Cheap to clone.
#[derive(Clone, Default)]
pub struct ApprovalQueue {
    waiting: Arc<InteractionQueue<ApprovalRequest, ApprovalAnswer>>,
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingApproval {
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: Option<RunId>,
    /// When it was asked, in milliseconds since 1970.
    pub created_ms: i64,
    /// What is asked.
    pub request: ApprovalRequest,
}

impl ApprovalQueue {
    /// The question of that id, while it waits.
    pub fn get(&self, id: &str) -> Option<PendingApproval> {
        self.waiting.get(id, pending_approval)
    }

    /// All that wait.
    pub fn list(&self) -> Vec<PendingApproval> {
        self.waiting.list(pending_approval)
    }

    /// Changes whenever one more is asked: for who hears of all of them, and not of one session.
    pub fn asked(&self) -> watch::Receiver<u64> {
        self.waiting.asked()
    }

    /// Answers. False when nobody waits for it any more. The first answer counts. One that was not
    /// offered counts for this one call.
    pub fn resolve(&self, id: &str, answer: ApprovalAnswer, by: &str) -> bool {
        let Some(pending) = self.get(id) else { return false };
        let offered = pending.request.options.iter().any(|option| option.id == answer.id());
        let answer = if offered { answer } else { answer.once() };
        self.waiting.close(id, InteractionOutcome { answer, shown: resolved(id, answer.id(), by) })
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
            shown: resolved(&asked.id, word, NOBODY),
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

fn pending_approval(
    session: &SessionId,
    run: Option<&RunId>,
    created_ms: i64,
    request: &ApprovalRequest,
) -> PendingApproval {
    let (session, run) = (session.clone(), run.cloned());
    PendingApproval { session, run, created_ms, request: request.clone() }
}

fn resolved(id: &str, answer: &str, by: &str) -> EventKind {
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
    /// The session.
    pub session: SessionId,
    /// The run.
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
        self.waiting.get(id, pending_question)
    }

    /// All that wait.
    pub fn list(&self) -> Vec<PendingQuestion> {
        self.waiting.list(pending_question)
    }

    /// Answers. False when nobody waits for it any more.
    pub fn resolve(&self, id: &str, answer: QuestionAnswer) -> bool {
        self.waiting.close(id, outcome(id, answer))
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
            expired: outcome(&asked.id, QuestionAnswer::Cancel),
            cancelled: outcome(&asked.id, QuestionAnswer::Cancel),
            asked,
        };
        self.waiting.ask(asking).await
    }

    /// Takes back what a run has asked, and waits until that is written.
    pub(crate) async fn withdraw(&self, run: &RunId) {
        self.waiting.withdraw(run).await;
    }
}

fn pending_question(
    session: &SessionId,
    run: Option<&RunId>,
    _created_ms: i64,
    question: &UserQuestion,
) -> PendingQuestion {
    let (session, run) = (session.clone(), run.cloned());
    PendingQuestion { session, run, question: question.clone() }
}

fn outcome(id: &str, answer: QuestionAnswer) -> InteractionOutcome<QuestionAnswer> {
    let action = answer.action().to_owned();
    InteractionOutcome { answer, shown: EventKind::QuestionAnswered { id: id.to_owned(), action } }
}

#[cfg(test)]
mod tests;
