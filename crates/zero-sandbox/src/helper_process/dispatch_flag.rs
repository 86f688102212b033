//! Remembers whether this program can be started again as a helper.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this program checks its `argv[0]` first, and so can be started as a helper.
static DISPATCHES_HELPERS: AtomicBool = AtomicBool::new(false);

pub(super) fn set() {
    DISPATCHES_HELPERS.store(true, Ordering::Relaxed);
}

/// Whether this program can be started again as a helper.
#[must_use]
pub fn can_run_helper() -> bool {
    DISPATCHES_HELPERS.load(Ordering::Relaxed)
}
