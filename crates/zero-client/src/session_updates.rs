//! What is heard of a session, each entry once and in order.

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

/// What is heard of a session, in order.
pub struct SessionUpdates {
    shared: Arc<SharedLink>,
    slot: Arc<SessionSlot>,
    /// Number of the entry that comes next.
    next: u64,
    /// Entries that were fetched.
    page: VecDeque<Event>,
    /// The ledger has entries that were not heard.
    is_behind: bool,
    /// What is told once they are.
    then: Option<GatewayUpdate>,
}

/// What came of a look into the ledger.
enum LedgerReadOutcome {
    /// There are entries, or there are no more.
    Done,
    /// The connection is lost; news will say how it goes on.
    Disconnected,
    /// It cannot be read.
    Failed(GatewayLinkError),
}

impl SessionUpdates {
    pub(crate) fn new(shared: Arc<SharedLink>, slot: Arc<SessionSlot>, next: u64) -> Self {
        Self { shared, slot, next, page: VecDeque::new(), is_behind: false, then: None }
    }

    /// The next; `None` when the session was left. Nothing is lost when this is dropped before it
    /// is done.
    pub async fn next(&mut self) -> Option<GatewayUpdate> {
        loop {
            if let Some(event) = self.page.pop_front() {
                match self.accept_entry(event) {
                    Some(news) => return Some(news),
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
            if let Some(news) = self.then.take() {
                return Some(news);
            }
            match self.slot.inbox.pop().await? {
                QueueItem::Update(GatewayUpdate::Entry(event))
                    if event.seq > self.next && self.has_ledger() =>
                {
                    self.is_behind = true;
                }
                QueueItem::Update(GatewayUpdate::Entry(event)) => {
                    if let Some(news) = self.accept_entry(event) {
                        return Some(news);
                    }
                }
                QueueItem::Update(GatewayUpdate::Reconnected) if self.has_ledger() => {
                    self.is_behind = true;
                    self.then = Some(GatewayUpdate::Reconnected);
                }
                QueueItem::Update(news) => return Some(news),
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
        self.slot.voice.is_none()
    }

    /// Fetches entries from the ledger. Each page moves on by an entry at least, so this ends where
    /// the ledger does.
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
