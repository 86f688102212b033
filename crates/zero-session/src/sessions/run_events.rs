//! Reads the entries of one run from the ledger of its session.

use zero_core::{RunId, SessionId};

use crate::event::{Event, EventKind};
use crate::store::{LedgerReadLimit, Store, StoreError};

/// Entries that are read at once.
const PAGE: LedgerReadLimit = LedgerReadLimit { entries: 1024, bytes: 4 << 20 };
/// Most pages that are searched for the beginning of a run. The calls and questions of a longer run
/// that began before are not ended one by one.
const PAGES_MAX: usize = 64;

/// The entries of a run, oldest first. They are among the newest of the session, so the search goes
/// backwards until it finds the prompt that started the run.
pub(super) async fn read_run_events(
    store: &dyn Store,
    session: &SessionId,
    run: &RunId,
) -> Result<Vec<Event>, StoreError> {
    let (mut found, mut before) = (Vec::new(), u64::MAX);
    for _ in 0..PAGES_MAX {
        let page = store.last_events(session, before, PAGE).await?;
        let Some(first) = page.first() else { break };
        before = first.seq;
        // Newest first, until all are found.
        found.extend(page.into_iter().rev().filter(|event| event.run.as_ref() == Some(run)));
        if found.iter().any(|event| matches!(event.kind, EventKind::Prompt { .. })) {
            break;
        }
    }
    found.reverse();
    Ok(found)
}
