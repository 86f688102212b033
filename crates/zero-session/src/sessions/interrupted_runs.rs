//! Ends runs that a killed process left unfinished.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zero_core::{ErrorReason, ToolError};
use zero_runtime::DialectName;

use crate::agent::DIRECT;
use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::message::share_messages;
use crate::open_question::QuestionContent;
use crate::sessions::ledger_recorder::{LedgerRecorder, new_event};
use crate::sessions::run_events::read_run_events;
use crate::sessions::session_worker::choose_dialect;
use crate::sessions::transcript_recovery::missing_messages;
use crate::sessions::{SessionError, SessionManagerInner};
use crate::store::{ClaimEpoch, RunRecord, StoreError};
use crate::turn::call_batch::NOT_RUN;

/// Outcome of a call that began and did not end.
pub(super) const INTERRUPTED: &str = "interrupted: zero was stopped before this call ended, so its outcome is \
    not known; it may have run in part or in full";
/// Outcome of a call that the user had not approved yet.
const NOT_APPROVED: &str = "not run: zero was stopped before this call was approved";

impl SessionManagerInner {
    /// Ends a run that no process executes: completes its transcript, ends its calls, then the run
    /// itself. It can be repeated, should this process be killed in between.
    pub(super) async fn finish_interrupted_run(
        self: &Arc<Self>,
        recorder: &LedgerRecorder,
        claim: ClaimEpoch,
        run: &RunRecord,
        end: RunOutcome,
    ) -> Result<(), SessionError> {
        let waiting = self.end_run_record(recorder, claim, run, end).await?;
        self.end_parked_subagents(&waiting).await;
        Ok(())
    }

    /// Returns the sessions of sub-agents that waited for an answer.
    async fn end_run_record(
        &self,
        recorder: &LedgerRecorder,
        claim: ClaimEpoch,
        run: &RunRecord,
        end: RunOutcome,
    ) -> Result<Vec<String>, SessionError> {
        let store = &self.config.store;
        // Of a damaged session only the run is ended, so that the session can be deleted or reset.
        let events = match read_run_events(&**store, &run.session, &run.id).await {
            Err(StoreError::Damaged { .. }) => Vec::new(),
            events => events?,
        };
        let (mut last, mut usage) = closing_events(&events);
        usage.failed_runs = u64::from(end.is_failure());
        let missing = match store.transcript(&run.session, None).await {
            Err(StoreError::Damaged { .. }) => Vec::new(),
            transcript => {
                let kinds = events.iter().map(|event| &event.kind).chain(&last);
                missing_messages(&transcript?.messages, kinds, self.run_dialect(&events))
            }
        };
        if !missing.is_empty() {
            store.add_messages(&run.session, claim, share_messages(missing)).await?;
        }
        last.push(EventKind::RunEnded { end: end.clone(), usage });
        let last = last.into_iter().map(|kind| new_event(Some(&run.id), kind)).collect();
        recorder.end_run(run.id.clone(), end, usage, last).await?;
        Ok(waiting_subagents(&events))
    }

    /// The dialect of a run's results; `None` if no model read them.
    pub(super) fn run_dialect(&self, events: &[Event]) -> Option<DialectName> {
        let started = events.iter().find_map(|event| match &event.kind {
            EventKind::RunStarted { agent, model, .. } => Some((agent, model)),
            _ => None,
        });
        let (agent, model) = started?;
        if model == DIRECT {
            return None;
        }
        let model = self.config.models.get(Some(model)).ok();
        let info = model.as_ref().map(|model| model.info());
        Some(match self.find_agent(agent) {
            Ok(agent) => choose_dialect(agent, info),
            Err(_) => DialectName::Canonical,
        })
    }
}

/// The end entries for everything that is unfinished, and the token usage recorded so far.
pub(super) fn closing_events(events: &[Event]) -> (Vec<EventKind>, TokenUsage) {
    let (mut open, mut usage) = (BTreeMap::new(), TokenUsage::default());
    // The calls of approval requests by the ids of these, and the calls that may run.
    let (mut requests, mut approved) = (BTreeMap::new(), BTreeSet::new());
    for event in events {
        match &event.kind {
            EventKind::ToolStarted { call, waits: true, .. } => {
                open.insert(call.clone(), unstarted_call_event(call, NOT_RUN));
            }
            EventKind::ToolStarted { call, .. }
            | EventKind::ToolUpdated { call, begins: true, .. } => {
                open.insert(call.clone(), interrupted_call_event(call));
            }
            EventKind::ApprovalRequested(request) => {
                let (answer, by) = ("cancelled".to_owned(), "zero".to_owned());
                let (id, call) = (request.id.clone(), &request.call);
                requests.insert(id.clone(), call.clone());
                // A call whose command or sub-agent asks has begun.
                let is_begun = !request.subject.is_call() || approved.contains(call);
                if !is_begun && open.contains_key(call) {
                    open.insert(call.clone(), unstarted_call_event(call, NOT_APPROVED));
                }
                open.insert(id.clone(), EventKind::ApprovalResolved { id, answer, by });
            }
            EventKind::ApprovalResolved { id, answer, .. } => {
                open.remove(id);
                if let Some(call) = requests.get(id).filter(|_| answer.starts_with("allow"))
                    && open.contains_key(call)
                {
                    approved.insert(call.clone());
                    open.insert(call.clone(), interrupted_call_event(call));
                }
            }
            EventKind::QuestionAsked(question) => {
                let (id, action) = (question.id.clone(), "cancel".to_owned());
                open.insert(id.clone(), EventKind::QuestionAnswered { id, action });
            }
            EventKind::ToolEnded { call: id, .. } | EventKind::QuestionAnswered { id, .. } => {
                open.remove(id);
            }
            EventKind::UsageReported { run_usage, .. } => usage = *run_usage,
            _ => {}
        }
    }
    (open.into_values().collect(), usage)
}

/// The sessions of the sub-agents that asked questions which nobody has answered.
fn waiting_subagents(events: &[Event]) -> Vec<String> {
    let mut open = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::ApprovalResolved { id, .. } | EventKind::QuestionAnswered { id, .. } => {
                open.remove(id);
            }
            kind => {
                let content = QuestionContent::from_event(kind);
                if let Some((content, origin)) =
                    content.as_ref().and_then(|content| Some((content, content.origin()?)))
                {
                    open.insert(content.id().to_owned(), origin.clone());
                }
            }
        }
    }
    let steps = open.into_values().flat_map(|origin| origin.path);
    let sessions: BTreeSet<String> = steps.map(|step| step.session).collect();
    sessions.into_iter().collect()
}

/// The end of a call that never began.
fn unstarted_call_event(call: &str, why: &'static str) -> EventKind {
    EventKind::tool_ended(call, ToolError::failed(ErrorReason::Cancelled, why).into())
}

/// The end of a call that began.
fn interrupted_call_event(call: &str) -> EventKind {
    EventKind::tool_ended(call, ToolError::failed(ErrorReason::Interrupted, INTERRUPTED).into())
}
