//! The init process of a bubblewrap sandbox: this binary, under the name `zero-confined`.
//!
//! Landlock forbids mounts, so it can only be applied after them, and bubblewrap does not support
//! Landlock. So bubblewrap starts this process, which applies the remaining restrictions and starts
//! the command. The command arrives later as an [`InitPlan`], because a sandbox can be set up
//! before there is a command; until then this is the only process inside. The environment of the
//! command is passed as data: bubblewrap and this process run outside of part of the sandbox and
//! must not load a library that a variable names.
//!
//! It stays as the first process of the PID namespace: it reaps the descendants of the command and
//! reports exactly how the command ended. If the command left a process, init exits, which ends
//! everything inside. Otherwise it waits for another command of the same kind until its channel is
//! closed. The restrictions applied for the first command stay in force for all.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::capture_filter;
use super::expected_mounts::{ExpectedMounts, MOUNT_TABLE};
use super::init_report::{ExitSummary, InitReport};
use super::residue::{self, ResidueSnapshot};
use super::restrictions::{self, PreparedRestrictions, ProcessRestrictions, RestrictionApplyError};
use crate::kernel_file;
use crate::process_tree::LEFTOVER_GRACE;
use crate::profile::CommandSpec;
use crate::spawner::message::{self, LaunchStep};
use crate::spawner::syscalls::{self, CStringArray, ChildExit, ReapOutcome, ResourceUsage};

/// Where bubblewrap finds this binary: a link in the sandbox's own `/dev`, so that the name is
/// right wherever the binary is and whatever it is called.
pub(crate) const INIT_PATH: &str = "/dev/zero-confined";

/// Exit code if the init process failed before the command could start.
const EXIT_FAILED: i32 = 125;
/// Pause between two checks of leftover processes.
const LEFTOVER_PAUSE: Duration = Duration::from_millis(2);

/// Most commands in one sandbox.
const COMMANDS_MAX: u32 = 4096;

/// A command for the init process. Descriptors are attached: the report pipe and the streams of the
/// command. Init has other streams, so that only the command holds its own.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitPlan {
    pub(crate) command: CommandSpec,
    /// Only with the first command.
    pub(crate) before: Option<InitSetup>,
}

/// What has to be done before the first command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitSetup {
    /// The restrictions to apply.
    pub(crate) restrictions: ProcessRestrictions,
    /// The mounts to check.
    pub(crate) expected: ExpectedMounts,
}

/// A plan with its descriptors.
struct ReceivedPlan {
    plan: InitPlan,
    report_pipe: OwnedFd,
    streams: [OwnedFd; 3],
    /// Where the listener of its changes is sent, if they are recorded.
    capture: Option<OwnedFd>,
}

/// Runs the commands that arrive on the descriptor `number`, and returns the exit code.
pub(crate) fn run(number: Option<OsString>) -> i32 {
    match run_commands(number) {
        Ok(()) => 0,
        Err(message) => {
            let sent = writeln!(io::stderr(), "zero: {message}");
            drop(sent);
            EXIT_FAILED
        }
    }
}

fn run_commands(number: Option<OsString>) -> Result<(), String> {
    // No process inside may trace this one or take its descriptors, one of which carries the
    // reports.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|errno| describe_failure("cannot protect the init process", &errno))?;
    remove_init_link();
    let channel = announce(number)
        .map_err(|error| describe_failure("no channel to the supervisor", &error))?;
    let mut confined = ConfinementState::NotYet;
    for _ in 0..COMMANDS_MAX {
        let received_plan = wait_for_plan(&channel)
            .map_err(|error| describe_failure("cannot receive a plan", &error))?;
        // The channel is closed: there will be no other command.
        let Some(ReceivedPlan { plan, report_pipe, streams, capture }) = received_plan else {
            return Ok(());
        };
        let InitPlan { command, before } = plan;
        let image =
            ExecImage::new(&command).map_err(|error| describe_failure("cannot start", &error))?;
        let in_folder = match (before, confined) {
            (Some(before), ConfinementState::NotYet) => confine(before, &command.folder)?,
            (None, ConfinementState::Already) => restrictions::enter_folder(&command.folder),
            // Restrictions are applied exactly once, before the first command.
            _ => return Err("cannot confine: the plan does not match this sandbox".to_owned()),
        };
        confined = ConfinementState::Already;
        let started = match in_folder {
            Ok(()) => start_program(&image, streams, capture)
                .map_err(|error| describe_failure("cannot start", &error))?,
            Err(errno) => Err((LaunchStep::Folder, errno.raw_os_error())),
        };
        let main = match started {
            Ok(pid) => pid,
            Err((step, errno)) => {
                return send_report(&report_pipe, InitReport::NotRun { step: step as u8, errno })
                    .map_err(|error| describe_failure("cannot send a report", &error));
            }
        };
        // SIGTERM for the command is sent to this process, since its ID is not known outside.
        syscalls::forward_sigterm_to(main);
        send_report(&report_pipe, InitReport::Started)
            .map_err(|error| describe_failure("cannot send a report", &error))?;
        let (ended, used) = wait_for_main(main);
        syscalls::forward_sigterm_to(0);
        let last = wait_for_leftovers(std::process::id(), used);
        let exit_report = match ended {
            ChildExit { signal: Some(signal), .. } => InitReport::Signalled { signal, last },
            ChildExit { exit_code, .. } => {
                InitReport::Returned { code: exit_code.unwrap_or(0), last }
            }
        };
        // If the supervisor is gone, the report is not needed.
        let sent = send_report(&report_pipe, exit_report);
        drop(sent);
        if last.leftover > 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether this process has applied the restrictions.
#[derive(Clone, Copy)]
enum ConfinementState {
    NotYet,
    Already,
}

/// Checks that all mounts are as expected and applies the restrictions. The inner error is that of
/// the working folder of the command.
fn confine(before: InitSetup, folder: &Path) -> Result<Result<(), rustix::io::Errno>, String> {
    let InitSetup { mut restrictions, expected } = before;
    expected.check().map_err(|error| describe_failure("not confined", &error))?;
    // A checked path could be replaced before the rule is applied, so rules name the exact file.
    for rule in restrictions.landlock.iter_mut().flat_map(|(_, rules, _)| rules) {
        rule.exactly = expected.identity(&rule.path);
    }
    let ready = PreparedRestrictions::new(&restrictions, folder)
        .map_err(|error| describe_failure("cannot confine", &error))?;
    // Before the filter, which would check each of these calls. Children inherit the result.
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

/// Starts the program; the inner error is why it did not run.
fn start_program(
    image: &ExecImage,
    streams: [OwnedFd; 3],
    capture: Option<OwnedFd>,
) -> io::Result<Result<i32, (LaunchStep, i32)>> {
    let (report, child_report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (argv, envp) = (CStringArray::new(&image.argv), CStringArray::new(&image.envp));
    let filter = capture.map(|channel| (capture_filter::build().unwrap_or_default(), channel));
    let plain_filter = capture_filter::build_without_listener().unwrap_or_default();
    let child = || {
        let (step, errno) = match adopt_streams(&streams) {
            Ok(()) => {
                let is_recorded = filter
                    .as_ref()
                    .is_some_and(|(filter, channel)| capture_filter::install(filter, channel));
                if let Some((_, channel)) = &filter
                    && !is_recorded
                    && capture_filter::is_required(channel)
                {
                    return 126;
                }
                if !is_recorded && capture_filter::install_without_listener(&plain_filter).is_err()
                {
                    return 126;
                }
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
    drop((streams, filter));
    let mut bytes = [0; 5];
    match rustix::io::retry_on_intr(|| rustix::io::read(&report, &mut bytes))? {
        0 => Ok(Ok(pid)),
        _ => {
            let [step, a, b, c, d] = bytes;
            Ok(Err((LaunchStep::from_byte(step), i32::from_ne_bytes([a, b, c, d]))))
        }
    }
}

/// In the child: starts a session, with the terminal as controlling terminal if there is one.
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

/// Waits for the end of the program and reaps others meanwhile. Returns the resources used by all
/// of them.
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
            // Cannot happen: the program has not been reaped yet.
            ReapOutcome::NoChildren => {
                return (ChildExit { pid: main, exit_code: None, signal: None, used }, used);
            }
        }
    }
}

/// Gives leftover processes a moment to end by themselves and counts those that do not. Adds the
/// resources of those that end to `used`.
///
/// All processes inside are descendants of this one, so nothing is left only when the kernel
/// reports that there are no children. If they cannot be counted, at least one is assumed.
fn wait_for_leftovers(own: u32, mut used: ResourceUsage) -> ExitSummary {
    let until = Instant::now() + LEFTOVER_GRACE;
    loop {
        match syscalls::reap() {
            ReapOutcome::NoChildren => return ExitSummary { leftover: 0, used },
            // The process that ended may be the last one, unless the command forks faster than we
            // reap.
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

/// Tells the supervisor that this process runs, and returns the channel for plans.
fn announce(number: Option<OsString>) -> io::Result<OwnedFd> {
    let number = number.and_then(|number| number.to_str()?.parse::<RawFd>().ok());
    let channel = syscalls::close_other_fds(number.ok_or(io::ErrorKind::InvalidInput)?)?;
    // The supervisor watches the mounts, and what commands leave in the sandbox.
    if let Ok(table) =
        rustix::fs::open(MOUNT_TABLE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    {
        let traces = residue::open_all().unwrap_or_default();
        let noted = ResidueSnapshot::capture(&traces);
        let handles: Vec<_> = std::iter::once(&table).chain(&traces).map(AsFd::as_fd).collect();
        let sent = message::send(&channel, &noted, &handles);
        drop(sent);
    }
    Ok(channel)
}

/// Waits for a plan. Returns `None` if the channel is closed.
fn wait_for_plan(channel: &OwnedFd) -> io::Result<Option<ReceivedPlan>> {
    let Some(((), handles)) = message::receive::<()>(channel)? else { return Ok(None) };
    let mut handles = handles.into_iter();
    let mut next = || handles.next().ok_or(io::ErrorKind::InvalidData);
    let (plan, report_pipe) = (next()?, next()?);
    let streams = [next()?, next()?, next()?];
    let capture = handles.next();
    let mut text = Vec::new();
    let mut plan = File::from(plan);
    plan.rewind()?;
    plan.read_to_end(&mut text)?;
    let plan = serde_json::from_slice(&text)?;
    Ok(Some(ReceivedPlan { plan, report_pipe, streams, capture }))
}

fn send_report(to: &OwnedFd, report: InitReport) -> io::Result<()> {
    rustix::io::write(to, &report.to_bytes())?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a link in the child's own /dev, made for this step")]
fn remove_init_link() {
    // A link that stays is harmless: it leads nowhere once this process has ended.
    let removed = std::fs::remove_file(INIT_PATH);
    drop(removed);
}

/// A program with its arguments and environment in the form that exec expects.
#[derive(Debug)]
pub(crate) struct ExecImage {
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
}

impl ExecImage {
    /// The program must be a path: the caller has looked it up already.
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
