//! Tool backend on this machine, on top of a session of a tool host.
//!
//! The tool host and its policy make all decisions about a call. This module only forwards calls to
//! the host, and events, questions and results back to the call they belong to.

mod agent_files;
pub mod instructions;
pub(crate) mod memory_notes;
pub mod prompt_commands;
mod skill_list;
pub mod subagent_tools;

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;
use zero_core::{
    CallId, RiskLevel, SecretMask, SessionId, ToolCall, ToolError, ToolKind, ToolOutcome,
};
use zero_policy::PermissionMode;
use zero_runtime::dialect::{BUILTIN, DialectTool};
use zero_runtime::file_rewind::{
    FileRewindReport, FileRewindRequest, FileRewinder, RewindRequester,
};
use zero_runtime::notes::NoteStoreSet;
use zero_runtime::prompt_mentions::MentionTarget;
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::skills::{SKILL_TOOL, UserSkillFolder};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    AgentDefinition, CallApprover, CallObserver, CatalogEntry, CatalogInfo, InstructionFile,
    PromptCommand, ServerStartup, SilentObserver, SubagentIsolation, SubagentRequest, ToolBackend,
    ToolBackendError, ToolCatalog, ToolList, UnavailableServer, WorktreeReport,
};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, ApprovalReply, Approver, CallEvent, CallEventObserver,
    Dialect, DialectName, Editor, Elicitor, GrantRecord, GrantStore, Policy, SavedGrant,
    SessionInheritance, TextReader, TextReaderProvider, ToolHost, ToolHostSession,
    ToolHostSessionConfig, TrialReview, TrialVerdict,
};
use zero_sandbox::{FileType, FinalLinkMode, Workspace};

use self::subagent_tools::{
    SubagentApprover, SubagentElicitor, WaitingWorktree, Worktree, WorktreeProvider, WorktreeTools,
};

/// Name of the user's instruction file in their settings folder.
const USER_INSTRUCTIONS: &str = "AGENTS.md";
/// Name of the user's command folder in their settings folder.
const USER_COMMANDS: &str = "commands";
/// Name of the user's agent folder in their settings folder.
const USER_AGENTS: &str = "agents";

/// What is wrong with agent files of a workspace, and with those of the user's own settings folder.
pub fn find_agent_problems(
    workspace: &Workspace,
    own_folder: Option<&Path>,
    policy: &dyn Policy,
) -> Vec<String> {
    let own = own_folder.map(|folder| folder.join(USER_AGENTS));
    let agents = agent_files::read(workspace, own.as_deref(), policy);
    agents.into_iter().filter_map(|agent| agent.problem).collect()
}

/// The dialects, each built on first use and shared by all sessions.
#[derive(Default)]
pub struct DialectCache {
    canonical: OnceLock<Dialect>,
    acp: OnceLock<Dialect>,
    qwen: OnceLock<Dialect>,
    opencode: OnceLock<Dialect>,
}

impl DialectCache {
    /// Returns the dialect with that name.
    pub fn get(&self, name: DialectName) -> &Dialect {
        let made = match name {
            DialectName::Canonical => &self.canonical,
            DialectName::Acp => &self.acp,
            DialectName::Qwen => &self.qwen,
            DialectName::Opencode => &self.opencode,
        };
        made.get_or_init(|| Dialect::new(name))
    }
}

/// Configuration of a local tool backend.
pub struct LocalToolBackendConfig {
    /// The tool host. Several sessions may share it.
    pub host: Arc<ToolHost>,
    /// Id of the session that the tools work for.
    pub session: SessionId,
    /// Owner of the session, if others may have sessions on the same host.
    pub owner: Option<String>,
    /// The tool dialects, built once and shared by all sessions.
    pub dialects: Arc<DialectCache>,
    /// Asks the session's user for approval and stores their grants.
    pub approver: Arc<dyn CallApprover>,
    /// Asks the session's user questions.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Permission mode; `None` uses the mode of the settings.
    pub mode: Option<PermissionMode>,
    /// Grants stored earlier for the session.
    pub grants: Vec<GrantRecord>,
    /// How long its oversized results exist.
    pub result_lifetime: ResultLifetime,
    /// The user's editor.
    pub editor: Option<Arc<dyn Editor>>,
    /// The user's settings folder, with `AGENTS.md` and `commands`.
    pub own_folder: Option<PathBuf>,
    /// Resources that must live as long as the session, such as MCP servers. Dropped after it.
    pub keep: Box<dyn Any + Send + Sync>,
    /// The session whose sub-agent it serves.
    pub parent: Option<SessionInheritance>,
    /// Makes worktrees for its sub-agents; `None` if they cannot have any.
    pub worktrees: Option<Arc<dyn WorktreeProvider>>,
}

/// Executes calls on this machine. Dropping it ends everything that its session started.
pub struct LocalToolBackend {
    host: Arc<ToolHost>,
    dialects: Arc<DialectCache>,
    toolboxes: Arc<ToolListCache>,
    switchboard: Arc<CallRouter>,
    approver: Arc<dyn CallApprover>,
    own_folder: Option<PathBuf>,
    owner: Option<String>,
    elicitor: Option<Arc<dyn Elicitor>>,
    editor: Option<Arc<dyn Editor>>,
    result_lifetime: ResultLifetime,
    worktrees: Option<Arc<dyn WorktreeProvider>>,
    /// The worktree in which these tools work, if they are of a sub-agent that has one.
    worktree: Option<Arc<dyn Worktree>>,
    /// The servers that bring tools, until the first wait for them.
    servers: Mutex<Option<Arc<dyn ServerStartup>>>,
    alive: Arc<LocalHostSession>,
}

/// The tools of a host in each dialect, rebuilt when the registry has changed. All sessions of the
/// host share them.
#[derive(Default)]
struct ToolListCache(Mutex<Vec<CachedToolList>>);

struct CachedToolList {
    dialect: DialectName,
    /// Version of the registry it was built from.
    version: u64,
    /// The secret values that its texts do not contain.
    secrets: Arc<SecretMask>,
    has_skills: bool,
    toolbox: ToolList,
}

impl ToolListCache {
    fn for_host(host: &ToolHost) -> Arc<Self> {
        host.extension().unwrap_or_else(|| {
            let made = Arc::<Self>::default();
            host.insert_extension(Arc::clone(&made));
            made
        })
    }

    /// The tools in a dialect. The one that loads skills is only offered if there are some.
    fn get(
        &self,
        host: &ToolHost,
        dialect: &Dialect,
        secrets: &Arc<SecretMask>,
        has_skills: bool,
    ) -> ToolList {
        // Read before the tools, so that a concurrent change is noticed the next time.
        let (version, name) = (host.registry().version(), dialect.name());
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |it: &&CachedToolList| {
            it.dialect == name
                && it.version == version
                && it.has_skills == has_skills
                && Arc::ptr_eq(&it.secrets, secrets)
        };
        if let Some(known) = made.iter().find(is_current) {
            return known.toolbox.clone();
        }
        let tools = dialect.list_tools(host.registry()).into_iter();
        let is_offered = |tool: &DialectTool| {
            has_skills || tool.registered.tool.spec().name.as_str() != SKILL_TOOL
        };
        let tools = tools.filter(is_offered);
        let toolbox: ToolList = tools.map(|tool| catalog_entry(tool, secrets)).collect();
        made.retain(|it| it.dialect != name);
        made.push(CachedToolList {
            dialect: name,
            version,
            secrets: Arc::clone(secrets),
            has_skills,
            toolbox: toolbox.clone(),
        });
        toolbox
    }
}

/// The fields are dropped in this order.
struct LocalHostSession {
    session: ToolHostSession,
    _keep: Box<dyn Any + Send + Sync>,
}

impl LocalToolBackend {
    /// Opens the session.
    pub fn new(config: LocalToolBackendConfig) -> Result<Self, ToolBackendError> {
        let LocalToolBackendConfig {
            host,
            session,
            owner,
            dialects,
            approver,
            elicitor,
            mode,
            grants,
            result_lifetime,
            editor,
            own_folder,
            keep,
            parent,
            worktrees,
        } = config;
        let switchboard = Arc::new(CallRouter::default());
        let grant_store: GrantStore = {
            let approver = Arc::clone(&approver);
            Arc::new(move |grants| {
                approver.store_grants(grants.into_iter().map(GrantRecord::from).collect());
            })
        };
        let routed_approver = RoutedApprover {
            switchboard: Arc::clone(&switchboard),
            approver: Arc::clone(&approver),
        };
        let session = host
            .open_session_with(
                session,
                ToolHostSessionConfig {
                    owner: owner.clone(),
                    approver: Some(Arc::new(routed_approver)),
                    elicitor: elicitor.clone(),
                    observer: Some(Arc::clone(&switchboard) as Arc<dyn CallEventObserver>),
                    mode,
                    grants: grants.into_iter().map(SavedGrant::from).collect(),
                    grant_store: Some(grant_store),
                    editor: editor.clone(),
                    readers: Some(Arc::clone(&switchboard) as Arc<dyn TextReaderProvider>),
                    result_lifetime,
                    parent,
                },
            )
            .map_err(|error| ToolBackendError::Workspace(error.message))?;
        let alive = Arc::new(LocalHostSession { session, _keep: keep });
        let toolboxes = ToolListCache::for_host(&host);
        Ok(Self {
            host,
            dialects,
            toolboxes,
            switchboard,
            approver,
            own_folder,
            owner,
            elicitor,
            editor,
            result_lifetime,
            worktrees,
            worktree: None,
            servers: Mutex::default(),
            alive,
        })
    }

    /// The servers that the first prompt waits for.
    #[must_use]
    pub fn with_server_startup(mut self, servers: Arc<dyn ServerStartup>) -> Self {
        self.servers = Mutex::new(Some(servers));
        self
    }

    async fn open_for_subagent(&self, request: SubagentRequest) -> Result<Self, ToolBackendError> {
        let SubagentRequest { session, name, call, mode, isolation, is_continued } = request;
        let worktree = match (isolation, &self.worktrees) {
            (SubagentIsolation::Shared, _) => None,
            (SubagentIsolation::Worktree, Some(worktrees)) => Some(match is_continued {
                true => worktrees.reopen(&session).await?,
                false => worktrees.open(&session, &name).await?,
            }),
            (SubagentIsolation::Worktree, None) => {
                return Err(ToolBackendError::Workspace(
                    "no worktree can be made here: this is a dry run, or the sub-agent that asks for it has one itself; leave out `isolation`"
                        .to_owned(),
                ));
            }
        };
        // The parent's state must outlive its sub-agents.
        let keep = Arc::clone(&self.alive);
        let (host, keep, worktrees, editor, worktree): (_, Box<dyn Any + Send + Sync>, _, _, _) =
            match worktree {
                Some(WorktreeTools { host, keep: own, worktree }) => {
                    (host, Box::new((own, keep)), None, None, Some(worktree))
                }
                None => (
                    Arc::clone(&self.host),
                    Box::new(keep),
                    self.worktrees.clone(),
                    self.editor.clone(),
                    None,
                ),
            };
        let waiting = worktree.clone().map(WaitingWorktree::new);
        let elicitor = self.elicitor.clone().map(|parent| {
            Arc::new(SubagentElicitor {
                parent,
                call: call.clone(),
                session: session.clone(),
                name: name.clone(),
                worktree: waiting.clone(),
            }) as Arc<dyn Elicitor>
        });
        let approver = Arc::new(SubagentApprover {
            parent: Arc::clone(&self.approver),
            call,
            session: session.clone(),
            name,
            worktree: waiting,
        });
        let tools = Self::new(LocalToolBackendConfig {
            host,
            session,
            owner: self.owner.clone(),
            dialects: Arc::clone(&self.dialects),
            approver,
            elicitor,
            mode,
            grants: Vec::new(),
            result_lifetime: self.result_lifetime,
            editor,
            own_folder: self.own_folder.clone(),
            keep,
            parent: Some(self.alive.session.inheritance()),
            worktrees,
        });
        match (tools, worktree) {
            (Ok(mut tools), worktree) => {
                tools.worktree = worktree;
                Ok(tools)
            }
            (Err(error), Some(worktree)) => {
                // Nothing was changed in it, so this removes it.
                worktree.close().await?;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn close_for_subagent(&self) -> Result<Option<WorktreeReport>, ToolBackendError> {
        let alive = Arc::clone(&self.alive);
        // Its jobs must not change the worktree while it is committed.
        let ended = tokio::task::spawn_blocking(move || alive.session.end()).await;
        ended.map_err(|_| ToolBackendError::Workspace("zero is shutting down".to_owned()))?;
        let Some(worktree) = &self.worktree else { return Ok(None) };
        let secrets = self.host.secrets().current_mask().await;
        let mut report = worktree.close().await?;
        if let Some(report) = &mut report {
            secrets.mask_string(&mut report.diff);
            report.notes.iter_mut().for_each(|note| secrets.mask_string(note));
        }
        Ok(report)
    }

    async fn read_catalog(&self, dialect: DialectName) -> Result<ToolCatalog, ToolBackendError> {
        let (workspace, policy) = (self.host.workspace().clone(), Arc::clone(self.host.policy()));
        let own = self.own_folder.clone();
        let memories = self.host.extension::<NoteStoreSet>();
        let user_skills = self.host.extension::<UserSkillFolder>();
        let read = tokio::task::spawn_blocking(move || {
            let own = |name: &str| own.as_ref().map(|folder| folder.join(name));
            let remembered = memories
                .and_then(|memories| memory_notes::read_notes(&memories, &workspace, &*policy));
            let instructions =
                instructions::read(&workspace, own(USER_INSTRUCTIONS).as_deref(), &*policy);
            let skills = skill_list::read(&workspace, user_skills.as_deref(), &*policy);
            let has_skills = skills.is_some();
            let instructions = remembered.into_iter().chain(skills).chain(instructions).collect();
            let commands =
                prompt_commands::read(&workspace, own(USER_COMMANDS).as_deref(), &*policy);
            let agents = agent_files::read(&workspace, own(USER_AGENTS).as_deref(), &*policy);
            (instructions, commands, agents, has_skills)
        });
        let (mut instructions, mut commands, mut agents, has_skills): (
            Vec<InstructionFile>,
            Vec<PromptCommand>,
            Vec<AgentDefinition>,
            bool,
        ) = read
            .await
            .map_err(|_| ToolBackendError::Workspace("zero is shutting down".to_owned()))?;
        let secrets = self.host.secrets().current_mask().await;
        let tools =
            self.toolboxes.get(&self.host, self.dialects.get(dialect), &secrets, has_skills);
        instructions.iter_mut().for_each(|file| secrets.mask_string(&mut file.text));
        commands.iter_mut().for_each(|command| secrets.mask_string(&mut command.prompt));
        agents.iter_mut().for_each(|agent| secrets.mask_string(&mut agent.prompt));
        Ok(ToolCatalog {
            cwd: self.host.workspace().cwd().to_owned(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            tools,
            instructions,
            commands,
            agents,
        })
    }

    /// The commands alone: reading them needs no tools and no instructions.
    async fn read_commands(&self) -> Result<Vec<PromptCommand>, ToolBackendError> {
        let (workspace, policy) = (self.host.workspace().clone(), Arc::clone(self.host.policy()));
        let own = self.own_folder.as_ref().map(|folder| folder.join(USER_COMMANDS));
        let read = tokio::task::spawn_blocking(move || {
            prompt_commands::read(&workspace, own.as_deref(), &*policy)
        });
        let mut commands = read
            .await
            .map_err(|_| ToolBackendError::Workspace("zero is shutting down".to_owned()))?;
        if !commands.is_empty() {
            let secrets = self.host.secrets().current_mask().await;
            commands.iter_mut().for_each(|command| secrets.mask_string(&mut command.prompt));
        }
        Ok(commands)
    }

    async fn run_call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> ToolOutcome {
        let dialect = self.dialects.get(dialect);
        let session = &self.alive.session;
        // A grant that the user revoked in another process no longer applies here.
        session.forget_grants(&self.approver.take_revoked_grants().await);
        // The id comes from the turn or from a remote gateway and may have been used here before.
        let line = self.switchboard.add_route(call.id, watch);
        let call = ToolCall { id: line.call.clone(), session: session.id().cloned(), ..call };
        let report = self.host.call(session, dialect, call, &cancel).await;
        report.outcome.map(|outcome| outcome.result).into()
    }
}

impl ToolBackend for LocalToolBackend {
    fn load_catalog(
        &self,
        dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        Box::pin(self.read_catalog(dialect))
    }

    fn list_commands(&self) -> BoxFuture<'_, Result<Vec<PromptCommand>, ToolBackendError>> {
        Box::pin(self.read_commands())
    }

    fn call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        Box::pin(self.run_call(call, dialect, cancel, watch))
    }

    fn set_mode(
        &self,
        mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        self.alive.session.set_mode(mode);
        Box::pin(std::future::ready(Ok(())))
    }

    fn revoke_grants(&self, rule: Option<&str>) {
        match rule {
            Some(rule) => self.alive.session.revoke_rule(rule),
            None => self.alive.session.revoke_all(),
        };
    }

    fn wait_for_servers(&self) -> BoxFuture<'_, Vec<UnavailableServer>> {
        let lock = || self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(async move {
            let Some(servers) = lock().clone() else { return Vec::new() };
            let missing = servers.wait_for_servers(UnavailableServer::WAIT_MAX).await;
            // A prompt that was cancelled meanwhile has not waited: the next one does.
            lock().take();
            missing
        })
    }

    fn inspect_mention<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<MentionTarget>> {
        let (workspace, path) = (self.alive.session.workspace().clone(), path.to_owned());
        let inspect = move || {
            let found = workspace.resolve(&path, FinalLinkMode::Follow).ok()?.facts().ok()??;
            Some(match found.file_type {
                FileType::Directory => MentionTarget::Folder,
                _ => MentionTarget::File,
            })
        };
        Box::pin(async move { tokio::task::spawn_blocking(inspect).await.ok().flatten() })
    }

    fn rewind_files(
        &self,
        request: FileRewindRequest,
        requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        Box::pin(async move {
            let RewindRequester::Gateway(cancel) = requester else {
                return FileRewinder::for_host(&self.host).run(request).await;
            };
            // A question of it reaches the user as that of a call does.
            let line = self.switchboard.add_route(new_call_id(), Arc::new(SilentObserver));
            let session = &self.alive.session;
            session.forget_grants(&self.approver.take_revoked_grants().await);
            self.host.rewind_for_gateway(session, &line.call, request, &cancel).await
        })
    }

    fn has_running_jobs(&self) -> bool {
        self.alive.session.has_running_jobs()
    }

    fn location(&self) -> String {
        "this machine".to_owned()
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.host.workspace().cwd().to_owned())
    }

    fn secret_mask(&self) -> BoxFuture<'_, Arc<SecretMask>> {
        Box::pin(self.host.secrets().current_mask())
    }

    fn takes_subagents(&self) -> bool {
        true
    }

    fn open_subagent(
        &self,
        request: SubagentRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        Box::pin(async move {
            Ok(Arc::new(self.open_for_subagent(request).await?) as Arc<dyn ToolBackend>)
        })
    }

    fn close_subagent(&self) -> BoxFuture<'_, Result<Option<WorktreeReport>, ToolBackendError>> {
        Box::pin(self.close_for_subagent())
    }
}

impl Drop for LocalToolBackend {
    fn drop(&mut self) {
        // Stopping commands takes time and must not block an async thread.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let alive = Arc::clone(&self.alive);
            runtime.spawn_blocking(move || {
                alive.session.end();
                drop(alive);
            });
        }
    }
}

fn catalog_entry(offered: DialectTool, secrets: &SecretMask) -> CatalogEntry {
    let DialectTool { name, mut description, mut input_schema, registered, .. } = offered;
    let spec = registered.tool.spec();
    let mut display_name = spec.display_name.clone();
    let mut info = CatalogInfo {
        output_schema: spec.output_schema.clone(),
        category: spec.category,
        risk: spec.risk,
    };
    // A server sees the workspace, and says what it likes about its tools.
    if registered.source != BUILTIN {
        secrets.mask_string(&mut description);
        secrets.mask_json(&mut input_schema);
        secrets.mask_string(&mut display_name);
        secrets.mask_json(&mut info.output_schema);
    }
    // A foreign tool's claim to be read-only is only a hint and does not allow parallel calls. Two
    // concurrent plan updates would overwrite each other.
    let read_only = registered.source == BUILTIN
        && spec.risk == RiskLevel::Low
        && matches!(spec.kind, ToolKind::Read | ToolKind::Search);
    CatalogEntry {
        name,
        canonical: spec.name.to_string(),
        display_name: Some(display_name),
        description,
        input_schema,
        kind: spec.kind,
        read_only,
        info: Some(info),
    }
}

/// Maps running calls of the host to calls of the turn.
#[derive(Default)]
struct CallRouter {
    lines: Mutex<HashMap<CallId, CallRoute>>,
}

/// The observer and id of a call of the turn.
#[derive(Clone)]
struct CallRoute {
    id: CallId,
    watch: Arc<dyn CallObserver>,
}

/// Removes the route of a call on drop.
struct CallRouteGuard<'a> {
    switchboard: &'a CallRouter,
    call: CallId,
}

impl CallRouter {
    fn add_route(&self, id: CallId, watch: Arc<dyn CallObserver>) -> CallRouteGuard<'_> {
        let call = new_call_id();
        self.lock_routes().insert(call.clone(), CallRoute { id, watch });
        CallRouteGuard { switchboard: self, call }
    }

    fn route(&self, call: &CallId) -> Option<CallRoute> {
        self.lock_routes().get(call).cloned()
    }

    fn lock_routes(&self) -> MutexGuard<'_, HashMap<CallId, CallRoute>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallRouteGuard<'_> {
    fn drop(&mut self) {
        self.switchboard.lock_routes().remove(&self.call);
    }
}

impl CallEventObserver for CallRouter {
    fn on_event(&self, event: &CallEvent) {
        match event {
            CallEvent::Described { call, title, kind, locations, .. } => {
                if let Some(CallRoute { watch, .. }) = self.route(call) {
                    watch.on_described(title.clone(), *kind, locations.clone());
                }
            }
            CallEvent::Progress { call, progress } => {
                if let Some(CallRoute { watch, .. }) = self.route(call) {
                    watch.on_progress(progress.clone());
                }
            }
            CallEvent::Started { call } => {
                if let Some(CallRoute { watch, .. }) = self.route(call) {
                    watch.on_started();
                }
            }
            CallEvent::Output { call, text } => {
                if let Some(CallRoute { watch, .. }) = self.route(call) {
                    watch.on_output(text);
                }
            }
            // The turn learns this from the result of the call.
            CallEvent::Ended { .. } => {}
        }
    }

    fn wants_output(&self) -> bool {
        true
    }

    fn caller_id(&self, call: &CallId) -> Option<CallId> {
        self.route(call).map(|route| route.id)
    }
}

impl TextReaderProvider for CallRouter {
    fn reader(&self, call: &CallId) -> Option<Arc<dyn TextReader>> {
        self.route(call)?.watch.reader()
    }
}

/// Asks the session's user about a call of the host.
struct RoutedApprover {
    switchboard: Arc<CallRouter>,
    approver: Arc<dyn CallApprover>,
}

impl Approver for RoutedApprover {
    fn name(&self) -> &str {
        self.approver.name()
    }

    fn is_person(&self) -> bool {
        self.approver.is_person()
    }

    fn can_leave_sandbox(&self) -> bool {
        self.approver.can_leave_sandbox()
    }

    fn unreachable_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        self.approver.unattended_hint(question)
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self.switchboard.route(&question.call) {
                Some(far) => self.approver.ask(far.id.as_str(), question).await,
                // The call has already ended.
                None => ApprovalAnswer::RejectOnce,
            }
        })
    }

    fn ask_for_reply<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalReply> {
        Box::pin(async move {
            match self.switchboard.route(&question.call) {
                Some(far) => self.approver.ask_for_reply(far.id.as_str(), question).await,
                // The call has already ended.
                None => ApprovalAnswer::RejectOnce.into(),
            }
        })
    }

    fn can_review_trials(&self) -> bool {
        self.approver.can_review_trials()
    }

    fn review_trial<'a>(&'a self, review: &'a TrialReview) -> BoxFuture<'a, TrialVerdict> {
        self.approver.review_trial(review)
    }
}

#[cfg(test)]
mod tests;
