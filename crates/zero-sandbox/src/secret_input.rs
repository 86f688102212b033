//! A line that is typed without being seen: a key, a password.
//!
//! The terminal shows nothing meanwhile and hands over each byte as it is typed, signals among them:
//! an interrupt ends the reading instead of the program, so that the terminal is always put back as it
//! was.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// What Ctrl-C types.
const INTERRUPT: u8 = 0x03;
/// What Ctrl-D types.
const END: u8 = 0x04;
/// What Backspace types, on one terminal and the other.
const BACKSPACES: [u8; 2] = [0x08, 0x7f];
/// What Ctrl-U types.
const ERASE_LINE: u8 = 0x15;

/// Reads a line of at most so many bytes from the terminal on stdin, without its end; `None` when the
/// person gave up by Ctrl-C, or by Ctrl-D on an empty line. It is asked for once nothing is seen any
/// more, so that not even the first letter is.
pub fn read_hidden_line(
    ask: impl FnOnce() -> io::Result<()>,
    bytes_max: u64,
) -> io::Result<Option<Vec<u8>>> {
    let stdin = rustix::stdio::stdin();
    let _shown_again = HiddenInputGuard::new(stdin)?;
    ask()?;
    read_line(bytes_max, || {
        let mut byte = [0];
        match rustix::io::retry_on_intr(|| rustix::io::read(stdin, &mut byte))? {
            0 => Ok(None),
            _ => Ok(byte.first().copied()),
        }
    })
}

/// Puts a line together from what is typed, byte by byte; `None` is the end of all input.
fn read_line(
    bytes_max: u64,
    mut next: impl FnMut() -> io::Result<Option<u8>>,
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    // Whatever is typed is read, so that nothing of it is left for the shell; but not for ever.
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

/// A terminal that shows nothing of what is typed, until this is dropped.
struct HiddenInputGuard<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> HiddenInputGuard<'a> {
    fn new(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut unseen = before.clone();
        unseen.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        unseen.special_codes[SpecialCodeIndex::VMIN] = 1;
        unseen.special_codes[SpecialCodeIndex::VTIME] = 0;
        // What was typed before the question was no answer to it.
        tcsetattr(terminal, OptionalActions::Flush, &unseen)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for HiddenInputGuard<'_> {
    fn drop(&mut self) {
        // Where this fails the terminal is gone.
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
