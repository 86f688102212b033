//! What becomes of runs that nobody ended: those of a process that was killed.

use std::collections::BTreeMap;

use zero_core::{RunId, SessionId};

use crate::event::{Event, RunEnd, ToolStatus, Usage, What};
use crate::hands::CallEnd;
use crate::sessions::SessionError;
use crate::sessions::recorder::{Recorder, entry};
use crate::store::{Most, RunRecord, Store};

/// Entries that are read at first to find those of a run, and most of all.
const READ_FIRST: usize = 1024;
const READ_MOST: usize = 1 << 24;

/// Settles a run that was interrupted: its calls first, then itself.
pub(super) async fn interrupted(
    store: &dyn Store,
    recorder: &Recorder,
    run: &RunRecord,
) -> Result<(), SessionError> {
    let events = of_run(store, &run.session, &run.id).await?;
    let (mut last, usage) = loose_ends(&events);
    last.push(What::RunEnded { end: RunEnd::Interrupted, usage });
    let last = last.into_iter().map(|what| entry(Some(&run.id), what)).collect();
    recorder.end(run.id.clone(), RunEnd::Interrupted, usage, last).await?;
    Ok(())
}

/// An end for all that began and has none, and what was taken, as far as it was said.
fn loose_ends(events: &[Event]) -> (Vec<What>, Usage) {
    let (mut open, mut usage) = (BTreeMap::new(), Usage::default());
    for event in events {
        match &event.what {
            What::ToolStarted { call, .. } => {
                open.insert(call.clone(), interrupted_call(call));
            }
            What::ApprovalRequested(request) => {
                let (answer, by) = ("cancelled".to_owned(), "zero".to_owned());
                let id = request.id.clone();
                open.insert(id.clone(), What::ApprovalResolved { id, answer, by });
            }
            What::QuestionAsked(question) => {
                let (id, action) = (question.id.clone(), "cancel".to_owned());
                open.insert(id.clone(), What::QuestionAnswered { id, action });
            }
            What::ToolEnded { call: id, .. }
            | What::ApprovalResolved { id, .. }
            | What::QuestionAnswered { id, .. } => {
                open.remove(id);
            }
            What::UsageReported { run_usage, .. } => usage = *run_usage,
            _ => {}
        }
    }
    (open.into_values().collect(), usage)
}

fn interrupted_call(call: &str) -> What {
    let text = "zero was stopped while this ran; whether it happened is not known";
    let end = CallEnd::words(ToolStatus::Interrupted, text);
    What::ToolEnded {
        call: call.to_owned(),
        status: end.status,
        content: end.content,
        display: None,
        locations: Vec::new(),
    }
}

/// All entries of a run, oldest first. They are among the newest of the session, so they are looked
/// for from the end, further back until the prompt is found that began it.
async fn of_run(
    store: &dyn Store,
    session: &SessionId,
    run: &RunId,
) -> Result<Vec<Event>, SessionError> {
    let mut most = READ_FIRST;
    loop {
        let events = store.last_events(session, u64::MAX, Most::entries(most)).await?;
        let is_ours = |event: &Event| event.run.as_ref() == Some(run);
        let is_prompt = |event: &Event| is_ours(event) && matches!(event.what, What::Prompt { .. });
        if events.len() < most || most >= READ_MOST || events.iter().any(is_prompt) {
            return Ok(events.into_iter().filter(is_ours).collect());
        }
        most = most.saturating_mul(4);
    }
}
