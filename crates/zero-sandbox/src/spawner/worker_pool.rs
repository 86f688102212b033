//! Where keepers take their orders, and who of them waits for one.
//!
//! A keeper that has just been made waits for any command. One whose command has ended waits behind
//! its walls for another that is like it; when these are not needed for a while they go, and it waits
//! for any. One such is enough.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use super::message::{self, WorkerEvent, WorkerTask};

/// Keepers that wait behind walls: one for each agent that works, as a rule. When there are more, the
/// one that has waited longest gets an order of another kind.
const WAITING_MAX: usize = 24;
/// Words of one keeper that are heard at once: it says few.
const EVENTS_MAX: usize = 4;

/// All keepers, those that have waited longest first.
#[derive(Default)]
pub(super) struct WorkerPool(Vec<Worker>);

/// One keeper. It ends when this is dropped and it has no command.
pub(super) struct Worker {
    channel: OwnedFd,
    state: WorkerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    /// Waits for any command.
    Bare,
    /// Waits for a command like those.
    Waiting { like: u64 },
    /// Was told to take down its walls, and has not said yet that it has.
    Clearing,
    /// Has such a command.
    Busy { like: u64, then: SandboxRetention },
    /// Is gone, or of no use.
    Gone,
}

/// What becomes of walls when their command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SandboxRetention {
    Keep,
    Release,
}

/// What became of keepers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolEvent {
    /// One that had a command is gone.
    WorkerExited,
    /// None is.
    NoExit,
}

impl Worker {
    /// One that waits for any command, on the other side of this channel.
    pub(super) fn new(channel: OwnedFd) -> Self {
        Self { channel, state: WorkerState::Bare }
    }

    /// Hears all that it says now.
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

    /// What it does now that it said this.
    fn next_state(&self, word: WorkerEvent) -> WorkerState {
        match (word, self.state) {
            (WorkerEvent::WithWalls, WorkerState::Busy { like, then: SandboxRetention::Keep }) => {
                WorkerState::Waiting { like }
            }
            (WorkerEvent::WithWalls, WorkerState::Busy { .. }) => {
                match message::send(&self.channel, &WorkerTask::TakeDown, &[]) {
                    Ok(()) => WorkerState::Clearing,
                    Err(_) => WorkerState::Gone,
                }
            }
            (WorkerEvent::Bare, WorkerState::Waiting { .. } | WorkerState::Clearing) => {
                WorkerState::Bare
            }
            (WorkerEvent::Useless, WorkerState::Waiting { .. } | WorkerState::Clearing) => {
                WorkerState::Gone
            }
            // An order was on its way when it said so, and is kept behind other walls.
            (_, state) => state,
        }
    }
}

impl WorkerPool {
    /// Where news comes from, in an order of their own.
    pub(super) fn channels(&self) -> impl Iterator<Item = &OwnedFd> {
        self.0.iter().map(|post| &post.channel)
    }

    /// Hears those [channels](Self::channels) on which there is news.
    pub(super) fn receive_events(&mut self, news: &[bool]) -> PoolEvent {
        if !news.contains(&true) {
            return PoolEvent::NoExit;
        }
        let mut heard = PoolEvent::NoExit;
        let (mut same, mut changed) = (Vec::new(), Vec::new());
        for (mut post, is_news) in self.0.drain(..).zip(news) {
            let was_busy = matches!(post.state, WorkerState::Busy { .. });
            if !is_news {
                same.push(post);
                continue;
            }
            post.receive_events();
            match post.state {
                WorkerState::Gone if was_busy => heard = PoolEvent::WorkerExited,
                WorkerState::Gone => {}
                _ => changed.push(post),
            }
        }
        self.0 = same;
        self.0.extend(changed);
        // One that waits for any is enough.
        let mut bare = 0;
        self.0.retain(|post| {
            bare += usize::from(post.state == WorkerState::Bare);
            post.state != WorkerState::Bare || bare == 1
        });
        heard
    }

    pub(super) fn add(&mut self, post: Worker) {
        self.0.push(post);
    }

    /// Whether one waits for any command.
    pub(super) fn has_bare_worker(&self) -> bool {
        self.0.iter().any(|post| post.state == WorkerState::Bare)
    }

    /// Whether one waits for a command like these, or for any.
    pub(super) fn has_worker_for(&self, like: u64) -> bool {
        self.find_best_for(like).is_some()
    }

    /// The one that is to have the next command like these: one behind such walls, the last of them
    /// that had a command, since what it has in memory is still at hand; or one that waits for any.
    fn find_best_for(&self, like: u64) -> Option<usize> {
        let is = |state: WorkerState| move |post: &Worker| post.state == state;
        let waits = |post: &Worker| matches!(post.state, WorkerState::Waiting { .. });
        self.0
            .iter()
            .rposition(is(WorkerState::Waiting { like }))
            .or_else(|| self.0.iter().position(is(WorkerState::Bare)))
            .or_else(|| {
                let is_full = self.0.iter().filter(|post| waits(post)).count() >= WAITING_MAX;
                is_full.then(|| self.0.iter().position(waits))?
            })
    }

    /// Gives an order to the best one. Nothing where there is none; one that is gone is forgotten.
    pub(super) fn offer(&mut self, like: u64, fds: &[BorrowedFd<'_>]) -> Option<io::Result<()>> {
        let at = self.find_best_for(like)?;
        let post = self.0.get_mut(at)?;
        let given = message::send(&post.channel, &WorkerTask::Keep, fds);
        match given {
            Ok(()) => post.state = WorkerState::Busy { like, then: SandboxRetention::Keep },
            Err(_) => drop(self.0.remove(at)),
        }
        Some(given)
    }

    /// Has walls put up like those of this order, unless some stand, or will when the command behind
    /// them has ended.
    pub(super) fn prewarm(&mut self, like: u64, order: &OwnedFd) {
        let with = [
            WorkerState::Waiting { like },
            WorkerState::Busy { like, then: SandboxRetention::Keep },
        ];
        if self.0.iter().any(|post| with.contains(&post.state)) {
            return;
        }
        let Some(bare) = self.0.iter_mut().find(|post| post.state == WorkerState::Bare) else {
            return;
        };
        // One that is gone is heard of soon.
        if message::send(&bare.channel, &WorkerTask::PutUp, &[order.as_fd()]).is_ok() {
            bare.state = WorkerState::Waiting { like };
        }
    }

    /// Has all walls taken down, those of commands that run when these have ended. What comes along
    /// is closed when none of the others stand.
    pub(super) fn release_prewarmed(&mut self, handles: &[BorrowedFd<'_>]) {
        for post in &mut self.0 {
            match &mut post.state {
                // One that is gone has taken its walls along.
                WorkerState::Waiting { .. } => {
                    let _ = message::send(&post.channel, &WorkerTask::TakeDown, handles);
                    post.state = WorkerState::Clearing;
                }
                // They have been told, and whoever asks now waits as well.
                WorkerState::Clearing => {
                    let _ = message::send(&post.channel, &WorkerTask::TakeDown, handles);
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

    /// Posts, and the keepers' ends of their channels.
    #[derive(Default)]
    struct PoolFixture(WorkerPool, Vec<OwnedFd>);

    impl PoolFixture {
        fn with_workers(count: usize) -> Self {
            let mut lab = Self::default();
            for _ in 0..count {
                let (ours, given) = message::create_channel().unwrap();
                lab.0.add(Worker::new(ours));
                lab.1.push(given);
            }
            lab
        }

        fn send_event(&mut self, keeper: usize, word: WorkerEvent) -> PoolEvent {
            message::send(&self.1[keeper], &word, &[]).unwrap();
            self.receive_events()
        }

        fn receive_events(&mut self) -> PoolEvent {
            let news = vec![true; self.0.0.len()];
            self.0.receive_events(&news)
        }

        fn receive_task(&self, keeper: usize) -> Option<WorkerTask> {
            message::try_receive::<WorkerTask>(&self.1[keeper]).unwrap()
        }

        #[track_caller]
        fn check(&self, expected: &[WorkerState]) {
            let states: Vec<WorkerState> = self.0.0.iter().map(|post| post.state).collect();
            assert_eq!(states, expected);
        }
    }

    const KEEPS: WorkerState = WorkerState::Busy { like: 7, then: SandboxRetention::Keep };

    #[test]
    fn worker_with_matching_sandbox_is_preferred() {
        let mut lab = PoolFixture::with_workers(1);
        assert!(lab.0.offer(7, &[]).unwrap().is_ok());
        lab.check(&[KEEPS]);
        // Nobody waits.
        assert!(!lab.0.has_worker_for(7) && lab.0.offer(7, &[]).is_none());
        assert_eq!(lab.send_event(0, WorkerEvent::WithWalls), PoolEvent::NoExit);
        lab.check(&[WorkerState::Waiting { like: 7 }]);
        assert!(lab.0.has_worker_for(7) && !lab.0.has_worker_for(8));
        let (ours, given) = message::create_channel().unwrap();
        lab.0.add(Worker::new(ours));
        lab.1.push(given);
        lab.0.offer(8, &[]).unwrap().unwrap();
        lab.0.offer(7, &[]).unwrap().unwrap();
        lab.check(&[KEEPS, WorkerState::Busy { like: 8, then: SandboxRetention::Keep }]);
    }

    #[test]
    fn expired_sandbox_loses_no_command() {
        for word in [WorkerEvent::Bare, WorkerEvent::Useless] {
            let mut lab = PoolFixture::with_workers(1);
            lab.0.offer(7, &[]).unwrap().unwrap();
            lab.send_event(0, WorkerEvent::WithWalls);
            lab.0.offer(7, &[]).unwrap().unwrap();
            lab.send_event(0, word);
            lab.check(&[KEEPS]);
            lab.send_event(0, WorkerEvent::WithWalls);
            // Without an order on its way, it is taken at its word.
            lab.send_event(0, word);
            lab.check(if word == WorkerEvent::Bare { &[WorkerState::Bare] } else { &[] });
        }
    }

    #[test]
    fn clearing_worker_gets_no_command_until_cleared() {
        let mut lab = PoolFixture::with_workers(1);
        lab.0.offer(7, &[]).unwrap().unwrap();
        assert!(matches!(lab.receive_task(0), Some(WorkerTask::Keep)));
        lab.0.release_prewarmed(&[]);
        lab.send_event(0, WorkerEvent::WithWalls);
        lab.check(&[WorkerState::Clearing]);
        assert!(
            matches!(lab.receive_task(0), Some(WorkerTask::TakeDown)) && !lab.0.has_worker_for(7)
        );
        lab.send_event(0, WorkerEvent::Bare);
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
            let (ours, given) = message::create_channel().unwrap();
            lab.0.add(Worker { channel: ours, state: WorkerState::Waiting { like } });
            lab.1.push(given);
        }
        lab.0.offer(99, &[]).unwrap().unwrap();
        assert!(matches!(lab.receive_task(0), Some(WorkerTask::Keep)));
        assert!(!lab.0.has_worker_for(98));
    }
}
