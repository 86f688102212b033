//! The warden itself: takes orders and gives each to a keeper of its own.
//!
//! It reads no order and starts no program, so there is little that could go wrong in it. It ends
//! when the process it works for does, and takes every keeper and everything below with it.

use std::collections::BTreeSet;
use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use super::keeper;
use super::message::{self, Failure, Step, Told};
use super::raw::{self, Forked, Reap};
use crate::cgroup::{self, Places};
use crate::probe::Layers;

/// How long keepers may take to end their trees before the warden does it itself.
const KEEPERS_MAX: Duration = Duration::from_millis(700);
/// How long the warden kills then.
const KILL_MAX: Duration = Duration::from_secs(5);

/// Runs the warden on a descriptor, its standard input as a rule, until the other side is closed.
/// Gives the code to exit with.
#[must_use]
pub fn main(socket: RawFd) -> i32 {
    match Server::start(socket) {
        Ok(mut server) => {
            server.serve();
            server.end();
            0
        }
        Err(_) => 1,
    }
}

struct Server {
    orders: OwnedFd,
    signals: OwnedFd,
    keepers: BTreeSet<i32>,
    places: Places,
    layers: Layers,
}

impl Server {
    fn start(socket: RawFd) -> std::io::Result<Self> {
        // Not in the terminal's group: what ends zero by a key must not end the warden before it.
        let _ = rustix::process::setsid();
        let orders = raw::keep_only(socket)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let signals = raw::signals_as_fd(&[
            libc::SIGCHLD,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGPIPE,
        ])?;
        let places = Places::find();
        cgroup::sweep(&places);
        Ok(Self { orders, signals, keepers: BTreeSet::new(), places, layers: Layers::probe() })
    }

    /// Takes orders until there can be no more.
    fn serve(&mut self) {
        loop {
            let mut fds = [
                PollFd::new(&self.orders, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            let _ = rustix::event::poll(&mut fds, None);
            let [order, signal] = fds.map(|fd| !fd.revents().is_empty());
            if signal {
                let came = raw::signals_that_came(&self.signals);
                if came.contains(&libc::SIGTERM) {
                    return;
                }
                self.reap();
            }
            if order {
                match message::receive::<String>(&self.orders) {
                    Ok(Some((_, fds))) => self.take(fds),
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    /// Gives an order to a keeper.
    fn take(&mut self, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        let (Some(order), Some(channel)) = (fds.next(), fds.next()) else { return };
        let stdio: Vec<OwnedFd> = fds.collect();
        let warden = rustix::process::getpid();
        match raw::fork() {
            Ok(Forked::Parent(pid)) => {
                self.keepers.insert(pid);
            }
            Ok(Forked::Child) => {
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
                if rustix::process::getppid() == Some(warden) {
                    self.leave_to_warden();
                    keeper::keep(order, &channel, stdio, &self.places, &self.layers);
                }
                raw::exit(0)
            }
            Err(error) => {
                let failed = Told::Failed(Failure::of_system(Step::Fork, &error));
                let _ = message::send(&channel, &failed, &[]);
            }
        }
    }

    /// In a keeper: lets go of what is the warden's.
    fn leave_to_warden(&mut self) {
        self.keepers.clear();
        raw::close_in_child(&self.orders);
        raw::close_in_child(&self.signals);
    }

    /// Takes note of keepers that ended. What a killed one leaves is ours now, and ends.
    fn reap(&mut self) {
        let mut lost = false;
        while let Reap::One(reaped) = raw::reap() {
            lost |= self.keepers.remove(&reaped.pid) && reaped.exit_code != Some(0);
        }
        if lost {
            let keepers = &mut self.keepers;
            keeper::kill_below(&keepers.clone(), KILL_MAX, || {
                while let Reap::One(reaped) = raw::reap() {
                    keepers.remove(&reaped.pid);
                }
                let own = rustix::process::getpid().as_raw_nonzero().get();
                crate::process_tree::below(own, keepers).is_empty()
            });
            cgroup::sweep(&self.places);
        }
    }

    /// Ends every keeper and everything below.
    fn end(&mut self) {
        for keeper in self.keepers.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = rustix::process::kill_process(keeper, Signal::TERM);
        }
        let until = Instant::now() + KEEPERS_MAX;
        while Instant::now() < until {
            if has_no_children() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        keeper::kill_below(&BTreeSet::new(), KILL_MAX, has_no_children);
        cgroup::sweep(&self.places);
    }
}

fn has_no_children() -> bool {
    loop {
        match raw::reap() {
            Reap::One(_) => {}
            Reap::NotYet => return false,
            Reap::NoChildren => return true,
        }
    }
}
