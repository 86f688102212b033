//! The program at a terminal: what it asks is answered by typing.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, sync_channel};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::gateway_process::{TIMEOUT, wait_for_child};

/// A program with a terminal for its three streams.
pub(crate) struct TerminalProcess {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl TerminalProcess {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_sized(command, 80, 24)
    }

    /// Starts a program in a window of this many columns and rows.
    pub(crate) fn start_sized(mut command: Command, columns: u16, rows: u16) -> Self {
        // A program that had this end, too, would never see that the terminal is gone.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let near = openpt(flags).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&near, size).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        let far = || File::options().read(true).write(true).open(&name).unwrap();
        let child = command.stdin(far()).stdout(far()).stderr(far()).spawn().unwrap();
        // What the command holds of the far end would keep the terminal open.
        drop(command);
        let keyboard = File::from(near);
        let mut reader = keyboard.try_clone().unwrap();
        let (shows, screen) = sync_channel(4_096);
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            // A terminal that nobody holds any more is an error to read.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if shows.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, seen: String::new() }
    }

    /// Waits until something is on the screen.
    #[track_caller]
    pub(crate) fn wait_for_text(&mut self, text: &str) {
        self.wait_for_repeated_text(text, 1);
    }

    /// Waits until something is on the screen so many times.
    #[track_caller]
    pub(crate) fn wait_for_repeated_text(&mut self, text: &str, count: usize) {
        while self.seen.matches(text).count() < count {
            match self.screen.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("no `{text}` in {:?}", self.seen),
            }
        }
    }

    /// Waits until a text is on the screen below another one.
    #[track_caller]
    pub(crate) fn wait_for_text_below(&mut self, above: &str, text: &str) {
        self.wait_for_text(above);
        let count = self.seen.rfind(above).map_or(0, |at| self.seen[..at].matches(text).count());
        self.wait_for_repeated_text(text, count + 1);
    }

    /// What is written next; `None` if nothing is for a long time.
    pub(crate) fn next_output(&mut self) -> Option<Vec<u8>> {
        self.screen.recv_timeout(TIMEOUT).ok()
    }

    /// Waits until a text is the last on the screen.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self, text: &str) {
        while !self.seen.ends_with(text) {
            match self.screen.recv_timeout(TIMEOUT) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("no `{text}` at the end of {:?}", self.seen),
            }
        }
    }

    /// What is on the screen so far.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Interrupts the program as Ctrl-C does; it does not control this terminal.
    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// Ends the program as a terminal does that is closed.
    pub(crate) fn hang_up(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end; gives the exit code, and all that was on the screen.
    pub(crate) fn wait_for_exit(mut self) -> (i32, String) {
        let code = wait_for_child(&mut self.child).code().unwrap();
        // Whoever works at the terminal after this sees what they type.
        let modes = tcgetattr(&self.keyboard).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG));
        while let Ok(bytes) = self.screen.recv_timeout(TIMEOUT) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, std::mem::take(&mut self.seen))
    }
}

impl Drop for TerminalProcess {
    /// Ends the program, wherever the test stopped.
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
