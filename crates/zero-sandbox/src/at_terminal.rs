//! A program of the person's own choice, at their own terminal: their editor.
//!
//! It is the person who works there, not an agent, so nothing confines it, as nothing confines the
//! shell that started zero. Nobody but a person at a terminal can have it started.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Has the person edit a file with the program that they name as shells name it, such as
/// `code --wait`, and waits until they are done.
#[expect(clippy::disallowed_methods, reason = "the person works there themselves, unconfined")]
pub fn edit(program: &str, file: &Path) -> io::Result<ExitStatus> {
    // As everybody else who starts an editor does it: the words are a shell's.
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("{program} \"$@\"")).arg("sh").arg(file);
    let keyboard = Ignored::new();
    #[expect(unsafe_code, reason = "what is ignored here is inherited, and the editor wants it")]
    // SAFETY: between fork and exec, only system calls are made.
    unsafe {
        shell.pre_exec(|| {
            for signal in KEYBOARD {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    let ended = shell.status();
    drop(keyboard);
    ended
}

/// What keys send to stop a program: for the editor while it has the terminal, not for us.
const KEYBOARD: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// These signals, ignored until this is gone.
struct Ignored([(libc::c_int, libc::sighandler_t); 2]);

impl Ignored {
    fn new() -> Self {
        Self(KEYBOARD.map(|signal| {
            #[expect(unsafe_code, reason = "the library has no other way to say it")]
            // SAFETY: ignoring a signal installs no code.
            let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
            (signal, before)
        }))
    }
}

impl Drop for Ignored {
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
    fn the_program_is_named_as_shells_name_it() {
        check("sed -i s/one/two/", Some(0), "two\n");
        check("sh -c 'echo three > \"$0\"'", Some(0), "three\n");
        check("false", Some(1), "one\n");
        check("no-such-editor 2>/dev/null", Some(127), "one\n");
        // What a key stops is the editor, not whoever waits for it.
        check("kill -INT $PPID; true", Some(0), "one\n");
    }
}
