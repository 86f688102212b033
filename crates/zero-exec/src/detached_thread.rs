//! Runs work that may block forever on a separate thread.
//!
//! A keyring may wait for a password that is never entered, and a name server may never answer.
//! Such a call cannot be cancelled, and the program must be able to exit without waiting for it.

use tokio::sync::oneshot;

/// Runs `work` on a new thread. Returns `None` if the work panicked or no thread could be started.
/// A caller that stops waiting leaves the thread running, so callers must bound how many they
/// start.
pub async fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let work = move || drop(done.send(work()));
    std::thread::Builder::new().name(name.to_owned()).spawn(work).ok()?;
    result.await.ok()
}
