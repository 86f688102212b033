//! Sessions and their runs: the interface of all front ends, and the effects around
//! [`crate::turn`].
//!
//! Prompts of one session run one after another. Events are written to the ledger before clients
//! see them, and a call is in the ledger before it starts. A client that connects later, or after a
//! crash, therefore sees the same history as one that was connected.

pub mod budget_report;
pub(crate) mod call_updates;
mod checkpoint_rule;
mod context_report;
mod current_plan;
mod foreign_writes;
mod interrupted_runs;
mod ledger_outbox;
pub(crate) mod ledger_recorder;
mod lifecycle;
mod model_reader;
mod owner_sizes;
mod parked_runs;
mod prompt_attachments;
mod prompt_resolution;
mod prompt_submission;
mod prompts;
mod recorded_prompt;
mod request_usage;
mod retention;
mod rewind;
mod rewind_answer;
mod rewind_history;
mod run_budget;
mod run_driver;
mod run_events;
pub(crate) mod run_limiter;
mod session_growth;
mod session_state;
mod session_worker;
mod store_outage;
mod subagent_answer;
pub(crate) mod subagent_run;
mod subagents;
mod takeover;
mod task_tool;
mod transcript_recovery;
mod unrecorded_ends;
mod unsaved_messages;
pub(crate) mod work_clock;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;

use zero_core::{Budget, ContextBreakdown, RunId, SessionId};
use zero_policy::PermissionMode;
use zero_runtime::ApprovalAnswer;

pub use self::retention::{PruneMode, PruneReport, RetentionRules};
pub use self::rewind::{PromptSummary, RewindOptions, RewindOutcome};
pub use self::rewind_history::is_in_effect;
pub use self::subagent_answer::{SubagentTally, SubagentTotals};
pub use self::unrecorded_ends::UnrecordedEnd;

use self::foreign_writes::ForeignWriteMonitor;
use self::ledger_recorder::LedgerRecorder;
use self::lifecycle::ActiveRunPolicy;
use self::owner_sizes::OwnerSizes;
use self::run_limiter::RunLimiter;
use self::session_state::{ActiveRun, SessionState};
use self::unrecorded_ends::UnrecordedEndReporter;
use crate::agent::AgentRegistry;
use crate::approvals::{
    ApprovalQueue, InteractionBroker, ParkedAnswer, PendingApproval, PendingQuestion,
    QuestionAnswer, QuestionQueue,
};
use crate::budget::BudgetRules;
use crate::cluster_node::{StoreConnections, home_of};
use crate::event::{Event, PromptAttachment, RunOutcome};
use crate::event_bus::EventBus;
use crate::key::{InvalidSessionKeyError, SessionAddress, SessionKey};
use crate::model::catalog::ModelCatalog;
use crate::model::{ModelError, ThinkingEffort};
use crate::node_bus::{NodeBus, NodeBusState, NodeBusStatus};
use crate::node_lease::LiveNode;
use crate::node_membership::NodeMembership;
use crate::open_question::{OpenQuestion, QuestionContent, QuestionScope};
use crate::output_schema::OutputSchema;
use crate::store::{
    LedgerReadLimit, OwnerUsage, RunAddress, RunRecord, SessionPage, SessionPatch, SessionQuery,
    SessionRecord, Store, StoreError, ToolHostLocation, Transcript,
};
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::{
    PromptCommand, ToolBackend, ToolBackendError, ToolBackendFactory,
};

/// Configuration of a session manager.
pub struct SessionManagerConfig {
    /// Stores the sessions.
    pub store: Arc<dyn Store>,
    /// Publishes events to subscribers.
    pub bus: Arc<dyn EventBus>,
    /// The configured agents that session keys can name.
    pub agents: AgentRegistry,
    /// The configured models that agents and sessions can use.
    pub models: ModelCatalog,
    /// Creates the tool backends of sessions whose tools run here.
    pub backend_factory: Arc<dyn ToolBackendFactory>,
    /// Working folder of sessions that name none.
    pub cwd: PathBuf,
    /// The processes that share the store.
    pub nodes: Arc<dyn NodeMembership>,
    /// Limits of sessions and runs.
    pub limits: SessionLimits,
}

/// Limits of sessions and runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionLimits {
    /// Maximum number of model requests per run.
    pub turns_max: u32,
    /// Maximum number of queued prompts per session.
    pub queued_max: usize,
    /// Maximum number of active runs in all sessions; one owner can have three quarters of them. A
    /// run that waits for the user or for a client's tools is not active.
    pub runs_max: usize,
    /// Maximum size of a prompt's text, in bytes.
    pub prompt_bytes_max: usize,
    /// Maximum size of all attachments of a prompt, in bytes of base64.
    pub attachment_bytes_max: usize,
    /// Maximum number of concurrent read-only calls per run.
    pub parallel_calls_max: usize,
    /// How long a run that only waits for the user stays in memory. After that it is parked in the
    /// store, and its question waits there.
    pub park_after: Duration,
    /// Share of the context window, in percent, above which the transcript is compacted.
    pub compact_at_percent: u8,
    /// Identical calls in a row after which the user is asked.
    pub repeats_before_asking: u32,
    /// How long the local tool backend of an idle session is kept.
    pub idle_backend: Duration,
    /// Maximum number of sessions per owner.
    pub sessions_max: u64,
    /// Maximum size of a session, in bytes of its ledger and transcripts. A larger session accepts
    /// no more prompts.
    pub session_bytes_max: u64,
    /// Maximum size of all sessions of an owner, in bytes. An owner who has more can send no prompts.
    pub owner_bytes_max: u64,
    /// Which sessions may be removed to make room for new ones.
    pub retention: RetentionRules,
    /// How much may be spent.
    pub budgets: BudgetRules,
    /// How many sub-agents may work.
    pub subagents: SubagentLimits,
}

/// How many sub-agents may work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubagentLimits {
    /// Maximum number of concurrent sub-agents of a run.
    pub parallel_max: usize,
    /// How deep sub-agents may start others: 1 if only the agent of a user's prompt starts some, 0 if
    /// there are none.
    pub depth_max: u32,
}

impl Default for SubagentLimits {
    fn default() -> Self {
        Self { parallel_max: 8, depth_max: 1 }
    }
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
            park_after: Duration::from_secs(30),
            compact_at_percent: 80,
            repeats_before_asking: 3,
            idle_backend: Duration::from_secs(10 * 60),
            sessions_max: 10_000,
            session_bytes_max: 1024 * 1024 * 1024,
            owner_bytes_max: 64 * 1024 * 1024 * 1024,
            retention: RetentionRules::default(),
            budgets: BudgetRules::default(),
            subagents: SubagentLimits::default(),
        }
    }
}

/// Manages sessions and their runs. Cheap to clone.
#[derive(Clone)]
pub struct SessionManager {
    inner: Arc<SessionManagerInner>,
}

struct SessionManagerInner {
    config: SessionManagerConfig,
    approvals: ApprovalQueue,
    questions: QuestionQueue,
    states: Mutex<HashMap<SessionId, Arc<SessionState>>>,
    active: Mutex<HashMap<RunAddress, Arc<ActiveRun>>>,
    /// Limits the number of active runs.
    run_limiter: RunLimiter,
    /// Cancelled when no more prompts are accepted.
    closing: CancellationToken,
    counted: RunCounters,
    foreign_writes: ForeignWriteMonitor,
    unrecorded_ends: UnrecordedEndReporter,
    owner_sizes: OwnerSizes,
    /// Notified when another gateway has handed its sessions over.
    sessions_abandoned: Notify,
}

#[derive(Default)]
struct RunCounters {
    running: AtomicU64,
    unrecorded: AtomicU64,
    ended: AtomicU64,
    failed: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    model_retries: AtomicU64,
    claims: AtomicU64,
    fenced: AtomicU64,
}

/// Selects a session and its settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenSessionOptions {
    /// Key of the session, as the user wrote it.
    pub key: Option<String>,
    /// Label of the session. Either key or label is required.
    pub label: Option<String>,
    /// Owner that opens it.
    pub owner: String,
    /// Absolute path of its working folder.
    pub cwd: Option<PathBuf>,
    /// Folders that the owner may use, if its tools run here.
    pub folder_access: FolderAccess,
    /// Agent, if the key names none.
    pub agent: Option<String>,
    /// Model selected for the session.
    pub model: Option<String>,
    /// Permission mode selected for the session.
    pub mode: Option<PermissionMode>,
    /// Whether to start a new transcript.
    pub reset: bool,
    /// Whether the session must already exist.
    pub require_existing: bool,
    /// Whether an existing session stays unchanged; the other options then apply to a new one only.
    pub leave_as_is: bool,
    /// Where its tools run; the gateway if `None`.
    pub tool_host: Option<ToolHostLocation>,
}

/// A prompt for a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    /// Text of the prompt.
    pub text: String,
    /// Attached files and images.
    pub attachments: Vec<PromptAttachment>,
    /// Thinking effort for this run only.
    pub thinking: Option<ThinkingEffort>,
    /// Time after which the run is stopped.
    pub timeout: Option<Duration>,
    /// How much this run may spend, besides the budgets of the settings.
    pub budget: Budget,
    /// Schema that the answer must fit.
    pub output_schema: Option<OutputSchema>,
    /// How a leading `/` is interpreted.
    pub reading: SlashHandling,
    /// Settings that slash commands in the prompt may change.
    pub leave: PromptAuthority,
    /// Folders of this machine that the sender may use.
    pub folder_access: FolderAccess,
    /// When it runs, if others are before it.
    pub precedence: PromptPrecedence,
}

/// When a prompt runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptPrecedence {
    /// After all that were sent before.
    #[default]
    Last,
    /// Next: the run that answers is stopped for it, and prompts that wait go on waiting.
    Steering {
        /// Who stops that run.
        by: &'static str,
    },
}

/// Settings that slash commands in a prompt may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptAuthority {
    /// The prompt must not select a mode that accepts edits without asking.
    #[default]
    PromptOnly,
    /// The prompt may select any mode, since its sender may answer approvals.
    CanApprove,
}

/// How a prompt that begins with `/` is interpreted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlashHandling {
    /// As a command, if it is one.
    #[default]
    Commands,
    /// As text for the model.
    Verbatim,
}

/// Result of sending a prompt.
#[expect(clippy::large_enum_variant, reason = "few at a time, each for a moment")]
#[derive(Clone, Debug, PartialEq)]
pub enum SendOutcome {
    /// A run was created; it starts after the earlier prompts.
    Started,
    /// The same prompt was sent before and its run is active.
    InFlight,
    /// The same prompt was sent before and its run has ended.
    Ended(RunRecord),
}

/// Counters for metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionStats {
    /// Sessions with state in memory.
    pub active_sessions: u64,
    /// Runs that have started and not ended, including those that wait for the user.
    pub running: u64,
    /// Runs that have ended, and whose end the store could not record yet.
    pub unrecorded: u64,
    /// Queued prompts.
    pub queued: u64,
    /// Runs ended since the start of the process.
    pub ended: u64,
    /// Runs failed since the start of the process.
    pub failed: u64,
    /// Input tokens since the start of the process.
    pub input_tokens: u64,
    /// Output tokens since the start of the process.
    pub output_tokens: u64,
    /// Requests to models that were repeated since the start of the process.
    pub model_retries: u64,
    /// What concerns other gateways; `None` if they share no database with this one.
    pub cluster: Option<ClusterStats>,
}

/// Counters of a gateway that shares a database with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterStats {
    /// Whether it has a lease, so that it may act for its sessions.
    pub has_lease: bool,
    /// Runs of other gateways that were continued here.
    pub takeovers: u64,
    /// Sessions that were claimed here, once for each claim.
    pub claims: u64,
    /// Runs of this gateway whose end was refused, since another one had continued them.
    pub fenced: u64,
    /// What connects it with the others, if it uses that.
    pub bus: Option<NodeBusStatus>,
    /// Its connections to the database.
    pub connections: StoreConnections,
}

/// The gateways that share a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMembers {
    /// Name of the process of this one.
    pub local: String,
    /// Those whose leases have not run out.
    pub nodes: Vec<LiveNode>,
    /// Sessions with unfinished runs of those that are gone; no more than
    /// [`crate::cluster_node::AbandonedSession::LIST_MAX`] are counted.
    pub abandoned_sessions: u64,
}

impl SessionStats {
    /// What does not work while the store cannot be written.
    pub fn problem(&self) -> Option<String> {
        if self.cluster.as_ref().is_some_and(|cluster| !cluster.has_lease) {
            let text = "this gateway has lost its lease, since its database does not answer; other gateways continue its runs";
            return Some(text.to_owned());
        }
        let bus = self.cluster.as_ref().and_then(|cluster| cluster.bus.as_ref());
        if let Some(NodeBusState::Disconnected { why }) = bus.map(|bus| &bus.state) {
            return Some(format!(
                "other gateways cannot be reached: {why}; their entries arrive late, and requests for their sessions are refused"
            ));
        }
        (self.unrecorded > 0).then(|| {
            format!(
                "the end of {} runs could not be recorded, since the session store cannot write; zero tries until it can; check the disk",
                self.unrecorded
            )
        })
    }
}

/// Keeps a client's tool backend attached to the session until it is dropped. Calls that run at
/// that time end as failed.
pub struct AttachmentGuard {
    inner: std::sync::Weak<SessionManagerInner>,
    state: Arc<SessionState>,
    closed: CancellationToken,
}

impl Drop for AttachmentGuard {
    fn drop(&mut self) {
        self.state.detach(&self.closed);
        if let Some(inner) = self.inner.upgrade() {
            inner.evict_state(&self.state);
            inner.clear_tool_server(&self.state);
        }
    }
}

impl SessionManager {
    /// Starts the manager and ends runs that a killed process left behind.
    pub async fn start(config: SessionManagerConfig) -> Result<Self, SessionError> {
        let inner = Arc::new(SessionManagerInner {
            run_limiter: RunLimiter::new(config.limits.runs_max),
            config,
            approvals: ApprovalQueue::default(),
            questions: QuestionQueue::default(),
            states: Mutex::default(),
            active: Mutex::default(),
            closing: CancellationToken::new(),
            counted: RunCounters::default(),
            foreign_writes: ForeignWriteMonitor::default(),
            unrecorded_ends: UnrecordedEndReporter::default(),
            owner_sizes: OwnerSizes::default(),
            sessions_abandoned: Notify::new(),
        });
        let store = &inner.config.store;
        let nodes = &inner.config.nodes;
        if nodes.cluster().is_some() {
            inner.start_takeovers();
            inner.reclaim_in_background();
            return Ok(Self { inner });
        }
        let unfinished = store.unfinished_runs(None).await?;
        // Parked runs, and those queued behind them, wait for an answer.
        let parked: HashSet<SessionId> = unfinished
            .iter()
            .filter(|run| run.has_open_question)
            .map(|run| run.session.clone())
            .collect();
        for run in unfinished {
            if parked.contains(&run.session) || nodes.is_alive(&run.node).await {
                continue;
            }
            // A sub-agent waits with the run that the user started.
            match inner.question_of_subagent(&run.session).await {
                Ok(None) | Err(SessionError::Store(StoreError::Damaged { .. })) => {}
                Ok(Some(_)) => continue,
                Err(error) => return Err(error),
            }
            match inner.claim_session(&inner.new_recorder(&run.session)).await {
                // A process that started at the same time ends them.
                Ok(_) | Err(SessionError::Busy(_) | SessionError::Elsewhere { .. }) => {}
                // One damaged session must not stop the others.
                Err(error @ SessionError::Store(StoreError::Damaged { .. })) => {
                    tracing::error!(session = %run.session, %error, "a session is damaged");
                }
                Err(error) => return Err(error),
            }
        }
        inner.reclaim_in_background();
        Ok(Self { inner })
    }

    /// The configured agents.
    pub fn agents(&self) -> &AgentRegistry {
        &self.inner.config.agents
    }

    /// The configured models.
    pub fn models(&self) -> &ModelCatalog {
        &self.inner.config.models
    }

    /// The event bus.
    pub fn bus(&self) -> &Arc<dyn EventBus> {
        &self.inner.config.bus
    }

    /// Changes after another process may have written to the store.
    pub fn foreign_writes(&self) -> watch::Receiver<()> {
        self.inner.foreign_writes.subscribe(self.store())
    }

    /// What connects this gateway with the others of its cluster.
    pub fn node_bus(&self) -> Option<&Arc<dyn NodeBus>> {
        self.inner.config.nodes.cluster()?.bus()
    }

    /// Looks at once for sessions that another gateway has handed over.
    pub fn take_over_abandoned(&self) {
        self.inner.sessions_abandoned.notify_one();
    }

    /// The gateways that share a database with this one; `None` if there is no such database.
    pub async fn cluster_members(&self) -> Result<Option<ClusterMembers>, SessionError> {
        let Some(cluster) = self.inner.config.nodes.cluster() else { return Ok(None) };
        let abandoned = cluster.sessions().abandoned_sessions().await?;
        Ok(Some(ClusterMembers {
            local: self.inner.config.nodes.local_name().to_owned(),
            nodes: cluster.leases().list_live_nodes().await?,
            abandoned_sessions: u64::try_from(abandoned.len()).unwrap_or(u64::MAX),
        }))
    }

    /// The runs whose ends cannot be recorded, from now on.
    pub fn unrecorded_ends(&self) -> broadcast::Receiver<UnrecordedEnd> {
        self.inner.unrecorded_ends.subscribe()
    }

    /// The session store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.config.store
    }

    /// Parses a session key and completes it with the default agent.
    pub fn resolve_key(&self, written: &str) -> Result<SessionKey, SessionError> {
        Ok(SessionKey::resolve(written, self.agents().default_id())?)
    }

    /// Returns the session at an address.
    pub async fn get(
        &self,
        address: &SessionAddress,
    ) -> Result<Option<SessionRecord>, SessionError> {
        Ok(self.store().session(address).await?)
    }

    /// Opens a session: finds or creates it and applies the options.
    pub async fn open(&self, options: OpenSessionOptions) -> Result<SessionRecord, SessionError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move { inner.open(options).await }).await
    }

    /// Checks that a session with this key can use that agent.
    pub fn check_agent(&self, key: &SessionKey, agent: &str) -> Result<(), SessionError> {
        self.inner.check_agent(key, agent)
    }

    /// Returns the session of an owner with that label.
    pub async fn find_by_label(
        &self,
        owner: &str,
        label: &str,
    ) -> Result<Option<SessionRecord>, SessionError> {
        let query = SessionQuery {
            owner: Some(owner.to_owned()),
            label: Some(label.to_owned()),
            limit: Some(1),
            ..SessionQuery::default()
        };
        Ok(self.store().list(query).await?.sessions.pop())
    }

    /// Returns the sessions that match.
    pub async fn list(&self, query: SessionQuery) -> Result<SessionPage, SessionError> {
        Ok(self.store().list(query).await?)
    }

    /// Changes settings of a session. A new mode applies to the tool backend immediately.
    pub async fn patch(
        &self,
        address: &SessionAddress,
        patch: SessionPatch,
    ) -> Result<SessionRecord, SessionError> {
        let (inner, address) = (Arc::clone(&self.inner), address.clone());
        run_detached(async move { inner.patch(&address, patch).await }).await
    }

    /// Revokes what the user allowed or rejected for a session under this rule, or everything
    /// without one. Returns how many answers were revoked. Answers that a client holds stay.
    pub async fn revoke_grants(
        &self,
        address: &SessionAddress,
        rule: Option<&str>,
    ) -> Result<usize, SessionError> {
        let (inner, address) = (Arc::clone(&self.inner), address.clone());
        let rule = rule.map(str::to_owned);
        run_detached(async move { inner.revoke_grants(&address, rule.as_deref()).await }).await
    }

    /// Stops all runs and starts a new transcript; the old one remains readable.
    pub async fn reset(&self, address: &SessionAddress) -> Result<SessionRecord, SessionError> {
        let (inner, address) = (Arc::clone(&self.inner), address.clone());
        run_detached(async move { inner.reset(&address, ActiveRunPolicy::Stop).await }).await
    }

    /// Creates a copy of a session, with its transcript and ledger, under a key; under one like its
    /// own if none is given. With the number of a prompt, the copy is as the session was before it.
    pub async fn fork(
        &self,
        address: &SessionAddress,
        key: Option<&str>,
        prompt: Option<u64>,
    ) -> Result<SessionRecord, SessionError> {
        let (inner, address) = (Arc::clone(&self.inner), address.clone());
        let key = key.map(str::to_owned);
        run_detached(async move { inner.fork(&address, key.as_deref(), prompt).await }).await
    }

    /// Takes files, conversation or both back to before a prompt, or takes a rewind back. Refused
    /// while a run is active. If another program changed the files since, nothing is touched unless the
    /// options say so.
    pub async fn rewind(
        &self,
        address: &SessionAddress,
        options: RewindOptions,
    ) -> Result<RewindOutcome, SessionError> {
        let (inner, address) = (Arc::clone(&self.inner), address.clone());
        run_detached(async move { inner.rewind(&address, options, None).await }).await
    }

    /// The prompts of a session, oldest first.
    pub async fn list_prompts(
        &self,
        address: &SessionAddress,
    ) -> Result<Vec<PromptSummary>, SessionError> {
        self.inner.list_prompts(address).await
    }

    /// What fills the context window of a session.
    pub async fn context_breakdown(
        &self,
        session: SessionRecord,
        folder_access: FolderAccess,
    ) -> Result<ContextBreakdown, SessionError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move {
            inner.check_executor(&session.id).await?;
            inner.context_breakdown(&session, &folder_access).await
        })
        .await
    }

    /// Stops all runs and deletes the session.
    pub async fn delete(&self, address: &SessionAddress) -> Result<bool, SessionError> {
        let (inner, address) = (Arc::clone(&self.inner), address.clone());
        run_detached(async move { inner.delete(&address).await }).await
    }

    /// Checks whether a new session would accept this prompt. Called first, so that a refused
    /// prompt leaves no empty session.
    pub fn check_prompt(&self, key: &SessionKey, prompt: &Prompt) -> Result<(), SessionError> {
        self.inner.check_prompt(key, prompt)
    }

    /// Sends a prompt. Runs of one session execute one after another. The run id is the idempotency
    /// key: a prompt that is sent again with the same id is not executed again. Each owner has ids of
    /// their own.
    pub async fn send(
        &self,
        address: &SessionAddress,
        run: RunId,
        prompt: Prompt,
    ) -> Result<SendOutcome, SessionError> {
        let (inner, address) = (Arc::clone(&self.inner), address.clone());
        run_detached(async move { inner.send(&address, run, prompt, None).await }).await
    }

    /// Stops one run or all runs of a session; returns the stopped ones. Does not wait for them to
    /// end.
    pub async fn abort(
        &self,
        address: &SessionAddress,
        run: Option<&RunId>,
        by: &str,
    ) -> Result<Vec<RunId>, SessionError> {
        let Some(record) = self.store().session(address).await? else { return Ok(Vec::new()) };
        self.inner.check_holder(&record.id).await?;
        let end = RunOutcome::Aborted { by: by.to_owned() };
        let stopped = match self.inner.existing_state(&record.id) {
            Some(state) => self.inner.stop_runs(&state, run, &end),
            None => Vec::new(),
        };
        let mut stopped: Vec<RunId> =
            stopped.into_iter().map(|active| active.run.clone()).collect();
        let inner = Arc::clone(&self.inner);
        let (wanted, session) = (run.cloned(), record.id);
        let ended = async move { inner.end_parked_runs(&session, wanted.as_ref(), end).await };
        stopped.extend(run_detached(ended).await?);
        Ok(stopped)
    }

    /// Waits at most the given time until a run of an owner has ended; `None` if the owner has none
    /// with that id.
    pub async fn wait_for_run(
        &self,
        owner: &str,
        run: &RunId,
        most: Duration,
    ) -> Result<Option<RunRecord>, SessionError> {
        match self.store().find_run(Some(owner), run).await? {
            Some(run) => self.inner.wait_for_run(&run.address(), most).await,
            None => Ok(None),
        }
    }

    /// Ledger entries after a sequence number.
    pub async fn events(
        &self,
        address: &SessionAddress,
        after: u64,
        most: LedgerReadLimit,
    ) -> Result<Vec<Event>, SessionError> {
        let record = self.inner.require_session(address).await?;
        Ok(self.store().events(&record.id, after, most).await?)
    }

    /// A transcript of a session; the current one if no number is given.
    pub async fn transcript(
        &self,
        address: &SessionAddress,
        number: Option<u64>,
    ) -> Result<Transcript, SessionError> {
        let record = self.inner.require_session(address).await?;
        Ok(self.store().transcript(&record.id, number).await?)
    }

    /// Attaches a client's tool backend to a session. From then on the gateway never executes calls
    /// for it, even after the client has disconnected.
    pub async fn attach_backend(
        &self,
        address: &SessionAddress,
        name: &str,
        backend: Arc<dyn ToolBackend>,
    ) -> Result<AttachmentGuard, SessionError> {
        let (inner, address, name) = (Arc::clone(&self.inner), address.clone(), name.to_owned());
        run_detached(async move { inner.attach_backend(&address, name, backend).await }).await
    }

    /// The slash commands of a session: zero's own, then those stored where its tools run. A
    /// backend that is missing or not accessible contributes none.
    pub async fn list_commands(
        &self,
        session: SessionRecord,
        folder_access: FolderAccess,
    ) -> Result<Vec<PromptCommand>, SessionError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move {
            inner.check_executor(&session.id).await?;
            inner.list_commands(&session, &folder_access).await
        })
        .await
    }

    /// Approval requests for calls.
    pub fn approvals(&self) -> &ApprovalQueue {
        &self.inner.approvals
    }

    /// Questions of tools.
    pub fn questions(&self) -> &QuestionQueue {
        &self.inner.questions
    }

    /// All approval requests that wait for an answer, oldest first: those of runs in memory, then those
    /// of parked runs. Those of runs in memory may be of other owners.
    pub async fn pending_approvals(
        &self,
        scope: QuestionScope<'_>,
    ) -> Result<Vec<PendingApproval>, SessionError> {
        let is_of = |id: &SessionId| scope.session().is_none_or(|session| session == id);
        let mut pending = self.approvals().list();
        pending.retain(|pending| is_of(&pending.session));
        for question in self.store().open_questions(scope).await? {
            let OpenQuestion { session, run, asked_ms: created_ms, content } = question;
            if let QuestionContent::Approval(request) = content
                && !pending.iter().any(|known| known.request.id == request.id)
            {
                pending.push(PendingApproval { session, run: Some(run), created_ms, request });
            }
        }
        Ok(pending)
    }

    /// All questions of tools that wait for an answer, as [`Self::pending_approvals`] lists requests.
    pub async fn pending_questions(
        &self,
        scope: QuestionScope<'_>,
    ) -> Result<Vec<PendingQuestion>, SessionError> {
        let is_of = |id: &SessionId| scope.session().is_none_or(|session| session == id);
        let mut pending = self.questions().list();
        pending.retain(|pending| is_of(&pending.session));
        for question in self.store().open_questions(scope).await? {
            let OpenQuestion { session, run, asked_ms: created_ms, content } = question;
            if let QuestionContent::Form(question) = content
                && !pending.iter().any(|known| known.question.id == question.id)
            {
                let run = Some(run);
                pending.push(PendingQuestion { session, run, created_ms, question });
            }
        }
        Ok(pending)
    }

    /// The approval request with that id that waits for an answer.
    pub async fn pending_approval(
        &self,
        id: &str,
    ) -> Result<Option<PendingApproval>, SessionError> {
        if let Some(pending) = self.approvals().get(id) {
            return Ok(Some(pending));
        }
        let stored = self.store().open_question(id).await?;
        Ok(stored.and_then(|OpenQuestion { session, run, asked_ms, content }| match content {
            QuestionContent::Approval(request) => {
                Some(PendingApproval { session, run: Some(run), created_ms: asked_ms, request })
            }
            QuestionContent::Form(_) => None,
        }))
    }

    /// The question of a tool with that id that waits for an answer.
    pub async fn pending_question(
        &self,
        id: &str,
    ) -> Result<Option<PendingQuestion>, SessionError> {
        if let Some(pending) = self.questions().get(id) {
            return Ok(Some(pending));
        }
        let stored = self.store().open_question(id).await?;
        Ok(stored.and_then(|OpenQuestion { session, run, asked_ms, content }| match content {
            QuestionContent::Form(question) => {
                Some(PendingQuestion { session, run: Some(run), created_ms: asked_ms, question })
            }
            QuestionContent::Approval(_) => None,
        }))
    }

    /// Answers an approval request; a parked run continues in this process. Returns false if the
    /// request no longer waits: only the first answer counts. `reach` is what the answerer may use
    /// of this machine, where the call would run.
    pub async fn answer_approval(
        &self,
        id: &str,
        answer: ApprovalAnswer,
        by: &str,
        folder_access: FolderAccess,
    ) -> Result<bool, SessionError> {
        if self.approvals().resolve(id, answer, by) {
            return Ok(true);
        }
        self.answer_parked(id, ParkedAnswer::Approval { answer, by: by.to_owned() }, folder_access)
            .await
    }

    /// Answers a question of a tool, like [`Self::answer_approval`].
    pub async fn answer_question(
        &self,
        id: &str,
        answer: QuestionAnswer,
        folder_access: FolderAccess,
    ) -> Result<bool, SessionError> {
        if self.questions().resolve(id, answer.clone()) {
            return Ok(true);
        }
        self.answer_parked(id, ParkedAnswer::Form(answer), folder_access).await
    }

    async fn answer_parked(
        &self,
        id: &str,
        answer: ParkedAnswer,
        folder_access: FolderAccess,
    ) -> Result<bool, SessionError> {
        let (inner, id) = (Arc::clone(&self.inner), id.to_owned());
        run_detached(async move { inner.answer_parked(&id, answer, &folder_access).await }).await
    }

    /// Active and queued runs, with their sessions.
    pub fn active_runs(&self) -> Vec<(SessionId, RunId)> {
        let active = self.inner.lock_active_runs();
        active.values().map(|active| (active.session.clone(), active.run.clone())).collect()
    }

    /// Runs of a session that have not ended, at any gateway.
    pub async fn unfinished_runs(&self, session: &SessionId) -> Result<Vec<RunId>, SessionError> {
        if self.inner.config.nodes.cluster().is_some() {
            let unfinished = self.store().unfinished_runs(Some(session)).await?;
            return Ok(unfinished.into_iter().map(|run| run.id).collect());
        }
        let active = self.active_runs().into_iter().filter(|(id, _)| id == session);
        Ok(active.map(|(_, run)| run).collect())
    }

    /// Current counters.
    pub fn stats(&self) -> SessionStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let all = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let counted = &self.inner.counted;
        let (running, unrecorded) = (count(&counted.running), count(&counted.unrecorded));
        SessionStats {
            active_sessions: all(self.inner.lock_states().len()),
            running,
            unrecorded,
            queued: all(self.inner.lock_active_runs().len())
                .saturating_sub(running)
                .saturating_sub(unrecorded),
            ended: count(&counted.ended),
            failed: count(&counted.failed),
            input_tokens: count(&counted.input_tokens),
            output_tokens: count(&counted.output_tokens),
            model_retries: count(&counted.model_retries),
            cluster: self.inner.config.nodes.cluster().map(|cluster| ClusterStats {
                has_lease: self.inner.config.nodes.can_act(),
                takeovers: cluster.takeovers(),
                claims: count(&counted.claims),
                fenced: count(&counted.fenced),
                bus: cluster.bus().map(|bus| bus.status()),
                connections: cluster.sessions().connections(),
            }),
        }
    }

    /// Parks the runs that are at work as soon as they only wait for the user. Returns when each has been parked
    /// or has ended.
    pub async fn park_runs(&self) {
        let active: Vec<Arc<ActiveRun>> = self.inner.lock_active_runs().values().cloned().collect();
        active.iter().for_each(|active| active.request_park());
        for active in active {
            active.done.cancelled().await;
        }
    }

    /// Accepts no more prompts, gives runs `grace` to end, then stops and records them.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.shut_down(grace).await;
    }
}

impl SessionManagerInner {
    async fn require_session(
        &self,
        address: &SessionAddress,
    ) -> Result<SessionRecord, SessionError> {
        let record = self.config.store.session(address).await?;
        record.ok_or_else(|| SessionError::NotFound(address.key.to_string()))
    }

    /// The in-memory state of a session.
    fn session_state(&self, session: &SessionId) -> Arc<SessionState> {
        let mut states = self.lock_states();
        if let Some(state) = states.get(session) {
            return Arc::clone(state);
        }
        let recorder = self.new_recorder(session);
        let asker = InteractionBroker::new(
            self.approvals.clone(),
            self.questions.clone(),
            recorder.clone(),
            &self.config.store,
        );
        let state = SessionState::new(recorder, Arc::new(asker));
        states.insert(session.clone(), Arc::clone(&state));
        state
    }

    fn existing_state(&self, session: &SessionId) -> Option<Arc<SessionState>> {
        self.lock_states().get(session).cloned()
    }

    /// Removes the in-memory state of a session if no other task uses it. All users got it from the
    /// map, so their number cannot grow meanwhile.
    fn evict_state(&self, state: &Arc<SessionState>) {
        const MAP_AND_CALLER: usize = 2;
        let mut states = self.lock_states();
        if state.is_empty() && Arc::strong_count(state) <= MAP_AND_CALLER {
            states.remove(state.recorder.session());
        }
    }

    /// Lets other processes know that no client hosts the tools of a session here any more.
    fn clear_tool_server(self: &Arc<Self>, state: &Arc<SessionState>) {
        if self.config.nodes.cluster().is_none() || state.client_backend().is_some() {
            return;
        }
        let (inner, state) = (Arc::clone(self), Arc::clone(state));
        let cleared = async move {
            let (session, nodes) = (state.recorder.session(), &inner.config.nodes);
            let Some(cluster) = nodes.cluster() else { return };
            let cleared = cluster.sessions().clear_tool_server(session, nodes.local_name()).await;
            if let Err(error) = cleared {
                tracing::warn!(%error, "others do not know that a tool host is gone");
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(cleared);
        }
    }

    /// Removes what is left of deleted sessions, and warns of owners that are near their limit.
    fn reclaim_in_background(&self) {
        let (store, most) = (Arc::clone(&self.config.store), self.config.limits.sessions_max);
        tokio::spawn(async move {
            if let Err(error) = store.reclaim().await {
                tracing::warn!(%error, "what is left of deleted sessions could not be removed");
            }
            let near = store.large_owners(OwnerUsage::near(most)).await;
            for OwnerUsage { owner, sessions } in near.unwrap_or_default() {
                tracing::warn!(
                    owner,
                    sessions,
                    sessions_max = most,
                    "the limit of sessions of an owner is near; see `zero prune`"
                );
            }
        });
    }

    fn new_recorder(&self, session: &SessionId) -> LedgerRecorder {
        let (store, bus) = (Arc::clone(&self.config.store), Arc::clone(&self.config.bus));
        LedgerRecorder::new(store, bus, session.clone())
    }

    fn lock_states(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<SessionState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_active_runs(&self) -> MutexGuard<'_, HashMap<RunAddress, Arc<ActiveRun>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionManagerInner {
    fn drop(&mut self) {
        // Ends the workers that wait for prompts.
        self.closing.cancel();
    }
}

/// Runs a future to completion even if the caller is dropped: a half-started operation would leave
/// a run without a worker.
async fn run_detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, SessionError>> + Send + 'static,
) -> Result<T, SessionError> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(_) => Err(SessionError::Internal),
    }
}

/// Why an operation on a session failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SessionError {
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] InvalidSessionKeyError),
    /// The session does not exist. OpenClaw clients match this text and the next one.
    #[error("No session found: {0}")]
    NotFound(String),
    /// No session has that label.
    #[error("No session found with label: {0}")]
    NoLabel(String),
    /// The agent of the key is not configured.
    #[error("there is no agent `{agent}`; the agents are {known}")]
    NoAgent {
        /// Name of the requested agent.
        agent: String,
        /// Names of the configured agents.
        known: String,
    },
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The run id was used for another prompt.
    #[error(
        "the idempotency key `{0}` was used for another prompt; choose a new one for this prompt"
    )]
    RunIdTaken(RunId),
    /// The queue is full.
    #[error("{0}")]
    Busy(String),
    /// A storage limit is reached.
    #[error("{0}")]
    Full(String),
    /// Another live gateway of the cluster executes what happens in the session. Nothing was done.
    #[error(
        "this session is at the gateway `{}`; connect to that gateway, and try again",
        home_of(.node)
    )]
    Elsewhere {
        /// Name of its process.
        node: String,
    },
    /// The manager accepts no more prompts.
    #[error("zero is shutting down; send it again in a moment")]
    ShuttingDown,
    /// An internal error of zero.
    #[error("internal error; see zero's log")]
    Internal,
    /// The session store refused the operation or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tool backend failed.
    #[error(transparent)]
    ToolBackend(#[from] ToolBackendError),
    /// The model cannot be used or gave no reply.
    #[error(transparent)]
    Model(#[from] ModelError),
}

#[cfg(test)]
pub(crate) mod tests;
