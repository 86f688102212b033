//! Lends the screen of a chat to a question, and takes it back.

use std::pin::Pin;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use zero_terminal::{ScreenLease, ScreenOwner};

/// Questions that may wait for the screen.
const QUEUE_MAX: usize = 64;

/// Asks the chat for its screen.
pub(crate) struct ChatScreenOwner {
    requests: mpsc::Sender<LeaseRequest>,
}

/// A request for the screen.
pub(crate) struct LeaseRequest {
    /// The call that waits meanwhile.
    call: Option<String>,
    requested: Instant,
    /// Answered when the screen is free.
    granted: oneshot::Sender<()>,
    /// Ends when the screen is given back.
    returned: oneshot::Receiver<()>,
}

/// The screen is lent until this ends.
pub(crate) struct LentScreen {
    call: Option<String>,
    requested: Instant,
    returned: oneshot::Receiver<()>,
}

impl LeaseRequest {
    /// Gives the screen away.
    pub(crate) fn grant(self) -> LentScreen {
        // Who does not wait any more gives it back at once.
        let _ = self.granted.send(());
        LentScreen { call: self.call, requested: self.requested, returned: self.returned }
    }
}

impl LentScreen {
    /// Waits until the screen is given back. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        let _ = (&mut self.returned).await;
    }

    /// The call that waited for the user, and how long, in milliseconds.
    pub(crate) fn waiting_call(&self) -> Option<(&str, i64)> {
        let waited_ms = i64::try_from(self.requested.elapsed().as_millis()).unwrap_or(i64::MAX);
        Some((self.call.as_deref()?, waited_ms))
    }
}

/// An owner, and the requests that it gets.
pub(crate) fn channel() -> (ChatScreenOwner, mpsc::Receiver<LeaseRequest>) {
    let (requests, receiver) = mpsc::channel(QUEUE_MAX);
    (ChatScreenOwner { requests }, receiver)
}

impl ScreenOwner for ChatScreenOwner {
    fn lease_screen<'a>(
        &'a self,
        call: Option<&'a str>,
    ) -> Pin<Box<dyn Future<Output = ScreenLease> + Send + 'a>> {
        Box::pin(async move {
            let (granted, wait) = oneshot::channel();
            let (lease, returned) = oneshot::channel::<()>();
            let call = call.map(str::to_owned);
            let request = LeaseRequest { call, requested: Instant::now(), granted, returned };
            if self.requests.send(request).await.is_ok() {
                // A chat that has ended does not need its screen.
                let _ = wait.await;
            }
            Box::new(lease) as ScreenLease
        })
    }
}
