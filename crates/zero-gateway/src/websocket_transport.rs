//! WebSocket as the transport of a connection.
//!
//! Tungstenite reads frames; this module writes them. A server frame is a short header and the
//! unmodified text, so no copy of a large message remains after it was sent. One task reads and
//! writes, and continues to read while the client does not.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::error::{Error, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, WebSocket};
use zero_wire::{CloseReason, close};

use crate::connection::{MessageTransport, TransportEvent};
use crate::send_queue::{OutgoingItem, SendQueue};

/// Read buffer size in bytes. Small, because most connections are idle most of the time.
const READ_BYTES: usize = 4 * 1024;
/// Bytes that are buffered before they are written.
const WRITE_BYTES: usize = 32 * 1024;
/// Maximum size of buffered pongs, in bytes.
const CONTROL_BYTES_MAX: usize = 1024;
/// Capacity in bytes that an empty write buffer keeps.
const IDLE_CAPACITY: usize = 4 * 1024;

const TEXT: u8 = 0x81;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;

/// A WebSocket after its upgrade.
pub(crate) struct WebSocketTransport<S> {
    websocket: WebSocket<NonBlockingStream<S>>,
    message_bytes_max: usize,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> WebSocketTransport<S> {
    /// Creates a transport that accepts messages of at most `unauthenticated_bytes_max` bytes until the
    /// client has authenticated. `read` contains bytes that followed the upgrade request.
    pub(crate) fn new(
        io: S,
        read: &[u8],
        unauthenticated_bytes_max: usize,
        payload_bytes_max: usize,
    ) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(CONTROL_BYTES_MAX)
            .max_message_size(Some(unauthenticated_bytes_max))
            .max_frame_size(Some(unauthenticated_bytes_max));
        let wire = NonBlockingStream {
            io,
            waker: Waker::noop().clone(),
            out: Vec::new(),
            written: 0,
            dirty: false,
        };
        let websocket =
            WebSocket::from_partially_read(wire, read.to_vec(), Role::Server, Some(config));
        Self { websocket, message_bytes_max: payload_bytes_max }
    }

    fn poll_exchange(&mut self, cx: &mut Context<'_>, outbox: &SendQueue) -> Poll<TransportEvent> {
        self.websocket.get_mut().waker.clone_from(cx.waker());
        if let Poll::Ready(over) = self.poll_send(cx, outbox) {
            return Poll::Ready(over);
        }
        match self.websocket.read() {
            Ok(Message::Text(text)) => return Poll::Ready(TransportEvent::Text(text)),
            Ok(Message::Ping(_) | Message::Pong(_)) => {
                return Poll::Ready(TransportEvent::KeepAlive);
            }
            Ok(Message::Binary(_) | Message::Frame(_)) => {
                return Poll::Ready(TransportEvent::NotText);
            }
            Ok(Message::Close(_)) => return Poll::Ready(TransportEvent::Ended(None)),
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(TransportEvent::Ended(self.close_reason(&error))),
        }
        // Reading may have queued a pong. If it cannot be written now, the task is woken when the
        // socket becomes writable.
        match self.websocket.get_mut().poll_write_out(cx) {
            Poll::Ready(Err(_)) => Poll::Ready(TransportEvent::Ended(None)),
            _ => Poll::Pending,
        }
    }

    /// Sends as much as possible. Ready when the connection has ended.
    fn poll_send(&mut self, cx: &mut Context<'_>, outbox: &SendQueue) -> Poll<TransportEvent> {
        let wire = self.websocket.get_mut();
        let mut send_buffer = String::new();
        loop {
            match wire.poll_write_out(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(TransportEvent::Ended(None)),
                Poll::Pending => {
                    return outbox.poll_abort(cx).map(|reason| TransportEvent::Ended(Some(reason)));
                }
            }
            while wire.out.len() < WRITE_BYTES {
                match outbox.poll_next(cx) {
                    Poll::Ready(OutgoingItem::Message(message)) => {
                        wire.push_frame(TEXT, message.render(&mut send_buffer).as_bytes());
                    }
                    Poll::Ready(OutgoingItem::Ping) => wire.push_frame(PING, &[]),
                    Poll::Ready(OutgoingItem::Close(reason)) => {
                        return Poll::Ready(TransportEvent::Ended(Some(reason)));
                    }
                    Poll::Pending if wire.out.is_empty() => return Poll::Pending,
                    Poll::Pending => break,
                }
            }
        }
    }

    /// Close reason for a message that could not be read; `None` if the client is gone.
    fn close_reason(&self, error: &Error) -> Option<CloseReason> {
        let (code, reason) = match error {
            Error::Capacity(_) => {
                let max = self.websocket.get_config().max_message_size.unwrap_or_default();
                (close::TOO_LONG, format!("a message has at most {max} bytes here"))
            }
            Error::Utf8(_) => (close::NOT_TEXT, "a text message is UTF-8".to_owned()),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return None,
            Error::Protocol(error) => (close::PROTOCOL_ERROR, error.to_string()),
            _ => return None,
        };
        Some(CloseReason::new(code, reason))
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> MessageTransport for WebSocketTransport<S> {
    async fn exchange(&mut self, outbox: &SendQueue) -> TransportEvent {
        std::future::poll_fn(|cx| self.poll_exchange(cx, outbox)).await
    }

    fn mark_trusted(&mut self) {
        let max = Some(self.message_bytes_max);
        self.websocket.set_config(|config| {
            config.max_message_size = max;
            config.max_frame_size = max;
        });
    }

    async fn finish(mut self, reason: Option<CloseReason>, grace: Duration) {
        match reason {
            Some(reason) => {
                let mut close_body = reason.code.to_be_bytes().to_vec();
                close_body.extend_from_slice(reason.reason.as_bytes());
                self.websocket.get_mut().push_frame(CLOSE, &close_body);
            }
            // Queues the reply to the client's close frame, if there was one.
            None => drop(self.websocket.flush()),
        }
        let wire = self.websocket.get_mut();
        let mut progress = CloseProgress::Pending;
        let farewell = std::future::poll_fn(|cx| wire.poll_close(cx, &mut progress));
        // A client that does not respond in time is dropped.
        let _ = timeout(grace, farewell).await;
    }
}

/// Progress of the close handshake.
enum CloseProgress {
    Pending,
    Written,
    /// The write side is shut down.
    ShutDown,
}

/// The stream used by tungstenite: reads never block, and writes are buffered with the other
/// output.
struct NonBlockingStream<S> {
    io: S,
    waker: Waker,
    out: Vec<u8>,
    written: usize,
    dirty: bool,
}

impl<S: AsyncWrite + Unpin> NonBlockingStream<S> {
    /// Appends a frame to the buffer.
    fn push_frame(&mut self, kind: u8, payload: &[u8]) {
        self.out.push(kind);
        let length = payload.len();
        match (u8::try_from(length), u16::try_from(length)) {
            (Ok(short), _) if short < 126 => self.out.push(short),
            (_, Ok(medium)) => {
                self.out.push(126);
                self.out.extend_from_slice(&medium.to_be_bytes());
            }
            _ => {
                self.out.push(127);
                self.out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        self.out.extend_from_slice(payload);
    }

    /// Writes the buffer.
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match std::task::ready!(Pin::new(&mut self.io).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
            self.dirty = true;
        }
        self.out.clear();
        self.out.shrink_to(IDLE_CAPACITY);
        self.written = 0;
        if self.dirty {
            std::task::ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.dirty = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> NonBlockingStream<S> {
    /// Writes the buffer and the end of the stream, and reads until the client has closed its side.
    /// Input is discarded: the client may finish sending before it reads, and a socket that is
    /// dropped with unread input resets the connection and discards the last output.
    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        progress: &mut CloseProgress,
    ) -> Poll<io::Result<()>> {
        if let CloseProgress::Pending = progress
            && self.poll_write_out(cx)?.is_ready()
        {
            *progress = CloseProgress::Written;
        }
        if let CloseProgress::Written = progress
            && Pin::new(&mut self.io).poll_shutdown(cx)?.is_ready()
        {
            *progress = CloseProgress::ShutDown;
        }
        let mut thrown_away = [0; READ_BYTES];
        loop {
            let mut into = ReadBuf::new(&mut thrown_away);
            std::task::ready!(Pin::new(&mut self.io).poll_read(cx, &mut into))?;
            if into.filled().is_empty() {
                // The client closed its write side but may still read.
                return if let CloseProgress::ShutDown = progress {
                    Poll::Ready(Ok(()))
                } else {
                    Poll::Pending
                };
            }
        }
    }
}

impl<S: AsyncRead + Unpin> Read for NonBlockingStream<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        let mut cx = Context::from_waker(&self.waker);
        match Pin::new(&mut self.io).poll_read(&mut cx, &mut into) {
            Poll::Ready(result) => result.map(|()| into.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<S> Write for NonBlockingStream<S> {
    fn write(&mut self, frames: &[u8]) -> io::Result<usize> {
        // Otherwise a client that pings without reading could exhaust the memory.
        if self.out.len() >= WRITE_BYTES {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.out.extend_from_slice(frames);
        Ok(frames.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};

    use super::*;
    use crate::send_queue::SendQueueLimits;

    const MIB: usize = 1024 * 1024;

    fn connected_pair() -> (WebSocketTransport<DuplexStream>, DuplexStream, SendQueue) {
        let (near, far) = duplex(64 * 1024);
        let limits =
            SendQueueLimits { bytes_max: 8 * MIB, messages_max: 100, message_bytes_max: 8 * MIB };
        (WebSocketTransport::new(near, &[], MIB, MIB), far, SendQueue::new(limits))
    }

    #[tokio::test]
    async fn unread_pongs_do_not_fill_memory() {
        let (mut socket, mut far, outbox) = connected_pair();
        // A ping of 100 bytes, masked with zeros.
        let mut ping = vec![0x89, 0x80 | 100, 0, 0, 0, 0];
        ping.extend_from_slice(&[b'x'; 100]);
        let pings = 20_000;
        let writing = async {
            for _ in 0..pings {
                far.write_all(&ping).await.unwrap();
            }
        };
        let reading = async {
            for _ in 0..pings {
                assert!(matches!(socket.exchange(&outbox).await, TransportEvent::KeepAlive));
            }
        };
        tokio::join!(writing, reading);
        let gathered = socket.websocket.get_ref().out.len();
        assert!(gathered >= WRITE_BYTES, "nobody read, so it should be full: {gathered}");
        assert!(gathered <= WRITE_BYTES + CONTROL_BYTES_MAX, "{gathered}");
    }

    #[tokio::test]
    async fn written_data_arrives_and_buffer_shrinks() {
        let (mut socket, far, outbox) = connected_pair();
        let (mut read, _write) = split(far);
        let texts = [125, 126, 65_535, 65_536, 2 * MIB].map(|length| "x".repeat(length));
        for text in &texts {
            assert!(outbox.send_text(text.clone()));
        }
        let reading = async {
            for text in &texts {
                let length = text.len();
                let head = match length {
                    0..126 => vec![0x81, u8::try_from(length).unwrap()],
                    126..65_536 => {
                        let length = u16::try_from(length).unwrap();
                        [&[0x81, 126][..], &length.to_be_bytes()].concat()
                    }
                    _ => [&[0x81, 127][..], &(length as u64).to_be_bytes()].concat(),
                };
                let mut arrived = vec![0; head.len() + length];
                read.read_exact(&mut arrived).await.unwrap();
                assert!(arrived.starts_with(&head), "{length}");
                assert!(arrived.ends_with(text.as_bytes()), "{length}");
            }
        };
        tokio::select! {
            _ = socket.exchange(&outbox) => panic!("nothing was sent"),
            () = reading => {}
        }
        // The last read may have queued output that is not written yet.
        let turn =
            std::future::poll_fn(|cx| Poll::Ready(socket.poll_exchange(cx, &outbox).is_ready()));
        assert!(!turn.await);
        assert!(socket.websocket.get_ref().out.capacity() <= IDLE_CAPACITY);
    }
}
