//! The queue of a session's updates. It is bounded: an entry that does not fit is read from the
//! ledger later, or its sender waits.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use zero_core::event::Event;

use crate::gateway_update::GatewayUpdate;

/// Most queued entries.
const ENTRIES_MAX: usize = 1_024;
/// Most queued bytes, estimated.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Estimated size of a small entry.
const ENTRY_BYTES: usize = 256;

/// The queue of a session's updates.
#[derive(Default)]
pub(crate) struct UpdateQueue {
    state: Mutex<QueueState>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Default)]
struct QueueState {
    queue: VecDeque<GatewayUpdate>,
    bytes: usize,
    /// Whether an entry did not fit since the queue was last empty.
    has_missed: bool,
    is_closed: bool,
}

/// An item taken from the queue.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all of it are entries")]
pub(crate) enum QueueItem {
    /// An update.
    Update(GatewayUpdate),
    /// Entries are missing from here on.
    Missed,
}

impl UpdateQueue {
    /// Queues an entry; if it does not fit, records that one is missing.
    pub(crate) fn offer(&self, event: Event) {
        if self.try_push(event).is_err() {
            self.mark_missed();
        }
    }

    /// Queues an entry; waits for room.
    pub(crate) async fn push(&self, event: Event) {
        let mut event = event;
        loop {
            let emptied = self.emptied.notified();
            match self.try_push(event) {
                Ok(()) => return,
                Err(back) => event = *back,
            }
            emptied.await;
        }
    }

    /// Queues an entry beyond the limit, for the few that must not wait.
    pub(crate) fn force_push(&self, event: Event) {
        let mut state = self.lock_state();
        if state.is_closed {
            return;
        }
        let update = GatewayUpdate::Entry(event);
        state.bytes += update_weight(&update);
        state.queue.push_back(update);
        drop(state);
        self.filled.notify_one();
    }

    /// Records that the ledger has more entries.
    pub(crate) fn mark_missed(&self) {
        self.lock_state().has_missed = true;
        self.filled.notify_one();
    }

    /// Queues a connection status. This always succeeds: a loss right after a reconnect replaces
    /// it, so the queue cannot grow without bound.
    pub(crate) fn push_status(&self, update: GatewayUpdate) {
        let mut state = self.lock_state();
        match (state.queue.back(), &update) {
            _ if state.is_closed => return,
            (Some(GatewayUpdate::Disconnected), GatewayUpdate::Disconnected) => return,
            (Some(GatewayUpdate::Reconnected), GatewayUpdate::Disconnected) => {
                state.queue.pop_back();
            }
            _ => state.queue.push_back(update),
        }
        drop(state);
        self.filled.notify_one();
    }

    /// The next item; `None` when the queue is closed. Cancel-safe.
    pub(crate) async fn pop(&self) -> Option<QueueItem> {
        loop {
            let filled = self.filled.notified();
            {
                let mut state = self.lock_state();
                if state.is_closed {
                    return None;
                }
                if let Some(update) = state.queue.pop_front() {
                    state.bytes = state.bytes.saturating_sub(update_weight(&update));
                    drop(state);
                    self.emptied.notify_one();
                    return Some(QueueItem::Update(update));
                }
                if std::mem::take(&mut state.has_missed) {
                    return Some(QueueItem::Missed);
                }
            }
            filled.await;
        }
    }

    /// Closes the queue.
    pub(crate) fn close(&self) {
        let mut state = self.lock_state();
        *state = QueueState { is_closed: true, ..QueueState::default() };
        drop(state);
        self.filled.notify_one();
        self.emptied.notify_one();
    }

    fn try_push(&self, event: Event) -> Result<(), Box<Event>> {
        let mut state = self.lock_state();
        if state.is_closed {
            return Ok(());
        }
        if state.queue.len() >= ENTRIES_MAX || state.bytes >= BYTES_MAX {
            return Err(Box::new(event));
        }
        let update = GatewayUpdate::Entry(event);
        state.bytes += update_weight(&update);
        state.queue.push_back(update);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Estimated size of an update.
fn update_weight(update: &GatewayUpdate) -> usize {
    let GatewayUpdate::Entry(event) = update else { return 0 };
    ENTRY_BYTES + event.kind.bytes()
}

#[cfg(test)]
mod tests {
    use zero_core::event::EventKind;

    use super::*;

    fn entry(seq: u64, text: &str) -> Event {
        Event { seq, run: None, time_ms: 0, kind: EventKind::Text { text: text.to_owned() } }
    }

    /// The items that are available without waiting: entry numbers, and names for the others.
    async fn drain(inbox: &UpdateQueue) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(Some(taken)) =
            tokio::time::timeout(std::time::Duration::ZERO, inbox.pop()).await
        {
            all.push(match taken {
                QueueItem::Update(GatewayUpdate::Entry(event)) => event.seq.to_string(),
                QueueItem::Update(other) => format!("{other:?}"),
                QueueItem::Missed => "missed".to_owned(),
            });
        }
        all
    }

    #[tokio::test]
    async fn entry_over_limit_is_marked_missed() {
        let inbox = UpdateQueue::default();
        for seq in 1..=1_500 {
            inbox.offer(entry(seq, "x"));
        }
        let all = drain(&inbox).await;
        assert_eq!(all.len(), ENTRIES_MAX + 1);
        assert_eq!(all.last().unwrap(), "missed");
        inbox.offer(entry(9, "x"));
        assert_eq!(drain(&inbox).await, ["9"]);
    }

    #[tokio::test]
    async fn few_large_entries_fill_queue() {
        let inbox = UpdateQueue::default();
        let large = "x".repeat(BYTES_MAX / 2);
        for seq in 1..=3 {
            inbox.offer(entry(seq, &large));
        }
        assert_eq!(drain(&inbox).await, ["1", "2", "missed"]);
        inbox.offer(entry(4, &large));
        assert_eq!(drain(&inbox).await, ["4"], "room is made again");
    }

    #[tokio::test]
    async fn repeated_disconnects_are_coalesced() {
        let inbox = UpdateQueue::default();
        inbox.offer(entry(1, "x"));
        for _ in 0..1_000 {
            inbox.push_status(GatewayUpdate::Disconnected);
            inbox.push_status(GatewayUpdate::Reconnected);
        }
        assert_eq!(drain(&inbox).await, ["1", "Disconnected", "Reconnected"]);
        inbox.push_status(GatewayUpdate::Disconnected);
        inbox.push_status(GatewayUpdate::Disconnected);
        assert_eq!(drain(&inbox).await, ["Disconnected"]);
    }

    #[tokio::test]
    async fn push_waits_for_free_space() {
        let inbox = UpdateQueue::default();
        let puts = async {
            for seq in 1..=3_000 {
                inbox.push(entry(seq, "x")).await;
            }
        };
        let takes = async {
            for seq in 1..=3_000 {
                let Some(QueueItem::Update(GatewayUpdate::Entry(event))) = inbox.pop().await else {
                    panic!("missed")
                };
                assert_eq!(event.seq, seq);
                if seq % 100 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::join!(puts, takes);
    }

    #[tokio::test]
    async fn closed_queue_yields_nothing_and_does_not_block() {
        let inbox = UpdateQueue::default();
        for seq in 1..=ENTRIES_MAX as u64 {
            inbox.offer(entry(seq, "x"));
        }
        tokio::join!(inbox.push(entry(0, "x")), async { inbox.close() });
        inbox.push_status(GatewayUpdate::Disconnected);
        assert_eq!(inbox.pop().await, None);
    }
}
