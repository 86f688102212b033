//! A program of the person's own choice, at their own terminal: their editor.
//!
//! It is the person who works there, not an agent, so nothing confines it, as nothing confines the
//! shell that started zero. Nobody but a person at a terminal can have it started.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// Has the person edit a file with the program that they name as shells name it, such as
/// `code --wait`, and waits until they are done. The terminal is then as it was, also where the
/// program died and left it otherwise.
#[expect(clippy::disallowed_methods, reason = "the person works there themselves, unconfined")]
pub fn edit(program: &str, file: &Path) -> io::Result<ExitStatus> {
    if program.trim().is_empty() {
        // The shell would run the file itself.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is named"));
    }
    // As everybody else who starts an editor does it: the words are a shell's.
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("{program} \"$@\"")).arg("sh").arg(file);
    let keyboard = IgnoredSignalsGuard::new(KEYBOARD_SIGNALS);
    let wanted = keyboard.signals_not_ignored_before();
    #[expect(unsafe_code, reason = "what is ignored here is inherited, and the editor wants it")]
    // SAFETY: between fork and exec, only system calls are made.
    unsafe {
        shell.pre_exec(move || {
            for signal in wanted.into_iter().flatten() {
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

/// What keys send to stop a program: for the editor while it has the terminal, not for us.
const KEYBOARD_SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// The terminal of this process as it was.
struct TerminalState<'a> {
    keyboard: BorrowedFd<'a>,
    /// How it takes keys and shows them.
    attributes: Termios,
    /// Who had it: we; `None` for one that nobody takes turns at, as it is not that of our session.
    group: Option<Pid>,
}

impl<'a> TerminalState<'a> {
    /// `None` where there is none, or it is another's: in the background, it is the shell's.
    fn capture(keyboard: BorrowedFd<'a>) -> Option<Self> {
        let attributes = tcgetattr(keyboard).ok()?;
        let group = match tcgetpgrp(keyboard) {
            Ok(group) if group == getpgrp() => Some(group),
            Err(Errno::NOTTY) => None,
            _ => return None,
        };
        Some(Self { keyboard, attributes, group })
    }

    /// Takes it back, and has it be as it was. A program that was killed gives back nothing.
    fn restore(self) {
        // Whoever reaches for a terminal that is another's is stopped otherwise.
        let _unstopped = IgnoredSignalsGuard::new([libc::SIGTTOU]);
        // Where it is gone, there is nothing to give back.
        if let Some(group) = self.group {
            let _ = tcsetpgrp(self.keyboard, group);
        }
        let _ = tcsetattr(self.keyboard, OptionalActions::Now, &self.attributes);
    }
}

/// These signals, ignored until this is gone.
struct IgnoredSignalsGuard<const COUNT: usize>([(libc::c_int, libc::sighandler_t); COUNT]);

impl<const COUNT: usize> IgnoredSignalsGuard<COUNT> {
    fn new(signals: [libc::c_int; COUNT]) -> Self {
        Self(signals.map(|signal| {
            #[expect(unsafe_code, reason = "the library has no other way to say it")]
            // SAFETY: ignoring a signal installs no code.
            let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
            (signal, before)
        }))
    }

    /// Those that were not ignored before, as they are not for whoever starts zero with `nohup`.
    fn signals_not_ignored_before(&self) -> [Option<libc::c_int>; COUNT] {
        self.0.map(|(signal, before)| (before != libc::SIG_IGN).then_some(signal))
    }
}

impl<const COUNT: usize> Drop for IgnoredSignalsGuard<COUNT> {
    fn drop(&mut self) {
        for (signal, before) in self.0.into_iter().filter(|(_, before)| *before != libc::SIG_ERR) {
            #[expect(unsafe_code, reason = "the library has no other way to say it")]
            // SAFETY: puts back what stood there.
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
        // What a key stops is the editor, not whoever waits for it.
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
