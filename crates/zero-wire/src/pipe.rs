//! A connection within the process: whole text frames in both directions, with limits and a close
//! reason.
//!
//! An embedded gateway uses it instead of a WebSocket and speaks the same protocol. [`pipe`]
//! returns the two ends, each of which splits into a [`PipeSender`] and a [`PipeReceiver`]. Either
//! end may close with a reason; frames sent before the close still arrive.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::bounded_queue::{self, QueueSendError};
use crate::close::CloseReason;
use crate::frame::{BUFFERED_BYTES_MAX, PAYLOAD_BYTES_MAX};

/// Maximum number of frames that are queued in one direction.
pub const FRAMES_MAX: usize = 1024;

/// Creates a connection, and returns the client's end and the gateway's end.
pub fn pipe() -> (ClientPipeEnd, ServerPipeEnd) {
    let closing =
        Arc::new(CloseSignal { reason: OnceLock::new(), closed: CancellationToken::new() });
    let (to_server, at_server) = bounded_queue::bounded_queue(FRAMES_MAX, BUFFERED_BYTES_MAX);
    let (to_client, at_client) = bounded_queue::bounded_queue(FRAMES_MAX, BUFFERED_BYTES_MAX);
    let end = |frames_out, frames_in| {
        let sender = PipeSender { frames: frames_out, closing: closing.clone() };
        (sender, PipeReceiver { frames: frames_in, closing: closing.clone() })
    };
    let (sender, receiver) = end(to_server, at_client);
    let client = ClientPipeEnd { sender, receiver };
    let (sender, receiver) = end(to_client, at_server);
    (client, ServerPipeEnd { sender, receiver })
}

/// The client's end of a connection.
#[derive(Debug)]
pub struct ClientPipeEnd {
    sender: PipeSender,
    receiver: PipeReceiver,
}

impl ClientPipeEnd {
    /// Splits the end into its two directions.
    pub fn split(self) -> (PipeSender, PipeReceiver) {
        (self.sender, self.receiver)
    }
}

/// The gateway's end of a connection.
#[derive(Debug)]
pub struct ServerPipeEnd {
    sender: PipeSender,
    receiver: PipeReceiver,
}

impl ServerPipeEnd {
    /// Splits the end into its two directions.
    pub fn split(self) -> (PipeSender, PipeReceiver) {
        (self.sender, self.receiver)
    }
}

/// Sends frames to the other end. When the last sender of an end is dropped, the other end sees a
/// lost connection.
#[derive(Clone)]
pub struct PipeSender {
    frames: bounded_queue::QueueSender<String>,
    closing: Arc<CloseSignal>,
}

/// Why a frame was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PipeError {
    /// The connection is closed.
    #[error("the connection is closed ({0}); connect again")]
    Closed(CloseReason),
    /// The queue is full, because the other end reads slowly.
    #[error("the queue is full, the other end reads too slowly; try again later")]
    Full,
    /// The frame is longer than [`PAYLOAD_BYTES_MAX`].
    #[error("a message has at most {PAYLOAD_BYTES_MAX} bytes, this one has {0}; send less at once")]
    TooLong(usize),
}

impl PipeSender {
    /// Sends a frame, and waits while the queue is full.
    pub async fn send(&self, frame: String) -> Result<(), PipeError> {
        self.check(&frame)?;
        let length = frame.len();
        let sent = tokio::select! {
            biased;
            () = self.closing.closed.cancelled() => false,
            sent = self.frames.send(frame, length) => sent,
        };
        if sent { Ok(()) } else { Err(PipeError::Closed(self.closing.reason())) }
    }

    /// Sends a frame if the queue is not full.
    pub fn try_send(&self, frame: String) -> Result<(), PipeError> {
        self.check(&frame)?;
        let length = frame.len();
        self.frames.try_send(frame, length).map_err(|not_sent| match not_sent {
            QueueSendError::Full => PipeError::Full,
            QueueSendError::Closed => PipeError::Closed(self.closing.reason()),
        })
    }

    fn check(&self, frame: &str) -> Result<(), PipeError> {
        if self.closing.closed.is_cancelled() {
            return Err(PipeError::Closed(self.closing.reason()));
        }
        if frame.len() > PAYLOAD_BYTES_MAX {
            return Err(PipeError::TooLong(frame.len()));
        }
        Ok(())
    }

    /// Closes the connection in both directions. Only the first reason is kept.
    pub fn close(&self, reason: CloseReason) {
        self.closing.close(reason);
    }

    /// Waits until either end closes the connection.
    pub async fn wait_closed(&self) -> CloseReason {
        self.closing.closed.cancelled().await;
        self.closing.reason()
    }
}

impl std::fmt::Debug for PipeSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipeSender")
    }
}

/// Receives frames from the other end. Dropping it closes the connection.
pub struct PipeReceiver {
    frames: bounded_queue::QueueReceiver<String>,
    closing: Arc<CloseSignal>,
}

impl PipeReceiver {
    /// Returns the next frame, or the close reason after all frames that were sent before the
    /// close.
    pub async fn recv(&mut self) -> Result<String, CloseReason> {
        tokio::select! {
            biased;
            frame = self.frames.recv() => match frame {
                Some(frame) => Ok(frame),
                None => {
                    self.closing.close(CloseReason::lost());
                    Err(self.closing.reason())
                }
            },
            () = self.closing.closed.cancelled() => {
                // A frame may have been queued between the two checks.
                self.frames.try_recv().map_err(|_| self.closing.reason())
            }
        }
    }
}

impl Drop for PipeReceiver {
    fn drop(&mut self) {
        self.closing.close(CloseReason::lost());
    }
}

impl std::fmt::Debug for PipeReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipeReceiver")
    }
}

struct CloseSignal {
    reason: OnceLock<CloseReason>,
    closed: CancellationToken,
}

impl CloseSignal {
    fn close(&self, reason: CloseReason) {
        let _ = self.reason.set(reason);
        self.closed.cancel();
    }

    fn reason(&self) -> CloseReason {
        self.reason.get().cloned().unwrap_or_else(CloseReason::lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::close;

    #[tokio::test]
    async fn frames_arrive_in_order_both_ways() {
        let (client, server) = pipe();
        let ((to_server, mut at_client), (to_client, mut at_server)) =
            (client.split(), server.split());
        for text in ["a", "b", "c"] {
            to_server.send(text.to_owned()).await.unwrap();
        }
        to_client.send("d".to_owned()).await.unwrap();
        for text in ["a", "b", "c"] {
            assert_eq!(at_server.recv().await.unwrap(), text);
        }
        assert_eq!(at_client.recv().await.unwrap(), "d");
    }

    #[tokio::test]
    async fn frames_before_close_arrive_and_none_after() {
        let (client, server) = pipe();
        let ((to_server, mut at_client), (to_client, mut at_server)) =
            (client.split(), server.split());
        to_client.send("last words".to_owned()).await.unwrap();
        let reason = CloseReason::new(close::RESTART, "restart");
        to_client.close(reason.clone());
        to_client.close(CloseReason::new(close::NORMAL, "second"));
        let refused = Err(PipeError::Closed(reason.clone()));
        assert_eq!(to_client.send("more".to_owned()).await, refused);
        assert_eq!(to_server.try_send("more".to_owned()), refused);
        assert_eq!(at_client.recv().await.unwrap(), "last words");
        assert_eq!(at_client.recv().await, Err(reason.clone()));
        assert_eq!(at_server.recv().await, Err(reason.clone()));
        assert_eq!(to_server.wait_closed().await, reason);
    }

    #[tokio::test]
    async fn dropped_end_is_reported_as_lost() {
        let (client, server) = pipe();
        let (to_client, mut at_server) = server.split();
        drop(client);
        assert_eq!(at_server.recv().await, Err(CloseReason::lost()));
        assert!(matches!(to_client.send("x".to_owned()).await, Err(PipeError::Closed(_))));
    }

    #[tokio::test]
    async fn slow_end_blocks_sender_until_close() {
        let (client, server) = pipe();
        let (to_client, _at_server) = server.split();
        let (_to_server, mut at_client) = client.split();
        for n in 0..FRAMES_MAX {
            to_client.try_send(n.to_string()).unwrap();
        }
        assert_eq!(to_client.try_send("x".to_owned()), Err(PipeError::Full));
        let (sent, got) = tokio::join!(to_client.send("x".to_owned()), at_client.recv());
        assert_eq!((sent, got), (Ok(()), Ok("0".to_owned())));
        let closer = to_client.clone();
        let waiting = tokio::spawn(async move { to_client.send("y".to_owned()).await });
        tokio::task::yield_now().await;
        closer.close(CloseReason::new(close::POLICY, "slow consumer"));
        assert!(matches!(waiting.await.unwrap(), Err(PipeError::Closed(_))));
    }

    #[tokio::test]
    async fn queued_bytes_are_bounded() {
        let (client, server) = pipe();
        let (to_server, _at_client) = client.split();
        let too_long = "x".repeat(PAYLOAD_BYTES_MAX + 1);
        assert_eq!(to_server.send(too_long).await, Err(PipeError::TooLong(PAYLOAD_BYTES_MAX + 1)));
        for _ in 0..BUFFERED_BYTES_MAX / PAYLOAD_BYTES_MAX {
            to_server.try_send("x".repeat(PAYLOAD_BYTES_MAX)).unwrap();
        }
        assert_eq!(to_server.try_send("x".to_owned()), Err(PipeError::Full));
        drop(server);
    }
}
