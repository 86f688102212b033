//! Picks the events of one run out of those that a connection receives.

use std::collections::VecDeque;

use anyhow::Context;
use zero_core::event::Event;
use zero_wire::EventFrame;
use zero_wire::client::GatewayEvents;
use zero_wire::zero_sessions::{RUN_UNRECORDED, RunUnrecorded, SESSION_EVENT, SessionEvent};

/// Most events that are kept while the run is being started.
pub(super) const EARLY_EVENTS_MAX: usize = 16 * 1024;

/// Runs requests and keeps the events that arrive meanwhile.
pub(super) async fn read_ahead<T>(
    events: &mut GatewayEvents,
    early: &mut VecDeque<EventFrame>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            event = events.next(), if early.len() < EARLY_EVENTS_MAX => match event {
                Some(event) => early.push_back(event),
                None => return work.await,
            },
        }
    }
}

/// The next event, those that arrived early first.
pub(super) async fn next_event(
    early: &mut VecDeque<EventFrame>,
    events: &mut GatewayEvents,
) -> Option<EventFrame> {
    match early.pop_front() {
        Some(event) => Some(event),
        None => events.next().await,
    }
}

/// The report that the end of this run is not recorded.
pub(super) fn unrecorded_end(
    event: &EventFrame,
    session_key: &str,
    run_id: &str,
) -> Option<RunUnrecorded> {
    let payload = event.payload.as_ref().filter(|_| event.event == RUN_UNRECORDED)?;
    let end: RunUnrecorded = serde_json::from_value(payload.clone()).ok()?;
    (end.session_key == session_key && end.run_id == run_id).then_some(end)
}

/// The ledger event of this run in a frame; `None` if the frame has another one.
pub(super) fn parse_run_event(
    frame: EventFrame,
    session_key: &str,
    run_id: &str,
) -> anyhow::Result<Option<Event>> {
    let Some(payload) = frame.payload.filter(|_| frame.event == SESSION_EVENT) else {
        return Ok(None);
    };
    let SessionEvent { session_key: key, event, .. } =
        serde_json::from_value(payload).context("the gateway sent an invalid event")?;
    let is_of_run = event.run.as_ref().is_some_and(|run| run.as_str() == run_id);
    Ok((key == session_key && is_of_run).then_some(event))
}
