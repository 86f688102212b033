//! Walls that are put up before there is a command to go behind them.
//!
//! Most of what it takes to start a command is to put up its walls, and commands come one after
//! another under the same profile. So a keeper that waits for an order puts up the walls that the
//! last one had, once there is nothing else to do. They stand for a while only: what stands in for
//! missing files on the host goes with them.
//!
//! An order that asks for anything else, or comes when the host has changed, gets walls of its own.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::keeper::{self, KILL_MAX};
use super::launch::{self, Launch};
use super::message::{self, OrderText, Task};
use super::raw::{self, Reap};
use super::{LimitsBy, serve};
use crate::cgroup::Groups;
use crate::confine::Prepared;
use crate::probe::Layers;

/// How long walls may take to stand. Nobody waits for them, but an order may come, which would take as
/// long to have its own.
const UP_MAX: Duration = Duration::from_secs(10);

/// Walls that stand, and nothing behind them but our last step.
pub(super) struct Ahead {
    /// The order they are like.
    like: OrderText,
    /// Nothing when a command has taken them.
    walls: Option<(i32, Prepared)>,
    until: Instant,
}

/// The keeper is to end.
struct NobodyIsLeft;

/// Waits for an order, putting up walls meanwhile as often as that is asked for. Nothing when there
/// will be no order.
pub(super) fn wait_for_order(
    orders: &OwnedFd,
    signals: &OwnedFd,
    like: Option<OwnedFd>,
    groups: &mut Groups,
    spare: &serve::Spare<'_>,
) -> Option<(Vec<OwnedFd>, Option<Ahead>)> {
    let mut ahead: Option<Ahead> = None;
    loop {
        let left = ahead.as_ref().map(|it| it.until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            ahead = None;
            continue;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [orders, signals].map(|fd| PollFd::new(fd, PollFlags::IN));
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let [order, signal] = fds.map(|fd| !fd.revents().is_empty());
        if signal && raw::signals_that_came(signals).contains(&libc::SIGTERM) {
            return None;
        }
        if !order {
            continue;
        }
        match message::receive::<Task>(orders) {
            Ok(Some((Task::Keep, fds))) => return Some((fds, ahead)),
            Ok(Some((Task::PutUp, _))) => {
                ahead = ahead.and_then(|ahead| ahead.renewed(spare.layers));
                if let (None, Some(like)) = (&ahead, &like) {
                    ahead = match Ahead::put_up(like, groups, spare, signals) {
                        Ok(ahead) => ahead,
                        Err(NobodyIsLeft) => return None,
                    };
                }
            }
            Ok(Some((Task::TakeDown, handles))) => {
                ahead = None;
                drop(handles);
            }
            Ok(None) | Err(_) => return None,
        }
    }
}

impl Ahead {
    /// Puts up the walls of an order like the one in this file, and waits until they stand. None
    /// where there is nothing to put up or it does not work: then the next command finds out why.
    fn put_up(
        like: &OwnedFd,
        groups: &mut Groups,
        spare: &serve::Spare<'_>,
        signals: &OwnedFd,
    ) -> Result<Option<Self>, NobodyIsLeft> {
        let Some(mut ahead) = Self::begin(like, groups, spare) else { return Ok(None) };
        let Some((_, prepared)) = &mut ahead.walls else { return Ok(None) };
        let until = Instant::now() + UP_MAX;
        while let Some(door) = prepared.door() {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [door, signals].map(|fd| PollFd::new(fd, PollFlags::IN));
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref());
            let [is_news, signal] = fds.map(|fd| !fd.revents().is_empty());
            if signal && raw::signals_that_came(signals).contains(&libc::SIGTERM) {
                return Err(NobodyIsLeft);
            }
            if is_news {
                return Ok(prepared.is_up().then_some(ahead));
            }
            if left.is_zero() {
                break;
            }
        }
        Ok(None)
    }

    /// Begins to put them up.
    fn begin(like: &OwnedFd, groups: &mut Groups, spare: &serve::Spare<'_>) -> Option<Self> {
        let like = OrderText::from_memory(like).ok()?;
        // A network that several share is one of the order's handles.
        if like.joins || like.ready_for.is_zero() {
            return None;
        }
        let layers = like.layers.of(spare.layers.clone());
        let folder = &like.command.folder;
        let prepared = Prepared::ahead(&like.profile, &layers, folder, &like.stood_in).ok()??;
        if like.limits_by == LimitsBy::Best {
            groups.limit(spare.places, &keeper::limits_with(&like, &prepared));
        }
        let launch = Launch { prepared: &prepared, folder: "/".as_ref(), stdio: &[], net: None };
        let main = launch.start_in(groups).ok()?;
        let until = Instant::now().checked_add(like.ready_for)?;
        let mut ahead = Self { like, walls: Some((main, prepared)), until };
        let (_, prepared) = ahead.walls.as_mut()?;
        prepared.launched();
        Some(ahead)
    }

    /// The same, for as long again; none when they would be others by now.
    fn renewed(mut self, layers: &Layers) -> Option<Self> {
        let layers = self.like.layers.of(layers.clone());
        let (_, walls) = self.walls.as_mut()?;
        if !walls.still_stands(&self.like.profile, &layers, &self.like.command.folder) {
            return None;
        }
        self.until = Instant::now().checked_add(self.like.ready_for)?;
        Some(self)
    }

    /// Gives them the command of an order, if they are the walls it asks for; they end otherwise.
    pub(super) fn take(
        mut self,
        order: &OrderText,
        layers: &Layers,
        stdio: &[OwnedFd],
    ) -> Option<(i32, Prepared)> {
        let OrderText { command, profile, limits_by, layers: used, joins, .. } = order;
        let like = &self.like;
        if *joins || (profile, limits_by, used) != (&like.profile, &like.limits_by, &like.layers) {
            return None;
        }
        let streams = launch::streams(stdio)?;
        let (_, walls) = self.walls.as_mut()?;
        if walls.take(profile, layers, command, streams) { self.walls.take() } else { None }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let Some((_, mut prepared)) = self.walls.take() else { return };
        keeper::kill_below(&BTreeSet::new(), KILL_MAX, || {
            while let Reap::One(_) = raw::reap() {}
            matches!(raw::reap(), Reap::NoChildren)
        });
        prepared.cleanup();
        // What a command could not take away because these walls stood on it too.
        crate::confine::sweep(&self.like.profile.tmp);
    }
}
