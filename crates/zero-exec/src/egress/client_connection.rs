//! The client's end of a connection, while it says what it wants.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::proxy_error::ProxyError;
use super::proxy_request::ClientProtocol;

/// Bytes read at a time.
const READ_BYTES: usize = 4 * 1024;

/// The client's end of a connection: what was read of it, and what it speaks as far as is known.
pub(super) struct ClientConnection<S> {
    stream: S,
    unread: Vec<u8>,
    pub(super) protocol: ClientProtocol,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientConnection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, unread: Vec::new(), protocol: ClientProtocol::Unknown }
    }

    /// What was read and not taken yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.unread
    }

    /// Reads more, but keeps no more than `most` bytes in all.
    pub(super) async fn read_more(&mut self, most: usize) -> Result<(), ProxyError> {
        let room = most.saturating_sub(self.unread.len()).min(READ_BYTES);
        if room == 0 {
            return Err(ProxyError::HeadTooLong);
        }
        let mut part = [0; READ_BYTES];
        let part = part.get_mut(..room).unwrap_or_default();
        match self.stream.read(part).await {
            Ok(0) | Err(_) => Err(ProxyError::ClientGone),
            Ok(count) => {
                self.unread.extend_from_slice(part.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }

    /// Takes the next `count` bytes, reading on until they are there.
    pub(super) async fn read_exact(&mut self, count: usize) -> Result<Vec<u8>, ProxyError> {
        // What a command sends ahead is left where it is: it may belong to the tunnel.
        while self.unread.len() < count {
            self.read_more(count).await?;
        }
        Ok(self.unread.drain(..count).collect())
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ProxyError> {
        self.stream.write_all(bytes).await.map_err(|_| ProxyError::ClientGone)
    }

    /// The stream, and what was read ahead of it.
    pub(super) fn into_parts(self) -> (S, Vec<u8>) {
        (self.stream, self.unread)
    }

    /// Says a last thing. What the client still sends is read and dropped for a while: closing on
    /// unread bytes would take the answer away from it.
    pub(super) async fn close_with(mut self, bytes: &[u8], most: usize) {
        if self.send(bytes).await.is_err() || self.stream.shutdown().await.is_err() {
            return;
        }
        let mut dropped = 0;
        let mut part = [0; READ_BYTES];
        while dropped < most {
            match self.stream.read(&mut part).await {
                Ok(0) | Err(_) => return,
                Ok(count) => dropped += count,
            }
        }
    }
}
