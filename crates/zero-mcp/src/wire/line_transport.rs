//! [`LineTransport`], the transport over pipes: one JSON message per line, in both directions.

use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use zero_runtime::line_reader::{LineEvent, LineReader};

use super::McpMessageLimits;
use super::connection_diagnostics::{ConnectionDiagnostics, DisconnectCause};
use super::message_intake::{IntakeOutcome, MessageIntake};
use super::outbound_queue::{McpSendError, OutboundQueue};
use super::role::ConnectionRole;

/// Lines of at least this length are processed on a blocking thread, so that they do not delay
/// other tasks of the runtime.
const LONG_LINE: usize = 256 << 10;
/// Maximum number of refusals that wait to be written. Beyond it, reading stops.
const REPLIES_WAITING_MAX: usize = 1024;

/// A transport for the SDK over a pair of streams.
///
/// A separate task writes. Reading therefore waits for writing only if the peer sends more and more
/// messages that are refused and does not read the refusals. If the peer does not read for too
/// long, or writing fails, the transport closes, and [`LineTransport::close_cause`] says why.
pub struct LineTransport<R: ConnectionRole> {
    reader: LineReader,
    inbox: VecDeque<RxJsonRpcMessage<R>>,
    /// Refusals that are not written yet. They survive a read that is cancelled.
    replies: VecDeque<TxJsonRpcMessage<R>>,
    intake: Arc<MessageIntake<R>>,
    outbox: OutboundQueue,
    diagnostics: ConnectionDiagnostics,
    eof: CancellationToken,
    /// A long line that is being processed. It survives a read that is cancelled.
    taking: Option<JoinHandle<IntakeOutcome<R>>>,
}

impl<R: ConnectionRole> LineTransport<R> {
    /// Starts the transport over a pair of streams. Must be called within a Tokio runtime.
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        limits: McpMessageLimits,
        diagnostics: ConnectionDiagnostics,
    ) -> Self {
        Self {
            reader: LineReader::new(input, limits.line_bytes_max),
            inbox: VecDeque::new(),
            replies: VecDeque::new(),
            intake: Arc::new(MessageIntake::new(limits, diagnostics.clone())),
            outbox: OutboundQueue::start(output, &limits, diagnostics.clone()),
            diagnostics,
            eof: CancellationToken::new(),
            taking: None,
        }
    }

    /// Returns the problems of this connection.
    pub fn diagnostics(&self) -> &ConnectionDiagnostics {
        &self.diagnostics
    }

    /// Returns a token that is cancelled when the peer has ended its stream, or the connection is
    /// broken.
    pub fn eof(&self) -> CancellationToken {
        self.eof.clone()
    }

    /// Returns a token; cancelling it closes the output after everything queued is written.
    pub fn close_token(&self) -> CancellationToken {
        self.outbox.closing.clone()
    }

    /// Returns a token that is cancelled when everything sent is written, or cannot be.
    pub fn flushed_token(&self) -> CancellationToken {
        self.outbox.closed.clone()
    }

    /// Returns why the connection was closed, if it was.
    pub fn close_cause(&self) -> Option<DisconnectCause> {
        self.diagnostics.close_cause()
    }

    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<R>> {
        loop {
            if !self.inbox.is_empty() {
                // The SDK starts a task for each message. Without an occasional yield, a flood of
                // messages would pile up before any of the tasks had run. The future may be dropped
                // at this await, so the message is removed from the queue afterwards.
                tokio::task::coop::consume_budget().await;
                return self.inbox.pop_front();
            }
            let ended = self.eof.is_cancelled() && self.taking.is_none();
            if ended && self.replies.is_empty() {
                return None;
            }
            let may_read = !ended && self.replies.len() < REPLIES_WAITING_MAX;
            let line = tokio::select! {
                biased;
                () = self.outbox.closed.cancelled() => {
                    self.eof.cancel();
                    return None;
                }
                sent = send_first(&self.outbox, &mut self.replies), if !self.replies.is_empty() => {
                    if sent.is_err() {
                        self.diagnostics.record_refusal("the refusal of a message could not be sent");
                    }
                    continue;
                }
                Some(intake_outcome) = join_pending(&mut self.taking) => {
                    self.taking = None;
                    match intake_outcome {
                        Ok(taken) => self.deliver(taken),
                        Err(error) => self.record_end(DisconnectCause::ReadFailed { why: error.to_string() }),
                    }
                    continue;
                }
                line = self.reader.next(), if may_read && self.taking.is_none() => line,
            };
            let taken = match line {
                Ok(LineEvent::Whole(mut line)) if line.len() >= LONG_LINE => {
                    let intake = Arc::clone(&self.intake);
                    self.taking =
                        Some(tokio::task::spawn_blocking(move || intake.receive(&mut line)));
                    continue;
                }
                Ok(LineEvent::Whole(mut line)) => {
                    let taken = self.intake.receive(&mut line);
                    self.reader.reuse(line);
                    taken
                }
                Ok(LineEvent::TooLong(head)) => self.intake.receive_head(&head),
                Ok(LineEvent::TooLongEnd(tail)) => self.intake.receive_tail(&tail),
                Ok(LineEvent::End(mut rest)) => {
                    self.record_end(DisconnectCause::ByPeer);
                    self.intake.receive(&mut rest)
                }
                Err(error) => {
                    self.record_end(DisconnectCause::ReadFailed { why: error.to_string() });
                    continue;
                }
            };
            self.deliver(taken);
            tokio::task::coop::consume_budget().await;
        }
    }

    fn deliver(&mut self, intake: IntakeOutcome<R>) {
        self.inbox.extend(intake.messages);
        self.replies.extend(intake.replies);
    }

    fn record_end(&mut self, why: DisconnectCause) {
        self.diagnostics.record_close(why);
        self.eof.cancel();
    }
}

/// Sends the first reply once there is room for it; until then it stays in the queue.
async fn send_first<T: Serialize>(
    outbox: &OutboundQueue,
    replies: &mut VecDeque<T>,
) -> Result<(), McpSendError> {
    let permit = outbox.reserve().await?;
    replies.pop_front().map_or(Ok(()), |reply| permit.send(&reply))
}

/// Waits for a long line that is being processed, if there is one.
async fn join_pending<T>(taking: &mut Option<JoinHandle<T>>) -> Option<Result<T, JoinError>> {
    match taking {
        Some(taking) => Some(taking.await),
        None => None,
    }
}

impl<R: ConnectionRole> Transport<R> for LineTransport<R> {
    type Error = McpSendError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<R>,
    ) -> impl Future<Output = Result<(), McpSendError>> + Send + 'static {
        self.intake.record_sent(&item);
        self.outbox.clone().send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<R>> {
        self.next_message().await
    }

    async fn close(&mut self) -> Result<(), McpSendError> {
        self.outbox.close().await;
        Ok(())
    }
}

impl<R: ConnectionRole> Drop for LineTransport<R> {
    fn drop(&mut self) {
        self.outbox.closing.cancel();
    }
}
