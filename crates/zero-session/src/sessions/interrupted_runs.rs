//! Ends runs that a killed process left unfinished.

use std::collections::BTreeMap;

use zero_core::{ErrorReason, RunId, SessionId, ToolError};

use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::sessions::SessionError;
use crate::sessions::ledger_recorder::{LedgerRecorder, new_event};
use crate::store::{LedgerReadLimit, RunRecord, Store, StoreError};

/// Number of entries read in the first step and in total.
const READ_FIRST: usize = 1024;
const READ_MAX: usize = 1 << 24;

/// Ends an interrupted run: its calls first, then the run itself.
pub(super) async fn finish_interrupted_run(
    store: &dyn Store,
    recorder: &LedgerRecorder,
    run: &RunRecord,
) -> Result<(), SessionError> {
    // Of a damaged ledger only the run is ended, so that its session can be deleted or reset.
    let events = match read_run_events(store, &run.session, &run.id).await {
        Err(SessionError::Store(StoreError::Damaged { .. })) => Vec::new(),
        events => events?,
    };
    let (mut last, usage) = closing_events(&events);
    last.push(EventKind::RunEnded { end: RunOutcome::Interrupted, usage });
    let last = last.into_iter().map(|what| new_event(Some(&run.id), what)).collect();
    recorder.end_run(run.id.clone(), RunOutcome::Interrupted, usage, last).await?;
    Ok(())
}

/// The end entries for everything that is unfinished, and the token usage recorded so far.
fn closing_events(events: &[Event]) -> (Vec<EventKind>, TokenUsage) {
    let (mut open, mut usage) = (BTreeMap::new(), TokenUsage::default());
    for event in events {
        match &event.what {
            EventKind::ToolStarted { call, .. } => {
                open.insert(call.clone(), interrupted_call_event(call));
            }
            EventKind::ApprovalRequested(request) => {
                let (answer, by) = ("cancelled".to_owned(), "zero".to_owned());
                let id = request.id.clone();
                open.insert(id.clone(), EventKind::ApprovalResolved { id, answer, by });
            }
            EventKind::QuestionAsked(question) => {
                let (id, action) = (question.id.clone(), "cancel".to_owned());
                open.insert(id.clone(), EventKind::QuestionAnswered { id, action });
            }
            EventKind::ToolEnded { call: id, .. }
            | EventKind::ApprovalResolved { id, .. }
            | EventKind::QuestionAnswered { id, .. } => {
                open.remove(id);
            }
            EventKind::UsageReported { run_usage, .. } => usage = *run_usage,
            _ => {}
        }
    }
    (open.into_values().collect(), usage)
}

fn interrupted_call_event(call: &str) -> EventKind {
    let text = "zero was stopped before this call ended; it may have run, in part or not at all";
    EventKind::tool_ended(call, ToolError::failed(ErrorReason::Interrupted, text).into())
}

/// All entries of a run, oldest first. They are among the newest of the session, so the search goes
/// backwards until it finds the prompt that started the run.
async fn read_run_events(
    store: &dyn Store,
    session: &SessionId,
    run: &RunId,
) -> Result<Vec<Event>, SessionError> {
    let mut most = READ_FIRST;
    loop {
        let events =
            store.last_events(session, u64::MAX, LedgerReadLimit::with_entries(most)).await?;
        let is_ours = |event: &Event| event.run.as_ref() == Some(run);
        let is_prompt =
            |event: &Event| is_ours(event) && matches!(event.what, EventKind::Prompt { .. });
        if events.len() < most || most >= READ_MAX || events.iter().any(is_prompt) {
            return Ok(events.into_iter().filter(is_ours).collect());
        }
        most = most.saturating_mul(4);
    }
}
