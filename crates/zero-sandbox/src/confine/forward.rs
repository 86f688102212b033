//! The child's side of the proxy: a port in its own network, whose connections go to a unix socket.
//!
//! It runs beside the command, under the same walls, and ends with it: the process that made its
//! namespace takes everything in it along.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::mounts::PROXY_DOOR;
use super::restrict::{Ready, RestrictError, Restrictions};
use crate::profile::PROXY_PORT;
use crate::warden::raw;

/// Connections at a time; further ones are closed at once.
const CONNECTIONS_MAX: usize = 256;

/// How long to wait when a connection could not be taken, so that a full table does not spin.
const PAUSE: Duration = Duration::from_millis(10);

/// Why there is no way to the proxy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error("cannot listen on the proxy's port")]
    Listen(#[source] io::Error),
    #[error("cannot start a process for it")]
    Fork(#[source] io::Error),
    #[error("cannot confine it")]
    Restrict(#[from] RestrictError),
}

/// Starts a process that passes connections on, and gives its number. The port is open when this
/// returns. It lets go of the command's `streams`.
#[expect(unsafe_code, reason = "a process of one thread forks")]
pub(crate) fn start(restrictions: &Restrictions, streams: &[RawFd]) -> Result<i32, ForwardError> {
    let port =
        TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT)).map_err(ForwardError::Listen)?;
    let ready = Ready::new(restrictions, Path::new("/"))?;
    // SAFETY: this process has one thread, so the copy is whole.
    match unsafe { libc::fork() } {
        0 => {
            for stream in streams {
                raw::close_number(*stream);
            }
            serve(&port, &ready);
            // SAFETY: ends the copy without running what the original has yet to run.
            unsafe { libc::_exit(0) }
        }
        -1 => Err(ForwardError::Fork(io::Error::last_os_error())),
        pid => Ok(pid),
    }
}

fn serve(port: &TcpListener, ready: &Ready) {
    // Whoever reads the command's output waits until the last holder of it is gone.
    if leave_stdio().is_err() || ready.apply().is_err() {
        return;
    }
    let open = Arc::new(AtomicUsize::new(0));
    for connection in port.incoming() {
        let Ok(connection) = connection else {
            std::thread::sleep(PAUSE);
            continue;
        };
        if open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let counted = Arc::clone(&open);
        let passed = std::thread::Builder::new().spawn(move || {
            // A connection that breaks is the business of its two ends.
            let ended = pass(&connection);
            drop(ended);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if passed.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn pass(connection: &TcpStream) -> io::Result<()> {
    let proxy = UnixStream::connect(PROXY_DOOR)?;
    let (mut inward, mut outward) = (connection.try_clone()?, proxy.try_clone()?);
    let answers = std::thread::Builder::new().spawn(move || {
        let copied = io::copy(&mut outward, &mut inward);
        let closed = inward.shutdown(std::net::Shutdown::Write);
        drop((copied, closed));
    })?;
    let (mut from, mut to) = (connection, &proxy);
    let copied = io::copy(&mut from, &mut to);
    let closed = proxy.shutdown(std::net::Shutdown::Write);
    drop((copied, closed));
    answers.join().map_err(|_| io::ErrorKind::Other.into())
}

#[expect(unsafe_code, reason = "replaces handles by number")]
fn leave_stdio() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    for number in 0..=2 {
        // SAFETY: both numbers are open handles of this process, whose only thread we are.
        if unsafe { libc::dup2(nothing.as_raw_fd(), number) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
