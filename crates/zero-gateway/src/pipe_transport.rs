//! In-process pipe as the transport of a connection.

use std::future::{pending, poll_fn};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::timeout;
use zero_wire::CloseReason;
use zero_wire::pipe::{PipeReceiver, PipeSender, ServerPipeEnd};

use crate::connection::{MessageTransport, TransportEvent};
use crate::send_queue::{OutgoingItem, SendQueue};

/// The gateway's end of a pipe.
pub(crate) struct PipeTransport {
    sender: PipeSender,
    receiver: PipeReceiver,
    /// A message that waits until the client has received the previous ones.
    sending: Option<BoxFuture<'static, bool>>,
}

impl PipeTransport {
    pub(crate) fn new(end: ServerPipeEnd) -> Self {
        let (sender, receiver) = end.split();
        Self { sender, receiver, sending: None }
    }
}

impl MessageTransport for PipeTransport {
    async fn exchange(&mut self, outbox: &SendQueue) -> TransportEvent {
        loop {
            let blocked = self.sending.is_some();
            let sent = async {
                match &mut self.sending {
                    Some(sending) => sending.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                sent = sent => {
                    self.sending = None;
                    if !sent {
                        return TransportEvent::Ended(None);
                    }
                }
                reason = poll_fn(|cx| outbox.poll_abort(cx)), if blocked => {
                    return TransportEvent::Ended(Some(reason));
                }
                out = poll_fn(|cx| outbox.poll_next(cx)), if !blocked => match out {
                    OutgoingItem::Message(message) => {
                        let (sender, text) = (self.sender.clone(), message.into_text());
                        self.sending = Some(async move { sender.send(text).await.is_ok() }.boxed());
                    }
                    // The other end is in this process, so it needs no ping.
                    OutgoingItem::Ping => outbox.mark_alive(),
                    OutgoingItem::Close(reason) => return TransportEvent::Ended(Some(reason)),
                },
                arrived = self.receiver.recv() => {
                    return match arrived {
                        Ok(text) => TransportEvent::Text(text.into()),
                        Err(_) => TransportEvent::Ended(None),
                    };
                }
            }
        }
    }

    fn mark_trusted(&mut self) {}

    async fn finish(self, reason: Option<CloseReason>, grace: Duration) {
        let Some(reason) = reason else { return };
        // This message was already taken from the queue and must still be sent before the close.
        if let Some(sending) = self.sending {
            let _ = timeout(grace, sending).await;
        }
        self.sender.close(reason);
    }
}

#[cfg(test)]
mod tests {
    use zero_wire::close;
    use zero_wire::pipe::pipe;

    use super::*;
    use crate::connection::flush;
    use crate::send_queue::SendQueueLimits;

    #[tokio::test]
    async fn messages_before_close_arrive() {
        // `select!` picks a ready branch at random, so the test repeats.
        for _ in 0..200 {
            let (client, server) = pipe();
            let limits =
                SendQueueLimits { bytes_max: 1024, messages_max: 8, message_bytes_max: 1024 };
            let (mut link, outbox) = (PipeTransport::new(server), SendQueue::new(limits));
            outbox.send_text("first".to_owned());
            outbox.send_text("last".to_owned());
            outbox.close(close::POLICY, "enough");
            let grace = Duration::from_secs(5);
            let reason = flush(&mut link, &outbox, grace).await;
            link.finish(reason, grace).await;
            let (_sender, mut receiver) = client.split();
            assert_eq!(receiver.recv().await.unwrap(), "first");
            assert_eq!(receiver.recv().await.unwrap(), "last");
            assert_eq!(receiver.recv().await.unwrap_err().code, close::POLICY);
        }
    }
}
