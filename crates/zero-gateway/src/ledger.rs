//! The newest entries of a session's ledger: as many as are needed, and not more than is bearable.

use zero_core::SessionId;
use zero_core::event::Event;
use zero_session::store::{Store, StoreError};

/// How far back is looked, step by step.
const WINDOWS: [usize; 3] = [256, 4_096, 32_768];

/// The newest entries, oldest first.
pub(crate) struct Tail {
    /// The entries.
    pub(crate) events: Vec<Event>,
    /// Whether the ledger has earlier ones.
    pub(crate) is_cut: bool,
}

impl Tail {
    /// Number of the newest entry; 0 in an empty ledger.
    pub(crate) fn last_seq(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }
}

/// The newest entries of a ledger: looks further back until there is `enough`.
pub(crate) async fn tail(
    store: &dyn Store,
    session: &SessionId,
    enough: impl Fn(&[Event]) -> bool,
) -> Result<Tail, StoreError> {
    let mut events = Vec::new();
    for window in WINDOWS {
        events = store.last_events(session, window).await?;
        if events.first().is_none_or(|first| first.seq == 1) {
            return Ok(Tail { events, is_cut: false });
        }
        if enough(&events) {
            break;
        }
    }
    Ok(Tail { events, is_cut: true })
}

/// Number of the newest entry; 0 in an empty ledger.
pub(crate) async fn last_seq(store: &dyn Store, session: &SessionId) -> Result<u64, StoreError> {
    Ok(store.last_events(session, 1).await?.last().map_or(0, |event| event.seq))
}
