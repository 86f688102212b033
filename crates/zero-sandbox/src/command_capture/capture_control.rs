//! [`CaptureControl`]: changes how a running command is recorded.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{CaptureOutcome, FINISH_MAX, failed_outcome};
use crate::journal::ChangeRecorder;

/// Controls the recording of a running command. Does nothing for one that is not recorded.
#[derive(Clone, Debug, Default)]
pub struct CaptureControl {
    channel: Option<Arc<OrderChannel>>,
}

/// An order to the thread that records.
#[derive(Debug)]
pub(super) enum CaptureOrder {
    /// From now on, the command runs beside the user.
    RunsBeside,
    /// Stores the changes so far, replies, and continues with this recorder.
    Continue(Box<ChangeRecorder>, SyncSender<CaptureOutcome>),
}

#[derive(Debug)]
struct OrderChannel {
    /// Written to after an order was added.
    wake: OwnedFd,
    woken: OwnedFd,
    /// `None` once orders are no longer carried out.
    orders: Mutex<Option<VecDeque<CaptureOrder>>>,
}

impl CaptureControl {
    /// Returns both ends, which are the same.
    pub(super) fn open() -> io::Result<(Self, Self)> {
        let (kind, flags) =
            (SocketType::SEQPACKET, SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK));
        let (wake, woken) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        let orders = Mutex::new(Some(VecDeque::new()));
        let control = Self { channel: Some(Arc::new(OrderChannel { wake, woken, orders })) };
        Ok((control.clone(), control))
    }

    /// Says that the command runs beside the user from now on, such as a job. Others change files
    /// meanwhile, so its changes are not undone without a question.
    pub fn set_beside(&self) {
        self.order(CaptureOrder::RunsBeside);
    }

    /// Stores the changes so far, and records those that begin after this with another recorder.
    /// `None` if nothing is recorded any more.
    pub fn continue_with(&self, recorder: ChangeRecorder) -> Option<PendingOutcome> {
        let (reply, outcome) = sync_channel(1);
        self.order(CaptureOrder::Continue(Box::new(recorder), reply))
            .then_some(PendingOutcome(outcome))
    }

    fn order(&self, order: CaptureOrder) -> bool {
        let Some(channel) = &self.channel else { return false };
        let mut orders = channel.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = orders.as_mut() else { return false };
        waiting.push_back(order);
        drop(orders);
        // If it is full, the thread is awake anyway.
        let _ = rustix::net::send(&channel.wake, &[1], SendFlags::NOSIGNAL);
        true
    }

    pub(super) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(|channel| channel.woken.as_fd())
    }

    /// The orders that were not followed yet.
    pub(super) fn take_orders(&self) -> VecDeque<CaptureOrder> {
        let Some(channel) = &self.channel else { return VecDeque::new() };
        while rustix::net::recv(&channel.woken, &mut [0_u8], RecvFlags::empty()).is_ok() {}
        let mut orders = channel.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Closes the channel: orders are no longer carried out.
    pub(super) fn close(&self) {
        if let Some(channel) = &self.channel {
            channel.orders.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

/// The outcome of a recording that is being finished.
#[derive(Debug)]
pub struct PendingOutcome(std::sync::mpsc::Receiver<CaptureOutcome>);

impl PendingOutcome {
    /// Waits until the changes are stored.
    pub fn wait(self) -> CaptureOutcome {
        let outcome = self.0.recv_timeout(FINISH_MAX);
        outcome.unwrap_or_else(|_| failed_outcome("recording ended or took too long"))
    }
}
