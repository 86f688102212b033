//! What is heard of a session, each entry once and in order.

use std::collections::VecDeque;
use std::sync::Arc;

use zero_core::event::Event;
use zero_wire::client::ClientError;
use zero_wire::zero_sessions::{EventsParams, ZeroSessionsEvents};

use crate::error::LinkError;
use crate::inbox::Taken;
use crate::link::{Patience, Shared};
use crate::near::News;
use crate::slot::Slot;

/// What is heard of a session, in order.
pub struct Heard {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
    /// Number of the entry that comes next.
    next: u64,
    /// Entries that were fetched.
    page: VecDeque<Event>,
    /// The ledger has entries that were not heard.
    is_behind: bool,
    /// What is told once they are.
    then: Option<News>,
}

/// What came of a look into the ledger.
enum Looked {
    /// There are entries, or there are no more.
    Done,
    /// The connection is lost; news will say how it goes on.
    Away,
    /// It cannot be read.
    Gone(LinkError),
}

impl Heard {
    pub(crate) fn new(shared: Arc<Shared>, slot: Arc<Slot>, next: u64) -> Self {
        Self { shared, slot, next, page: VecDeque::new(), is_behind: false, then: None }
    }

    /// The next; `None` when the session was left. Nothing is lost when this is dropped before it
    /// is done.
    pub async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(event) = self.page.pop_front() {
                match self.take(event) {
                    Some(news) => return Some(news),
                    None => continue,
                }
            }
            if self.is_behind {
                match self.look().await {
                    Looked::Done => continue,
                    Looked::Away => self.then = None,
                    Looked::Gone(error) => {
                        self.is_behind = false;
                        self.then = None;
                        return Some(News::Gone(error));
                    }
                }
            }
            if let Some(news) = self.then.take() {
                return Some(news);
            }
            match self.slot.inbox.take().await? {
                Taken::News(News::Entry(event)) if event.seq > self.next && self.has_ledger() => {
                    self.is_behind = true;
                }
                Taken::News(News::Entry(event)) => {
                    if let Some(news) = self.take(event) {
                        return Some(news);
                    }
                }
                Taken::News(News::Back) if self.has_ledger() => {
                    self.is_behind = true;
                    self.then = Some(News::Back);
                }
                Taken::News(news) => return Some(news),
                Taken::Missed => self.is_behind = self.has_ledger(),
            }
        }
    }

    fn take(&mut self, event: Event) -> Option<News> {
        if event.seq < self.next {
            return None;
        }
        self.next = event.seq.saturating_add(1);
        Some(News::Entry(event))
    }

    fn has_ledger(&self) -> bool {
        self.slot.voice.is_none()
    }

    /// Fetches entries from the ledger. Each page moves on by an entry at least, so this ends where
    /// the ledger does.
    async fn look(&mut self) -> Looked {
        let Ok(up) = self.shared.ready(Patience::Now).await else { return Looked::Away };
        let key = self.slot.key();
        let after = self.next.saturating_sub(1);
        let params = EventsParams { session_key: key.clone(), after, limit: None };
        let found = self.shared.ask_on::<ZeroSessionsEvents>(&up, params).await;
        match found.and_then(|found| found.following(after)) {
            Ok(found) => {
                self.is_behind = found.has_more;
                self.page = found.events.into();
                Looked::Done
            }
            Err(ClientError::Closed { .. } | ClientError::Timeout { .. }) => Looked::Away,
            Err(error) => Looked::Gone(LinkError::from(error).about(&key)),
        }
    }
}
