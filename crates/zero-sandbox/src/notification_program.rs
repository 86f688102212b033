//! Runs the program with which the user wants to be notified, which makes the status line of a chat, or
//! which prints the image on their clipboard.
//!
//! It talks to their desktop or asks their programs, which no sandboxed program can reach, so it is not
//! sandboxed. Only the user's own settings name it, or zero itself does; it gets no text of the work, and
//! the caller has checked that no confined command can change it.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Which file a program is, as long as it is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramIdentity {
    device: u64,
    inode: u64,
    size: u64,
    /// Unlike the time of the last write, programs cannot set it back.
    changed: (i64, i64),
}

impl ProgramIdentity {
    /// Reads it; fails if there is no executable file at the path.
    pub fn read(path: &Path) -> io::Result<Self> {
        let facts = std::fs::metadata(path)?;
        if !facts.is_file() || facts.mode() & 0o111 == 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is not an executable file",
            ));
        }
        Ok(Self {
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.size(),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}

/// A program that notifies the user.
#[derive(Clone, Debug)]
pub struct NotificationProgram {
    /// The program, as a full path without links.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// All of its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The file that was checked.
    pub identity: ProgramIdentity,
}

impl NotificationProgram {
    /// Runs the program to its end, with a text as its input, and returns the first bytes of its
    /// output. Limits and errors are those of [`Self::run`], but a program whose output reaches the limit
    /// may fail: the rest is not read.
    pub fn run_for_output(
        &self,
        input: &str,
        timeout: Duration,
        bytes_max: u64,
    ) -> io::Result<Vec<u8>> {
        let mut child = self.prepare()?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A short text fits into the pipe; a program that does not read it is no error.
            let _ = stdin.write_all(input.as_bytes());
        }
        let (sender, output) = sync_channel(1);
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let read = stdout.take(bytes_max).read_to_end(&mut bytes);
                // If the program was killed, its output is no longer awaited.
                let _ = sender.send(read.map(|_| bytes));
            });
        }
        let ended = wait_or_kill(child, timeout);
        // A process that left the group could hold the pipe open.
        let bytes = match (&ended, output.recv_timeout(timeout)) {
            (_, Ok(bytes)) => bytes?,
            (Ok(()), Err(_)) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "its output did not end"));
            }
            (Err(_), Err(_)) => Vec::new(),
        };
        if (bytes.len() as u64) < bytes_max {
            ended?;
        }
        Ok(bytes)
    }

    /// Runs the program to its end, without input and output. After the timeout, it and every process
    /// of its group are killed. Fails if the program was changed since it was checked.
    pub fn run(&self, timeout: Duration) -> io::Result<()> {
        wait_or_kill(self.prepare()?.spawn()?, timeout)
    }

    #[expect(clippy::disallowed_methods, reason = "the user's own program, for their desktop")]
    fn prepare(&self) -> io::Result<Command> {
        if ProgramIdentity::read(&self.program)? != self.identity {
            return Err(io::Error::other("it was changed since zero started; restart zero"));
        }
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Ok(command)
    }
}

fn wait_or_kill(mut child: Child, timeout: Duration) -> io::Result<()> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let has_ended = match group.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Some(Ok(handle)) => {
            let mut fds = [PollFd::new(&handle, PollFlags::IN)];
            let timeout = Timespec::try_from(timeout).ok();
            let ended =
                rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, timeout.as_ref()));
            ended.is_ok_and(|ready| ready > 0)
        }
        // It cannot be waited for with a limit, so it is not waited for.
        _ => false,
    };
    // Its children must not stay either. Until the program is waited for, its number is its own.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    match (has_ended, status.success()) {
        (true, true) => Ok(()),
        (true, false) => Err(io::Error::other(format!("it failed with {status}"))),
        (false, _) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("it did not end within {} s and was killed", timeout.as_secs()),
        )),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test looks at what the program wrote")]
mod tests {
    use super::*;

    fn program(args: &[&str]) -> NotificationProgram {
        let program = std::fs::canonicalize("/bin/sh").unwrap();
        NotificationProgram {
            identity: ProgramIdentity::read(&program).unwrap(),
            program,
            args: args.iter().map(OsString::from).collect(),
            environment: vec![("ZERO_NOTIFY_TEXT".into(), "hi".into())],
        }
    }

    #[test]
    fn program_gets_its_environment_and_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("out");
        let script = format!("env > {}; cat >> {0}; pwd >> {0}", file.display());
        program(&["-c", &script]).run(Duration::from_secs(10)).unwrap();
        let seen = std::fs::read_to_string(file).unwrap();
        assert!(seen.contains("ZERO_NOTIFY_TEXT=hi") && seen.ends_with("/\n"), "{seen}");
        assert!(!seen.contains("CARGO"), "{seen}");
        let failed = program(&["-c", "exit 3"]).run(Duration::from_secs(10)).unwrap_err();
        assert!(failed.to_string().contains("exit status: 3"), "{failed}");
    }

    #[test]
    fn output_is_bounded_and_follows_input() {
        let run = |script: &str| {
            program(&["-c", script]).run_for_output("hello\n", Duration::from_secs(10), 8)
        };
        assert_eq!(run("read word; echo \"$word\" you").unwrap(), b"hello yo");
        assert_eq!(run("printf 'x\\377'").unwrap(), b"x\xff");
        assert!(run("exit 3").is_err());
        // The rest of a long output is not read, which ends the program by SIGPIPE.
        assert_eq!(run("cat /dev/zero").unwrap(), [0; 8]);
        let slow = program(&["-c", "sleep 1000"]);
        let late = slow.run_for_output("", Duration::from_millis(300), 8).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn slow_program_and_its_children_are_killed() {
        let temp = tempfile::tempdir().unwrap();
        let pipe = temp.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // The reader waits as long as a process holds the pipe open.
        let script = format!("(exec 3>{}; sleep 1000) & sleep 1000", pipe.display());
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || std::fs::read(pipe))
        };
        let late = program(&["-c", &script]).run(Duration::from_millis(500)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        // The child may have been killed before it opened the pipe; if it had opened it, there may be no
        // reader any more.
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        drop(rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()));
        assert!(reader.join().unwrap().unwrap().is_empty());
    }

    #[test]
    fn changed_program_is_not_run() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("program");
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
        };
        write("#!/bin/sh\n");
        let identity = ProgramIdentity::read(&path).unwrap();
        let mine = NotificationProgram { program: path.clone(), identity, ..program(&[]) };
        mine.run(Duration::from_secs(10)).unwrap();
        write("#!/bin/sh\ntouch owned\n");
        let error = mine.run(Duration::from_secs(10)).unwrap_err();
        assert!(error.to_string().contains("was changed"), "{error}");
        assert!(ProgramIdentity::read(temp.path()).is_err());
    }
}
