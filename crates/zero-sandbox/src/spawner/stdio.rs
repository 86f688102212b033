//! Creates the standard streams of a command: three pipes, or a pseudoterminal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use super::CommandStdio;
use crate::running_command::ParentStdio;

/// Size of a pipe for output, where the system grants it. It causes fewer context switches between
/// writer and reader than the default of 64 KB.
const PIPE_BYTES: usize = 1024 * 1024;

/// Returns our ends, and those of the command: its terminal, or its three streams in order.
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
            // Opened by descriptor: in our mount namespace its name may mean another terminal.
            let child = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
            set_terminal_size(&ours, rows, cols)?;
            Ok((ParentStdio { stdout: Some(ours), ..ParentStdio::default() }, vec![child]))
        }
    }
}

/// Sets the size of a terminal.
pub(crate) fn set_terminal_size(terminal: impl AsFd, rows: u16, cols: u16) -> io::Result<()> {
    let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

fn create_output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // A user may have only a limited number of large pipes; one of the default size works too.
    let _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES);
    Ok((read, write))
}
