//! Reads the newest entries of a session's ledger, within a byte limit.

use zero_core::SessionId;
use zero_core::event::Event;
use zero_session::store::{LedgerReadLimit, Store, StoreError};

use crate::read_limiter::run_blocking;

/// Maximum number of ledger bytes read for one response.
pub(crate) const READ_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Limits of the successive reads; each reads the entries before those of the previous step.
const READ_STEPS: [LedgerReadLimit; 3] = [
    LedgerReadLimit { entries: 256, bytes: 256 * 1024 },
    LedgerReadLimit { entries: 4_096, bytes: 2 * 1024 * 1024 },
    LedgerReadLimit { entries: 32_768, bytes: usize::MAX },
];

/// The newest entries, oldest first.
pub(crate) struct LedgerTail {
    /// The entries, oldest first.
    pub(crate) events: Vec<Event>,
    /// Whether the ledger has earlier entries.
    pub(crate) is_cut: bool,
}

impl LedgerTail {
    /// Sequence number of the newest entry; 0 in an empty ledger.
    pub(crate) fn last_seq(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }
}

/// Reads the newest entries. Continues backwards until `enough` returns true or the byte limit is
/// reached.
pub(crate) async fn read_tail(
    store: &dyn Store,
    session: &SessionId,
    bytes_max: usize,
    mut enough: impl FnMut(&[Event]) -> bool + Send + 'static,
) -> Result<LedgerTail, StoreError> {
    let mut events: Vec<Event> = Vec::new();
    let mut bytes_left = bytes_max;
    for LedgerReadLimit { entries, bytes } in READ_STEPS {
        let most = LedgerReadLimit { entries, bytes: bytes.min(bytes_left) };
        bytes_left -= most.bytes;
        let before = events.first().map_or(u64::MAX, |event| event.seq);
        let mut earlier = store.last_events(session, before, most).await?;
        let is_enough;
        // Joining thousands of entries takes as long as reading them.
        (events, enough, is_enough) = run_blocking(move || {
            earlier.append(&mut events);
            let is_enough = enough(&earlier);
            (earlier, enough, is_enough)
        })
        .await?;
        if events.first().is_none_or(|first| first.seq == 1) {
            return Ok(LedgerTail { events, is_cut: false });
        }
        if is_enough || bytes_left == 0 {
            break;
        }
    }
    Ok(LedgerTail { events, is_cut: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{begin_run, run_ledger, sessions};
    use zero_core::event::EventKind;
    use zero_session::sessions::OpenSessionOptions;
    use zero_session::store::NewEvent;

    /// Sequence number of the first entry read from a ledger of `entries` entries of `bytes` bytes
    /// each.
    async fn first_entry(entries: usize, bytes: usize, enough: usize) -> u64 {
        const BYTES_MAX: usize = 4 * 1024 * 1024;
        let folder = tempfile::tempdir().unwrap();
        let sessions = sessions(folder.path()).await;
        let options = OpenSessionOptions {
            key: Some("main".to_owned()),
            owner: "ann".to_owned(),
            ..OpenSessionOptions::default()
        };
        let session = sessions.open(options).await.unwrap();
        let texts = (0..entries).map(|_| EventKind::Text { text: "x".repeat(bytes) });
        let entry = |event: Event| NewEvent { run: event.run, time_ms: 1, kind: event.kind };
        let entries = run_ledger("r", texts).into_iter().map(entry).collect();
        let store = sessions.store();
        let before = store.last_seq(&session.id).await.unwrap();
        assert_eq!(before, 0);
        begin_run(&sessions, &session.id, "r").await;
        store.append(&session.id, None, entries).await.unwrap();
        let enough = move |events: &[Event]| events.len() >= enough;
        let tail = read_tail(store.as_ref(), &session.id, BYTES_MAX, enough).await.unwrap();
        assert!(tail.events.is_sorted_by_key(|event| event.seq), "in order, each once");
        assert_eq!(tail.is_cut, tail.events[0].seq > 1);
        tail.events[0].seq
    }

    #[tokio::test]
    async fn tail_reads_only_as_much_as_needed() {
        // A few small entries are all read.
        assert_eq!(first_entry(200, 10, 1).await, 1);
        // With many entries, one step may suffice.
        assert_eq!(first_entry(1_000, 10, 100).await, 1_000 - 255);
        assert_eq!(first_entry(1_000, 10, 300).await, 1);
        // Fewer large entries are read: two fit into the first step, 39 into all steps.
        let weight = 100 * 1024;
        assert_eq!(first_entry(60, weight, 1).await, 60 - 1);
        assert_eq!(first_entry(60, weight, 60).await, 60 - 38);
    }
}
