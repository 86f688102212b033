//! The last step inside bubblewrap: this binary again, under the name `zero-confined`.
//!
//! Landlock forbids mounts, so it can only come after them, and by then bubblewrap has made its
//! namespaces and knows nothing of Landlock. So bubblewrap starts us, and we give up the rest and
//! start the command. Which one, we are told when we are there: walls can be put up ahead of it, and
//! until then nobody is inside but us. The command's environment comes along as data: bubblewrap and this step run
//! outside of part of the walls and must not load a library that a variable names.
//!
//! We stay, behind the same walls, as the first process of the namespace: to take in what the
//! command leaves, to say exactly how it ended, and to end with it, which ends everything inside.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::expected::{Expected, TABLE};
use super::restrict::{ApplyError, Ready, Restrictions};
use super::word::{Last, Word};
use crate::kernel_file;
use crate::profile::CommandSpec;
use crate::warden::LEFTOVER_GRACE;
use crate::warden::message::{self, Step};
use crate::warden::raw::{self, CStrings, Reap, Reaped};

/// Where bubblewrap finds us: a link in the child's own `/dev`, so that our name is the last part
/// of it whatever the binary is called and wherever it lies.
pub(crate) const DOOR: &str = "/dev/zero-confined";

/// Exit code of a step that failed before the command could start.
const FAILED: i32 = 125;
/// Between two looks at what the command left.
const LEFTOVER_PAUSE: Duration = Duration::from_millis(2);

/// What the last step has to do. Handles come along: where to say what becomes of the command, and
/// the command's streams. Ours are others, so that nobody but the command holds its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) command: CommandSpec,
    pub(crate) restrictions: Restrictions,
    /// What has to be mounted before the command is let in.
    pub(crate) expected: Expected,
}

/// A plan with its handles.
struct Given {
    plan: Plan,
    word: OwnedFd,
    streams: [OwnedFd; 3],
}

/// Runs the command of the plan that comes through the handle `number`, and gives the code to exit
/// with.
pub(crate) fn run(number: Option<OsString>) -> i32 {
    match keep_inside(number) {
        Ok(()) => 0,
        Err(words) => {
            let said = writeln!(io::stderr(), "zero: {words}");
            drop(said);
            FAILED
        }
    }
}

fn keep_inside(number: Option<OsString>) -> Result<(), String> {
    let failed = |what: &str, error: &dyn std::error::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{what}: {error}{cause}")
    };
    // Nobody inside looks into us or takes our handles, through one of which we say what is true.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|errno| failed("cannot hide", &errno))?;
    remove_door();
    let given = wait_for_plan(number).map_err(|error| failed("no plan to follow", &error))?;
    // Nobody waits for one any more: the walls were put up for nothing.
    let Some(Given { plan, word, streams }) = given else { return Ok(()) };
    let Plan { command, mut restrictions, expected } = plan;
    expected.check().map_err(|error| failed("not confined", &error))?;
    // What was looked at may be swapped again before it is granted.
    for rule in restrictions.landlock.iter_mut().flat_map(|(_, rules, _)| rules) {
        rule.exactly = expected.identity(&rule.path);
    }
    let image = Image::new(&command).map_err(|error| failed("cannot start", &error))?;
    let ready = Ready::new(&restrictions, &command.folder)
        .map_err(|error| failed("cannot confine", &error))?;
    // Before the filter, which would look at each of these calls; what we start inherits it.
    raw::reset_signals();
    match ready.apply() {
        Ok(()) => {}
        Err(ApplyError::Folder(errno)) => {
            let step = Step::Folder as u8;
            return say(&word, Word::NotRun { step, errno: errno.raw_os_error() })
                .map_err(|error| failed("cannot say so", &error));
        }
        Err(ApplyError::Other(errno)) => return Err(failed("cannot confine", &errno)),
    }
    let main = match start(&image, streams).map_err(|error| failed("cannot start", &error))? {
        Ok(pid) => pid,
        Err((step, errno)) => {
            return say(&word, Word::NotRun { step: step as u8, errno })
                .map_err(|error| failed("cannot say so", &error));
        }
    };
    // Whoever asks the command to end asks us: nobody outside knows its number.
    raw::pass_on_term_to(main);
    say(&word, Word::Started).map_err(|error| failed("cannot say so", &error))?;
    let ended = wait_for(main);
    raw::pass_on_term_to(0);
    let last = Last { leftover: linger(std::process::id()), used: raw::used_by_children() };
    let last = match ended {
        Reaped { signal: Some(signal), .. } => Word::Signalled { signal, last },
        Reaped { exit_code, .. } => Word::Returned { code: exit_code.unwrap_or(0), last },
    };
    // Whoever listens may be gone, and then nobody wants to know.
    let said = say(&word, last);
    drop(said);
    Ok(())
}

/// Starts the program; the inner error is what kept it from running.
fn start(image: &Image, streams: [OwnedFd; 3]) -> io::Result<Result<i32, (Step, i32)>> {
    let (report, child_report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (argv, envp) = (CStrings::new(&image.argv), CStrings::new(&image.envp));
    let child = || {
        let (step, errno) = match take_streams(&streams) {
            Ok(()) => {
                let errno = raw::execute(&image.program, &argv, &envp);
                let is_there = rustix::fs::access(&*image.program, rustix::fs::Access::EXISTS);
                (if is_there.is_ok() { Step::Execute } else { Step::Find }, errno)
            }
            Err(errno) => (Step::Stdio, errno),
        };
        let [a, b, c, d] = errno.to_ne_bytes();
        let _ = rustix::io::write(&child_report, &[step as u8, a, b, c, d]);
        127
    };
    let pid = raw::spawn(child)?;
    drop(child_report);
    drop(streams);
    let mut bytes = [0; 5];
    match rustix::io::retry_on_intr(|| rustix::io::read(&report, &mut bytes))? {
        0 => Ok(Ok(pid)),
        _ => {
            let [step, a, b, c, d] = bytes;
            Ok(Err((Step::from_byte(step), i32::from_ne_bytes([a, b, c, d]))))
        }
    }
}

/// In the child: a session of its own, which owns the terminal if there is one.
fn take_streams(streams: &[OwnedFd; 3]) -> Result<(), i32> {
    rustix::process::setsid().map_err(|errno| errno.raw_os_error())?;
    for (number, from) in (0..).zip(streams) {
        raw::dup_onto_number(from.as_raw_fd(), number)?;
    }
    let stdin = rustix::stdio::stdin();
    if rustix::termios::isatty(stdin) {
        rustix::process::ioctl_tiocsctty(stdin).map_err(|errno| errno.raw_os_error())?;
    }
    Ok(())
}

/// Waits for the end of the program, taking in others that end before it.
fn wait_for(main: i32) -> Reaped {
    loop {
        match raw::wait() {
            Reap::One(reaped) if reaped.pid == main => return reaped,
            Reap::One(_) | Reap::NotYet => {}
            // Cannot be: it has not been waited for. No code, no signal.
            Reap::NoChildren => return Reaped { pid: main, exit_code: None, signal: None },
        }
    }
}

/// Gives what the program left a moment to end by itself, and counts what does not.
///
/// Everything inside is below us, so nothing is left only when the kernel says that we have no
/// children. What cannot be counted is one at least.
fn linger(own: u32) -> u32 {
    let until = Instant::now() + LEFTOVER_GRACE;
    loop {
        match raw::reap() {
            Reap::NoChildren => return 0,
            // One that ends may be the last; who forks faster than we count is not.
            Reap::One(_) if Instant::now() < until + LEFTOVER_GRACE => {}
            Reap::One(_) => break,
            Reap::NotYet if Instant::now() >= until => break,
            Reap::NotYet => std::thread::sleep(LEFTOVER_PAUSE),
        }
    }
    let names = kernel_file::names(Path::new("/proc")).unwrap_or_default();
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    u32::try_from(pids.filter(|pid| *pid != own).count()).unwrap_or(u32::MAX).max(1)
}

/// Says that we are there, and waits for the plan. None when nobody is left to give one.
fn wait_for_plan(number: Option<OsString>) -> io::Result<Option<Given>> {
    let number = number.and_then(|number| number.to_str()?.parse::<RawFd>().ok());
    let door = raw::only(number.ok_or(io::ErrorKind::InvalidInput)?)?;
    // Whoever put the walls up ahead keeps an eye on them; others have gone on already.
    if let Ok(table) = rustix::fs::open(TABLE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        let said = message::send(&door, &(), &[table.as_fd()]);
        drop(said);
    }
    let Some(((), handles)) = message::receive::<()>(&door)? else { return Ok(None) };
    let [plan, word, stdin, stdout, stderr] =
        <[OwnedFd; 5]>::try_from(handles).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut text = Vec::new();
    let mut plan = File::from(plan);
    plan.rewind()?;
    plan.read_to_end(&mut text)?;
    let plan = serde_json::from_slice(&text)?;
    Ok(Some(Given { plan, word, streams: [stdin, stdout, stderr] }))
}

fn say(to: &OwnedFd, word: Word) -> io::Result<()> {
    rustix::io::write(to, &word.to_bytes())?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a link in the child's own /dev, made for this step")]
fn remove_door() {
    // It leads nowhere once we are gone; that it stays hurts nobody.
    let removed = std::fs::remove_file(DOOR);
    drop(removed);
}

/// A program with its arguments and environment as exec wants them.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
}

impl Image {
    /// Lays the words out. The program is a path: whoever orders a command has looked it up.
    pub(crate) fn new(command: &CommandSpec) -> Result<Self, std::ffi::NulError> {
        let words = std::iter::once(&command.program).chain(&command.args);
        let argv = words.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
        let envp = command
            .environment
            .iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        Ok(Self {
            program: CString::new(command.program.as_bytes())?,
            argv,
            envp: envp.collect::<Result<_, _>>()?,
        })
    }
}
