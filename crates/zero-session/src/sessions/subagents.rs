//! Runs sub-agents: each is a session of its own, whose parent is the session of the call.
//!
//! A sub-agent has the rights of its parent or fewer: its tools are opened by the parent's tools, its
//! budgets are those of the run of the user's prompt, and it ends with the call that started it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_core::event::SubagentStep;
use zero_core::{
    Budget, ErrorReason, RunId, SessionId, ToolCall, ToolError, ToolKind, ToolOutcome,
};
use zero_runtime::DialectName;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    AgentDefinition, CallObserver, FolderAccess, InstructionFile, SubagentIsolation,
    SubagentRequest, ToolBackend,
};

use crate::agent::{AgentProfile, DIRECT};
use crate::approvals::InteractionBroker;
use crate::event::{EventKind, ParentRun, RootRun, RunOutcome, TokenUsage, ToolCallStatus};
use crate::key::SessionKey;
use crate::message::{MessageRole, ModelMessage};
use crate::sessions::session_state::{ActiveBackend, ActiveRun, LentBackend};
use crate::sessions::subagent_answer::{SubagentAnswer, SubagentTally, SubagentTotals};
use crate::sessions::subagent_run::{CallAllowance, SubagentProgress, SubagentRun};
use crate::sessions::task_tool::{TaskArgs, TaskIsolation};
use crate::sessions::{
    OpenSessionOptions, Prompt, SessionError, SessionManagerInner, SlashHandling,
};
use crate::store::{LedgerReadLimit, RunAddress, SessionPatch, SessionRecord, Store};
use crate::turn::call_batch::TASK_TOOL;

/// How much of the ledger of a sub-agent is read at once, and how often.
const LEDGER_PAGE: LedgerReadLimit = LedgerReadLimit { entries: 1_000, bytes: 4_000_000 };
const LEDGER_PAGES_MAX: usize = 100;
/// Name of a sub-agent whose call names no agent.
const UNNAMED: &str = "task";
/// Who stops a sub-agent when the call that started it is cancelled.
pub(super) const STOPPED_BY: &str = "parent";

/// The run whose calls start sub-agents.
pub(super) struct TaskParent {
    pub(super) inner: Arc<SessionManagerInner>,
    pub(super) session: SessionRecord,
    pub(super) run: RunId,
    pub(super) agent: AgentProfile,
    /// Name of its model.
    pub(super) model: String,
    pub(super) dialect: DialectName,
    pub(super) folder_access: FolderAccess,
    pub(super) backend: ActiveBackend,
    /// Agents that files define.
    pub(super) agents: Vec<AgentDefinition>,
    pub(super) asker: Arc<InteractionBroker>,
    /// The sub-agents from the one that the user's run started to this one; empty if it is the user's run.
    pub(super) path: Vec<SubagentStep>,
    /// How many runs are above it.
    pub(super) depth: u32,
    pub(super) root: RootRun,
    /// The tools that it and the agents above it may use.
    pub(super) tool_filters: Vec<Vec<String>>,
    /// The budget of the user's prompt.
    pub(super) budget: Budget,
    pub(super) calls: Arc<CallAllowance>,
}

/// A sub-agent that a call starts, or goes on with.
struct CalledSubagent {
    record: SessionRecord,
    /// Whether it waited for an answer.
    is_continued: bool,
}

/// Makes a call of the tool `Task`. It completes even if its caller no longer waits, so that nothing
/// of the sub-agent is left over. It has no outcome if the sub-agent was parked.
pub(super) fn run_task(
    parent: TaskParent,
    call: ToolCall,
    cancel: CancellationToken,
    watch: Arc<dyn CallObserver>,
) -> BoxFuture<'static, ToolOutcome> {
    let work: BoxFuture<'static, Option<ToolOutcome>> = Box::pin(async move {
        let ended = parent.run_subagent(call, cancel, watch).await;
        ended.unwrap_or_else(|error| Some(error.with_tool(TASK_TOOL).into()))
    });
    Box::pin(async move {
        match tokio::spawn(work).await {
            Ok(Some(outcome)) => outcome,
            // The run that waits for this is parked, which drops it.
            Ok(None) => std::future::pending().await,
            Err(_) => {
                let text = "the sub-agent failed because of an internal error; see zero's log";
                ToolError::failed(ErrorReason::Panic, text).with_tool(TASK_TOOL).into()
            }
        }
    })
}

impl TaskParent {
    /// Returns nothing if the sub-agent was parked.
    async fn run_subagent(
        self,
        call: ToolCall,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> Result<Option<ToolOutcome>, ToolError> {
        let args = TaskArgs::parse(&call.input)?;
        let profile = self.find_profile(args.agent.as_deref())?;
        let isolation = self.choose_isolation(&args);
        let name = args.agent.clone().unwrap_or_else(|| UNNAMED.to_owned());
        watch.on_described(format!("{name}: {}", args.description), ToolKind::Think, Vec::new());
        let called = self.find_or_create(&call, &name, &profile, &args.description).await?;
        let CalledSubagent { record, is_continued } = called;
        let request = SubagentRequest {
            session: record.id.clone(),
            name: name.clone(),
            call: call.id.clone(),
            mode: profile.mode,
            isolation,
            is_continued,
        };
        let tools = match self.backend.backend.open_subagent(request).await {
            Ok(tools) => tools,
            Err(error) => {
                match is_continued {
                    true => self.end_parked(&record).await,
                    false => self.discard(&record).await,
                }
                return Err(ToolError::failed(ErrorReason::Io, error.to_string()));
            }
        };
        let task = call.id.as_str().to_owned();
        let step = SubagentStep { task, session: record.id.to_string() };
        let subagent = SubagentRun {
            name,
            profile,
            parent: ParentRun {
                session: self.session.id.clone(),
                session_key: self.session.key.to_string(),
                run: self.run.clone(),
                call: String::from(call.id),
                root: self.root.clone(),
            },
            path: self.path.iter().cloned().chain([step]).collect(),
            depth: self.depth.saturating_add(1),
            tool_filters: self.tool_filters.clone(),
            dialect: self.dialect,
            budget: self.budget,
            calls: Arc::clone(&self.calls),
            asker: Arc::clone(&self.asker),
            progress: SubagentProgress::new(watch),
        };
        subagent.progress.start(record.key.to_string());
        let name = subagent.name.clone();
        let prompt = (!is_continued).then_some(args.prompt);
        let ended = self.run_prompt(&record, &tools, prompt, Arc::new(subagent), &cancel).await;
        if matches!(ended, Ok(None)) {
            return Ok(None);
        }
        // However it ended: its programs stop, and what it changed is committed.
        let worktree = tools.close_subagent().await.map_err(|error| error.to_string());
        if is_continued {
            self.end_parked(&record).await;
        }
        let ended = ended.map_err(|error| session_failure(&error))?;
        let Some((end, totals, text)) = ended else { return Ok(None) };
        let session_key = record.key.to_string();
        let answer = SubagentAnswer { name, session_key, end, totals, text, worktree };
        Ok(Some(answer.into_outcome()))
    }

    /// The sub-agent that this call had started when its run was parked, or a new one.
    async fn find_or_create(
        &self,
        call: &ToolCall,
        name: &str,
        profile: &AgentProfile,
        title: &str,
    ) -> Result<CalledSubagent, ToolError> {
        let Some(known) = self.asker.parked_subagent(call.id.as_str()) else {
            let record = self.create_session(name, profile, title).await;
            let record = record.map_err(|error| session_failure(&error))?;
            return Ok(CalledSubagent { record, is_continued: false });
        };
        let gone = || {
            let text = "the sub-agent waited for an answer, and its session was removed meanwhile; what it had done remains";
            ToolError::failed(ErrorReason::Interrupted, text)
        };
        let id = SessionId::new(known).map_err(|_| gone())?;
        match self.inner.config.store.session_by_id(&id).await {
            Ok(Some(record)) => Ok(CalledSubagent { record, is_continued: true }),
            Ok(None) => {
                self.asker.withdraw_earlier_of(&id).await;
                Err(gone())
            }
            Err(error) => Err(session_failure(&error.into())),
        }
    }

    /// Withdraws what a sub-agent asked that does not go on, and ends its run and those below it.
    async fn end_parked(&self, record: &SessionRecord) {
        let sessions = self.asker.withdraw_earlier_of(&record.id).await;
        self.inner.end_parked_subagents(&sessions).await;
    }

    /// Where a sub-agent works. Neither the call nor its agent can take back what the other asks for.
    fn choose_isolation(&self, args: &TaskArgs) -> SubagentIsolation {
        let named = args.agent.as_deref();
        // An agent of the settings comes before a file with the same name.
        let is_configured = named.is_some_and(|name| self.inner.config.agents.get(name).is_some());
        let defined = self.agents.iter().find(|defined| named == Some(&*defined.name));
        let of_agent = defined.filter(|_| !is_configured).map(|defined| defined.isolation);
        let has_worktree = args.isolation == TaskIsolation::Worktree
            || of_agent == Some(SubagentIsolation::Worktree);
        SubagentIsolation::from_worktree(has_worktree)
    }

    /// The configuration of a sub-agent. It is not trusted to be stricter than the parent: its
    /// permissions are also limited by the parent's tools, mode and filters.
    fn find_profile(&self, agent: Option<&str>) -> Result<AgentProfile, ToolError> {
        let Some(name) = agent else {
            let model = Some(self.model.clone());
            return Ok(AgentProfile { model, mode: None, ..self.agent.clone() });
        };
        let invalid = |why: String| ToolError::invalid(ErrorReason::SchemaViolation, why);
        if name == self.agent.id {
            return Err(invalid(format!(
                "the agent `{name}` cannot start itself; do the work, or leave out `agent`"
            )));
        }
        // A project's file must not replace an agent of the user's settings.
        let configured = &self.inner.config.agents;
        if let Some(profile) = configured.get(name).filter(|_| name != DIRECT) {
            let model = profile.model.clone().unwrap_or_else(|| self.model.clone());
            return Ok(AgentProfile { model: Some(model), ..profile.clone() });
        }
        if let Some(defined) = self.agents.iter().find(|defined| defined.name == name) {
            if let Some(problem) = &defined.problem {
                return Err(invalid(format!("the agent `{name}` cannot be used: {problem}")));
            }
            // The text of a project's file may come from an untrusted source.
            let (system_prompt, role) = match &defined.project_file {
                None => (Some(defined.prompt.clone()), None),
                Some(path) => {
                    let role = InstructionFile { path: path.clone(), text: defined.prompt.clone() };
                    (self.agent.system_prompt.clone(), Some(role))
                }
            };
            return Ok(AgentProfile {
                id: defined.name.clone(),
                model: Some(defined.model.clone().unwrap_or_else(|| self.model.clone())),
                dialect: None,
                system_prompt,
                role,
                tools: defined.tools.clone(),
                mode: defined.mode,
                thinking: self.agent.thinking,
                turns_max: self.agent.turns_max,
                fallback: None,
            });
        }
        let files = self.agents.iter().filter(|defined| defined.problem.is_none());
        let files = files.map(|defined| defined.name.as_str());
        let settings = configured.list().map(|profile| profile.id.as_str());
        let known: Vec<&str> = files
            .chain(settings)
            .filter(|known| *known != DIRECT && *known != self.agent.id)
            .collect();
        let known = match known.is_empty() {
            true => "no other agent is defined, so leave out `agent`".to_owned(),
            false => format!("there are {}", known.join(", ")),
        };
        Err(invalid(format!("there is no agent `{}`; {known}", name.escape_debug())))
    }

    async fn create_session(
        &self,
        name: &str,
        profile: &AgentProfile,
        title: &str,
    ) -> Result<SessionRecord, SessionError> {
        // An agent of a file is not configured, so its session can later be continued as the parent's
        // agent only.
        let agents = &self.inner.config.agents;
        let agent = agents.get(&profile.id).map_or(&*self.session.agent, |profile| &profile.id);
        let key = subagent_key(&self.session.key, agent, name)?;
        let options = OpenSessionOptions {
            owner: self.session.owner.clone(),
            cwd: self.session.cwd.clone(),
            model: profile.model.clone(),
            tool_host: Some(self.session.tool_host.clone()),
            ..OpenSessionOptions::default()
        };
        self.inner.config.models.get(profile.model.as_deref())?;
        let parent = Some(self.session.id.clone());
        let record = self.inner.create_session(key, &options, parent).await?;
        let patch = SessionPatch { title: Some(Some(title.to_owned())), ..SessionPatch::default() };
        self.inner.patch_by_id(&record.id, patch).await?;
        Ok(record)
    }

    /// Runs the prompt, or continues the run that was parked if there is none. Returns its end, what it used, and
    /// the last words; nothing if it was parked.
    async fn run_prompt(
        &self,
        record: &SessionRecord,
        tools: &Arc<dyn ToolBackend>,
        prompt: Option<String>,
        subagent: Arc<SubagentRun>,
        cancel: &CancellationToken,
    ) -> Result<Option<(RunOutcome, SubagentTotals, String)>, SessionError> {
        let state = self.inner.session_state(&record.id);
        let backend = ActiveBackend {
            backend: Arc::clone(tools),
            closed: self.backend.closed.clone(),
            at: self.backend.at,
        };
        let mode = subagent.profile.mode;
        state.set_lent_backend(Some(LentBackend { backend, mode }));
        let ran = async {
            let run = match prompt {
                Some(prompt) => self.begin(record, prompt, subagent, cancel).await?,
                None => self.go_on(record, subagent, cancel).await?,
            };
            match run {
                Some(run) => Ok(Some(self.read_end(record, &run).await?)),
                None => Ok(None),
            }
        };
        let ran = ran.await;
        state.set_lent_backend(None);
        self.inner.evict_state(&state);
        ran
    }

    /// Runs the prompt of a new sub-agent to its end; returns nothing if it was parked.
    async fn begin(
        &self,
        record: &SessionRecord,
        prompt: String,
        subagent: Arc<SubagentRun>,
        cancel: &CancellationToken,
    ) -> Result<Option<RunAddress>, SessionError> {
        let run = RunId::from_bits(fastrand::u128(..));
        let prompt = Prompt {
            text: prompt,
            reading: SlashHandling::Verbatim,
            folder_access: self.folder_access.clone(),
            ..Prompt::default()
        };
        let inner = &self.inner;
        inner.send(&record.address(), run.clone(), prompt, Some(subagent)).await?;
        let run = RunAddress::new(&record.id, &run);
        let active = inner.lock_active_runs().get(&run).cloned();
        let is_parked = match active {
            Some(active) => self.wait_for(&active, cancel).await,
            None => false,
        };
        Ok((!is_parked).then_some(run))
    }

    /// Continues a sub-agent that waited for an answer; returns nothing if it was parked again.
    async fn go_on(
        &self,
        record: &SessionRecord,
        subagent: Arc<SubagentRun>,
        cancel: &CancellationToken,
    ) -> Result<Option<RunAddress>, SessionError> {
        let asked = self.asker.earlier_questions_of(&record.id);
        let (inner, access) = (&self.inner, &self.folder_access);
        let active = inner.continue_subagent(record, subagent, &asked, access).await?;
        if let Some(active) = active {
            let is_parked = self.wait_for(&active, cancel).await;
            return Ok((!is_parked).then(|| active.address()));
        }
        // It has ended meanwhile, or could not be continued.
        let last = inner.config.store.last_events(&record.id, u64::MAX, LEDGER_PAGE).await?;
        let ended = last.into_iter().rev().find_map(|event| match event.kind {
            EventKind::RunEnded { .. } => event.run,
            _ => None,
        });
        let ended = ended.ok_or_else(|| {
            SessionError::Busy("the sub-agent waited for an answer and cannot go on".to_owned())
        })?;
        Ok(Some(RunAddress::new(&record.id, &ended)))
    }

    /// Waits for the end of the run, which ends with the call. Returns whether it was parked instead.
    async fn wait_for(&self, active: &ActiveRun, cancel: &CancellationToken) -> bool {
        if cancel.run_until_cancelled(active.done.cancelled()).await.is_none()
            && !active.is_parked()
        {
            active.stop(RunOutcome::Aborted { by: STOPPED_BY.to_owned() });
            active.done.cancelled().await;
        }
        active.is_parked()
    }

    /// How the run of a sub-agent ended, what it used, and its last words.
    async fn read_end(
        &self,
        record: &SessionRecord,
        run: &RunAddress,
    ) -> Result<(RunOutcome, SubagentTotals, String), SessionError> {
        let store = &self.inner.config.store;
        let ended_run = store.run(run).await?;
        let transcript = store.transcript(&record.id, None).await?;
        let is_answer = |message: &&ModelMessage| message.role == MessageRole::Assistant;
        let answer = transcript.messages.iter().rev().find(is_answer);
        let text = answer.map(|message| message.text()).unwrap_or_default();
        let (end, usage) = ended_run.map(|ended| (ended.end, ended.usage)).unwrap_or_default();
        let totals = read_totals(&**store, &record.id, usage).await?;
        Ok((end.unwrap_or(RunOutcome::Interrupted), totals, text))
    }

    /// Removes the session of a sub-agent that did not begin.
    async fn discard(&self, record: &SessionRecord) {
        if let Err(error) = self.inner.delete(&record.address()).await {
            tracing::warn!(session = %record.id, %error, "an empty session could not be removed");
        }
    }
}

/// The key of a sub-agent's session: that of its parent with its name and some digits.
fn subagent_key(parent: &SessionKey, agent: &str, name: &str) -> Result<SessionKey, SessionError> {
    const DIGITS: usize = 8;
    let (prefix, suffix) =
        (format!("agent:{agent}:"), format!("/{name}-{:0DIGITS$x}", fastrand::u32(..)));
    let most = SessionKey::LEN_MAX.saturating_sub(prefix.len() + suffix.len());
    let start: String = parent.name().chars().take(most).collect();
    Ok(SessionKey::resolve(&format!("{prefix}{start}{suffix}"), agent)?)
}

fn session_failure(error: &SessionError) -> ToolError {
    let reason = match error {
        SessionError::Model(_) | SessionError::Invalid(_) => {
            return ToolError::invalid(ErrorReason::SchemaViolation, error.to_string());
        }
        SessionError::Full(_) | SessionError::Busy(_) => ErrorReason::ResourceExhausted,
        SessionError::ShuttingDown => ErrorReason::Cancelled,
        _ => ErrorReason::Io,
    };
    ToolError::failed(reason, format!("the sub-agent could not run: {error}"))
}

/// What a sub-agent that used this, and those that it started, used and were denied.
async fn read_totals(
    store: &dyn Store,
    session: &SessionId,
    usage: TokenUsage,
) -> Result<SubagentTotals, SessionError> {
    let mut totals = SubagentTotals { usage, denied_calls: 0 };
    let mut nested = SubagentTally::default();
    let mut after = 0;
    for _ in 0..LEDGER_PAGES_MAX {
        let page = store.events(session, after, LEDGER_PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for event in &page {
            nested.add_event(&event.kind);
            let is_denied =
                matches!(event.kind, EventKind::ToolEnded { status: ToolCallStatus::Denied, .. });
            totals.denied_calls += u64::from(is_denied);
        }
    }
    totals.add(nested.totals());
    Ok(totals)
}
