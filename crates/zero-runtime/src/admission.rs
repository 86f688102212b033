//! Limits how many calls run at once and how many may wait, in total, per owner and per session.
//!
//! An owner can have three quarters of the host's slots and of its queue, and one slot besides that
//! no other owner can take. So the calls of one owner always leave room for those of another, also
//! if they never end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, HostLimits, ToolError};

use crate::circuit_breaker::CircuitBreakers;

/// A slot among the running calls. Everyone who works for the call holds a clone; dropping the last
/// one frees the slot.
#[derive(Clone, Debug)]
pub struct CallPermit {
    _held: Arc<PermitSlots>,
}

#[derive(Debug)]
struct PermitSlots {
    _session: OwnedSemaphorePermit,
    _place: HostPlace,
    /// Kept until the call ends, so that closing a session does not give its owner a new share.
    _owner: Arc<OwnerQuota>,
    running: Arc<AtomicUsize>,
}

/// Where a call runs.
#[derive(Debug)]
enum HostPlace {
    /// In the slot that is reserved for the owner.
    Own { _place: OwnedSemaphorePermit },
    /// In a slot of the host, which counts towards the owner's share.
    Shared { _share: OwnedSemaphorePermit, _place: OwnedSemaphorePermit },
}

impl Drop for PermitSlots {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The call slots of one session.
#[derive(Clone, Debug)]
pub struct SessionQuota {
    places: Arc<Semaphore>,
    owner: Arc<OwnerQuota>,
}

impl SessionQuota {
    /// The circuits of the session's owner.
    pub(crate) fn breakers(&self) -> &CircuitBreakers {
        &self.owner.breakers
    }
}

/// What the sessions of one owner share: call slots, places in the queue, and the circuits of tools.
/// The sessions of a host without owners have one quota, which is all of the host's.
#[derive(Debug)]
struct OwnerQuota {
    own_slots: Arc<Semaphore>,
    share: Arc<Semaphore>,
    queue_calls_max: usize,
    waiting: AtomicUsize,
    breakers: CircuitBreakers,
}

/// The call slots of the host.
#[derive(Debug)]
pub struct AdmissionController {
    places: Arc<Semaphore>,
    limits: HostLimits,
    waiting: AtomicUsize,
    running: Arc<AtomicUsize>,
    /// The quota of sessions without an owner.
    ownerless: Arc<OwnerQuota>,
    /// The quotas of owners that have a session.
    owners: Mutex<HashMap<String, Weak<OwnerQuota>>>,
}

impl AdmissionController {
    /// Slots for the given limits.
    pub fn new(limits: &HostLimits) -> Self {
        Self {
            places: Arc::new(bounded_semaphore(limits.host_calls_max)),
            limits: limits.clone(),
            waiting: AtomicUsize::new(0),
            running: Arc::default(),
            ownerless: Arc::new(OwnerQuota {
                own_slots: Arc::new(Semaphore::new(0)),
                share: Arc::new(bounded_semaphore(limits.host_calls_max)),
                queue_calls_max: limits.queue_calls_max,
                waiting: AtomicUsize::new(0),
                breakers: CircuitBreakers::new(limits),
            }),
            owners: Mutex::default(),
        }
    }

    /// The slots of a new session of an owner.
    pub fn new_session_quota(&self, owner: Option<&str>) -> SessionQuota {
        let places = Arc::new(bounded_semaphore(self.limits.session_calls_max));
        let owner = owner.map_or_else(|| Arc::clone(&self.ownerless), |owner| self.quota_of(owner));
        SessionQuota { places, owner }
    }

    fn quota_of(&self, owner: &str) -> Arc<OwnerQuota> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(quota) = owners.get(owner).and_then(Weak::upgrade) {
            return quota;
        }
        owners.retain(|_, quota| quota.strong_count() > 0);
        let three_quarters = |all: usize| all.saturating_sub(all.div_ceil(4)).max(1);
        let quota = Arc::new(OwnerQuota {
            own_slots: Arc::new(Semaphore::new(1)),
            share: Arc::new(bounded_semaphore(three_quarters(self.limits.host_calls_max))),
            queue_calls_max: three_quarters(self.limits.queue_calls_max),
            waiting: AtomicUsize::new(0),
            breakers: CircuitBreakers::new(&self.limits),
        });
        owners.insert(owner.to_owned(), Arc::downgrade(&quota));
        quota
    }

    /// Calls that wait for a slot.
    pub fn waiting_calls(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Calls that hold a slot.
    pub fn running_calls(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Waits for a slot, at most `longest`. Acquires the session's slot first, so that a busy
    /// session cannot hold slots of the host while it waits for its own.
    pub async fn admit(
        &self,
        lane: &SessionQuota,
        cancel: &CancellationToken,
        longest: Duration,
    ) -> Result<CallPermit, ToolError> {
        let owner = &lane.owner;
        // Calls that need not wait take no place in the queue, which others may have filled.
        if let Some((session, place)) = self.find_free_place(lane) {
            return Ok(self.start_call(session, place, owner));
        }
        let _waiting = enter_queue(&self.waiting, self.limits.queue_calls_max)?;
        let _of_owner = enter_queue(&owner.waiting, owner.queue_calls_max)?;
        let places = async {
            let session = Arc::clone(&lane.places).acquire_owned().await.ok()?;
            Some((session, self.find_place(owner).await?))
        };
        let places = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            places = places => places,
            () = tokio::time::sleep(longest) => return Err(queue_timeout_error(longest)),
        };
        let (session, place) = places.ok_or_else(ToolError::cancelled)?;
        Ok(self.start_call(session, place, owner))
    }

    fn start_call(
        &self,
        session: OwnedSemaphorePermit,
        place: HostPlace,
        owner: &Arc<OwnerQuota>,
    ) -> CallPermit {
        self.running.fetch_add(1, Ordering::Relaxed);
        let (owner, running) = (Arc::clone(owner), Arc::clone(&self.running));
        let slots = PermitSlots { _session: session, _place: place, _owner: owner, running };
        CallPermit { _held: Arc::new(slots) }
    }

    /// The slots of a session and of the host, if both are free now.
    fn find_free_place(&self, lane: &SessionQuota) -> Option<(OwnedSemaphorePermit, HostPlace)> {
        let take = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_owned().ok();
        let session = take(&lane.places)?;
        let shared = take(&lane.owner.share).and_then(|share| Some((share, take(&self.places)?)));
        let place = match shared {
            Some((share, place)) => HostPlace::Shared { _share: share, _place: place },
            None => HostPlace::Own { _place: take(&lane.owner.own_slots)? },
        };
        Some((session, place))
    }

    /// Waits for the owner's own slot or one of the host's, whichever is free first.
    async fn find_place(&self, owner: &OwnerQuota) -> Option<HostPlace> {
        let shared = async {
            // The owner's share first, so that an owner with many calls holds no slot of the host
            // while it waits.
            let share = Arc::clone(&owner.share).acquire_owned().await.ok()?;
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some(HostPlace::Shared { _share: share, _place: place })
        };
        tokio::select! {
            biased;
            place = shared => place,
            own = Arc::clone(&owner.own_slots).acquire_owned() => {
                Some(HostPlace::Own { _place: own.ok()? })
            }
        }
    }
}

fn enter_queue(waiting: &AtomicUsize, most: usize) -> Result<QueueGuard<'_>, ToolError> {
    let before = waiting.fetch_add(1, Ordering::Relaxed);
    let guard = QueueGuard(waiting);
    if before >= most {
        let message = format!("the queue is full ({before} calls are waiting); try again later");
        return Err(
            ToolError::failed(ErrorReason::QueueFull, message).with_detail("queue_depth", before)
        );
    }
    Ok(guard)
}

/// A semaphore with `count` permits, capped at tokio's maximum.
fn bounded_semaphore(count: usize) -> Semaphore {
    Semaphore::new(count.min(Semaphore::MAX_PERMITS))
}

fn queue_timeout_error(waited: Duration) -> ToolError {
    let message = format!(
        "no slot became free within {} s because other calls are running; try again later",
        waited.as_secs()
    );
    ToolError::failed(ErrorReason::QueueFull, message)
}

struct QueueGuard<'a>(&'a AtomicUsize);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
