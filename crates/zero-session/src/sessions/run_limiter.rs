//! Limits the number of active runs, in total and per owner.
//!
//! A permit stands for the resources of an active run: a model request or a tool call on this
//! machine. A run that waits for the user, or for tools that run elsewhere, releases its permit, so
//! waiting runs do not block others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All permits.
pub(super) struct RunLimiter {
    all: Arc<Semaphore>,
    most: usize,
    share: usize,
    /// The limit of each owner with a run.
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl RunLimiter {
    /// Creates a limiter with `most` permits. One owner gets at most three quarters of them, so
    /// that others can still start a run.
    pub(super) fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        let share = most.saturating_sub(most.div_ceil(4)).max(1);
        Self { all: Arc::new(Semaphore::new(most)), most, share, owners: Mutex::default() }
    }

    /// The permit of a run of that owner, not acquired yet.
    pub(super) fn permit_for(&self, owner: &str) -> Arc<RunPermit> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let own = owners.get(owner).and_then(Weak::upgrade).unwrap_or_else(|| {
            owners.retain(|_, own| own.strong_count() > 0);
            let own = Arc::new(Semaphore::new(self.share));
            owners.insert(owner.to_owned(), Arc::downgrade(&own));
            own
        });
        Arc::new(RunPermit {
            own,
            all: Arc::clone(&self.all),
            permits: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
            queued: Notify::new(),
        })
    }

    /// Why a run waits for a permit, for the user.
    pub(super) fn wait_reason(&self) -> String {
        format!(
            "waits for its turn: at most {} runs are at work at a time, {} of one owner",
            self.most, self.share
        )
    }

    /// Number of free permits.
    #[cfg(test)]
    pub(super) fn available(&self) -> usize {
        self.all.available_permits()
    }
}

/// The permit of one run. Released on drop.
pub(crate) struct RunPermit {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
    permits: Mutex<PermitState>,
    /// Held while waiting: a run takes one permit, however many of its calls ask for it.
    taking: tokio::sync::Mutex<()>,
    /// Notified when the run has to wait.
    queued: Notify,
}

#[derive(Default)]
struct PermitState {
    permits: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    /// Number of pauses in effect.
    pauses: usize,
}

impl RunPermit {
    /// Acquires the permit if it is available.
    pub(super) fn try_acquire(&self) -> bool {
        self.taking.try_lock().is_ok_and(|_taking| self.try_take())
    }

    /// Waits for the permit. Cancel-safe.
    pub(super) async fn acquire(&self) {
        // If another call of the same run waits, it has already sent the notification.
        let _taking = self.taking.lock().await;
        if !self.try_take() {
            self.queued.notify_one();
            self.take().await;
        }
    }

    /// Like [`Self::acquire`], without the notification.
    pub(super) async fn acquire_queued(&self) {
        let _taking = self.taking.lock().await;
        if !self.try_take() {
            self.take().await;
        }
    }

    fn try_take(&self) -> bool {
        if self.is_satisfied() {
            return true;
        }
        let own = Arc::clone(&self.own).try_acquire_owned();
        let all = Arc::clone(&self.all).try_acquire_owned();
        let (Ok(own), Ok(all)) = (own, all) else { return false };
        self.store_permits(own, all);
        true
    }

    async fn take(&self) {
        // The owner's limit first, so that an owner with many runs holds no shared permit while
        // waiting.
        let Ok(own) = Arc::clone(&self.own).acquire_owned().await else { return };
        let Ok(all) = Arc::clone(&self.all).acquire_owned().await else { return };
        self.store_permits(own, all);
    }

    /// Waits until the run has to wait for its permit.
    pub(super) async fn wait_until_queued(&self) {
        self.queued.notified().await;
    }

    /// Releases the permit until the guard is resumed.
    pub(crate) fn pause(self: &Arc<Self>) -> PauseGuard {
        let mut permits = self.lock_state();
        permits.pauses = permits.pauses.saturating_add(1);
        permits.permits = None;
        PauseGuard(Arc::clone(self))
    }

    /// Whether nothing has to be acquired: the permit is held, or another pause is in effect that
    /// acquires it when it ends.
    fn is_satisfied(&self) -> bool {
        let permits = self.lock_state();
        permits.permits.is_some() || permits.pauses > 0
    }

    fn store_permits(&self, own: OwnedSemaphorePermit, all: OwnedSemaphorePermit) {
        let mut permits = self.lock_state();
        if permits.pauses == 0 {
            permits.permits = Some((own, all));
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, PermitState> {
        self.permits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pause of a run, until dropped.
pub(crate) struct PauseGuard(Arc<RunPermit>);

impl PauseGuard {
    /// Ends the pause and waits for the permit.
    pub(crate) async fn resume(self) {
        let permit = Arc::clone(&self.0);
        drop(self);
        permit.acquire().await;
    }
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        let mut permits = self.0.lock_state();
        permits.pauses = permits.pauses.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Long enough for anything that does not wait.
    const MOMENT: Duration = Duration::from_secs(1);

    async fn is_waiting(work: impl Future<Output = ()>) -> bool {
        timeout(MOMENT, work).await.is_err()
    }

    #[test]
    fn owner_is_limited_to_its_share() {
        for (most, share) in [(1, 1), (2, 1), (3, 2), (4, 3), (8, 6), (512, 384)] {
            let limiter = RunLimiter::new(most);
            let mine: Vec<_> = (0..most).map(|_| limiter.permit_for("me")).collect();
            let held = mine.iter().filter(|permit| permit.try_acquire()).count();
            assert_eq!(held, share, "of {most}");
            assert_eq!(limiter.permit_for("you").try_acquire(), most > 1, "of {most}");
            drop(mine);
            assert_eq!(limiter.available(), most, "all are given back");
        }
    }

    #[test]
    fn owners_without_runs_are_removed() {
        let limiter = RunLimiter::new(4);
        for owner in 0..100 {
            drop(limiter.permit_for(&owner.to_string()));
        }
        assert_eq!(limiter.owners.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_frees_permit_and_resume_waits_for_one() {
        let limiter = RunLimiter::new(1);
        let (mine, yours) = (limiter.permit_for("me"), limiter.permit_for("you"));
        mine.acquire().await;
        assert!(is_waiting(yours.acquire()).await);
        let pause = mine.pause();
        yours.acquire().await;
        assert!(!is_waiting(mine.acquire()).await, "it waits for something else");
        let resumed = tokio::spawn(pause.resume());
        assert!(!is_waiting(mine.wait_until_queued()).await, "it is said that it waits");
        assert!(!resumed.is_finished());
        drop(yours);
        resumed.await.unwrap();
        assert_eq!(limiter.available(), 0);
        drop(mine);
        assert_eq!(limiter.available(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn many_calls_of_one_run_take_one_permit() {
        let limiter = RunLimiter::new(2);
        let mine = limiter.permit_for("me");
        mine.acquire().await;
        let pauses = [mine.pause(), mine.pause(), mine.pause()];
        assert_eq!(limiter.available(), 2);
        futures_util::future::join_all(pauses.map(PauseGuard::resume)).await;
        assert_eq!(limiter.available(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_holds_no_permit() {
        let limiter = RunLimiter::new(1);
        let (mine, yours) = (limiter.permit_for("me"), limiter.permit_for("you"));
        yours.acquire().await;
        let pause = mine.pause();
        assert!(is_waiting(pause.resume()).await);
        drop(yours);
        assert_eq!(limiter.available(), 1);
        mine.acquire().await;
        assert_eq!(limiter.available(), 0, "and may wait again");
    }
}
