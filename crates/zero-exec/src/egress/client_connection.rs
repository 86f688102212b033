//! The client's side of a connection until its request is complete.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::proxy_error::ProxyError;
use super::proxy_request::ClientProtocol;

/// Bytes per read.
const READ_BYTES: usize = 4 * 1024;

/// The client's side of a connection: the bytes read so far and the protocol detected so far.
pub(super) struct ClientConnection<S> {
    stream: S,
    unread: Vec<u8>,
    pub(super) protocol: ClientProtocol,
}

impl ClientConnection<TcpStream> {
    /// Returns when the client has disconnected. Never returns if it has sent bytes that are not read.
    pub(super) async fn wait_until_closed(&self) {
        let mut byte = [0];
        if let Ok(1..) = self.stream.peek(&mut byte).await {
            std::future::pending::<()>().await;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientConnection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, unread: Vec::new(), protocol: ClientProtocol::Unknown }
    }

    /// Bytes that were read but not consumed.
    pub(super) fn unread(&self) -> &[u8] {
        &self.unread
    }

    /// Reads more bytes, and fails when more than `most` bytes are buffered.
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

    /// Consumes the next `count` bytes and waits until they arrive.
    pub(super) async fn read_exact(&mut self, count: usize) -> Result<Vec<u8>, ProxyError> {
        // Bytes that follow stay in the buffer: they may belong to the tunnel.
        while self.unread.len() < count {
            self.read_more(count).await?;
        }
        Ok(self.unread.drain(..count).collect())
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ProxyError> {
        self.stream.write_all(bytes).await.map_err(|_| ProxyError::ClientGone)
    }

    /// The stream, and the bytes that were read but not consumed.
    pub(super) fn into_parts(self) -> (S, Vec<u8>) {
        (self.stream, self.unread)
    }

    /// Sends a last reply. Further input is read and discarded for a while, because closing with
    /// unread bytes would reset the connection before the client gets the reply.
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
