//! What a long call has to say before it ends.
//!
//! A tool that reports progress must not wait for a client to read it. The latest message stands on
//! the call's line until the request that made the call passes it on, ten times a second at most;
//! what was said in between is lost, and nothing is said after the result.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::time::Instant;
use zero_runtime::{CallEvent, CallEventObserver};

use super::call_router::McpCallRouter;

/// Time between two messages to a client.
const PAUSE: Duration = Duration::from_millis(100);
/// Most that is said at once.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Hears what calls say, and leaves it on their lines.
pub struct McpObserver {
    board: Arc<McpCallRouter>,
}

impl McpObserver {
    /// An observer that finds clients on this board.
    pub fn new(board: Arc<McpCallRouter>) -> Arc<Self> {
        Arc::new(Self { board })
    }
}

impl CallEventObserver for McpObserver {
    fn on_event(&self, event: &CallEvent) {
        let CallEvent::Progress { call, message } = event else { return };
        if let Some(line) = self.board.route(call) {
            let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
            let message = message.get(..end).unwrap_or_default().to_owned();
            line.news.send_replace(message);
        }
    }
}

/// Passes on what a call says to the request that wants to hear it.
pub(super) struct ProgressReporter {
    peer: Peer<RoleServer>,
    /// None when the client does not want to hear anything.
    token: Option<ProgressToken>,
    said: u32,
    next: Instant,
}

impl ProgressReporter {
    pub(super) fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { peer, token, said: 0, next: Instant::now() }
    }

    /// Waits for the next thing to say. Nothing is lost when the wait is given up.
    pub(super) async fn wait_for_update(&self, news: &mut watch::Receiver<String>) {
        if self.token.is_none() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.next).await;
        if news.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Says the latest.
    pub(super) async fn send_update(&mut self, news: &mut watch::Receiver<String>) {
        let Some(token) = self.token.clone() else { return };
        let message = news.borrow_and_update().clone();
        self.said += 1;
        self.next = Instant::now() + PAUSE;
        let progress =
            ProgressNotificationParam::new(token, f64::from(self.said)).with_message(message);
        // A client that is gone hears nothing, and its call ends elsewhere.
        let _ = self.peer.notify_progress(progress).await;
    }
}
