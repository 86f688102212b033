//! [`CommandCapture`]: records what a confined command changes, while it runs.
//!
//! The command has a second seccomp filter with a listener (`confinement::capture_filter`): the
//! kernel stops each call that may change a file until zero has answered. zero finds out which path
//! the call is about, has the [`ChangeRecorder`] store its state, and lets the call continue. The
//! command sees the real files at all times, and so do all other programs.
//!
//! A mode with the set-group-ID bit is set by zero itself, and on folders only: a program with it would
//! run with the user's group for everyone, and would outlive the sandbox.
//!
//! Any other call that continues reads its arguments again, so a program with several threads that sets out
//! to do so can change a path unrecorded. Recording helps against mistakes; the sandbox is what
//! confines a program.

mod capture_control;
pub(crate) mod capture_guard;
mod captured_call;
mod held_files;
mod notification;
mod sandbox_root;

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use self::capture_control::CaptureOrder;
pub use self::capture_control::{CaptureControl, PendingOutcome};
use self::capture_guard::CaptureGuard;
use self::captured_call::CallRecorder;
use self::notification::{Listener, SyscallAnswer};
use crate::journal::{ChangeRecorder, SetSummary};
use crate::spawner::message;

/// How long the end of a capture is waited for after its command has ended: the time to compare
/// the recorded paths.
const FINISH_MAX: Duration = Duration::from_secs(120);

/// The loss of a command that the kernel did not let zero watch.
const UNWATCHED: &str = "the kernel does not report the changes of commands (it needs seccomp \
                         notifications, Linux 5.9)";

/// What was recorded of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureOutcome {
    /// The number of its changes in the journal; `None` if nothing can be undone.
    pub id: Option<u64>,
    /// Their totals.
    pub totals: SetSummary,
}

/// The recording of a running command.
#[derive(Debug)]
pub struct CommandCapture {
    outcome: Receiver<CaptureOutcome>,
    control: CaptureControl,
}

/// Whether the kernel of this machine reports the changes of commands.
pub fn is_available() -> bool {
    notification::is_available()
}

impl CommandCapture {
    /// Begins to record a command, which is then started with the returned channel.
    pub fn start(recorder: ChangeRecorder) -> io::Result<(Self, OwnedFd)> {
        Self::start_with(recorder, false)
    }

    /// The same for a command whose program must not run if the kernel cannot watch it.
    pub fn start_required(recorder: ChangeRecorder) -> io::Result<(Self, OwnedFd)> {
        Self::start_with(recorder, true)
    }

    fn start_with(mut recorder: ChangeRecorder, is_required: bool) -> io::Result<(Self, OwnedFd)> {
        let kind = SocketType::SEQPACKET;
        let (ours, given) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        if is_required {
            rustix::net::send(&ours, &[1], rustix::net::SendFlags::empty())?;
        }
        recorder.set_guard(CaptureGuard::bind(&given)?);
        let (control, orders) = CaptureControl::open()?;
        let (sender, outcome) = sync_channel(1);
        let work = move || {
            notification::shorten_time_slice();
            let record = || record_command(&ours, &orders, recorder);
            let recorded = catch_unwind(AssertUnwindSafe(record));
            orders.close();
            let outcome = recorded.unwrap_or_else(|_| failed_outcome("recording failed"));
            // This fails if the caller dropped the receiver because it does not need the outcome.
            let _ = sender.send(outcome);
        };
        std::thread::Builder::new().name("zero-capture".to_owned()).spawn(work)?;
        Ok((Self { outcome, control }, given))
    }

    /// The outcome of a command that is not recorded, for this reason.
    pub fn unrecorded(why: &str) -> Self {
        let (sender, outcome) = sync_channel(1);
        let _ = sender.send(failed_outcome(why));
        Self { outcome, control: CaptureControl::default() }
    }

    /// Controls this recording, from wherever.
    pub fn control(&self) -> CaptureControl {
        self.control.clone()
    }

    /// Waits until the changes of a command that has ended are stored.
    pub fn finish(&self) -> CaptureOutcome {
        let outcome = self.outcome.recv_timeout(FINISH_MAX);
        outcome.unwrap_or_else(|_| failed_outcome("recording took too long"))
    }
}

fn failed_outcome(why: &str) -> CaptureOutcome {
    let totals = SetSummary { losses: vec![why.to_owned()], ..SetSummary::default() };
    CaptureOutcome { id: None, totals }
}

fn record_command(
    channel: &OwnedFd,
    control: &CaptureControl,
    mut recorder: ChangeRecorder,
) -> CaptureOutcome {
    match receive_listener(channel) {
        Some(listener) => recorder = serve(&Listener::new(listener), control, recorder),
        None => recorder.note_loss(UNWATCHED),
    }
    finish_recording(recorder)
}

/// Stores what was recorded.
fn finish_recording(recorder: ChangeRecorder) -> CaptureOutcome {
    match recorder.finish() {
        Ok(None) => CaptureOutcome::default(),
        Ok(Some((id, totals))) => CaptureOutcome { id: (id > 0).then_some(id), totals },
        Err(error) => failed_outcome(&error.message),
    }
}

/// What the command sends before its program runs; `None` if it is not watched, or never started.
fn receive_listener(channel: &OwnedFd) -> Option<OwnedFd> {
    let (_, fds) = message::receive_packet(channel, RecvFlags::empty()).ok()??;
    fds.into_iter().next()
}

/// Answers the kernel until no process of the command is left.
fn serve(
    listener: &Listener,
    control: &CaptureControl,
    recorder: ChangeRecorder,
) -> ChangeRecorder {
    let mut calls = CallRecorder::new(recorder);
    let Some(wake) = control.wake() else { return calls.recorder };
    let mut fds = [
        PollFd::new(&listener.handle, PollFlags::IN),
        PollFd::from_borrowed_fd(wake, PollFlags::IN),
    ];
    loop {
        match rustix::event::poll(&mut fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => break,
        }
        let [poll_flags, woken] = [&fds[0], &fds[1]].map(PollFd::revents);
        // Orders from before the start of a call apply to the call.
        if !woken.is_empty() {
            for order in control.take_orders() {
                follow(order, &mut calls);
            }
        }
        if poll_flags.contains(PollFlags::IN) {
            if let Some(call) = listener.receive() {
                // The command must go on whatever happens here.
                let record = AssertUnwindSafe(|| calls.record(&call));
                if catch_unwind(record).is_err() {
                    calls.recorder.note_loss("recording a change failed");
                }
                let set_mode = AssertUnwindSafe(|| calls.set_group_mode(listener, &call));
                let failed = SyscallAnswer::Done(Err(rustix::io::Errno::PERM));
                listener.answer(&call, catch_unwind(set_mode).unwrap_or(failed));
            }
        } else if !poll_flags.is_empty() {
            break;
        }
    }
    calls.recorder
}

fn follow(order: CaptureOrder, calls: &mut CallRecorder) {
    match order {
        CaptureOrder::RunsBeside => calls.recorder.set_beside(),
        CaptureOrder::Continue(recorder, reply) => {
            let finished = finish_recording(calls.continue_in(*recorder));
            // If the call was cancelled, no caller waits.
            let _ = reply.send(finished);
        }
    }
}
