//! Ctrl-C cancels the call, so that it ends tidily and is written down. A second one ends zero, but
//! not before the call had its chance.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Exit code of a program that was interrupted, as shells know it.
const INTERRUPTED_EXIT_CODE: i32 = 130;
/// How long a cancelled call may take to end and be written down, however often it is interrupted.
const GRACE: Duration = Duration::from_secs(2);

/// Cancels `cancel` on the first interrupt or request to end.
pub(in crate::commands) fn cancel_on_interrupt(cancel: &CancellationToken) {
    let (arrived, signals) = mpsc::channel(1);
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        // Without a handler the signal does what it always did: it ends the process.
        let Ok(mut handler) = signal(kind) else { continue };
        let arrived = arrived.clone();
        tokio::spawn(async move {
            while handler.recv().await.is_some() && arrived.send(()).await.is_ok() {}
        });
    }
    let cancel = cancel.clone();
    tokio::spawn(async move {
        if wait_for_failed_cancel(signals, &cancel, GRACE).await.is_some() {
            std::process::exit(INTERRUPTED_EXIT_CODE);
        }
    });
}

/// Cancels at the first signal. Ends after a second one, when the call still has not ended `grace`
/// after the first; `None` when no more signals can come.
async fn wait_for_failed_cancel(
    mut signals: mpsc::Receiver<()>,
    cancel: &CancellationToken,
    grace: Duration,
) -> Option<()> {
    signals.recv().await?;
    let patience = Instant::now() + grace;
    cancel.cancel();
    signals.recv().await?;
    tokio::time::sleep_until(patience).await;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repeated_interrupt_waits_for_audit_record() {
        for (count, ends) in [(0, false), (1, false), (2, true)] {
            let (cancel, began) = (CancellationToken::new(), Instant::now());
            let grace = Duration::from_millis(50);
            let (arrived, signals) = mpsc::channel(2);
            for _ in 0..count {
                arrived.send(()).await.unwrap();
            }
            drop(arrived);
            let ended = wait_for_failed_cancel(signals, &cancel, grace).await.is_some();
            assert_eq!((ended, cancel.is_cancelled()), (ends, count > 0));
            assert!(!ended || began.elapsed() >= grace);
        }
    }
}
