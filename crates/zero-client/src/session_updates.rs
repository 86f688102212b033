//! The updates of a session, each entry once and in order.

use std::collections::VecDeque;
use std::sync::Arc;

use zero_core::event::Event;
use zero_wire::client::GatewayClientError;
use zero_wire::zero_sessions::{SessionEventsParams, ZeroSessionsEvents};

use crate::gateway_link::{ReconnectWait, SharedLink};
use crate::gateway_update::GatewayUpdate;
use crate::link_error::GatewayLinkError;
use crate::session_slot::SessionSlot;
use crate::update_queue::QueueItem;

/// The stream of a session's updates.
pub struct SessionUpdates {
    shared: Arc<SharedLink>,
    slot: Arc<SessionSlot>,
    /// Number of the next entry.
    next: u64,
    /// Entries read from the ledger.
    page: VecDeque<Event>,
    /// Whether the ledger has entries that were not delivered.
    is_behind: bool,
    /// The update that follows them.
    then: Option<GatewayUpdate>,
}

/// The result of reading the ledger.
enum LedgerReadOutcome {
    /// Entries were read, or there are no more.
    Done,
    /// The connection is lost; a later update reports how it continues.
    Disconnected,
    /// The ledger cannot be read.
    Failed(GatewayLinkError),
}

impl SessionUpdates {
    pub(crate) fn new(shared: Arc<SharedLink>, slot: Arc<SessionSlot>, next: u64) -> Self {
        Self { shared, slot, next, page: VecDeque::new(), is_behind: false, then: None }
    }

    /// The next update; `None` when the session was left. Cancel-safe.
    pub async fn next(&mut self) -> Option<GatewayUpdate> {
        loop {
            if let Some(event) = self.page.pop_front() {
                match self.accept_entry(event) {
                    Some(update) => return Some(update),
                    None => continue,
                }
            }
            if self.is_behind {
                match self.read_ledger().await {
                    LedgerReadOutcome::Done => continue,
                    LedgerReadOutcome::Disconnected => self.then = None,
                    LedgerReadOutcome::Failed(error) => {
                        self.is_behind = false;
                        self.then = None;
                        return Some(GatewayUpdate::Lost(error));
                    }
                }
            }
            if let Some(update) = self.then.take() {
                return Some(update);
            }
            match self.slot.inbox.pop().await? {
                QueueItem::Update(GatewayUpdate::Entry(event))
                    if event.seq > self.next && self.has_ledger() =>
                {
                    self.is_behind = true;
                }
                QueueItem::Update(GatewayUpdate::Entry(event)) => {
                    if let Some(gateway_update) = self.accept_entry(event) {
                        return Some(gateway_update);
                    }
                }
                QueueItem::Update(GatewayUpdate::Reconnected) if self.has_ledger() => {
                    self.is_behind = true;
                    self.then = Some(GatewayUpdate::Reconnected);
                }
                QueueItem::Update(update) => return Some(update),
                QueueItem::Missed => self.is_behind = self.has_ledger(),
            }
        }
    }

    fn accept_entry(&mut self, event: Event) -> Option<GatewayUpdate> {
        if event.seq < self.next {
            return None;
        }
        self.next = event.seq.saturating_add(1);
        Some(GatewayUpdate::Entry(event))
    }

    fn has_ledger(&self) -> bool {
        self.slot.openclaw.is_none()
    }

    /// Reads entries from the ledger. Each page advances by at least one entry, so this ends.
    async fn read_ledger(&mut self) -> LedgerReadOutcome {
        let Ok(up) = self.shared.ensure_connected(ReconnectWait::Now).await else {
            return LedgerReadOutcome::Disconnected;
        };
        let key = self.slot.key();
        let after = self.next.saturating_sub(1);
        let params = SessionEventsParams { session_key: key.clone(), after, limit: None };
        let found = self.shared.request_on::<ZeroSessionsEvents>(&up, params).await;
        match found.and_then(|found| found.check_follows(after)) {
            Ok(found) => {
                self.is_behind = found.has_more;
                self.page = found.events.into();
                LedgerReadOutcome::Done
            }
            Err(GatewayClientError::Closed { .. } | GatewayClientError::Timeout { .. }) => {
                LedgerReadOutcome::Disconnected
            }
            Err(error) => {
                LedgerReadOutcome::Failed(GatewayLinkError::from(error).for_session(&key))
            }
        }
    }
}
