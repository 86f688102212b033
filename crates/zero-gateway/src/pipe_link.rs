//! A pipe within the process, as one end of a connection.

use std::future::{pending, poll_fn};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::timeout;
use zero_wire::CloseReason;
use zero_wire::pipe::{PipeReceiver, PipeSender, ServerEnd};

use crate::connection::{Arrived, Link};
use crate::outbox::{Out, Outbox};

/// The gateway's end of a pipe.
pub(crate) struct PipeLink {
    sender: PipeSender,
    receiver: PipeReceiver,
    /// A message that waits for the client to take those before it.
    sending: Option<BoxFuture<'static, bool>>,
}

impl PipeLink {
    pub(crate) fn new(end: ServerEnd) -> Self {
        let (sender, receiver) = end.split();
        Self { sender, receiver, sending: None }
    }
}

impl Link for PipeLink {
    async fn exchange(&mut self, outbox: &Outbox) -> Arrived {
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
                        return Arrived::Over(None);
                    }
                }
                reason = poll_fn(|cx| outbox.poll_cut(cx)), if blocked => {
                    return Arrived::Over(Some(reason));
                }
                out = poll_fn(|cx| outbox.poll_next(cx)), if !blocked => match out {
                    Out::Message(message) => {
                        let (sender, text) = (self.sender.clone(), message.into_text());
                        self.sending = Some(async move { sender.send(text).await.is_ok() }.boxed());
                    }
                    // Whoever holds the other end lives in this process.
                    Out::Ping => outbox.heard(),
                    Out::Close(reason) => return Arrived::Over(Some(reason)),
                },
                arrived = self.receiver.recv() => {
                    return match arrived {
                        Ok(text) => Arrived::Text(text.into()),
                        Err(_) => Arrived::Over(None),
                    };
                }
            }
        }
    }

    fn trust(&mut self) {}

    async fn finish(self, reason: Option<CloseReason>, grace: Duration) {
        let Some(reason) = reason else { return };
        // What was taken from the outbox is part of what is said before the end.
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
    use crate::connection::say_all;
    use crate::outbox::OutboxLimits;

    #[tokio::test]
    async fn what_was_said_before_the_end_arrives() {
        // Which of several things that are ready comes first is left to chance.
        for _ in 0..200 {
            let (client, server) = pipe();
            let limits = OutboxLimits { bytes_max: 1024, messages_max: 8, message_bytes_max: 1024 };
            let (mut link, outbox) = (PipeLink::new(server), Outbox::new(limits));
            outbox.text("first".to_owned());
            outbox.text("last".to_owned());
            outbox.close(close::POLICY, "enough");
            let grace = Duration::from_secs(5);
            let reason = say_all(&mut link, &outbox, grace).await;
            link.finish(reason, grace).await;
            let (_sender, mut receiver) = client.split();
            assert_eq!(receiver.recv().await.unwrap(), "first");
            assert_eq!(receiver.recv().await.unwrap(), "last");
            assert_eq!(receiver.recv().await.unwrap_err().code, close::POLICY);
        }
    }
}
