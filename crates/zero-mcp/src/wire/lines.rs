//! The transport: a message a line, both ways.

use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Limits;
use super::intake::{Intake, Taken};
use super::outbox::{Outbox, WireError};
use super::reader::{Line, LineReader};
use super::role::Role;
use super::troubles::{Closed, Troubles};

/// A line of at least this long is looked at beside the runtime: whoever shares it with us goes on
/// meanwhile.
const LONG_LINE: usize = 256 << 10;

/// A transport for the SDK over a pair of streams.
///
/// Reading never writes and never waits for what is written: a task of its own writes. When the
/// other end does not read for too long, or cannot be written to, the transport closes, and
/// [`Lines::closed_because`] says why.
pub struct Lines<R: Role> {
    reader: LineReader,
    inbox: VecDeque<RxJsonRpcMessage<R>>,
    intake: Arc<Intake<R>>,
    outbox: Outbox,
    troubles: Troubles,
    eof: CancellationToken,
    /// A long line that is being looked at. It outlives a read that is dropped half-way.
    taking: Option<JoinHandle<Taken<R>>>,
}

impl<R: Role> Lines<R> {
    /// Starts to talk over a pair of streams. Must be called within a runtime.
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        limits: Limits,
        troubles: Troubles,
    ) -> Self {
        Self {
            reader: LineReader::new(input, limits.line_bytes_max),
            inbox: VecDeque::new(),
            intake: Arc::new(Intake::new(limits, troubles.clone())),
            outbox: Outbox::start(output, &limits, troubles.clone()),
            troubles,
            eof: CancellationToken::new(),
            taking: None,
        }
    }

    /// What went wrong on this connection.
    pub fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// Cancelled once the other end has ended its stream, or the connection is broken.
    pub fn eof(&self) -> CancellationToken {
        self.eof.clone()
    }

    /// Cancelling it closes the output once what waits is written.
    pub fn closing(&self) -> CancellationToken {
        self.outbox.closing.clone()
    }

    /// Why the connection is closed, if it is.
    pub fn closed_because(&self) -> Option<Closed> {
        self.troubles.closed()
    }

    async fn next_message(&mut self) -> Option<RxJsonRpcMessage<R>> {
        loop {
            if !self.inbox.is_empty() {
                // The SDK starts a task for each message: without a pause now and then, a flood of
                // them would pile up before any of these had run. It may drop this future while it
                // pauses, so a message is taken only afterwards.
                tokio::task::coop::consume_budget().await;
                return self.inbox.pop_front();
            }
            if let Some(taking) = &mut self.taking {
                let taken = taking.await;
                self.taking = None;
                match taken {
                    Ok(taken) => self.deliver(taken),
                    Err(error) => self.end(Closed::ReadFailed { why: error.to_string() }),
                }
                continue;
            }
            if self.eof.is_cancelled() {
                return None;
            }
            let line = tokio::select! {
                line = self.reader.next() => line,
                () = self.outbox.closed.cancelled() => {
                    self.eof.cancel();
                    return None;
                }
            };
            let taken = match line {
                Ok(Line::Whole(mut line)) if line.len() >= LONG_LINE => {
                    let intake = Arc::clone(&self.intake);
                    self.taking = Some(tokio::task::spawn_blocking(move || intake.take(&mut line)));
                    continue;
                }
                Ok(Line::Whole(mut line)) => {
                    let taken = self.intake.take(&mut line);
                    self.reader.reuse(line);
                    taken
                }
                Ok(Line::TooLong(head)) => self.intake.take_head(&head),
                Ok(Line::TooLongEnd(tail)) => self.intake.take_tail(&tail),
                Ok(Line::End(mut rest)) => {
                    self.end(Closed::ByPeer);
                    self.intake.take(&mut rest)
                }
                Err(error) => {
                    self.end(Closed::ReadFailed { why: error.to_string() });
                    continue;
                }
            };
            self.deliver(taken);
            tokio::task::coop::consume_budget().await;
        }
    }

    fn deliver(&mut self, taken: Taken<R>) {
        self.inbox.extend(taken.messages);
        for reply in taken.replies {
            // Whoever does not read what it is answered has no claim to more answers.
            if self.outbox.send_now(reply).is_err() {
                self.troubles.refused("the refusal of a message could not be sent");
            }
        }
    }

    fn end(&mut self, why: Closed) {
        self.troubles.close(why);
        self.eof.cancel();
    }
}

impl<R: Role> Transport<R> for Lines<R> {
    type Error = WireError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<R>,
    ) -> impl Future<Output = Result<(), WireError>> + Send + 'static {
        self.intake.sending(&item);
        self.outbox.clone().send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<R>> {
        self.next_message().await
    }

    async fn close(&mut self) -> Result<(), WireError> {
        self.outbox.close().await;
        Ok(())
    }
}

impl<R: Role> Drop for Lines<R> {
    fn drop(&mut self) {
        self.outbox.closing.cancel();
    }
}
