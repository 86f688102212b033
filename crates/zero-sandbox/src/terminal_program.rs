//! Runs a program of the user's choice, such as their editor, at their terminal.
//!
//! The user works in it, not an agent, so it is not sandboxed, just like the shell that started
//! zero. Only a user at a terminal can start it.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// Lets the user edit a file with a program given as a shell command, such as `code --wait`, and
/// waits until it has ended. Restores the state of the terminal, also if the program died and left
/// it changed.
#[expect(clippy::disallowed_methods, reason = "the user works in it themselves, unconfined")]
pub fn edit(program: &str, file: &Path) -> io::Result<ExitStatus> {
    if program.trim().is_empty() {
        // The shell would run the file itself.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is given"));
    }
    // As other programs start editors: the command is parsed by a shell.
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("{program} \"$@\"")).arg("sh").arg(file);
    let keyboard = IgnoredSignalsGuard::new(KEYBOARD_SIGNALS);
    let restored_signals = keyboard.signals_not_ignored_before();
    #[expect(unsafe_code, reason = "ignored signals are inherited, and the editor needs them")]
    // SAFETY: between fork and exec, only system calls are made.
    unsafe {
        shell.pre_exec(move || {
            for signal in restored_signals.into_iter().flatten() {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    let terminal = TerminalState::capture(rustix::stdio::stdin());
    let ended = shell.status();
    if let Some(terminal) = terminal {
        terminal.restore();
    }
    drop(keyboard);
    ended
}

/// Signals of keys that interrupt a program: for the editor while it has the terminal, not for us.
const KEYBOARD_SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// The saved state of the terminal.
struct TerminalState<'a> {
    keyboard: BorrowedFd<'a>,
    /// How it handles keys and output.
    attributes: Termios,
    /// The foreground process group, ours; `None` if it is not the controlling terminal of our
    /// session.
    group: Option<Pid>,
}

impl<'a> TerminalState<'a> {
    /// Returns `None` if there is no terminal, or if we are in the background.
    fn capture(keyboard: BorrowedFd<'a>) -> Option<Self> {
        let attributes = tcgetattr(keyboard).ok()?;
        let group = match tcgetpgrp(keyboard) {
            Ok(group) if group == getpgrp() => Some(group),
            Err(Errno::NOTTY) => None,
            _ => return None,
        };
        Some(Self { keyboard, attributes, group })
    }

    /// Returns the terminal to our group and restores its attributes. A program that was killed
    /// does not.
    fn restore(self) {
        // Otherwise a background process that accesses the terminal is stopped.
        let _unstopped = IgnoredSignalsGuard::new([libc::SIGTTOU]);
        // If the terminal is gone, there is nothing to restore.
        if let Some(group) = self.group {
            let _ = tcsetpgrp(self.keyboard, group);
        }
        let _ = tcsetattr(self.keyboard, OptionalActions::Now, &self.attributes);
    }
}

/// Ignores these signals until it is dropped.
struct IgnoredSignalsGuard<const COUNT: usize>([(libc::c_int, libc::sighandler_t); COUNT]);

impl<const COUNT: usize> IgnoredSignalsGuard<COUNT> {
    fn new(signals: [libc::c_int; COUNT]) -> Self {
        Self(signals.map(|signal| {
            #[expect(unsafe_code, reason = "the library has no other function for it")]
            // SAFETY: ignoring a signal installs no code.
            let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
            (signal, before)
        }))
    }

    /// The signals that were not ignored before; with `nohup` some are.
    fn signals_not_ignored_before(&self) -> [Option<libc::c_int>; COUNT] {
        self.0.map(|(signal, before)| (before != libc::SIG_IGN).then_some(signal))
    }
}

impl<const COUNT: usize> Drop for IgnoredSignalsGuard<COUNT> {
    fn drop(&mut self) {
        for (signal, before) in self.0.into_iter().filter(|(_, before)| *before != libc::SIG_ERR) {
            #[expect(unsafe_code, reason = "the library has no other function for it")]
            // SAFETY: restores the previous handler.
            unsafe {
                libc::signal(signal, before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]

    use super::*;

    #[track_caller]
    fn check(program: &str, code: Option<i32>, left: &str) {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("a note.md");
        std::fs::write(&file, "one\n").unwrap();
        assert_eq!(edit(program, &file).unwrap().code(), code, "{program}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), left, "{program}");
    }

    #[test]
    fn editor_command_is_split_like_a_shell() {
        check("sed -i s/one/two/", Some(0), "two\n");
        check("sh -c 'echo three > \"$0\"'", Some(0), "three\n");
        check("false", Some(1), "one\n");
        check("no-such-editor 2>/dev/null", Some(127), "one\n");
        // A key interrupts the editor, not the process that waits for it.
        check("kill -INT $PPID; true", Some(0), "one\n");
    }

    #[test]
    fn blank_editor_command_does_not_run_file() {
        for program in ["", " ", "\t\n"] {
            let error = edit(program, Path::new("/bin/true")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{program:?}");
        }
    }
}
