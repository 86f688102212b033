//! Lends the screen of a chat to a question, and takes it back.

use std::pin::Pin;

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
    /// Answered when the screen is free.
    granted: oneshot::Sender<()>,
    /// Ends when the screen is given back.
    returned: oneshot::Receiver<()>,
}

/// The screen is lent until this ends.
pub(crate) struct LentScreen {
    returned: oneshot::Receiver<()>,
}

impl LeaseRequest {
    /// Gives the screen away.
    pub(crate) fn grant(self) -> LentScreen {
        // Who does not wait any more gives it back at once.
        let _ = self.granted.send(());
        LentScreen { returned: self.returned }
    }
}

impl LentScreen {
    /// Waits until the screen is given back. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        let _ = (&mut self.returned).await;
    }
}

/// An owner, and the requests that it gets.
pub(crate) fn channel() -> (ChatScreenOwner, mpsc::Receiver<LeaseRequest>) {
    let (requests, receiver) = mpsc::channel(QUEUE_MAX);
    (ChatScreenOwner { requests }, receiver)
}

impl ScreenOwner for ChatScreenOwner {
    fn lease_screen(&self) -> Pin<Box<dyn Future<Output = ScreenLease> + Send + '_>> {
        Box::pin(async {
            let (granted, wait) = oneshot::channel();
            let (lease, returned) = oneshot::channel::<()>();
            if self.requests.send(LeaseRequest { granted, returned }).await.is_ok() {
                // A chat that has ended does not need its screen.
                let _ = wait.await;
            }
            Box::new(lease) as ScreenLease
        })
    }
}
