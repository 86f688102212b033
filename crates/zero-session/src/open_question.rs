//! Unanswered questions of unfinished runs.
//!
//! They are derived from the ledger, in the transactions that write it: a question is open from its
//! own entry until the entry of its answer, or of the end of its run. Only questions that can be
//! asked again after a restart are kept: whether a call may run that has not begun, what the agent
//! asks itself, and whether a run may continue. A question of a command that runs ends with it. A question of
//! a sub-agent is one of the run that the user started, and names the sub-agent.

use zero_core::event::{ApprovalRequest, ApprovalSubject, QuestionOrigin, UserQuestion};
use zero_core::{RunId, SessionId};
use zero_runtime::AGENT_ORIGIN;

use crate::event::EventKind;
use crate::store::{NewEvent, RunAddress};

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenQuestion {
    /// Session of the run that asks.
    pub session: SessionId,
    /// The run that asks.
    pub run: RunId,
    /// When it was asked, in milliseconds since the Unix epoch.
    pub asked_ms: i64,
    /// What is asked.
    pub content: QuestionContent,
}

impl OpenQuestion {
    /// The run that asks.
    pub fn run_address(&self) -> RunAddress {
        RunAddress::new(&self.session, &self.run)
    }
}

impl OpenQuestion {
    /// Most questions of one owner in a list.
    pub const OWNER_LIST_MAX: usize = 1_000;
    /// Most questions of all owners in a list.
    pub const LIST_MAX: usize = 10_000;
}

/// Whose open questions are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionScope<'a> {
    /// Those of all owners.
    All,
    /// Those in the sessions of an owner.
    Owner(&'a str),
    /// Those in one session.
    Session(&'a SessionId),
}

impl<'a> QuestionScope<'a> {
    /// Those of one session or of all.
    pub fn of_session(session: Option<&'a SessionId>) -> Self {
        session.map_or(Self::All, Self::Session)
    }

    pub(crate) fn session(self) -> Option<&'a SessionId> {
        match self {
            Self::Session(session) => Some(session),
            Self::All | Self::Owner(_) => None,
        }
    }

    pub(crate) fn owner(self) -> Option<&'a str> {
        match self {
            Self::Owner(owner) => Some(owner),
            Self::All | Self::Session(_) => None,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionContent {
    /// Whether a call may run, or a run continue.
    Approval(ApprovalRequest),
    /// A form for the user.
    Form(UserQuestion),
}

impl QuestionContent {
    /// The question in an entry, if it is one that outlives its process.
    pub fn from_event(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::ApprovalRequested(request) => {
                let is_kept = match request.subject {
                    ApprovalSubject::Call => true,
                    ApprovalSubject::SubagentCall => request.subagent.is_some(),
                    ApprovalSubject::Connection => false,
                };
                is_kept.then(|| Self::Approval(request.clone()))
            }
            EventKind::QuestionAsked(question)
                if question.origin == AGENT_ORIGIN || question.subagent.is_some() =>
            {
                Some(Self::Form(question.clone()))
            }
            _ => None,
        }
    }

    /// Id of the question.
    pub fn id(&self) -> &str {
        match self {
            Self::Approval(request) => &request.id,
            Self::Form(question) => &question.id,
        }
    }

    /// The sub-agent that asks.
    pub fn origin(&self) -> Option<&QuestionOrigin> {
        match self {
            Self::Approval(request) => request.subagent.as_deref(),
            Self::Form(question) => question.subagent.as_deref(),
        }
    }

    /// The call of the session that waits for the answer: the one that it is about, or the one that started
    /// the sub-agent that asks. Empty or `None` if it is about no call.
    pub(crate) fn waiting_call(&self) -> Option<&str> {
        match (self, self.origin().and_then(|origin| origin.path.first())) {
            (_, Some(step)) => Some(&step.task),
            (Self::Approval(request), None) => Some(&request.call),
            (Self::Form(_), None) => None,
        }
    }

    /// The question as the session of this sub-agent would have it, if it or one below it asks.
    pub(crate) fn seen_from(&self, session: &str) -> Option<Self> {
        let origin = self.origin()?;
        let at = origin.path.iter().position(|step| step.session == session)?;
        let below = origin.path.get(at.saturating_add(1)..).unwrap_or_default().to_vec();
        let call = below.first().map_or(&origin.call, |step| &step.task).clone();
        let below = QuestionOrigin { path: below, call: origin.call.clone() };
        let subagent = (!below.path.is_empty()).then(|| Box::new(below));
        Some(match self {
            Self::Approval(request) => {
                Self::Approval(ApprovalRequest { call, subagent, ..request.clone() })
            }
            Self::Form(question) => Self::Form(UserQuestion { subagent, ..question.clone() }),
        })
    }

    /// The entry that says that an answer is no longer needed.
    pub(crate) fn withdrawal_event(&self) -> EventKind {
        let id = self.id().to_owned();
        match self {
            Self::Approval(_) => {
                let (answer, by) = ("cancelled".to_owned(), "zero".to_owned());
                EventKind::ApprovalResolved { id, answer, by }
            }
            Self::Form(_) => EventKind::QuestionAnswered { id, action: "cancel".to_owned() },
        }
    }
}

/// What an entry of the ledger says about open questions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QuestionEntry {
    /// It asks one. Position of the entry among those that are written together.
    Asked { at: usize, id: String, run: RunId },
    /// It answers or withdraws one.
    Resolved { id: String },
    /// It ends the run that asked.
    RunEnded { run: RunId },
}

impl QuestionEntry {
    /// What these entries say, in their order.
    pub(crate) fn from_events(events: &[NewEvent]) -> Vec<Self> {
        let entries = events.iter().enumerate();
        entries.filter_map(|(at, event)| Self::from_event(at, event)).collect()
    }

    fn from_event(at: usize, event: &NewEvent) -> Option<Self> {
        let run = event.run.clone();
        match &event.kind {
            EventKind::ApprovalResolved { id, .. } | EventKind::QuestionAnswered { id, .. } => {
                Some(Self::Resolved { id: id.clone() })
            }
            EventKind::RunEnded { .. } => Some(Self::RunEnded { run: run? }),
            kind => {
                let id = QuestionContent::from_event(kind)?.id().to_owned();
                Some(Self::Asked { at, id, run: run? })
            }
        }
    }
}
