//! [`OutboundQueue`], the messages to send. A separate task writes them, so that a peer that reads
//! slowly does not block reading.

use std::io;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::McpMessageLimits;
use super::connection_diagnostics::{ConnectionDiagnostics, DisconnectCause};

/// Why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum McpSendError {
    /// The connection is closed.
    #[error("the message was not sent: {0}")]
    Closed(DisconnectCause),
    /// The message cannot be encoded as JSON.
    #[error("the message was not sent: it cannot be written as JSON")]
    Unwritable(#[source] serde_json::Error),
}

/// Queues messages to be written. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OutboundQueue {
    queue: mpsc::Sender<Vec<u8>>,
    diagnostics: ConnectionDiagnostics,
    /// Cancelling it makes the writer write everything queued and close.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the writer has ended.
    pub(crate) closed: CancellationToken,
}

impl OutboundQueue {
    /// Starts the task that writes.
    pub(crate) fn start(
        stream: impl AsyncWrite + Send + Unpin + 'static,
        limits: &McpMessageLimits,
        diagnostics: ConnectionDiagnostics,
    ) -> Self {
        let (queue, messages) = mpsc::channel(limits.queue_max.max(1));
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let writer = OutboundWriter {
            stream,
            messages,
            timeout: limits.write_timeout,
            diagnostics: diagnostics.clone(),
            closing: closing.clone(),
        };
        let ended_token = closed.clone();
        tokio::spawn(async move {
            let _ended = ended_token.drop_guard();
            writer.run().await;
        });
        Self { queue, diagnostics, closing, closed }
    }

    /// Queues a message once there is room for it. Success does not mean that it arrived.
    pub(crate) async fn send(self, message: impl Serialize) -> Result<(), McpSendError> {
        self.reserve().await?.send(&message)
    }

    /// Waits for room for a message. Cancel-safe.
    pub(crate) async fn reserve(&self) -> Result<SendPermit<'_>, McpSendError> {
        self.queue.reserve().await.map(SendPermit).map_err(|_| self.closed_error())
    }

    /// Writes everything queued, within the time limit, and closes.
    pub(crate) async fn close(&self) {
        self.diagnostics.record_close(DisconnectCause::ByUs);
        self.closing.cancel();
        self.closed.cancelled().await;
    }

    fn closed_error(&self) -> McpSendError {
        McpSendError::Closed(self.diagnostics.close_cause().unwrap_or(DisconnectCause::ByUs))
    }
}

/// Room for one message in the queue.
pub(crate) struct SendPermit<'a>(mpsc::Permit<'a, Vec<u8>>);

impl SendPermit<'_> {
    /// Queues a message.
    pub(crate) fn send(self, message: &impl Serialize) -> Result<(), McpSendError> {
        self.0.send(encode_line(message)?);
        Ok(())
    }
}

fn encode_line(message: &impl Serialize) -> Result<Vec<u8>, McpSendError> {
    let mut line = serde_json::to_vec(message).map_err(McpSendError::Unwritable)?;
    line.push(b'\n');
    Ok(line)
}

struct OutboundWriter<W> {
    stream: W,
    messages: mpsc::Receiver<Vec<u8>>,
    timeout: Duration,
    diagnostics: ConnectionDiagnostics,
    closing: CancellationToken,
}

impl<W: AsyncWrite + Unpin> OutboundWriter<W> {
    async fn run(mut self) {
        loop {
            let message = tokio::select! {
                biased;
                message = self.messages.recv() => message,
                () = self.closing.cancelled(), if !self.messages.is_closed() => {
                    // Queued messages are still written; no further ones are accepted.
                    self.messages.close();
                    continue;
                }
            };
            let Some(message) = message else { break };
            if let Err(why) = self.write(&message).await {
                self.diagnostics.record_close(why);
                return;
            }
        }
        let _ = tokio::time::timeout(self.timeout, self.stream.shutdown()).await;
    }

    async fn write(&mut self, message: &[u8]) -> Result<(), DisconnectCause> {
        // A long message may take longer.
        let seconds_more = u64::try_from(message.len() / (256 << 10)).unwrap_or(0);
        let after = self.timeout + Duration::from_secs(seconds_more);
        let stream = &mut self.stream;
        let writing = async {
            stream.write_all(message).await?;
            stream.flush().await
        };
        match tokio::time::timeout(after, writing).await {
            Ok(written) => written.map_err(|error: io::Error| DisconnectCause::WriteFailed {
                why: error.to_string(),
            }),
            Err(_elapsed) => Err(DisconnectCause::WriteTimedOut { after }),
        }
    }
}
