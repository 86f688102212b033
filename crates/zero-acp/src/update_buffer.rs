//! Buffers updates of a session while it is being opened and the client cannot receive them.
//!
//! Updates are read all the time: a gateway without a ledger answers no request while its events
//! wait. No run belongs to this client yet, so only changes matter later and are buffered.

use std::collections::VecDeque;
use std::pin::pin;

use zero_client::{GatewayUpdate, SessionUpdates};
use zero_core::event::{Event, EventKind};

/// Changes that are buffered, one per field.
const BUFFERED_MAX: usize = 64;

/// The updates of a session, from its opening on.
pub(crate) struct UpdateBuffer {
    updates: SessionUpdates,
    kept: VecDeque<GatewayUpdate>,
}

impl UpdateBuffer {
    pub(crate) fn new(updates: SessionUpdates) -> Self {
        Self { updates, kept: VecDeque::new() }
    }

    /// Runs a future and buffers the updates that arrive in the meantime.
    pub(crate) async fn buffer_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                update = self.updates.next() => match update {
                    Some(update) => buffer_change(&mut self.kept, update),
                    None => return work.await,
                },
            }
        }
    }

    /// The next update, buffered ones first; `None` when the session was left.
    pub(crate) async fn next(&mut self) -> Option<GatewayUpdate> {
        match self.kept.pop_front() {
            Some(update) => Some(update),
            None => self.updates.next().await,
        }
    }
}

fn buffer_change(updates: &mut VecDeque<GatewayUpdate>, update: GatewayUpdate) {
    let replaced = match &update {
        GatewayUpdate::Entry(Event { kind: EventKind::Changed { field, .. }, .. }) => {
            updates.iter().position(|known| changed_field(known) == Some(field))
        }
        GatewayUpdate::Displaced { .. } => {
            updates.iter().position(|known| matches!(known, GatewayUpdate::Displaced { .. }))
        }
        GatewayUpdate::Entry(_)
        | GatewayUpdate::Disconnected
        | GatewayUpdate::Reconnected
        | GatewayUpdate::Unrecorded(_)
        | GatewayUpdate::Lost(_) => return,
    };
    if let Some(at) = replaced {
        updates.remove(at);
    } else if updates.len() >= BUFFERED_MAX {
        updates.pop_front();
    }
    updates.push_back(update);
}

/// The field that an entry changes.
fn changed_field(update: &GatewayUpdate) -> Option<&String> {
    match update {
        GatewayUpdate::Entry(Event { kind: EventKind::Changed { field, .. }, .. }) => Some(field),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry_update(seq: u64, kind: EventKind) -> GatewayUpdate {
        GatewayUpdate::Entry(Event { seq, run: None, time_ms: 0, kind })
    }

    fn change_update(seq: u64, field: &str, value: &str) -> GatewayUpdate {
        let (field, value) = (field.to_owned(), Some(value.to_owned()));
        entry_update(seq, EventKind::Changed { field, value })
    }

    #[track_caller]
    fn check(updates: Vec<GatewayUpdate>, expected: Vec<GatewayUpdate>) {
        let mut kept = VecDeque::new();
        updates.into_iter().for_each(|update| buffer_change(&mut kept, update));
        assert_eq!(kept, expected);
    }

    #[test]
    fn buffer_keeps_last_change_per_field_and_is_bounded() {
        let displaced = || GatewayUpdate::Displaced { host: "laptop".to_owned() };
        let text = entry_update(2, EventKind::Text { text: "of another's run".to_owned() });
        check(
            vec![
                change_update(1, "mode", "plan"),
                text,
                GatewayUpdate::Disconnected,
                GatewayUpdate::Reconnected,
                displaced(),
            ],
            vec![change_update(1, "mode", "plan"), displaced()],
        );
        check(
            vec![
                change_update(1, "mode", "a"),
                change_update(2, "model", "m"),
                change_update(3, "mode", "b"),
            ],
            vec![change_update(2, "model", "m"), change_update(3, "mode", "b")],
        );
        let many =
            |from: u64| (from..200).map(|at| change_update(at, &at.to_string(), "x")).collect();
        check(many(0), many(200 - BUFFERED_MAX as u64));
    }
}
