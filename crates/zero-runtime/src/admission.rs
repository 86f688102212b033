//! Limits how many calls run at once and how many may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, HostLimits, ToolError};

/// A slot among the running calls. Everyone who works for the call holds a clone; dropping the last
/// one frees the slot.
#[derive(Clone, Debug)]
pub struct CallPermit {
    _held: Arc<PermitSlots>,
}

#[derive(Debug)]
struct PermitSlots {
    _session: OwnedSemaphorePermit,
    _host: OwnedSemaphorePermit,
    running: Arc<AtomicUsize>,
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
}

/// The call slots of the host.
#[derive(Debug)]
pub struct AdmissionController {
    places: Arc<Semaphore>,
    session_calls_max: usize,
    queue_calls_max: usize,
    waiting: AtomicUsize,
    running: Arc<AtomicUsize>,
}

impl AdmissionController {
    /// Slots for the given limits.
    pub fn new(limits: &HostLimits) -> Self {
        Self {
            places: Arc::new(bounded_semaphore(limits.host_calls_max)),
            session_calls_max: limits.session_calls_max,
            queue_calls_max: limits.queue_calls_max,
            waiting: AtomicUsize::new(0),
            running: Arc::default(),
        }
    }

    /// The slots of a new session.
    pub fn new_session_quota(&self) -> SessionQuota {
        SessionQuota { places: Arc::new(bounded_semaphore(self.session_calls_max)) }
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
        let _waiting = self.enter_queue()?;
        let places = async {
            let session = Arc::clone(&lane.places).acquire_owned().await.ok()?;
            let host = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some((session, host))
        };
        let places = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            places = places => places,
            () = tokio::time::sleep(longest) => return Err(queue_timeout_error(longest)),
        };
        let (session, host) = places.ok_or_else(ToolError::cancelled)?;
        self.running.fetch_add(1, Ordering::Relaxed);
        let held =
            PermitSlots { _session: session, _host: host, running: Arc::clone(&self.running) };
        Ok(CallPermit { _held: Arc::new(held) })
    }

    fn enter_queue(&self) -> Result<QueueGuard<'_>, ToolError> {
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = QueueGuard(&self.waiting);
        if before >= self.queue_calls_max {
            let message =
                format!("the queue is full ({before} calls are waiting); try again later");
            return Err(ToolError::failed(ErrorReason::QueueFull, message)
                .with_detail("queue_depth", before));
        }
        Ok(waiting)
    }
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
