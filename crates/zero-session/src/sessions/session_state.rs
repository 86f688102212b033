//! In-memory state of a session: queued prompts, the active run and the tool backend.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use zero_core::{RunId, SessionId};
use zero_policy::PermissionMode;

use crate::approvals::{EarlierQuestion, InteractionBroker, ParkableRun};
use crate::event::RunOutcome;
use crate::node_membership::SessionLease;
use crate::sessions::ledger_recorder::LedgerRecorder;
use crate::sessions::subagent_run::SubagentRun;
use crate::sessions::{Prompt, SessionError};
use crate::store::{RunAddress, SessionRecord, Store, ToolHostLocation};
use crate::turn::ResumePoint;
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::{
    AgentDefinition, ToolBackend, ToolBackendError, ToolBackendFactory, ToolBackendRequest,
};

/// How much longer than its calls may take a run may take to hand itself over.
const HANDOVER_MARGIN: Duration = Duration::from_secs(1);

/// In-memory state of a session.
pub(super) struct SessionState {
    pub(super) recorder: LedgerRecorder,
    pub(super) asker: Arc<InteractionBroker>,
    /// Held while the order of prompts is decided, so that the ledger and the queue agree.
    pub(super) sending: Arc<tokio::sync::Mutex<()>>,
    queue: Mutex<PromptQueue>,
    /// Notified when there is work.
    pub(super) work: Notify,
    /// The backend opened on this machine.
    opened: tokio::sync::Mutex<Option<ActiveBackend>>,
    attached: Mutex<Option<AttachedBackend>>,
    /// The backend that its parent opened for it, while a sub-agent works in the session.
    lent_backend: Mutex<Option<LentBackend>>,
    /// Notified when a client attaches a backend.
    arrival: Notify,
    /// Agent files that cannot be used and that a run has named.
    named_problems: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct PromptQueue {
    waiting: VecDeque<QueuedPrompt>,
    current: Option<Arc<ActiveRun>>,
    has_worker: bool,
}

/// A prompt that waits for the runs before it.
pub(super) struct QueuedPrompt {
    pub(super) prompt: Prompt,
    pub(super) active: Arc<ActiveRun>,
    /// For a run that was parked: where it continues.
    pub(super) resumed: Option<ResumedRun>,
}

/// A parked run that continues.
pub(super) struct ResumedRun {
    /// Where it continues.
    pub(super) point: ResumePoint,
    /// What it asked before, with the answers that came since.
    pub(super) earlier: Vec<EarlierQuestion>,
}

/// An active or queued run.
pub(super) struct ActiveRun {
    pub(super) run: RunId,
    pub(super) session: SessionId,
    /// Owner of the session.
    pub(super) owner: String,
    /// Cancelled when the run has ended and is recorded.
    pub(super) done: CancellationToken,
    stop: CancellationToken,
    stop_as: OnceLock<RunOutcome>,
    park: CancellationToken,
    /// Cancelled when it has to park with the run of its parent.
    park_order: CancellationToken,
    /// Whether it was given up and waits in the store.
    parked: AtomicBool,
    handover: CancellationToken,
    /// Until when its calls may end before it is handed over.
    handover_until: OnceLock<Instant>,
    /// Whether it hands itself over, once its calls have ended.
    hands_itself_over: AtomicBool,
    /// Whether only the final entry remains to be written.
    over: AtomicBool,
    /// What it has from its parent, if it is the run of a sub-agent.
    pub(super) subagent: Option<Arc<SubagentRun>>,
}

impl ActiveRun {
    pub(super) fn new(
        run: RunId,
        session: SessionId,
        owner: String,
        subagent: Option<Arc<SubagentRun>>,
    ) -> Arc<Self> {
        let (done, stop, park, park_order, handover) = Default::default();
        let over = AtomicBool::new(false);
        Arc::new(Self {
            run,
            session,
            owner,
            done,
            stop,
            stop_as: OnceLock::new(),
            park,
            park_order,
            parked: AtomicBool::new(false),
            handover,
            handover_until: OnceLock::new(),
            hands_itself_over: AtomicBool::new(false),
            over,
            subagent,
        })
    }

    pub(super) fn address(&self) -> RunAddress {
        RunAddress::new(&self.session, &self.run)
    }

    /// Marks that only the final entry remains to be written; other tasks need not wait for this
    /// run any more.
    pub(super) fn mark_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether only the final entry remains to be written.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Asks the run to end with this outcome; the first request counts.
    pub(super) fn stop(&self, end: RunOutcome) {
        let _ = self.stop_as.set(end);
        self.stop.cancel();
    }

    /// Asks the run to park as soon as it only waits for the user.
    pub(super) fn request_park(&self) {
        self.park.cancel();
    }

    /// Waits for [`Self::request_park`].
    pub(super) async fn wait_for_park_request(&self) {
        self.park.cancelled().await;
    }

    /// How the run of a sub-agent is parked with that of its parent.
    pub(super) fn parkable(&self) -> ParkableRun {
        ParkableRun { park: self.park_order.clone(), done: self.done.clone() }
    }

    /// Waits until the run has to park, since all that it waits for was taken from memory.
    pub(super) async fn wait_for_park_order(&self) {
        self.park_order.cancelled().await;
    }

    /// Marks that the run waits in the store, and is executed here no more.
    pub(super) fn mark_parked(&self) {
        self.parked.store(true, Ordering::Relaxed);
    }

    /// Whether the run waits in the store.
    pub(super) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Asks the run to stop where it is, so that another process continues it. Calls that run have
    /// `grace` to end; nothing new begins.
    pub(super) fn request_handover(&self, grace: Duration) {
        let _ = self.handover_until.set(Instant::now() + grace);
        self.handover.cancel();
    }

    /// Cancelled by [`Self::request_handover`].
    pub(super) fn handover_token(&self) -> CancellationToken {
        self.handover.clone()
    }

    /// Waits for [`Self::request_handover`]. Returns until when calls may end.
    pub(super) async fn wait_for_handover(&self) -> Instant {
        self.handover.cancelled().await;
        self.handover_until.get().copied().unwrap_or_else(Instant::now)
    }

    /// Waits until the run has to be stopped so that another process continues it, because it does not
    /// hand itself over.
    pub(super) async fn wait_for_forced_handover(&self) {
        let until = self.wait_for_handover().await;
        if self.hands_itself_over.load(Ordering::Relaxed) {
            sleep_until(until + HANDOVER_MARGIN).await;
        }
    }

    /// Sets whether the run hands itself over when it is asked to.
    pub(super) fn set_hands_itself_over(&self, does_so: bool) {
        self.hands_itself_over.store(does_so, Ordering::Relaxed);
    }

    /// How the run was asked to end, if it was.
    pub(super) fn requested_stop(&self) -> Option<RunOutcome> {
        self.stop_as.get().cloned()
    }

    /// Waits for a stop request.
    pub(super) async fn wait_for_stop(&self) -> RunOutcome {
        self.stop.cancelled().await;
        let end = self.stop_as.get().cloned();
        end.unwrap_or(RunOutcome::Aborted { by: "unknown".to_owned() })
    }
}

/// Whether a worker has to be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WorkerPresence {
    /// A worker is running.
    Running,
    /// There is no worker.
    Needed,
}

/// A backend that a client attached.
#[derive(Clone)]
struct AttachedBackend {
    backend: Arc<dyn ToolBackend>,
    /// Cancelled when the backend is detached.
    closed: CancellationToken,
    /// Keeps other processes from removing the session.
    _lease: Option<SessionLease>,
}

/// A backend for a run, with the token that ends its use.
#[derive(Clone)]
pub(super) struct ActiveBackend {
    pub(super) backend: Arc<dyn ToolBackend>,
    pub(super) closed: CancellationToken,
    /// Determines what happens to running calls when the backend is detached.
    pub(super) at: BackendLocation,
}

/// A backend that the parent of a sub-agent opened for it.
#[derive(Clone)]
pub(super) struct LentBackend {
    pub(super) backend: ActiveBackend,
    /// The mode of the sub-agent's definition; the user can only choose a stricter one.
    pub(super) mode: Option<PermissionMode>,
}

/// Where the tools of a session run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackendLocation {
    /// On this machine: a call that has started runs to its end.
    Local,
    /// At a client: running calls are lost when it disconnects.
    Client,
}

impl SessionState {
    /// What is wrong with these agents, without what an earlier run has named.
    pub(super) fn new_agent_problems<'a>(
        &self,
        agents: impl Iterator<Item = &'a AgentDefinition>,
    ) -> Vec<String> {
        let mut named = self.named_problems.lock().unwrap_or_else(PoisonError::into_inner);
        let problems = agents.filter_map(|agent| agent.problem.clone());
        problems.filter(|problem| named.insert(problem.clone())).collect()
    }

    pub(super) fn new(recorder: LedgerRecorder, asker: Arc<InteractionBroker>) -> Arc<Self> {
        Arc::new(Self {
            recorder,
            asker,
            sending: Arc::default(),
            queue: Mutex::default(),
            work: Notify::new(),
            opened: tokio::sync::Mutex::default(),
            attached: Mutex::default(),
            lent_backend: Mutex::default(),
            arrival: Notify::new(),
            named_problems: Mutex::default(),
        })
    }

    /// Numbers of queued and active prompts.
    pub(super) fn queue_load(&self) -> (usize, usize) {
        let queue = self.lock_queue();
        let at_work = queue.current.as_ref().is_some_and(|current| !current.is_over());
        (queue.waiting.len(), usize::from(at_work))
    }

    /// Appends a prompt to the queue.
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

    /// Puts a run before all prompts that wait.
    pub(super) fn enqueue_first(&self, job: QueuedPrompt) -> WorkerPresence {
        self.push_first(&mut self.lock_queue(), job)
    }

    fn push_first(&self, queue: &mut PromptQueue, job: QueuedPrompt) -> WorkerPresence {
        queue.waiting.push_front(job);
        if std::mem::replace(&mut queue.has_worker, true) {
            self.work.notify_one();
            WorkerPresence::Running
        } else {
            WorkerPresence::Needed
        }
    }

    /// Puts a prompt before all that wait. Returns the run that has to make way for it: the active one,
    /// or one that was parked and is to continue.
    pub(super) fn enqueue_steering(&self, job: QueuedPrompt) -> (WorkerPresence, Option<RunId>) {
        let mut queue = self.lock_queue();
        let active = queue.current.as_ref().filter(|current| !current.is_over()).cloned();
        let resumed = queue.waiting.front().filter(|front| front.resumed.is_some());
        let answering = active.or_else(|| resumed.map(|front| Arc::clone(&front.active)));
        (self.push_first(&mut queue, job), answering.map(|active| active.run.clone()))
    }

    /// Takes the next prompt, which becomes the active one.
    pub(super) fn next_prompt(&self) -> Option<QueuedPrompt> {
        let mut queue = self.lock_queue();
        let job = queue.waiting.pop_front();
        queue.current = job.as_ref().map(|job| Arc::clone(&job.active));
        job
    }

    /// Ends the worker, unless there is work. Returns whether it ended.
    pub(super) fn release_worker(&self) -> bool {
        let mut queue = self.lock_queue();
        let idle = queue.waiting.is_empty();
        if idle {
            queue.has_worker = false;
        }
        idle
    }

    /// Removes queued prompts: the one of a run, or all.
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

    /// The backend of the session: its client's if it has one, and no other in its place; otherwise
    /// a backend on this machine, opened on first use.
    pub(super) async fn open_backend(
        &self,
        record: &SessionRecord,
        mode: Option<PermissionMode>,
        cwd: &Path,
        factory: &Arc<dyn ToolBackendFactory>,
        store: &Arc<dyn Store>,
        folder_access: &FolderAccess,
    ) -> Result<ActiveBackend, ToolBackendError> {
        if let ToolHostLocation::Client { name } = &record.tool_host {
            return self
                .client_backend()
                .ok_or_else(|| ToolBackendError::ClientDisconnected { host: name.clone() });
        }
        let mut opened = self.opened.lock().await;
        if let Some(now) = &*opened {
            check_backend_folder(&*now.backend, folder_access)?;
            return Ok(now.clone());
        }
        let grants = store.grants(&record.id).await;
        let grants = grants.map_err(|error| error.to_backend_error())?;
        self.asker.set_known_grants(grants.clone()).await;
        let order = ToolBackendRequest {
            session: record.id.clone(),
            owner: Some(record.owner.clone()),
            cwd: record.cwd.clone().unwrap_or_else(|| cwd.to_owned()),
            folder_access: folder_access.clone(),
            mode,
            approver: Arc::clone(&self.asker) as _,
            elicitor: Arc::clone(&self.asker) as _,
            grants,
            result_lifetime: ResultLifetime::Session,
        };
        let backend = factory.open(order).await?;
        check_backend_folder(&*backend, folder_access)?;
        let now =
            ActiveBackend { backend, closed: CancellationToken::new(), at: BackendLocation::Local };
        *opened = Some(now.clone());
        Ok(now)
    }

    /// Sets or removes the backend that the parent of a sub-agent opened for it.
    pub(super) fn set_lent_backend(&self, backend: Option<LentBackend>) {
        *self.lent_backend.lock().unwrap_or_else(PoisonError::into_inner) = backend;
    }

    /// The backend that the parent of a sub-agent opened for it.
    pub(super) fn lent_backend(&self) -> Option<LentBackend> {
        self.lent_backend.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The client's backend, if attached.
    pub(super) fn client_backend(&self) -> Option<ActiveBackend> {
        let attached = self.lock_attached().clone();
        let attached = attached.filter(|attached| !attached.closed.is_cancelled());
        attached.map(|AttachedBackend { backend, closed, .. }| ActiveBackend {
            backend,
            closed,
            at: BackendLocation::Client,
        })
    }

    /// Waits until a lost client has attached a backend again; `None` after the timeout.
    pub(super) async fn wait_for_client_backend(&self, most: Duration) -> Option<ActiveBackend> {
        let back = async {
            loop {
                let mut arrival = std::pin::pin!(self.arrival.notified());
                arrival.as_mut().enable();
                if let Some(now) = self.client_backend() {
                    return now;
                }
                arrival.await;
            }
        };
        tokio::time::timeout(most, back).await.ok()
    }

    /// The current backend, at any location.
    pub(super) async fn current_backend(
        &self,
        record: &SessionRecord,
    ) -> Option<Arc<dyn ToolBackend>> {
        match record.tool_host {
            ToolHostLocation::Gateway => {
                self.opened.lock().await.as_ref().map(|now| Arc::clone(&now.backend))
            }
            ToolHostLocation::Client { .. } => {
                self.lock_attached().as_ref().map(|attached| Arc::clone(&attached.backend))
            }
        }
    }

    /// Whether background jobs run that end with the local backend.
    pub(super) async fn has_running_jobs(&self) -> bool {
        self.opened.lock().await.as_ref().is_some_and(|now| now.backend.has_running_jobs())
    }

    /// Closes the local backend and prevents it from starting further calls.
    pub(super) async fn retire_backend(&self) {
        if let Some(backend) = self.opened.lock().await.take() {
            backend.closed.cancel();
        }
    }

    /// Closes the local backend.
    pub(super) async fn drop_backend(&self) {
        *self.opened.lock().await = None;
    }

    /// Attaches a client's backend. The previous one, local or of another client, starts no more
    /// calls.
    pub(super) async fn attach(
        &self,
        backend: Arc<dyn ToolBackend>,
        lease: Option<SessionLease>,
    ) -> CancellationToken {
        self.retire_backend().await;
        let closed = CancellationToken::new();
        let attached = AttachedBackend { backend, closed: closed.clone(), _lease: lease };
        if let Some(before) = self.lock_attached().replace(attached) {
            before.closed.cancel();
        }
        self.arrival.notify_waiters();
        closed
    }

    /// Detaches the backend with this token.
    pub(super) fn detach(&self, closed: &CancellationToken) {
        // Cancelled first, so that no task starts a call with it in between.
        closed.cancel();
        let mut attached = self.lock_attached();
        if attached.as_ref().is_some_and(|attached| attached.closed.is_cancelled()) {
            *attached = None;
        }
    }

    /// Whether the state can be removed without losing anything.
    pub(super) fn is_empty(&self) -> bool {
        let queue = self.lock_queue();
        !queue.has_worker && queue.waiting.is_empty() && self.lock_attached().is_none()
    }

    fn lock_attached(&self) -> MutexGuard<'_, Option<AttachedBackend>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that a local backend works in a folder that the caller may use. It may have been opened
/// for another caller.
fn check_backend_folder(
    backend: &dyn ToolBackend,
    folder_access: &FolderAccess,
) -> Result<(), ToolBackendError> {
    let folder = backend.folder();
    Ok(folder_access.check_folder(folder.as_deref().unwrap_or(Path::new("unknown")))?)
}

/// Waits until these runs have ended, with a time limit.
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
