//! Work that may block for ever, on a thread of its own.
//!
//! A keyring may wait for a password that nobody types, and a name server may never answer. Such a
//! call cannot be stopped, and the end of the program must not wait for it.

use tokio::sync::oneshot;

/// Does the work; `None` when it ended by a panic, or no thread could be had. Whoever stops waiting
/// leaves the thread behind: callers bound how many they start.
pub async fn run<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let work = move || drop(done.send(work()));
    std::thread::Builder::new().name(name.to_owned()).spawn(work).ok()?;
    result.await.ok()
}
