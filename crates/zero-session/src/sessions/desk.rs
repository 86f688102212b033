//! What one session holds in memory: the prompts that wait, the run at work, the hands.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zero_core::{RunId, SessionId};
use zero_policy::Mode;

use crate::approvals::SessionAsker;
use crate::event::RunEnd;
use crate::hands::{Hands, HandsError, HandsFactory, HandsOrder};
use crate::reach::Reach;
use crate::sessions::recorder::Recorder;
use crate::sessions::{Prompt, SessionError};
use crate::store::{SessionRecord, Store, ToolHostPlace};

/// What one session holds in memory.
pub(super) struct Desk {
    pub(super) recorder: Recorder,
    pub(super) asker: Arc<SessionAsker>,
    /// Held while the order of prompts is decided, so that the ledger and the queue agree.
    pub(super) sending: tokio::sync::Mutex<()>,
    queue: Mutex<Queue>,
    /// Told when there is something to do.
    pub(super) work: Notify,
    /// Hands that were opened on this machine.
    opened: tokio::sync::Mutex<Option<HandsNow>>,
    attached: Mutex<Option<Attached>>,
    /// Says that a client brought hands.
    came: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    current: Option<Arc<ActiveRun>>,
    has_worker: bool,
}

/// A prompt that waits for its turn.
pub(super) struct Job {
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
    stop_as: OnceLock<RunEnd>,
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
    pub(super) fn set_over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether nothing but its end is left to be written.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Asks the run to end this way; what was asked first counts.
    pub(super) fn stop(&self, end: RunEnd) {
        let _ = self.stop_as.set(end);
        self.stop.cancel();
    }

    /// Waits until it is asked to end.
    pub(super) async fn stopped(&self) -> RunEnd {
        self.stop.cancelled().await;
        let end = self.stop_as.get().cloned();
        end.unwrap_or(RunEnd::Aborted { by: "unknown".to_owned() })
    }
}

/// Whether somebody has to be started to do the work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Worker {
    /// There is one.
    There,
    /// There is none.
    Needed,
}

/// Hands that a client brought.
#[derive(Clone)]
struct Attached {
    hands: Arc<dyn Hands>,
    /// Cancelled when they are gone.
    gone: CancellationToken,
}

/// Hands for a run, and when they may not be used any more.
#[derive(Clone)]
pub(super) struct HandsNow {
    pub(super) hands: Arc<dyn Hands>,
    pub(super) gone: CancellationToken,
    /// What becomes of calls that run when they are gone.
    pub(super) at: HandsAt,
}

/// Where hands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandsAt {
    /// On this machine: a call that has begun comes to its end.
    Here,
    /// With a client: what it was doing is lost with it.
    Client,
}

impl Desk {
    pub(super) fn new(recorder: Recorder, asker: Arc<SessionAsker>) -> Arc<Self> {
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
    pub(super) fn load(&self) -> (usize, usize) {
        let queue = self.queue();
        let at_work = queue.current.as_ref().is_some_and(|current| !current.is_over());
        (queue.waiting.len(), usize::from(at_work))
    }

    /// Puts a prompt behind the others.
    pub(super) fn push(&self, job: Job) -> Worker {
        let mut queue = self.queue();
        queue.waiting.push_back(job);
        if std::mem::replace(&mut queue.has_worker, true) {
            self.work.notify_one();
            Worker::There
        } else {
            Worker::Needed
        }
    }

    /// The next prompt, which is at work from now on.
    pub(super) fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        let job = queue.waiting.pop_front();
        queue.current = job.as_ref().map(|job| Arc::clone(&job.active));
        job
    }

    /// Lets the worker go, unless there is something to do.
    pub(super) fn retire(&self) -> bool {
        let mut queue = self.queue();
        let idle = queue.waiting.is_empty();
        if idle {
            queue.has_worker = false;
        }
        idle
    }

    /// Takes prompts out that wait: that of one run, or all.
    pub(super) fn take_waiting(&self, run: Option<&RunId>) -> Vec<Job> {
        let mut queue = self.queue();
        let waiting = std::mem::take(&mut queue.waiting);
        let wanted = |job: &Job| run.is_none_or(|run| *run == job.active.run);
        let (taken, left) = waiting.into_iter().partition::<VecDeque<Job>, _>(wanted);
        queue.waiting = left;
        taken.into()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hands of the session: those of its client where it has one, never others in their place;
    /// or hands on this machine, opened when they are first needed.
    pub(super) async fn hands(
        &self,
        record: &SessionRecord,
        mode: Option<Mode>,
        cwd: &Path,
        factory: &Arc<dyn HandsFactory>,
        store: &Arc<dyn Store>,
        reach: &Reach,
    ) -> Result<HandsNow, HandsError> {
        if let ToolHostPlace::Client { name } = &record.tool_host {
            return self.client_hands().ok_or_else(|| HandsError::Away { host: name.clone() });
        }
        let mut opened = self.opened.lock().await;
        if let Some(now) = &*opened {
            check_folder(&*now.hands, reach)?;
            return Ok(now.clone());
        }
        let standing = store.grants(&record.id).await;
        let standing = standing.map_err(|error| HandsError::Workspace(error.to_string()))?;
        let order = HandsOrder {
            session: record.id.clone(),
            cwd: record.cwd.clone().unwrap_or_else(|| cwd.to_owned()),
            reach: reach.clone(),
            mode,
            approver: Arc::clone(&self.asker) as _,
            elicitor: Arc::clone(&self.asker) as _,
            standing,
        };
        let hands = factory.open(order).await?;
        check_folder(&*hands, reach)?;
        let now = HandsNow { hands, gone: CancellationToken::new(), at: HandsAt::Here };
        *opened = Some(now.clone());
        Ok(now)
    }

    /// The hands that a client brought, if they are there.
    pub(super) fn client_hands(&self) -> Option<HandsNow> {
        let attached = self.attached().clone();
        let attached = attached.filter(|attached| !attached.gone.is_cancelled());
        attached.map(|Attached { hands, gone }| HandsNow { hands, gone, at: HandsAt::Client })
    }

    /// The hands of a client that went away, when they are back; `None` when that takes too long.
    pub(super) async fn client_back(&self, most: Duration) -> Option<HandsNow> {
        let back = async {
            loop {
                let mut came = std::pin::pin!(self.came.notified());
                came.as_mut().enable();
                if let Some(now) = self.client_hands() {
                    return now;
                }
                came.await;
            }
        };
        tokio::time::timeout(most, back).await.ok()
    }

    /// The hands that are there now, wherever they are.
    pub(super) async fn present_hands(&self, record: &SessionRecord) -> Option<Arc<dyn Hands>> {
        match record.tool_host {
            ToolHostPlace::Gateway => {
                self.opened.lock().await.as_ref().map(|now| Arc::clone(&now.hands))
            }
            ToolHostPlace::Client { .. } => {
                self.attached().as_ref().map(|attached| Arc::clone(&attached.hands))
            }
        }
    }

    /// Lets go of hands that were opened on this machine, and lets them begin nothing any more.
    pub(super) async fn retire_hands(&self) {
        if let Some(here) = self.opened.lock().await.take() {
            here.gone.cancel();
        }
    }

    /// Lets go of hands that were opened on this machine.
    pub(super) async fn drop_hands(&self) {
        *self.opened.lock().await = None;
    }

    /// Takes the hands of a client. Those that were there before, here or with another, begin
    /// nothing any more.
    pub(super) async fn attach(&self, hands: Arc<dyn Hands>) -> CancellationToken {
        self.retire_hands().await;
        let gone = CancellationToken::new();
        let attached = Attached { hands, gone: gone.clone() };
        if let Some(before) = self.attached().replace(attached) {
            before.gone.cancel();
        }
        self.came.notify_waiters();
        gone
    }

    /// Lets the hands go that this token belongs to.
    pub(super) fn detach(&self, gone: &CancellationToken) {
        // Cancelled first: whoever finds them in between must not begin anything with them.
        gone.cancel();
        let mut attached = self.attached();
        if attached.as_ref().is_some_and(|attached| attached.gone.is_cancelled()) {
            *attached = None;
        }
    }

    /// Whether nothing would be lost if it were forgotten.
    pub(super) fn is_empty(&self) -> bool {
        let queue = self.queue();
        !queue.has_worker && queue.waiting.is_empty() && self.attached().is_none()
    }

    fn attached(&self) -> MutexGuard<'_, Option<Attached>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether hands on this machine work where they may for whoever wants them now. They may have been
/// opened for somebody else.
fn check_folder(hands: &dyn Hands, reach: &Reach) -> Result<(), HandsError> {
    let folder = hands.folder();
    Ok(reach.check(folder.as_deref().unwrap_or(Path::new("unknown")))?)
}

/// Waits until all these runs are settled, but not longer than so.
pub(super) async fn all_done(
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
