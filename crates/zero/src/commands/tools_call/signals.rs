//! Ctrl-C cancels the call, so that it ends tidily and is written down; a second one ends zero.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code of a program that was interrupted, as shells know it.
const INTERRUPTED: i32 = 130;

/// Cancels `cancel` on the first interrupt or request to end.
pub(super) fn cancel_on_interrupt(cancel: &CancellationToken) {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        // Without a handler the signal does what it always did: it ends the process.
        let Ok(mut signals) = signal(kind) else { continue };
        let cancel = cancel.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if cancel.is_cancelled() {
                    std::process::exit(INTERRUPTED);
                }
                cancel.cancel();
            }
        });
    }
}
