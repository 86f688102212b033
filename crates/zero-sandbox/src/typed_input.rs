//! What the user types at a terminal, key by key: keys typed before a question appeared are
//! discarded, so that they cannot answer it, and none is shown.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcsetattr,
};

/// Value of a special code that no key has (`_POSIX_VDISABLE`).
#[cfg(target_os = "linux")]
const CODE_DISABLED: u8 = 0;
#[cfg(not(target_os = "linux"))]
const CODE_DISABLED: u8 = 0xff;

/// Discards what was typed at a terminal and not read yet, including a line without its end.
pub fn discard_typed_input(terminal: impl AsFd) -> io::Result<()> {
    Ok(tcflush(terminal, QueueSelector::IFlush)?)
}

/// Who handles the keys that usually send signals, such as Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKeys {
    /// The terminal sends signals.
    SendSignals,
    /// They are read like any other key.
    AreRead,
}

/// A terminal that passes on each byte as it is typed and shows none of them, until it is closed or
/// dropped. Earlier input is discarded.
#[derive(Debug)]
pub struct RawInput {
    terminal: OwnedFd,
    /// The modes to restore; `None` once it is closed.
    before: Mutex<Option<Termios>>,
    /// Becomes readable when the input is closed, which wakes up a waiting reader.
    closed: PipeReader,
    close: PipeWriter,
}

/// What a wait for input gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawRead {
    /// So many bytes were read.
    Bytes(usize),
    /// Nothing was typed in time.
    TimedOut,
    /// The terminal is gone, or the input was closed.
    Ended,
}

impl RawInput {
    /// Takes over the input of a terminal.
    pub fn open(terminal: impl AsFd, signal_keys: SignalKeys) -> io::Result<Self> {
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        let (closed, close) = io::pipe()?;
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN);
        if signal_keys == SignalKeys::AreRead {
            raw.local_modes.remove(LocalModes::ISIG);
        }
        // A shell that resumes this process would not restore these modes, so no key suspends it.
        raw.special_codes[SpecialCodeIndex::VSUSP] = CODE_DISABLED;
        // Enter stays different from Ctrl-J, and no key stops the output.
        raw.input_modes.remove(InputModes::ICRNL | InputModes::IXON);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &raw)?;
        Ok(Self { terminal, before: Mutex::new(Some(before)), closed, close })
    }

    /// Discards what was typed and not read yet.
    pub fn discard(&self) -> io::Result<()> {
        discard_typed_input(&self.terminal)
    }

    /// Waits for input, without end if `wait` is `None`.
    pub fn read(&self, bytes: &mut [u8], wait: Option<Duration>) -> io::Result<RawRead> {
        let wait = wait.map(|wait| Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let mut ready =
            [PollFd::new(&self.terminal, PollFlags::IN), PollFd::new(&self.closed, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut ready, wait.as_ref()))? == 0 {
            return Ok(RawRead::TimedOut);
        }
        let [terminal, closed] = &ready;
        if !closed.revents().is_empty() || !terminal.revents().contains(PollFlags::IN) {
            return Ok(RawRead::Ended);
        }
        Ok(match rustix::io::retry_on_intr(|| rustix::io::read(&self.terminal, &mut *bytes))? {
            0 => RawRead::Ended,
            count => RawRead::Bytes(count),
        })
    }

    /// Restores the terminal and ends a pending read. Input that was not read is discarded.
    pub fn close(&self) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            // If this fails, the terminal is gone.
            let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &before);
            let _ = (&self.close).write_all(&[0]);
        }
    }
}

impl Drop for RawInput {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::sync::Arc;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// The keyboard of a terminal, and the terminal.
    fn open_terminal() -> (File, File) {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        let far = File::options().read(true).write(true).open(name).unwrap();
        (File::from(near), far)
    }

    #[test]
    fn raw_input_passes_keys_without_enter_and_restores_terminal() {
        let (mut keyboard, terminal) = open_terminal();
        keyboard.write_all(b"early\n").unwrap();
        // Keys arrive a moment after they are sent.
        poll(&mut [PollFd::new(&terminal, PollFlags::IN)], None).unwrap();
        let before = tcgetattr(&terminal).unwrap().local_modes;
        let input = RawInput::open(&terminal, SignalKeys::AreRead).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(input.read(&mut bytes, Some(Duration::ZERO)).unwrap(), RawRead::TimedOut);
        keyboard.write_all(b"\x03").unwrap();
        assert_eq!(input.read(&mut bytes, None).unwrap(), RawRead::Bytes(1));
        assert_eq!(bytes[0], 3);
        drop(input);
        assert_eq!(tcgetattr(&terminal).unwrap().local_modes, before);
    }

    #[test]
    fn suspend_key_is_read_and_restored() {
        let (mut keyboard, terminal) = open_terminal();
        let suspend = || tcgetattr(&terminal).unwrap().special_codes[SpecialCodeIndex::VSUSP];
        let before = suspend();
        assert_ne!(before, CODE_DISABLED);
        let input = RawInput::open(&terminal, SignalKeys::SendSignals).unwrap();
        assert_eq!(suspend(), CODE_DISABLED);
        keyboard.write_all(&[before]).unwrap();
        let mut bytes = [0; 8];
        assert_eq!(input.read(&mut bytes, None).unwrap(), RawRead::Bytes(1));
        assert_eq!(bytes[0], before);
        drop(input);
        assert_eq!(suspend(), before);
    }

    #[test]
    fn close_ends_a_pending_read() {
        let (_keyboard, terminal) = open_terminal();
        let input = Arc::new(RawInput::open(&terminal, SignalKeys::SendSignals).unwrap());
        let reader = {
            let input = Arc::clone(&input);
            std::thread::spawn(move || input.read(&mut [0], None).unwrap())
        };
        input.close();
        assert_eq!(reader.join().unwrap(), RawRead::Ended);
    }
}
