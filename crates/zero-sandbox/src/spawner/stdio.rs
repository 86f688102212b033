//! What a command reads and writes: three pipes, or a terminal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::CommandStdio;
use crate::running_command::ParentStdio;

/// Bytes a pipe of output holds, where the system grants them. Fewer switches between who writes
/// and who reads than with the usual 64 KB.
const PIPE_BYTES: usize = 1024 * 1024;

/// Our ends, and those of the command: its terminal, or its three streams in order.
pub(super) fn open_stdio(stdio: CommandStdio) -> io::Result<(ParentStdio, Vec<OwnedFd>)> {
    match stdio {
        CommandStdio::Pipes => {
            let (child_stdin, stdin) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            let (stdout, child_stdout) = create_output_pipe()?;
            let (stderr, child_stderr) = create_output_pipe()?;
            let ends =
                ParentStdio { stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr) };
            Ok((ends, vec![child_stdin, child_stdout, child_stderr]))
        }
        CommandStdio::Pty { rows, cols } => {
            let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
            let ours = rustix::pty::openpt(flags)?;
            rustix::pty::grantpt(&ours)?;
            rustix::pty::unlockpt(&ours)?;
            // The other side by descriptor: its name may mean another terminal where we are.
            let child = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
            set_terminal_size(&ours, rows, cols)?;
            Ok((ParentStdio { stdout: Some(ours), ..ParentStdio::default() }, vec![child]))
        }
    }
}

/// Says how large a terminal is.
pub(crate) fn set_terminal_size(terminal: impl AsFd, rows: u16, cols: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

fn create_output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // Users get only so many large pipes; a usual one does.
    let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES);
    Ok((read, write))
}
