//! The last step inside bubblewrap: this binary again, under the name `zero-confined`.
//!
//! Landlock forbids mounts, so it can only come after them, and by then bubblewrap has made its
//! namespaces and knows nothing of Landlock. So bubblewrap starts us, and we give up the rest and
//! start the command. Which one, we are told when we are there: walls can be put up ahead of it, and
//! until then nobody is inside but us. The command's environment comes along as data: bubblewrap and this step run
//! outside of part of the walls and must not load a library that a variable names.
//!
//! We stay, behind the same walls, as the first process of the namespace: to take in what the
//! command leaves and to say exactly how it ended. When it left a process we end, which ends
//! everything inside. Otherwise we wait for another command of the same kind, until nobody is there
//! who could have one: what we gave up for the first is given up for all.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::expected_mounts::{ExpectedMounts, MOUNT_TABLE};
use super::init_report::{ExitSummary, InitReport};
use super::residue::{self, ResidueSnapshot};
use super::restrictions::{self, PreparedRestrictions, ProcessRestrictions, RestrictionApplyError};
use crate::kernel_file;
use crate::profile::CommandSpec;
use crate::spawner::LEFTOVER_GRACE;
use crate::spawner::message::{self, LaunchStep};
use crate::spawner::syscalls::{self, CStringArray, ChildExit, ReapOutcome, ResourceUsage};

/// Where bubblewrap finds us: a link in the child's own `/dev`, so that our name is the last part
/// of it whatever the binary is called and wherever it lies.
pub(crate) const INIT_PATH: &str = "/dev/zero-confined";

/// Exit code of a step that failed before the command could start.
const EXIT_FAILED: i32 = 125;
/// Between two looks at what the command left.
const LEFTOVER_PAUSE: Duration = Duration::from_millis(2);

/// More commands than that are never run behind the same walls.
const COMMANDS_MAX: u32 = 4096;

/// What the last step has to do. Handles come along: where to say what becomes of the command, and
/// the command's streams. Ours are others, so that nobody but the command holds its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitPlan {
    pub(crate) command: CommandSpec,
    /// What comes before the first command, and only before that.
    pub(crate) before: Option<InitSetup>,
}

/// What comes before the first command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitSetup {
    /// What is given up.
    pub(crate) restrictions: ProcessRestrictions,
    /// What has to be mounted.
    pub(crate) expected: ExpectedMounts,
}

/// A plan with its handles.
struct ReceivedPlan {
    plan: InitPlan,
    word: OwnedFd,
    streams: [OwnedFd; 3],
}

/// Runs the command of the plan that comes through the handle `number`, and gives the code to exit
/// with.
pub(crate) fn run(number: Option<OsString>) -> i32 {
    match run_commands(number) {
        Ok(()) => 0,
        Err(words) => {
            let said = writeln!(io::stderr(), "zero: {words}");
            drop(said);
            EXIT_FAILED
        }
    }
}

fn run_commands(number: Option<OsString>) -> Result<(), String> {
    // Nobody inside looks into us or takes our handles, through one of which we say what is true.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|errno| describe_failure("cannot hide", &errno))?;
    remove_init_link();
    let door = announce(number).map_err(|error| describe_failure("no way out", &error))?;
    let mut confined = ConfinementState::NotYet;
    for _ in 0..COMMANDS_MAX {
        let given =
            wait_for_plan(&door).map_err(|error| describe_failure("no plan to follow", &error))?;
        // Nobody has one any more.
        let Some(ReceivedPlan { plan, word, streams }) = given else { return Ok(()) };
        let InitPlan { command, before } = plan;
        let image =
            ExecImage::new(&command).map_err(|error| describe_failure("cannot start", &error))?;
        let in_folder = match (before, confined) {
            (Some(before), ConfinementState::NotYet) => confine(before, &command.folder)?,
            (None, ConfinementState::Already) => restrictions::enter_folder(&command.folder),
            // Never twice, and nothing runs before.
            _ => return Err("cannot confine: the plan is not for these walls".to_owned()),
        };
        confined = ConfinementState::Already;
        let started = match in_folder {
            Ok(()) => start_program(&image, streams)
                .map_err(|error| describe_failure("cannot start", &error))?,
            Err(errno) => Err((LaunchStep::Folder, errno.raw_os_error())),
        };
        let main = match started {
            Ok(pid) => pid,
            Err((step, errno)) => {
                return send_report(&word, InitReport::NotRun { step: step as u8, errno })
                    .map_err(|error| describe_failure("cannot say so", &error));
            }
        };
        // Whoever asks the command to end asks us: nobody outside knows its number.
        syscalls::forward_sigterm_to(main);
        send_report(&word, InitReport::Started)
            .map_err(|error| describe_failure("cannot say so", &error))?;
        let (ended, used) = wait_for_main(main);
        syscalls::forward_sigterm_to(0);
        let last = wait_for_leftovers(std::process::id(), used);
        let word_of_end = match ended {
            ChildExit { signal: Some(signal), .. } => InitReport::Signalled { signal, last },
            ChildExit { exit_code, .. } => {
                InitReport::Returned { code: exit_code.unwrap_or(0), last }
            }
        };
        // Whoever listens may be gone, and then nobody wants to know.
        let said = send_report(&word, word_of_end);
        drop(said);
        if last.leftover > 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether this process has given up what its commands have not.
#[derive(Clone, Copy)]
enum ConfinementState {
    NotYet,
    Already,
}

/// Looks whether all walls stand and gives up the rest. The inner error is that of the folder in
/// which the command was to start.
fn confine(before: InitSetup, folder: &Path) -> Result<Result<(), rustix::io::Errno>, String> {
    let InitSetup { mut restrictions, expected } = before;
    expected.check().map_err(|error| describe_failure("not confined", &error))?;
    // What was looked at may be swapped again before it is granted.
    for rule in restrictions.landlock.iter_mut().flat_map(|(_, rules, _)| rules) {
        rule.exactly = expected.identity(&rule.path);
    }
    let ready = PreparedRestrictions::new(&restrictions, folder)
        .map_err(|error| describe_failure("cannot confine", &error))?;
    // Before the filter, which would look at each of these calls; what we start inherits it.
    syscalls::reset_signals();
    match ready.apply() {
        Ok(()) => Ok(Ok(())),
        Err(RestrictionApplyError::Folder(errno)) => Ok(Err(errno)),
        Err(RestrictionApplyError::Other(errno)) => Err(describe_failure("cannot confine", &errno)),
    }
}

fn describe_failure(what: &str, error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{what}: {error}{cause}")
}

/// Starts the program; the inner error is what kept it from running.
fn start_program(
    image: &ExecImage,
    streams: [OwnedFd; 3],
) -> io::Result<Result<i32, (LaunchStep, i32)>> {
    let (report, child_report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (argv, envp) = (CStringArray::new(&image.argv), CStringArray::new(&image.envp));
    let child = || {
        let (step, errno) = match adopt_streams(&streams) {
            Ok(()) => {
                let errno = syscalls::execute(&image.program, &argv, &envp);
                let is_there = rustix::fs::access(&*image.program, rustix::fs::Access::EXISTS);
                (if is_there.is_ok() { LaunchStep::Execute } else { LaunchStep::Find }, errno)
            }
            Err(errno) => (LaunchStep::Stdio, errno),
        };
        let [a, b, c, d] = errno.to_ne_bytes();
        let _ = rustix::io::write(&child_report, &[step as u8, a, b, c, d]);
        127
    };
    let pid = syscalls::spawn(child)?;
    drop(child_report);
    drop(streams);
    let mut bytes = [0; 5];
    match rustix::io::retry_on_intr(|| rustix::io::read(&report, &mut bytes))? {
        0 => Ok(Ok(pid)),
        _ => {
            let [step, a, b, c, d] = bytes;
            Ok(Err((LaunchStep::from_byte(step), i32::from_ne_bytes([a, b, c, d]))))
        }
    }
}

/// In the child: a session of its own, which owns the terminal if there is one.
fn adopt_streams(streams: &[OwnedFd; 3]) -> Result<(), i32> {
    rustix::process::setsid().map_err(|errno| errno.raw_os_error())?;
    for (number, from) in (0..).zip(streams) {
        syscalls::dup_onto(from.as_raw_fd(), number)?;
    }
    let stdin = rustix::stdio::stdin();
    if rustix::termios::isatty(stdin) {
        rustix::process::ioctl_tiocsctty(stdin).map_err(|errno| errno.raw_os_error())?;
    }
    Ok(())
}

/// Waits for the end of the program, taking in others that end before it, and says what all of them
/// used.
fn wait_for_main(main: i32) -> (ChildExit, ResourceUsage) {
    let mut used = ResourceUsage::default();
    loop {
        match syscalls::wait() {
            ReapOutcome::Exited(reaped) => {
                used = used.add(reaped.used);
                if reaped.pid == main {
                    return (reaped, used);
                }
            }
            ReapOutcome::StillRunning => {}
            // Cannot be: it has not been waited for. No code, no signal.
            ReapOutcome::NoChildren => {
                return (ChildExit { pid: main, exit_code: None, signal: None, used }, used);
            }
        }
    }
}

/// Gives what the program left a moment to end by itself, and counts what does not. What ends adds
/// to what was `used`.
///
/// Everything inside is below us, so nothing is left only when the kernel says that we have no
/// children. What cannot be counted is one at least.
fn wait_for_leftovers(own: u32, mut used: ResourceUsage) -> ExitSummary {
    let until = Instant::now() + LEFTOVER_GRACE;
    loop {
        match syscalls::reap() {
            ReapOutcome::NoChildren => return ExitSummary { leftover: 0, used },
            // One that ends may be the last; who forks faster than we count is not.
            ReapOutcome::Exited(reaped) => {
                used = used.add(reaped.used);
                if Instant::now() >= until + LEFTOVER_GRACE {
                    break;
                }
            }
            ReapOutcome::StillRunning if Instant::now() >= until => break,
            ReapOutcome::StillRunning => std::thread::sleep(LEFTOVER_PAUSE),
        }
    }
    let names = kernel_file::list_names(Path::new("/proc")).unwrap_or_default();
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    let leftover = u32::try_from(pids.filter(|pid| *pid != own).count()).unwrap_or(u32::MAX).max(1);
    ExitSummary { leftover, used }
}

/// Says that we are there, and gives where plans come from.
fn announce(number: Option<OsString>) -> io::Result<OwnedFd> {
    let number = number.and_then(|number| number.to_str()?.parse::<RawFd>().ok());
    let door = syscalls::close_other_fds(number.ok_or(io::ErrorKind::InvalidInput)?)?;
    // Whoever put the walls up keeps an eye on them, and on what commands leave in them.
    if let Ok(table) =
        rustix::fs::open(MOUNT_TABLE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    {
        let traces = residue::open_all().unwrap_or_default();
        let noted = ResidueSnapshot::capture(&traces);
        let handles: Vec<_> = std::iter::once(&table).chain(&traces).map(AsFd::as_fd).collect();
        let said = message::send(&door, &noted, &handles);
        drop(said);
    }
    Ok(door)
}

/// Waits for the plan. None when nobody is left to give one.
fn wait_for_plan(door: &OwnedFd) -> io::Result<Option<ReceivedPlan>> {
    let Some(((), handles)) = message::receive::<()>(door)? else { return Ok(None) };
    let [plan, word, stdin, stdout, stderr] =
        <[OwnedFd; 5]>::try_from(handles).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut text = Vec::new();
    let mut plan = File::from(plan);
    plan.rewind()?;
    plan.read_to_end(&mut text)?;
    let plan = serde_json::from_slice(&text)?;
    Ok(Some(ReceivedPlan { plan, word, streams: [stdin, stdout, stderr] }))
}

fn send_report(to: &OwnedFd, word: InitReport) -> io::Result<()> {
    rustix::io::write(to, &word.to_bytes())?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a link in the child's own /dev, made for this step")]
fn remove_init_link() {
    // It leads nowhere once we are gone; that it stays hurts nobody.
    let removed = std::fs::remove_file(INIT_PATH);
    drop(removed);
}

/// A program with its arguments and environment as exec wants them.
#[derive(Debug)]
pub(crate) struct ExecImage {
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
}

impl ExecImage {
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
