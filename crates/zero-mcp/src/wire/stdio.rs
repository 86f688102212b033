//! Our own input and output as streams.
//!
//! Whoever starts a server gives it pipes or sockets. Those are waited for by the runtime itself:
//! a thread that blocks in a read costs tens of microseconds a message, and keeps the process from
//! ending while nothing comes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixStream, unix::pipe};

/// Our own input.
pub type StdioInput = Box<dyn AsyncRead + Send + Unpin>;
/// Our own output.
pub type StdioOutput = Box<dyn AsyncWrite + Send + Unpin>;

/// Our own input and output. Must be called within a runtime, and once.
pub fn stdio() -> io::Result<(StdioInput, StdioOutput)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let input: StdioInput = match kind(&input)? {
        Kind::Pipe(fd) => Box::new(pipe::Receiver::from_owned_fd(fd)?),
        Kind::Socket(fd) => Box::new(socket(fd)?),
        Kind::Other => Box::new(tokio::io::stdin()),
    };
    let output: StdioOutput = match kind(&output)? {
        Kind::Pipe(fd) => Box::new(pipe::Sender::from_owned_fd(fd)?),
        Kind::Socket(fd) => Box::new(socket(fd)?),
        Kind::Other => Box::new(tokio::io::stdout()),
    };
    Ok((input, output))
}

enum Kind {
    Pipe(OwnedFd),
    Socket(OwnedFd),
    Other,
}

fn kind(fd: &OwnedFd) -> io::Result<Kind> {
    let file = File::from(fd.try_clone()?);
    let kind = file.metadata()?.file_type();
    Ok(if kind.is_fifo() {
        Kind::Pipe(file.into())
    } else if kind.is_socket() {
        Kind::Socket(file.into())
    } else {
        Kind::Other
    })
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = std::os::unix::net::UnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
