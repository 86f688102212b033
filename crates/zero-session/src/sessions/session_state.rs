//! What one session holds in memory: the prompts that wait, the run at work, the hands.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zero_core::{RunId, SessionId};
use zero_policy::PermissionMode;

use crate::approvals::InteractionBroker;
use crate::event::RunOutcome;
use crate::sessions::ledger_recorder::LedgerRecorder;
use crate::sessions::{Prompt, SessionError};
use crate::store::{SessionRecord, Store, ToolHostLocation};
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::{
    ToolBackend, ToolBackendError, ToolBackendFactory, ToolBackendRequest,
};

/// What one session holds in memory.
pub(super) struct SessionState {
    pub(super) recorder: LedgerRecorder,
    pub(super) asker: Arc<InteractionBroker>,
    /// Held while the order of prompts is decided, so that the ledger and the queue agree.
    pub(super) sending: tokio::sync::Mutex<()>,
    queue: Mutex<PromptQueue>,
    /// Told when there is something to do.
    pub(super) work: Notify,
    /// Hands that were opened on this machine.
    opened: tokio::sync::Mutex<Option<ActiveBackend>>,
    attached: Mutex<Option<AttachedBackend>>,
    /// Says that a client brought hands.
    came: Notify,
}

#[derive(Default)]
struct PromptQueue {
    waiting: VecDeque<QueuedPrompt>,
    current: Option<Arc<ActiveRun>>,
    has_worker: bool,
}

/// A prompt that waits for its turn.
pub(super) struct QueuedPrompt {
    pub(super) prompt: Prompt,
    pub(super) active: Arc<ActiveRun>,
}

/// A run that is at work or waits.
pub(super) struct ActiveRun {
    pub(super) run: RunId,
    pub(super) session: SessionId,
    /// Whose session it is.
    pub(super) owner: String,
    /// Cancelled when the run is settled.
    pub(super) done: CancellationToken,
    stop: CancellationToken,
    stop_as: OnceLock<RunOutcome>,
    /// Whether nothing but its end is left to be written.
    over: AtomicBool,
}

impl ActiveRun {
    pub(super) fn new(run: RunId, session: SessionId, owner: String) -> Arc<Self> {
        let (done, stop) = (CancellationToken::new(), CancellationToken::new());
        let over = AtomicBool::new(false);
        Arc::new(Self { run, session, owner, done, stop, stop_as: OnceLock::new(), over })
    }

    /// Notes that nothing but its end is left to be written: nobody has to wait for it any more.
    pub(super) fn mark_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether nothing but its end is left to be written.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Asks the run to end this way; what was asked first counts.
    pub(super) fn stop(&self, end: RunOutcome) {
        let _ = self.stop_as.set(end);
        self.stop.cancel();
    }

    /// Waits until it is asked to end.
    pub(super) async fn wait_for_stop(&self) -> RunOutcome {
        self.stop.cancelled().await;
        let end = self.stop_as.get().cloned();
        end.unwrap_or(RunOutcome::Aborted { by: "unknown".to_owned() })
    }
}

/// Whether somebody has to be started to do the work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WorkerPresence {
    /// There is one.
    Running,
    /// There is none.
    Needed,
}

/// Hands that a client brought.
#[derive(Clone)]
struct AttachedBackend {
    hands: Arc<dyn ToolBackend>,
    /// Cancelled when they are gone.
    gone: CancellationToken,
}

/// Hands for a run, and when they may not be used any more.
#[derive(Clone)]
pub(super) struct ActiveBackend {
    pub(super) hands: Arc<dyn ToolBackend>,
    pub(super) gone: CancellationToken,
    /// What becomes of calls that run when they are gone.
    pub(super) at: BackendLocation,
}

/// Where hands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackendLocation {
    /// On this machine: a call that has begun comes to its end.
    Local,
    /// With a client: what it was doing is lost with it.
    Client,
}

impl SessionState {
    pub(super) fn new(recorder: LedgerRecorder, asker: Arc<InteractionBroker>) -> Arc<Self> {
        Arc::new(Self {
            recorder,
            asker,
            sending: tokio::sync::Mutex::default(),
            queue: Mutex::default(),
            work: Notify::new(),
            opened: tokio::sync::Mutex::default(),
            attached: Mutex::default(),
            came: Notify::new(),
        })
    }

    /// Prompts that wait, and whether there is one at work.
    pub(super) fn queue_load(&self) -> (usize, usize) {
        let queue = self.lock_queue();
        let at_work = queue.current.as_ref().is_some_and(|current| !current.is_over());
        (queue.waiting.len(), usize::from(at_work))
    }

    /// Puts a prompt behind the others.
    pub(super) fn enqueue(&self, job: QueuedPrompt) -> WorkerPresence {
        let mut queue = self.lock_queue();
        queue.waiting.push_back(job);
        if std::mem::replace(&mut queue.has_worker, true) {
            self.work.notify_one();
            WorkerPresence::Running
        } else {
            WorkerPresence::Needed
        }
    }

    /// The next prompt, which is at work from now on.
    pub(super) fn next_prompt(&self) -> Option<QueuedPrompt> {
        let mut queue = self.lock_queue();
        let job = queue.waiting.pop_front();
        queue.current = job.as_ref().map(|job| Arc::clone(&job.active));
        job
    }

    /// Lets the worker go, unless there is something to do.
    pub(super) fn release_worker(&self) -> bool {
        let mut queue = self.lock_queue();
        let idle = queue.waiting.is_empty();
        if idle {
            queue.has_worker = false;
        }
        idle
    }

    /// Takes prompts out that wait: that of one run, or all.
    pub(super) fn take_queued(&self, run: Option<&RunId>) -> Vec<QueuedPrompt> {
        let mut queue = self.lock_queue();
        let waiting = std::mem::take(&mut queue.waiting);
        let wanted = |job: &QueuedPrompt| run.is_none_or(|run| *run == job.active.run);
        let (taken, left) = waiting.into_iter().partition::<VecDeque<QueuedPrompt>, _>(wanted);
        queue.waiting = left;
        taken.into()
    }

    fn lock_queue(&self) -> MutexGuard<'_, PromptQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hands of the session: those of its client where it has one, never others in their place;
    /// or hands on this machine, opened when they are first needed.
    pub(super) async fn open_backend(
        &self,
        record: &SessionRecord,
        mode: Option<PermissionMode>,
        cwd: &Path,
        factory: &Arc<dyn ToolBackendFactory>,
        store: &Arc<dyn Store>,
        reach: &FolderAccess,
    ) -> Result<ActiveBackend, ToolBackendError> {
        if let ToolHostLocation::Client { name } = &record.tool_host {
            return self
                .client_backend()
                .ok_or_else(|| ToolBackendError::ClientDisconnected { host: name.clone() });
        }
        let mut opened = self.opened.lock().await;
        if let Some(now) = &*opened {
            check_backend_folder(&*now.hands, reach)?;
            return Ok(now.clone());
        }
        let standing = store.grants(&record.id).await;
        let standing = standing.map_err(|error| ToolBackendError::Workspace(error.to_string()))?;
        let order = ToolBackendRequest {
            session: record.id.clone(),
            cwd: record.cwd.clone().unwrap_or_else(|| cwd.to_owned()),
            reach: reach.clone(),
            mode,
            approver: Arc::clone(&self.asker) as _,
            elicitor: Arc::clone(&self.asker) as _,
            standing,
        };
        let hands = factory.open(order).await?;
        check_backend_folder(&*hands, reach)?;
        let now =
            ActiveBackend { hands, gone: CancellationToken::new(), at: BackendLocation::Local };
        *opened = Some(now.clone());
        Ok(now)
    }

    /// The hands that a client brought, if they are there.
    pub(super) fn client_backend(&self) -> Option<ActiveBackend> {
        let attached = self.lock_attached().clone();
        let attached = attached.filter(|attached| !attached.gone.is_cancelled());
        attached.map(|AttachedBackend { hands, gone }| ActiveBackend {
            hands,
            gone,
            at: BackendLocation::Client,
        })
    }

    /// The hands of a client that went away, when they are back; `None` when that takes too long.
    pub(super) async fn wait_for_client_backend(&self, most: Duration) -> Option<ActiveBackend> {
        let back = async {
            loop {
                let mut came = std::pin::pin!(self.came.notified());
                came.as_mut().enable();
                if let Some(now) = self.client_backend() {
                    return now;
                }
                came.await;
            }
        };
        tokio::time::timeout(most, back).await.ok()
    }

    /// The hands that are there now, wherever they are.
    pub(super) async fn current_backend(
        &self,
        record: &SessionRecord,
    ) -> Option<Arc<dyn ToolBackend>> {
        match record.tool_host {
            ToolHostLocation::Gateway => {
                self.opened.lock().await.as_ref().map(|now| Arc::clone(&now.hands))
            }
            ToolHostLocation::Client { .. } => {
                self.lock_attached().as_ref().map(|attached| Arc::clone(&attached.hands))
            }
        }
    }

    /// Lets go of hands that were opened on this machine, and lets them begin nothing any more.
    pub(super) async fn retire_backend(&self) {
        if let Some(here) = self.opened.lock().await.take() {
            here.gone.cancel();
        }
    }

    /// Lets go of hands that were opened on this machine.
    pub(super) async fn drop_backend(&self) {
        *self.opened.lock().await = None;
    }

    /// Takes the hands of a client. Those that were there before, here or with another, begin
    /// nothing any more.
    pub(super) async fn attach(&self, hands: Arc<dyn ToolBackend>) -> CancellationToken {
        self.retire_backend().await;
        let gone = CancellationToken::new();
        let attached = AttachedBackend { hands, gone: gone.clone() };
        if let Some(before) = self.lock_attached().replace(attached) {
            before.gone.cancel();
        }
        self.came.notify_waiters();
        gone
    }

    /// Lets the hands go that this token belongs to.
    pub(super) fn detach(&self, gone: &CancellationToken) {
        // Cancelled first: whoever finds them in between must not begin anything with them.
        gone.cancel();
        let mut attached = self.lock_attached();
        if attached.as_ref().is_some_and(|attached| attached.gone.is_cancelled()) {
            *attached = None;
        }
    }

    /// Whether nothing would be lost if it were forgotten.
    pub(super) fn is_empty(&self) -> bool {
        let queue = self.lock_queue();
        !queue.has_worker && queue.waiting.is_empty() && self.lock_attached().is_none()
    }

    fn lock_attached(&self) -> MutexGuard<'_, Option<AttachedBackend>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether hands on this machine work where they may for whoever wants them now. They may have been
/// opened for somebody else.
fn check_backend_folder(
    hands: &dyn ToolBackend,
    reach: &FolderAccess,
) -> Result<(), ToolBackendError> {
    let folder = hands.folder();
    Ok(reach.check_folder(folder.as_deref().unwrap_or(Path::new("unknown")))?)
}

/// Waits until all these runs are settled, but not longer than so.
pub(super) async fn wait_until_finished(
    runs: Vec<Arc<ActiveRun>>,
    most: Duration,
) -> Result<(), SessionError> {
    let all = async {
        for run in &runs {
            run.done.cancelled().await;
        }
    };
    let busy = "the run that is at work does not end; try again in a moment";
    let done = tokio::time::timeout(most, all).await;
    done.map_err(|_| SessionError::Busy(busy.to_owned()))
}
