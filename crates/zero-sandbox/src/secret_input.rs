//! Reads a line from the terminal without showing it: a key, a password.
//!
//! Meanwhile the terminal shows nothing and passes on each byte as it is typed, including those
//! that usually send signals: an interrupt ends the reading instead of the program, so that the
//! terminal is always restored.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// The byte of Ctrl-C.
const INTERRUPT: u8 = 0x03;
/// The byte of Ctrl-D.
const END: u8 = 0x04;
/// The bytes of Backspace on different terminals.
const BACKSPACES: [u8; 2] = [0x08, 0x7f];
/// The byte of Ctrl-U.
const ERASE_LINE: u8 = 0x15;

/// Reads a line of at most `bytes_max` bytes from the terminal on stdin, without its line end.
/// Returns `None` if the user cancelled with Ctrl-C, or with Ctrl-D on an empty line. `ask` is
/// called once the input is hidden, so that not even the first letter is shown.
pub fn read_hidden_line(
    ask: impl FnOnce() -> io::Result<()>,
    bytes_max: u64,
) -> io::Result<Option<Vec<u8>>> {
    let stdin = rustix::stdio::stdin();
    let _guard = HiddenInputGuard::new(stdin)?;
    ask()?;
    read_line(bytes_max, || {
        let mut byte = [0];
        match rustix::io::retry_on_intr(|| rustix::io::read(stdin, &mut byte))? {
            0 => Ok(None),
            _ => Ok(byte.first().copied()),
        }
    })
}

/// Assembles a line from typed bytes; `next` returns `None` at the end of input.
fn read_line(
    bytes_max: u64,
    mut next: impl FnMut() -> io::Result<Option<u8>>,
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    // Everything that is typed is read, so that nothing is left for the shell, but not without end.
    for _ in 0..bytes_max.saturating_mul(4) {
        match next()? {
            None | Some(INTERRUPT) => return Ok(None),
            Some(END) if line.is_empty() => return Ok(None),
            Some(END | b'\n' | b'\r') => return Ok(Some(line)),
            Some(ERASE_LINE) => line.clear(),
            Some(byte) if BACKSPACES.contains(&byte) => {
                line.pop();
            }
            Some(byte) => line.push(byte),
        }
        if line.len() as u64 > bytes_max {
            return Ok(Some(line));
        }
    }
    Ok(None)
}

/// Hides what is typed in a terminal until it is dropped.
struct HiddenInputGuard<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> HiddenInputGuard<'a> {
    fn new(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
        hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
        // Discards what was typed before the question.
        tcsetattr(terminal, OptionalActions::Flush, &hidden)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for HiddenInputGuard<'_> {
    fn drop(&mut self) {
        // If this fails, the terminal is gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &[u8], expected: Option<&[u8]>, left: usize) {
        let mut bytes = typed.iter().copied();
        let line = read_line(8, || Ok(bytes.next())).unwrap();
        assert_eq!((line.as_deref(), bytes.len()), (expected, left), "{typed:?}");
    }

    #[test]
    fn hidden_line_honors_backspace_and_erase() {
        check(b"key\rrest", Some(b"key"), 4);
        check(b"key\n", Some(b"key"), 0);
        check(b"\x7fkex\x7fy\n", Some(b"key"), 0);
        check(b"no\x15key\n", Some(b"key"), 0);
        check(b"\n", Some(b""), 0);
        check(b"key\x04", Some(b"key"), 0);
    }

    #[test]
    fn cancelled_hidden_line_gives_none() {
        check(b"key\x03\n", None, 1);
        check(b"\x04", None, 0);
        check(b"key", None, 0);
        check(&[0x7f; 40], None, 8);
        check(b"123456789\n", Some(b"123456789"), 1);
    }
}
