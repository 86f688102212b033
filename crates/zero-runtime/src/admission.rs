//! How many calls run at once, and how many may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, HostLimits, ToolError};

/// A place among the running calls, held by whoever works for the call. The last one to let go
/// frees it.
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

/// A session's share of the host.
#[derive(Clone, Debug)]
pub struct SessionQuota {
    places: Arc<Semaphore>,
}

/// The host's places.
#[derive(Debug)]
pub struct AdmissionController {
    places: Arc<Semaphore>,
    session_calls_max: usize,
    queue_calls_max: usize,
    waiting: AtomicUsize,
    running: Arc<AtomicUsize>,
}

impl AdmissionController {
    /// Places as the limits say.
    pub fn new(limits: &HostLimits) -> Self {
        Self {
            places: Arc::new(bounded_semaphore(limits.host_calls_max)),
            session_calls_max: limits.session_calls_max,
            queue_calls_max: limits.queue_calls_max,
            waiting: AtomicUsize::new(0),
            running: Arc::default(),
        }
    }

    /// A new session's share.
    pub fn new_session_quota(&self) -> SessionQuota {
        SessionQuota { places: Arc::new(bounded_semaphore(self.session_calls_max)) }
    }

    /// Calls waiting for a place.
    pub fn waiting_calls(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Calls that hold a place.
    pub fn running_calls(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Waits for a place, at most for `longest`. The session's comes first, so that one busy session
    /// cannot hold places of the host while it waits for its own.
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
                format!("{before} calls are waiting already; try again when some have finished");
            return Err(ToolError::failed(ErrorReason::QueueFull, message)
                .with_detail("queue_depth", before));
        }
        Ok(waiting)
    }
}

/// So many places, or as many as there can be: more than that are never taken.
fn bounded_semaphore(count: usize) -> Semaphore {
    Semaphore::new(count.min(Semaphore::MAX_PERMITS))
}

fn queue_timeout_error(waited: Duration) -> ToolError {
    let message = format!(
        "no place became free in {} s; other calls take long, try again when they have finished",
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
