//! Reads the current plan of a session from its ledger.
//!
//! A model writes its task list with a call, and a compaction summary may lose or change it. The
//! ledger has it as it was shown to the user, also after a restart.

use zero_core::SessionId;

use crate::event::{EventKind, PlanEntry};
use crate::sessions::rewind_history::is_in_effect;
use crate::store::{LedgerReadLimit, RewindPointKind, Store};

/// How much of the ledger is read at once.
const PAGE: LedgerReadLimit = LedgerReadLimit { entries: 500, bytes: 2_000_000 };
/// Maximum number of pages searched. An older plan does not belong to the current work.
const PAGES_MAX: usize = 40;

/// The most recently shown steps since the last reset; empty if there are none or the ledger cannot
/// be read.
pub(super) async fn read_current_plan(store: &dyn Store, session: &SessionId) -> Vec<PlanEntry> {
    let points = match store.rewind_points(session).await {
        Ok(mut points) => {
            points.retain(|point| matches!(point.kind, RewindPointKind::Rewind { .. }));
            points
        }
        Err(error) => {
            tracing::warn!(%session, %error, "the rewinds of a session cannot be read");
            return Vec::new();
        }
    };
    let mut before = u64::MAX;
    for _ in 0..PAGES_MAX {
        let page = match store.last_events(session, before, PAGE).await {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%session, %error, "the plan of a session cannot be read");
                return Vec::new();
            }
        };
        let Some(first) = page.first() else { return Vec::new() };
        before = first.seq;
        for event in page.into_iter().rev() {
            if !is_in_effect(&points, event.seq) {
                continue;
            }
            match event.kind {
                EventKind::Plan { entries } => return entries,
                EventKind::Reset { .. } => return Vec::new(),
                _ => {}
            }
        }
    }
    Vec::new()
}
