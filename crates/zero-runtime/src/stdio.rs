//! This process's own standard input and output as async streams.
//!
//! A server's streams are usually pipes or sockets, which the async runtime can wait for itself: a
//! thread that blocks in a read costs tens of microseconds per message, and keeps the process from
//! exiting while no input arrives.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixStream, unix::pipe};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Standard input.
pub type StdioInput = Box<dyn AsyncRead + Send + Unpin>;
/// Standard output.
pub type StdioOutput = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input and output. Call it once, within a runtime.
pub fn open_stdio() -> io::Result<(StdioInput, StdioOutput)> {
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let output: StdioOutput = match fd_kind(&output)? {
        StdioKind::Pipe(fd) => Box::new(pipe::Sender::from_owned_fd(fd)?),
        StdioKind::Socket(fd) => Box::new(open_socket(fd)?),
        StdioKind::Other => Box::new(tokio::io::stdout()),
    };
    Ok((open_input()?, output))
}

/// Standard input, and an output that was separated from stdout. The input ends when `stop` is
/// cancelled, as it does when the writer closes it.
pub fn open_stdio_with(
    output: OwnedFd,
    stop: CancellationToken,
) -> io::Result<(StdioInput, StdioOutput)> {
    let output: StdioOutput = match fd_kind(&output)? {
        StdioKind::Pipe(fd) => Box::new(pipe::Sender::from_owned_fd(fd)?),
        StdioKind::Socket(fd) => Box::new(open_socket(fd)?),
        StdioKind::Other => Box::new(tokio::fs::File::from_std(File::from(output))),
    };
    let stopped = Box::pin(stop.cancelled_owned());
    Ok((Box::new(CancellableInput { input: open_input()?, stopped }), output))
}

fn open_input() -> io::Result<StdioInput> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    Ok(match fd_kind(&input)? {
        StdioKind::Pipe(fd) => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        StdioKind::Socket(fd) => Box::new(open_socket(fd)?),
        StdioKind::Other => Box::new(tokio::io::stdin()),
    })
}

/// Input that ends when it is cancelled.
struct CancellableInput {
    input: StdioInput,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl AsyncRead for CancellableInput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stopped.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.input).poll_read(cx, buffer)
    }
}

enum StdioKind {
    Pipe(OwnedFd),
    Socket(OwnedFd),
    Other,
}

fn fd_kind(fd: &OwnedFd) -> io::Result<StdioKind> {
    let file = File::from(fd.try_clone()?);
    let kind = file.metadata()?.file_type();
    Ok(if kind.is_fifo() {
        StdioKind::Pipe(file.into())
    } else if kind.is_socket() {
        StdioKind::Socket(file.into())
    } else {
        StdioKind::Other
    })
}

fn open_socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn input_ends_on_cancellation() {
        let (mut near, far) = tokio::io::duplex(64);
        let stop = CancellationToken::new();
        let stopped = Box::pin(stop.clone().cancelled_owned());
        let mut input = CancellableInput { input: Box::new(far), stopped };
        near.write_all(b"ab").await.unwrap();
        let mut read = [0; 2];
        input.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ab");
        stop.cancel();
        assert_eq!(input.read(&mut read).await.unwrap(), 0);
        drop(near);
    }
}
