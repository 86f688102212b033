//! The workers of the spawner process, and which of them gets the next command.
//!
//! A new worker ([`WorkerState::Bare`]) waits for any command. After a command, a worker keeps its
//! sandbox and waits for another command of the same kind ([`WorkerState::Waiting`]). If none comes
//! for a while, it removes the sandbox and is bare again. One bare worker is enough.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::message::{self, WorkerEvent, WorkerTask};

/// Most workers that wait with a sandbox: about one per active agent. Beyond that, the one that has
/// waited longest gets a command of another kind.
const WAITING_MAX: usize = 24;
/// Most events read from one worker at once; workers send few.
const EVENTS_MAX: usize = 4;

/// All workers, those that have waited longest first.
#[derive(Default)]
pub(super) struct WorkerPool(Vec<Worker>);

/// One worker, seen from the spawner. A worker without a command exits when this is dropped.
pub(super) struct Worker {
    channel: OwnedFd,
    state: WorkerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    /// Waits for any command.
    Bare,
    /// Has a sandbox and waits for a command with this key.
    Waiting { like: u64 },
    /// Was asked to remove its sandbox and has not confirmed it yet.
    Clearing,
    /// Runs a command with this key.
    Busy { like: u64, then: SandboxRetention },
    /// Has exited, or is of no further use.
    Gone,
}

/// What happens to a sandbox when its command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SandboxRetention {
    Keep,
    Release,
}

/// Whether workers exited while events were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolEvent {
    /// One that had a command exited.
    WorkerExited,
    /// None did.
    NoExit,
}

impl Worker {
    /// A worker that waits for any command at the other end of this channel.
    pub(super) fn new(channel: OwnedFd) -> Self {
        Self { channel, state: WorkerState::Bare }
    }

    /// Reads all events that it has sent.
    fn receive_events(&mut self) {
        for _ in 0..EVENTS_MAX {
            match message::try_receive::<WorkerEvent>(&self.channel) {
                Ok(Some(word)) => self.state = self.next_state(word),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => self.state = WorkerState::Gone,
            }
            if self.state == WorkerState::Gone {
                return;
            }
        }
    }

    /// The state after this event.
    fn next_state(&self, word: WorkerEvent) -> WorkerState {
        match (word, self.state) {
            (WorkerEvent::Prewarmed, WorkerState::Busy { like, then: SandboxRetention::Keep }) => {
                WorkerState::Waiting { like }
            }
            (WorkerEvent::Prewarmed, WorkerState::Busy { .. }) => {
                match message::send(&self.channel, &WorkerTask::Discard, &[]) {
                    Ok(()) => WorkerState::Clearing,
                    Err(_) => WorkerState::Gone,
                }
            }
            (WorkerEvent::Idle, WorkerState::Waiting { .. } | WorkerState::Clearing) => {
                WorkerState::Bare
            }
            (WorkerEvent::Useless, WorkerState::Waiting { .. } | WorkerState::Clearing) => {
                WorkerState::Gone
            }
            // A command was sent before the worker reported this; it will run in another sandbox.
            (_, state) => state,
        }
    }
}

impl WorkerPool {
    /// The channels to the workers, in the order that [`Self::receive_events`] expects.
    pub(super) fn channels(&self) -> impl Iterator<Item = &OwnedFd> {
        self.0.iter().map(|worker| &worker.channel)
    }

    /// Reads the [channels](Self::channels) that are ready.
    pub(super) fn receive_events(&mut self, readable: &[bool]) -> PoolEvent {
        if !readable.contains(&true) {
            return PoolEvent::NoExit;
        }
        let mut event = PoolEvent::NoExit;
        let (mut same, mut changed) = (Vec::new(), Vec::new());
        for (mut worker, is_news) in self.0.drain(..).zip(readable) {
            let was_busy = matches!(worker.state, WorkerState::Busy { .. });
            if !is_news {
                same.push(worker);
                continue;
            }
            worker.receive_events();
            match worker.state {
                WorkerState::Gone if was_busy => event = PoolEvent::WorkerExited,
                WorkerState::Gone => {}
                _ => changed.push(worker),
            }
        }
        self.0 = same;
        self.0.extend(changed);
        // One bare worker is enough.
        let mut bare = 0;
        self.0.retain(|worker| {
            bare += usize::from(worker.state == WorkerState::Bare);
            worker.state != WorkerState::Bare || bare == 1
        });
        event
    }

    pub(super) fn add(&mut self, worker: Worker) {
        self.0.push(worker);
    }

    /// Whether a worker waits for any command.
    pub(super) fn has_bare_worker(&self) -> bool {
        self.0.iter().any(|worker| worker.state == WorkerState::Bare)
    }

    /// Whether a worker waits for a command with this key, or for any.
    pub(super) fn has_worker_for(&self, like: u64) -> bool {
        self.find_best_for(like).is_some()
    }

    /// Index of the worker for the next command with this key: one with a matching sandbox, the
    /// most recently used of them since its memory is still cached, or else one that waits for any
    /// command.
    fn find_best_for(&self, like: u64) -> Option<usize> {
        let is = |state: WorkerState| move |worker: &Worker| worker.state == state;
        let waits = |worker: &Worker| matches!(worker.state, WorkerState::Waiting { .. });
        self.0
            .iter()
            .rposition(is(WorkerState::Waiting { like }))
            .or_else(|| self.0.iter().position(is(WorkerState::Bare)))
            .or_else(|| {
                let is_full = self.0.iter().filter(|worker| waits(worker)).count() >= WAITING_MAX;
                is_full.then(|| self.0.iter().position(waits))?
            })
    }

    /// Passes a command to the best worker. Returns `None` if no worker is free; a worker that has
    /// exited is removed.
    pub(super) fn offer(&mut self, like: u64, fds: &[BorrowedFd<'_>]) -> Option<io::Result<()>> {
        let at = self.find_best_for(like)?;
        let worker = self.0.get_mut(at)?;
        let sent = message::send(&worker.channel, &WorkerTask::Run, fds);
        match sent {
            Ok(()) => worker.state = WorkerState::Busy { like, then: SandboxRetention::Keep },
            Err(_) => drop(self.0.remove(at)),
        }
        Some(sent)
    }

    /// Has a worker prewarm a sandbox for this spec, unless one with the same key exists or will be
    /// free when its command ends.
    pub(super) fn prewarm(&mut self, like: u64, order: &[OwnedFd]) {
        let with = [
            WorkerState::Waiting { like },
            WorkerState::Busy { like, then: SandboxRetention::Keep },
        ];
        if self.0.iter().any(|worker| with.contains(&worker.state)) {
            return;
        }
        let Some(bare) = self.0.iter_mut().find(|worker| worker.state == WorkerState::Bare) else {
            return;
        };
        // A worker that has exited is noticed soon.
        let order: Vec<BorrowedFd<'_>> = order.iter().map(AsFd::as_fd).collect();
        if message::send(&bare.channel, &WorkerTask::Prewarm, &order).is_ok() {
            bare.state = WorkerState::Waiting { like };
        }
    }

    /// Has all sandboxes removed; those of running commands when the commands have ended. The
    /// handles are closed once the sandboxes of waiting workers are gone.
    pub(super) fn release_prewarmed(&mut self, handles: &[BorrowedFd<'_>]) {
        for worker in &mut self.0 {
            match &mut worker.state {
                // If the worker has exited, so has its sandbox.
                WorkerState::Waiting { .. } => {
                    let _ = message::send(&worker.channel, &WorkerTask::Discard, handles);
                    worker.state = WorkerState::Clearing;
                }
                // Already asked; the new handles are closed at the same time.
                WorkerState::Clearing => {
                    let _ = message::send(&worker.channel, &WorkerTask::Discard, handles);
                }
                WorkerState::Busy { then, .. } => *then = SandboxRetention::Release,
                WorkerState::Bare | WorkerState::Gone => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool, and the workers' ends of its channels.
    #[derive(Default)]
    struct PoolFixture(WorkerPool, Vec<OwnedFd>);

    impl PoolFixture {
        fn with_workers(count: usize) -> Self {
            let mut lab = Self::default();
            for _ in 0..count {
                let (ours, theirs) = message::create_channel().unwrap();
                lab.0.add(Worker::new(ours));
                lab.1.push(theirs);
            }
            lab
        }

        fn send_event(&mut self, worker: usize, word: WorkerEvent) -> PoolEvent {
            message::send(&self.1[worker], &word, &[]).unwrap();
            self.receive_events()
        }

        fn receive_events(&mut self) -> PoolEvent {
            let ready = vec![true; self.0.0.len()];
            self.0.receive_events(&ready)
        }

        fn receive_task(&self, worker: usize) -> Option<WorkerTask> {
            message::try_receive::<WorkerTask>(&self.1[worker]).unwrap()
        }

        #[track_caller]
        fn check(&self, expected: &[WorkerState]) {
            let states: Vec<WorkerState> = self.0.0.iter().map(|worker| worker.state).collect();
            assert_eq!(states, expected);
        }
    }

    const BUSY: WorkerState = WorkerState::Busy { like: 7, then: SandboxRetention::Keep };

    #[test]
    fn worker_with_matching_sandbox_is_preferred() {
        let mut lab = PoolFixture::with_workers(1);
        assert!(lab.0.offer(7, &[]).unwrap().is_ok());
        lab.check(&[BUSY]);
        // No worker waits.
        assert!(!lab.0.has_worker_for(7) && lab.0.offer(7, &[]).is_none());
        assert_eq!(lab.send_event(0, WorkerEvent::Prewarmed), PoolEvent::NoExit);
        lab.check(&[WorkerState::Waiting { like: 7 }]);
        assert!(lab.0.has_worker_for(7) && !lab.0.has_worker_for(8));
        let (ours, theirs) = message::create_channel().unwrap();
        lab.0.add(Worker::new(ours));
        lab.1.push(theirs);
        lab.0.offer(8, &[]).unwrap().unwrap();
        lab.0.offer(7, &[]).unwrap().unwrap();
        lab.check(&[BUSY, WorkerState::Busy { like: 8, then: SandboxRetention::Keep }]);
    }

    #[test]
    fn expired_sandbox_loses_no_command() {
        for word in [WorkerEvent::Idle, WorkerEvent::Useless] {
            let mut lab = PoolFixture::with_workers(1);
            lab.0.offer(7, &[]).unwrap().unwrap();
            lab.send_event(0, WorkerEvent::Prewarmed);
            lab.0.offer(7, &[]).unwrap().unwrap();
            lab.send_event(0, word);
            lab.check(&[BUSY]);
            lab.send_event(0, WorkerEvent::Prewarmed);
            // Without a command on its way, the event is applied.
            lab.send_event(0, word);
            lab.check(if word == WorkerEvent::Idle { &[WorkerState::Bare] } else { &[] });
        }
    }

    #[test]
    fn clearing_worker_gets_no_command_until_cleared() {
        let mut lab = PoolFixture::with_workers(1);
        lab.0.offer(7, &[]).unwrap().unwrap();
        assert!(matches!(lab.receive_task(0), Some(WorkerTask::Run)));
        lab.0.release_prewarmed(&[]);
        lab.send_event(0, WorkerEvent::Prewarmed);
        lab.check(&[WorkerState::Clearing]);
        assert!(
            matches!(lab.receive_task(0), Some(WorkerTask::Discard)) && !lab.0.has_worker_for(7)
        );
        lab.send_event(0, WorkerEvent::Idle);
        lab.check(&[WorkerState::Bare]);
    }

    #[test]
    fn one_bare_worker_suffices_and_command_end_is_reported() {
        let mut lab = PoolFixture::with_workers(3);
        assert_eq!(lab.receive_events(), PoolEvent::NoExit);
        lab.check(&[WorkerState::Bare]);
        lab.0.offer(7, &[]).unwrap().unwrap();
        lab.1.clear();
        assert_eq!(lab.receive_events(), PoolEvent::WorkerExited);
        lab.check(&[]);
    }

    #[test]
    fn oldest_worker_is_reassigned_when_many_wait() {
        let mut lab = PoolFixture::with_workers(0);
        for like in 0..WAITING_MAX as u64 {
            let (ours, theirs) = message::create_channel().unwrap();
            lab.0.add(Worker { channel: ours, state: WorkerState::Waiting { like } });
            lab.1.push(theirs);
        }
        lab.0.offer(99, &[]).unwrap().unwrap();
        assert!(matches!(lab.receive_task(0), Some(WorkerTask::Run)));
        assert!(!lab.0.has_worker_for(98));
    }
}
