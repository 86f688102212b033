//! Ctrl-C cancels the call, so that it ends cleanly and is recorded. A second Ctrl-C ends zero, but
//! gives the call a grace period first. The other signals that ask a process to end do the same:
//! programs end, and the files that they left are checked.

use std::io;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zero_sandbox::signal_disposition;

/// Exit code after an interrupt: 128 + SIGINT.
const INTERRUPTED_EXIT_CODE: i32 = 130;
/// Grace period for a cancelled call to end and be recorded, even after more interrupts.
const GRACE: Duration = Duration::from_secs(2);
/// Stack of the thread that waits for signals and ends programs.
const STACK_BYTES: usize = 256 * 1024;

/// Cancels `cancel` on the first SIGINT, SIGTERM, SIGHUP or SIGQUIT.
///
/// A thread of its own waits for them: the others may be blocked, such as in a write to a pipe that no
/// process reads.
pub(in crate::commands) fn cancel_on_interrupt(cancel: &CancellationToken) {
    // Without handlers, a signal ends the process, which is its default action.
    let Ok((runtime, signals)) = register_handlers() else { return };
    let cancel = cancel.clone();
    let thread =
        std::thread::Builder::new().name("zero-signals".to_owned()).stack_size(STACK_BYTES);
    let spawned = thread.spawn(move || {
        if runtime.block_on(wait_for_failed_cancel(signals, &cancel, GRACE)).is_some() {
            // A panic there must not keep the process alive.
            let _ = std::panic::catch_unwind(zero_exec::end_all_programs);
            std::process::exit(INTERRUPTED_EXIT_CODE);
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "signals are not handled");
    }
}

/// Handles the signals from now on. The runtime passes them to the receiver.
fn register_handlers() -> io::Result<(Runtime, mpsc::Receiver<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (arrived, signals) = mpsc::channel(1);
    // With `nohup`, zero continues after its terminal is closed.
    let hangup = Some(SignalKind::hangup())
        .filter(|kind| !signal_disposition::is_ignored(kind.as_raw_value()));
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit()];
    let entered = runtime.enter();
    for kind in kinds.into_iter().chain(hangup) {
        let Ok(mut handler) = signal(kind) else { continue };
        let arrived = arrived.clone();
        tokio::spawn(async move {
            while handler.recv().await.is_some() && arrived.send(()).await.is_ok() {}
        });
    }
    drop(entered);
    Ok((runtime, signals))
}

/// Cancels at the first signal. Returns after a second one, once `grace` has passed since the first;
/// `None` if no more signals can arrive.
async fn wait_for_failed_cancel(
    mut signals: mpsc::Receiver<()>,
    cancel: &CancellationToken,
    grace: Duration,
) -> Option<()> {
    signals.recv().await?;
    let deadline = Instant::now() + grace;
    cancel.cancel();
    signals.recv().await?;
    tokio::time::sleep_until(deadline).await;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_that_ends_a_process_cancels() {
        use rustix::process::{Signal, getpid, kill_process};
        // With `nohup`, this process ignores SIGHUP like any other.
        let is_ignored = signal_disposition::is_ignored(Signal::HUP.as_raw());
        let hangup = Some(Signal::HUP).filter(|_| !is_ignored);
        for signal in [Signal::INT, Signal::TERM, Signal::QUIT].into_iter().chain(hangup) {
            // Handlers for each, because a second signal would end this process.
            let (runtime, signals) = register_handlers().unwrap();
            let cancel = CancellationToken::new();
            kill_process(getpid(), signal).unwrap();
            runtime.block_on(async {
                tokio::select! {
                    _ = wait_for_failed_cancel(signals, &cancel, GRACE) => panic!("one signal came"),
                    () = cancel.cancelled() => {}
                }
            });
        }
    }

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
