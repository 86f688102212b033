//! Questions for the user: approvals of calls, and questions that tools ask.
//!
//! A question and its answer are ledger entries. A question can be answered once it is recorded,
//! and an answer takes effect once it is recorded. The first answer counts. There is no timeout: a
//! question waits until a user answers it or its run is stopped. A run that only waits can be
//! parked, and continues in whichever process gets the answer: see [`crate::open_question`].

mod interaction_broker;
mod interaction_queue;
mod stored_grants;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::watch;
use zero_core::{RunId, SessionId};
use zero_runtime::ApprovalAnswer;

pub(crate) use self::interaction_broker::{
    EarlierQuestion, InteractionBroker, ParkableRun, ParkedAnswer, RequestingRun,
};
use self::interaction_queue::{InteractionOutcome, InteractionQueue, InteractionRequest};
pub use self::stored_grants::StoredGrants;
use crate::event::{ApprovalRequest, EventKind, UserQuestion};
use crate::sessions::ledger_recorder::LedgerRecorder;
use crate::store::RunAddress;

/// Name recorded with answers that zero itself gives.
const SYSTEM_ACTOR: &str = "zero";

/// Approval requests for calls. Cheap to clone.
#[derive(Clone, Default)]
pub struct ApprovalQueue {
    waiting: Arc<InteractionQueue<ApprovalRequest, ApprovalAnswer>>,
}

/// Whether the ledger has a question already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionRecord {
    /// It must be recorded.
    New,
    /// It was asked before its run was parked.
    Present,
}

/// A pending approval request.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingApproval {
    /// Id of the session whose call waits for the answer.
    pub session: SessionId,
    /// The run that asks; `None` outside of any run.
    pub run: Option<RunId>,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// The request shown to the user.
    pub request: ApprovalRequest,
}

impl ApprovalQueue {
    /// Returns the pending request with that id.
    pub fn get(&self, id: &str) -> Option<PendingApproval> {
        self.waiting.get(id, to_pending_approval)
    }

    /// All pending requests.
    pub fn list(&self) -> Vec<PendingApproval> {
        self.waiting.list(to_pending_approval)
    }

    /// A counter that changes with every new request, for clients that follow the requests of all
    /// sessions.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.waiting.subscribe()
    }

    /// Answers a request. Returns false if it is no longer pending; only the first answer counts.
    /// An answer that was not offered applies to this call only.
    pub fn resolve(&self, id: &str, answer: ApprovalAnswer, by: &str) -> bool {
        let Some(pending) = self.get(id) else { return false };
        let offered = pending.request.options.iter().any(|option| option.id == answer.id());
        let answer = if offered { answer } else { answer.to_once() };
        self.waiting.resolve(
            id,
            InteractionOutcome { answer, shown: resolution_event(id, answer.id(), by) },
        )
    }

    /// Records the request and waits for the answer.
    async fn ask(
        &self,
        recorder: LedgerRecorder,
        run: Option<RunId>,
        request: ApprovalRequest,
        record: QuestionRecord,
    ) -> ApprovalAnswer {
        let cancelled = InteractionOutcome {
            answer: ApprovalAnswer::RejectOnce,
            shown: resolution_event(&request.id, "cancelled", SYSTEM_ACTOR),
        };
        let shown = match record {
            QuestionRecord::New => Some(EventKind::ApprovalRequested(request.clone())),
            QuestionRecord::Present => None,
        };
        let id = request.id.clone();
        let asking = InteractionRequest { id, shown, recorder, run, cancelled, request };
        self.waiting.ask(asking).await
    }

    /// Forgets the requests and questions of a run, which stay open in the store; false if one is being
    /// answered, or the answer to one of these ids has not arrived yet.
    pub(crate) fn park(
        &self,
        questions: &QuestionQueue,
        run: &RunAddress,
        waiting: &HashSet<String>,
    ) -> bool {
        interaction_queue::park(&self.waiting, &questions.waiting, run, waiting)
    }

    /// Withdraws the requests of a run and waits until that is recorded.
    pub(crate) async fn withdraw(&self, run: &RunAddress) {
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

/// Questions that tools ask the user. Cheap to clone.
#[derive(Clone, Default)]
pub struct QuestionQueue {
    waiting: Arc<InteractionQueue<UserQuestion, QuestionAnswer>>,
}

/// A question that a client can still answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingQuestion {
    /// Id of the session whose tool asks.
    pub session: SessionId,
    /// The run that asks; `None` outside of any run.
    pub run: Option<RunId>,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// The question shown to the user.
    pub question: UserQuestion,
}

/// Answer of the user.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionAnswer {
    /// The values of the form.
    Accept(Map<String, Value>),
    /// The user declined to answer.
    Decline,
    /// There is no answer: it was withdrawn or cancelled.
    Cancel,
}

impl QuestionAnswer {
    /// Stable name for the ledger.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

impl QuestionQueue {
    /// Returns the pending question with that id.
    pub fn get(&self, id: &str) -> Option<PendingQuestion> {
        self.waiting.get(id, to_pending_question)
    }

    /// All pending questions.
    pub fn list(&self) -> Vec<PendingQuestion> {
        self.waiting.list(to_pending_question)
    }

    /// Answers a question. Returns false if it is no longer pending.
    pub fn resolve(&self, id: &str, answer: QuestionAnswer) -> bool {
        self.waiting.resolve(id, question_outcome(id, answer))
    }

    /// Records the question and waits for the answer.
    pub(crate) async fn ask(
        &self,
        recorder: LedgerRecorder,
        run: Option<RunId>,
        question: UserQuestion,
        record: QuestionRecord,
    ) -> QuestionAnswer {
        let shown = match record {
            QuestionRecord::New => Some(EventKind::QuestionAsked(question.clone())),
            QuestionRecord::Present => None,
        };
        let cancelled = question_outcome(&question.id, QuestionAnswer::Cancel);
        let id = question.id.clone();
        let asking = InteractionRequest { id, shown, recorder, run, cancelled, request: question };
        self.waiting.ask(asking).await
    }

    /// Withdraws the questions of a run and waits until that is recorded.
    pub(crate) async fn withdraw(&self, run: &RunAddress) {
        self.waiting.withdraw(run).await;
    }
}

fn to_pending_question(
    session: &SessionId,
    run: Option<&RunId>,
    created_ms: i64,
    question: &UserQuestion,
) -> PendingQuestion {
    let (session, run) = (session.clone(), run.cloned());
    PendingQuestion { session, run, created_ms, question: question.clone() }
}

fn question_outcome(id: &str, answer: QuestionAnswer) -> InteractionOutcome<QuestionAnswer> {
    let action = answer.action().to_owned();
    InteractionOutcome { answer, shown: EventKind::QuestionAnswered { id: id.to_owned(), action } }
}

#[cfg(test)]
mod tests;
