//! Progress of calls for clients.
//!
//! A tool that reports progress must not wait for a client to read it. [`McpObserver`] stores the
//! latest message on the call's route, and [`ProgressReporter`] forwards it, at most ten times a
//! second. Messages in between are dropped, and none is sent after the result.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::time::Instant;
use zero_core::text_shortening::head;
use zero_runtime::{CallEvent, CallEventObserver};

use super::call_router::McpCallRouter;

/// Minimum time between two messages to a client.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of a message, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Stores the progress of calls on their routes.
pub struct McpObserver {
    router: Arc<McpCallRouter>,
}

impl McpObserver {
    /// Creates an observer that finds clients with this router.
    pub fn new(router: Arc<McpCallRouter>) -> Arc<Self> {
        Arc::new(Self { router })
    }
}

impl CallEventObserver for McpObserver {
    fn on_event(&self, event: &CallEvent) {
        let CallEvent::Progress { call, progress } = event else { return };
        if let Some(line) = self.router.route(call) {
            line.progress.send_replace(head(&progress.message, MESSAGE_BYTES_MAX).to_owned());
        }
    }
}

/// Forwards the progress of a call to the client that made it.
pub(super) struct ProgressReporter {
    peer: Peer<RoleServer>,
    /// `None` if the client does not want progress.
    token: Option<ProgressToken>,
    sent: u32,
    next: Instant,
}

impl ProgressReporter {
    pub(super) fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { peer, token, sent: 0, next: Instant::now() }
    }

    /// Waits until there is a message to send. Cancel-safe.
    pub(super) async fn wait_for_update(&self, progress_messages: &mut watch::Receiver<String>) {
        if self.token.is_none() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.next).await;
        if progress_messages.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Sends the latest message.
    pub(super) async fn send_update(&mut self, progress_messages: &mut watch::Receiver<String>) {
        let Some(token) = self.token.clone() else { return };
        let message = progress_messages.borrow_and_update().clone();
        self.sent += 1;
        self.next = Instant::now() + PAUSE;
        let progress =
            ProgressNotificationParam::new(token, f64::from(self.sent)).with_message(message);
        // If the client is gone, its call is ended elsewhere.
        let _ = self.peer.notify_progress(progress).await;
    }
}
