//! Sessions and their runs: what every face asks, and the shell around [`crate::turn`].
//!
//! Prompts of one session take turns. What a run shows is in the ledger before anybody sees it, and
//! a call is in the ledger before it begins; so whoever comes later, or after a crash, knows as much
//! as whoever was there.

pub(crate) mod call_updates;
mod current_plan;
mod interrupted_runs;
mod ledger_outbox;
pub(crate) mod ledger_recorder;
mod lifecycle;
mod model_reader;
mod prompt_resolution;
mod prompt_submission;
mod prompts;
mod run_driver;
pub(crate) mod run_limiter;
mod session_growth;
mod session_state;
mod session_worker;
mod unsaved_messages;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use zero_core::{RunId, SessionId};
use zero_policy::PermissionMode;

use self::ledger_recorder::LedgerRecorder;
use self::run_limiter::RunLimiter;
use self::session_state::{ActiveRun, SessionState};
use crate::agent::AgentRegistry;
use crate::approvals::{ApprovalQueue, InteractionBroker, QuestionQueue};
use crate::event::{Event, PromptAttachment, RunOutcome};
use crate::event_bus::EventBus;
use crate::key::{InvalidSessionKeyError, SessionKey};
use crate::model::catalog::ModelCatalog;
use crate::model::{ModelError, ThinkingEffort};
use crate::node_membership::NodeMembership;
use crate::store::{
    LedgerReadLimit, RunRecord, SessionPage, SessionPatch, SessionQuery, SessionRecord, Store,
    StoreError, ToolHostLocation, Transcript,
};
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::{
    PromptCommand, ToolBackend, ToolBackendError, ToolBackendFactory,
};

/// What sessions are made of.
pub struct SessionManagerConfig {
    /// Where they are kept.
    pub store: Arc<dyn Store>,
    /// How others hear of them.
    pub bus: Arc<dyn EventBus>,
    /// The configured agents that session keys can name.
    pub agents: AgentRegistry,
    /// The configured models that agents and sessions can use.
    pub models: ModelCatalog,
    /// What makes the hands of sessions whose tools run here.
    pub hands: Arc<dyn ToolBackendFactory>,
    /// The folder of sessions that name none.
    pub cwd: PathBuf,
    /// The processes that share the store.
    pub nodes: Arc<dyn NodeMembership>,
    /// Bounds.
    pub limits: SessionLimits,
}

/// Bounds of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionLimits {
    /// How often a run may ask its model.
    pub turns_max: u32,
    /// Prompts that may wait in one session.
    pub queued_max: usize,
    /// Runs at work at a time, in all sessions; three quarters of them of one owner. A run that
    /// waits for a person or for a client's tools is not at work.
    pub runs_max: usize,
    /// Bytes of a prompt's text.
    pub prompt_bytes_max: usize,
    /// Bytes of all attachments of a prompt, in base64.
    pub attachment_bytes_max: usize,
    /// Calls that only look, at a time, in one run.
    pub parallel_calls_max: usize,
    /// How long a question waits for a person.
    pub question_timeout: Duration,
    /// How full the model's window may be before the transcript is summed up, in percent.
    pub compact_at_percent: u8,
    /// Identical calls in a row before a person is asked.
    pub repeats_before_asking: u32,
    /// Identical calls in a row before the run is stopped.
    pub repeats_max: u32,
    /// How long the hands of an idle session are kept.
    pub idle_hands: Duration,
    /// Sessions that one owner may have.
    pub sessions_max: u64,
    /// Bytes that a session may take before no more prompts are taken for it: all that happened in
    /// it, and all that its models were told.
    pub session_bytes_max: u64,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            turns_max: 200,
            queued_max: 32,
            runs_max: 512,
            prompt_bytes_max: 2 * 1024 * 1024,
            attachment_bytes_max: 20 * 1024 * 1024,
            parallel_calls_max: 8,
            question_timeout: Duration::from_secs(30 * 60),
            compact_at_percent: 80,
            repeats_before_asking: 3,
            repeats_max: 6,
            idle_hands: Duration::from_secs(10 * 60),
            sessions_max: 10_000,
            session_bytes_max: 1024 * 1024 * 1024,
        }
    }
}

/// Sessions and their runs. Cheap to clone.
#[derive(Clone)]
pub struct SessionManager {
    inner: Arc<SessionManagerInner>,
}

struct SessionManagerInner {
    config: SessionManagerConfig,
    approvals: ApprovalQueue,
    questions: QuestionQueue,
    desks: Mutex<HashMap<SessionId, Arc<SessionState>>>,
    active: Mutex<HashMap<RunId, Arc<ActiveRun>>>,
    /// One for each run that may be at work.
    places: RunLimiter,
    /// Cancelled when no more prompts are taken.
    closing: CancellationToken,
    counted: RunCounters,
}

#[derive(Default)]
struct RunCounters {
    running: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

/// Which session is wanted, and how it should be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenSessionOptions {
    /// Its key, as written.
    pub key: Option<String>,
    /// Or its label. One of both is needed.
    pub label: Option<String>,
    /// Who opens it.
    pub owner: String,
    /// The folder it works in, absolute.
    pub cwd: Option<PathBuf>,
    /// Where that may be, if its tools run here.
    pub reach: FolderAccess,
    /// The agent, where the key leaves it open.
    pub agent: Option<String>,
    /// The model chosen for it.
    pub model: Option<String>,
    /// The mode chosen for it.
    pub mode: Option<PermissionMode>,
    /// Whether to start a new transcript.
    pub reset: bool,
    /// Whether it has to be there already.
    pub require_existing: bool,
    /// Whether one that is there already stays as it is, whatever is asked for.
    pub leave_as_is: bool,
    /// Where its tools run; the gateway when absent.
    pub tool_host: Option<ToolHostLocation>,
}

/// Something a person says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Their words.
    pub text: String,
    /// What comes with them.
    pub attachments: Vec<PromptAttachment>,
    /// How much the model should think, for this run only.
    pub thinking: Option<ThinkingEffort>,
    /// Stop the run after so long.
    pub timeout: Option<Duration>,
    /// What a `/` at its beginning means.
    pub reading: SlashHandling,
    /// What whoever says it may change by it.
    pub leave: PromptAuthority,
    /// Where they may have it done on this machine.
    pub reach: FolderAccess,
}

/// What somebody who talks to a session may change by talking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptAuthority {
    /// Nothing that would be done without asking then.
    #[default]
    PromptOnly,
    /// That, too: they may answer permissions themselves.
    CanApprove,
}

/// How a prompt that begins with `/` is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlashHandling {
    /// As a command, where it is one.
    #[default]
    Commands,
    /// As words for the model, whatever it begins with.
    Verbatim,
}

/// What became of a prompt that was sent.
#[derive(Clone, Debug, PartialEq)]
pub enum SendOutcome {
    /// A run works on it, or will when those before it are done.
    Started,
    /// The same prompt was sent before and its run goes on.
    InFlight,
    /// The same prompt was sent before and its run is over.
    Ended(RunRecord),
}

/// How much there is, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SessionStats {
    /// Sessions that hold something in memory.
    pub active_sessions: u64,
    /// Runs that have begun and not ended, those that wait for a person included.
    pub running: u64,
    /// Prompts that wait.
    pub queued: u64,
    /// Runs ended since the start.
    pub ended: u64,
    /// Runs that failed since the start.
    pub failed: u64,
    /// Tokens read since the start.
    pub input_tokens: u64,
    /// Tokens written since the start.
    pub output_tokens: u64,
}

/// Hands that a client brought stay with the session until this is dropped. What runs then is
/// settled as failed.
pub struct AttachmentGuard {
    inner: std::sync::Weak<SessionManagerInner>,
    desk: Arc<SessionState>,
    gone: CancellationToken,
}

impl Drop for AttachmentGuard {
    fn drop(&mut self) {
        self.desk.detach(&self.gone);
        if let Some(inner) = self.inner.upgrade() {
            inner.evict_state(&self.desk);
        }
    }
}

impl SessionManager {
    /// Opens for business: settles what a process left that was killed.
    pub async fn start(config: SessionManagerConfig) -> Result<Self, SessionError> {
        let inner = Arc::new(SessionManagerInner {
            places: RunLimiter::new(config.limits.runs_max),
            config,
            approvals: ApprovalQueue::default(),
            questions: QuestionQueue::default(),
            desks: Mutex::default(),
            active: Mutex::default(),
            closing: CancellationToken::new(),
            counted: RunCounters::default(),
        });
        let store = &inner.config.store;
        let nodes = &inner.config.nodes;
        let unsettled = store.unfinished_runs(None).await?;
        for run in unsettled.into_iter().filter(|run| !nodes.is_alive(&run.node)) {
            interrupted_runs::finish_interrupted_run(
                &**store,
                &inner.new_recorder(&run.session),
                &run,
            )
            .await?;
        }
        Ok(Self { inner })
    }

    /// The agents there are.
    pub fn agents(&self) -> &AgentRegistry {
        &self.inner.config.agents
    }

    /// The models there are.
    pub fn models(&self) -> &ModelCatalog {
        &self.inner.config.models
    }

    /// How others hear of them.
    pub fn bus(&self) -> &Arc<dyn EventBus> {
        &self.inner.config.bus
    }

    /// Where they are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.config.store
    }

    /// The key that `written` means.
    pub fn resolve_key(&self, written: &str) -> Result<SessionKey, SessionError> {
        Ok(SessionKey::resolve(written, self.agents().default_id())?)
    }

    /// The session of a key.
    pub async fn get(&self, key: &SessionKey) -> Result<Option<SessionRecord>, SessionError> {
        Ok(self.store().session(key).await?)
    }

    /// Opens a session: finds or makes it, and sets what was asked for.
    pub async fn open(&self, wanted: OpenSessionOptions) -> Result<SessionRecord, SessionError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move { inner.open(wanted).await }).await
    }

    /// Whether a session can have that agent.
    pub fn check_agent(&self, key: &SessionKey, agent: &str) -> Result<(), SessionError> {
        self.inner.check_agent(key, agent)
    }

    /// The one session with that label.
    pub async fn find_by_label(&self, label: &str) -> Result<Option<SessionRecord>, SessionError> {
        let query = SessionQuery {
            label: Some(label.to_owned()),
            limit: Some(1),
            ..SessionQuery::default()
        };
        Ok(self.store().list(query).await?.sessions.pop())
    }

    /// Sessions that fit.
    pub async fn list(&self, query: SessionQuery) -> Result<SessionPage, SessionError> {
        Ok(self.store().list(query).await?)
    }

    /// Changes some of a session. A mode reaches the hands at once.
    pub async fn patch(
        &self,
        key: &SessionKey,
        patch: SessionPatch,
    ) -> Result<SessionRecord, SessionError> {
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        run_detached(async move { inner.patch(&key, patch).await }).await
    }

    /// Stops what runs and begins a new transcript; the old one stays reachable.
    pub async fn reset(&self, key: &SessionKey) -> Result<SessionRecord, SessionError> {
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        run_detached(async move { inner.reset(&key).await }).await
    }

    /// Stops what runs and removes the session.
    pub async fn delete(&self, key: &SessionKey) -> Result<bool, SessionError> {
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        run_detached(async move { inner.delete(&key).await }).await
    }

    /// Whether a session that is made for this prompt would take it. Asked first, so that a prompt
    /// that is refused leaves no empty session.
    pub fn check_prompt(&self, key: &SessionKey, prompt: &Prompt) -> Result<(), SessionError> {
        self.inner.check_prompt(key, prompt)
    }

    /// Says something to a session. Runs of one session take turns; the id of the run makes a
    /// prompt the same prompt, however often it is sent.
    pub async fn send(
        &self,
        key: &SessionKey,
        run: RunId,
        prompt: Prompt,
    ) -> Result<SendOutcome, SessionError> {
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        run_detached(async move { inner.send(&key, run, prompt).await }).await
    }

    /// Stops a run, or all of a session; says which were stopped. Returns at once.
    pub async fn abort(
        &self,
        key: &SessionKey,
        run: Option<&RunId>,
        by: &str,
    ) -> Result<Vec<RunId>, SessionError> {
        let Some(record) = self.store().session(key).await? else { return Ok(Vec::new()) };
        let end = RunOutcome::Aborted { by: by.to_owned() };
        let stopped = match self.inner.existing_state(&record.id) {
            Some(desk) => self.inner.stop_runs(&desk, run, &end),
            None => Vec::new(),
        };
        Ok(stopped.into_iter().map(|active| active.run.clone()).collect())
    }

    /// Waits until a run is over, but not longer than so; `None` for one that nobody knows.
    pub async fn wait_for_run(
        &self,
        run: &RunId,
        most: Duration,
    ) -> Result<Option<RunRecord>, SessionError> {
        self.inner.wait_for_run(run, most).await
    }

    /// Entries of the ledger after a number.
    pub async fn events(
        &self,
        key: &SessionKey,
        after: u64,
        most: LedgerReadLimit,
    ) -> Result<Vec<Event>, SessionError> {
        let record = self.inner.require_session(key).await?;
        Ok(self.store().events(&record.id, after, most).await?)
    }

    /// A transcript; the present one when no number is given.
    pub async fn transcript(
        &self,
        key: &SessionKey,
        number: Option<u64>,
    ) -> Result<Transcript, SessionError> {
        let record = self.inner.require_session(key).await?;
        Ok(self.store().transcript(&record.id, number).await?)
    }

    /// Lets a client's hands do the work of a session from now on. The gateway then never runs
    /// anything for it, not even when they are gone.
    pub async fn attach_backend(
        &self,
        key: &SessionKey,
        name: &str,
        hands: Arc<dyn ToolBackend>,
    ) -> Result<AttachmentGuard, SessionError> {
        let (inner, key, name) = (Arc::clone(&self.inner), key.clone(), name.to_owned());
        run_detached(async move { inner.attach_backend(&key, name, hands).await }).await
    }

    /// The commands that a prompt of a session can be: zero's own, then those that people keep where
    /// its tools are. Hands that are not there, or out of reach, bring none.
    pub async fn list_commands(
        &self,
        session: SessionRecord,
        reach: FolderAccess,
    ) -> Result<Vec<PromptCommand>, SessionError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move { inner.list_commands(&session, &reach).await }).await
    }

    /// Questions whether calls may run.
    pub fn approvals(&self) -> &ApprovalQueue {
        &self.inner.approvals
    }

    /// Other questions.
    pub fn questions(&self) -> &QuestionQueue {
        &self.inner.questions
    }

    /// Runs that are at work or wait, with their sessions.
    pub fn active_runs(&self) -> Vec<(SessionId, RunId)> {
        let active = self.inner.lock_active_runs();
        active.values().map(|active| (active.session.clone(), active.run.clone())).collect()
    }

    /// How much there is.
    pub fn stats(&self) -> SessionStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let all = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let counted = &self.inner.counted;
        let running = count(&counted.running);
        SessionStats {
            active_sessions: all(self.inner.lock_states().len()),
            running,
            queued: all(self.inner.lock_active_runs().len()).saturating_sub(running),
            ended: count(&counted.ended),
            failed: count(&counted.failed),
            input_tokens: count(&counted.input_tokens),
            output_tokens: count(&counted.output_tokens),
        }
    }

    /// Takes no more prompts, gives runs so long to end, then stops and settles them.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.shut_down(grace).await;
    }
}

impl SessionManagerInner {
    async fn require_session(&self, key: &SessionKey) -> Result<SessionRecord, SessionError> {
        let record = self.config.store.session(key).await?;
        record.ok_or_else(|| SessionError::NotFound(key.to_string()))
    }

    /// What the session holds in memory.
    fn session_state(&self, session: &SessionId) -> Arc<SessionState> {
        let mut desks = self.lock_states();
        if let Some(desk) = desks.get(session) {
            return Arc::clone(desk);
        }
        let recorder = self.new_recorder(session);
        let asker = InteractionBroker::new(
            self.approvals.clone(),
            self.questions.clone(),
            recorder.clone(),
            Arc::clone(&self.config.store),
            self.config.limits.question_timeout,
        );
        let desk = SessionState::new(recorder, Arc::new(asker));
        desks.insert(session.clone(), Arc::clone(&desk));
        desk
    }

    fn existing_state(&self, session: &SessionId) -> Option<Arc<SessionState>> {
        self.lock_states().get(session).cloned()
    }

    /// Forgets what a session held in memory, unless somebody else uses it. All who do got it from
    /// the map, so that their number cannot grow meanwhile.
    fn evict_state(&self, desk: &Arc<SessionState>) {
        const MAP_AND_CALLER: usize = 2;
        let mut desks = self.lock_states();
        if desk.is_empty() && Arc::strong_count(desk) <= MAP_AND_CALLER {
            desks.remove(desk.recorder.session());
        }
    }

    fn new_recorder(&self, session: &SessionId) -> LedgerRecorder {
        let (store, bus) = (Arc::clone(&self.config.store), Arc::clone(&self.config.bus));
        LedgerRecorder::new(store, bus, session.clone())
    }

    fn lock_states(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<SessionState>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_active_runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<ActiveRun>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionManagerInner {
    fn drop(&mut self) {
        // Workers that wait for prompts have nothing to wait for any more.
        self.closing.cancel();
    }
}

/// Does it to its end, whether or not whoever asked is still there: what is half begun would leave a
/// run that nobody works on.
async fn run_detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, SessionError>> + Send + 'static,
) -> Result<T, SessionError> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(_) => Err(SessionError::Internal),
    }
}

/// Why a session did not do it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SessionError {
    /// The key is none.
    #[error(transparent)]
    Key(#[from] InvalidSessionKeyError),
    /// There is no such session.
    #[error("No session found: {0}")]
    NotFound(String),
    /// There is no session with that label.
    #[error("No session found with label: {0}")]
    NoLabel(String),
    /// The agent of the key is not configured.
    #[error("there is no agent `{agent}`; the agents are {known}")]
    NoAgent {
        /// Name of the agent that was asked for.
        agent: String,
        /// Those there are.
        known: String,
    },
    /// What was sent cannot be taken.
    #[error("{0}")]
    Invalid(String),
    /// Too much waits already.
    #[error("{0}")]
    Busy(String),
    /// There is too much of it.
    #[error("{0}")]
    Full(String),
    /// It takes no more prompts.
    #[error("zero is shutting down; send it again in a moment")]
    ShuttingDown,
    /// A mistake of zero's own.
    #[error("zero made a mistake of its own; its log says more")]
    Internal,
    /// The session store refused the operation or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The hands.
    #[error(transparent)]
    ToolBackend(#[from] ToolBackendError),
    /// The model cannot be used or gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
}

#[cfg(test)]
pub(crate) mod tests;
