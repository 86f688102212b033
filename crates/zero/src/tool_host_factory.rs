//! Creates the tool hosts of sessions on this machine: one per folder, with the tools, rules and MCP
//! servers of that folder's settings.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use zero_acp::{ClientTool, SessionMcpServer};
use zero_core::event::{ApprovalEffect, ApprovalRequest, ApprovalSubject, EffectOrigin};
use zero_core::{CLIENT_TOOL_SOURCE, SessionId};
use zero_exec::jobs::JobRegistry;
use zero_gateway::MetricsSource;
use zero_lsp::LanguageServers;
use zero_mcp::client::McpServerSet;
use zero_policy::PermissionMode;
use zero_runtime::metrics::{CallMetrics, SessionCallStats, ToolStats};
use zero_runtime::session_results::{self, ResultLifetime};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallApprover, FolderAccess, ToolBackend, ToolBackendError, ToolBackendFactory,
    ToolBackendRequest,
};
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, ApprovalReply, Approver, Editor, Elicitor,
    QuestionWithdrawal, ToolHost, TrialReview, TrialVerdict, WithdrawalNote,
};
use zero_sandbox::Workspace;
use zero_sandbox::typed_input::SignalKeys;
use zero_session::approvals::StoredGrants;
use zero_session::local_backend::subagent_tools::WorktreeProvider;
use zero_session::local_backend::{DialectCache, LocalToolBackend, LocalToolBackendConfig};
use zero_session::store::GrantRecord;
use zero_settings::WorkspaceSettings;
use zero_wire::zero_sessions::SessionInfo;

use crate::AppContext;
use crate::approval::{AutoApprover, DenyAllApprover, RuleFile, TerminalApprover, elicitation};
use crate::editor_tool_hosts::client_tool::EditorTool;
use crate::error_chain::describe_error;
use crate::exit::UsageError;
use crate::external_tools::{ExternalTools, McpServerArrivals};
use crate::subagent_worktrees::{SharedWorktrees, SubagentWorktrees, finish_leftover};
use crate::terminal::dialog::{DialogRun, KeyChoice, KeyOutcome, ask_for_key};
use crate::terminal::{AnswerSource, PromptTurn, escape_line};

/// Advice for calls denied because the client cannot ask its user.
const HOW_TO_ALLOW: &str = "use a client that can ask for approval, or choose another mode";
/// Advice for calls denied because `zero run` has no terminal to ask on.
const HOW_TO_ALLOW_IN_RUN: &str = "pass `--yes`, or run it in a terminal to be asked";

/// How long the end of a job of a session that is over is waited for.
const JOB_END_MAX: Duration = Duration::from_secs(10);

/// Opens tool backends for sessions. Sessions of the same folder share a host while its settings stay
/// the same, unless MCP servers provide tools: these ask the user of one session.
pub(crate) struct LocalToolHostFactory {
    app: AppContext,
    settings_files: Vec<PathBuf>,
    dialects: Arc<DialectCache>,
    hosts: Mutex<HostCache>,
    /// Metrics of the calls of all hosts.
    metrics: Arc<CallMetrics>,
}

/// What an editor adds to a backend request.
#[derive(Default)]
pub(crate) struct EditorExtras {
    /// Additional folders of the project.
    pub(crate) additional: Vec<PathBuf>,
    /// Its unsaved buffers, if it shares them.
    pub(crate) editor: Option<Arc<dyn Editor>>,
    /// MCP servers that it configures for the session.
    pub(crate) servers: Vec<SessionMcpServer>,
    /// Tools that it provides in the session.
    pub(crate) tools: Vec<ClientTool>,
}

/// A tool backend, and the permission mode from the settings of its folder.
pub(crate) struct ConfiguredToolBackend {
    pub(crate) backend: LocalToolBackend,
    pub(crate) own_mode: PermissionMode,
    /// MCP servers that provide further tools.
    pub(crate) servers: Arc<McpServerSet>,
}

/// Hosts in use.
#[derive(Default)]
struct HostCache {
    /// Shared hosts, by their folders.
    shared: HashMap<Vec<PathBuf>, Weak<ConfiguredHost>>,
    own: Vec<Weak<ConfiguredHost>>,
    /// Language servers, by the folders and settings of their hosts.
    language_servers: HashMap<(Vec<PathBuf>, String), Weak<LanguageServers>>,
}

impl HostCache {
    fn add(&mut self, folders: Vec<PathBuf>, fitted: &Arc<ConfiguredHost>, brings_tools: bool) {
        self.shared.retain(|_, host| host.strong_count() > 0);
        self.own.retain(|host| host.strong_count() > 0);
        match brings_tools {
            true => self.own.push(Arc::downgrade(fitted)),
            false => drop(self.shared.insert(folders, Arc::downgrade(fitted))),
        }
    }

    /// Shares language servers between hosts with the same folders and settings, because each holds a
    /// whole project in memory.
    fn share_language_servers(&mut self, host: &ToolHost, folders: &[PathBuf], settings: &str) {
        self.language_servers.retain(|_, servers| servers.strong_count() > 0);
        let key = (folders.to_vec(), settings.to_owned());
        if let Some(shared) = self.language_servers.get(&key).and_then(Weak::upgrade) {
            host.insert_extension(shared);
        } else if let Some(own) = host.extension::<LanguageServers>() {
            self.language_servers.insert(key, Arc::downgrade(&own));
        }
    }
}

/// A host and the sources of its external tools.
struct ConfiguredHost {
    host: Arc<ToolHost>,
    outside: ExternalTools,
    /// Settings that the host was created with, as JSON.
    settings: String,
}

impl Drop for ConfiguredHost {
    fn drop(&mut self) {
        // The host is no longer used, so its servers stop. Without a runtime, none was started.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let servers = Arc::clone(&self.outside.servers);
            runtime.spawn(async move { servers.stop().await });
        }
    }
}

impl LocalToolHostFactory {
    pub(crate) fn new(app: AppContext, settings_files: Vec<PathBuf>) -> Self {
        Self {
            app,
            settings_files,
            dialects: Arc::default(),
            hosts: Mutex::default(),
            metrics: Arc::default(),
        }
    }

    /// Sum of a metric over all hosts in use.
    fn sum_over_hosts(&self, figure: impl Fn(&ToolHost) -> usize) -> u64 {
        let hosts = self.lock();
        let alive = hosts.shared.values().chain(&hosts.own).filter_map(Weak::upgrade);
        alive.map(|fitted| figure(&fitted.host) as u64).sum()
    }

    /// Opens the tool backend of a session on this machine.
    pub(crate) fn open_backend(
        &self,
        order: ToolBackendRequest,
        extras: EditorExtras,
    ) -> anyhow::Result<Result<ConfiguredToolBackend, ToolBackendError>> {
        let EditorExtras { additional, editor, servers, tools } = extras;
        let workspace = self.open_workspace(&order.cwd, &additional)?;
        if let Err(error) = order.folder_access.check_folder(workspace.cwd()) {
            return Ok(Err(error.into()));
        }
        let settings = self.app.load_settings(&workspace, &self.settings_files)?;
        let elicitor = Arc::clone(&order.elicitor);
        let parent = workspace.clone();
        let fitted = self.configured_host(workspace, &settings, &servers, tools, elicitor)?;
        let servers = Arc::clone(&fitted.outside.servers);
        let own_folder = self.app.config.settings_file().ok();
        let own_mode = settings.mode();
        // A dry run leaves nothing behind, and a branch would be something.
        let worktrees = (!self.app.config.is_dry_run()).then(|| {
            let worktrees = SubagentWorktrees {
                app: self.app.clone(),
                workspace: parent,
                settings,
                metrics: Arc::clone(&self.metrics),
                elicitor: Arc::clone(&order.elicitor),
                how_to_allow: HOW_TO_ALLOW,
            };
            Arc::new(SharedWorktrees(Arc::new(worktrees))) as Arc<dyn WorktreeProvider>
        });
        let backend = LocalToolBackend::new(LocalToolBackendConfig {
            host: Arc::clone(&fitted.host),
            session: order.session,
            owner: order.owner,
            dialects: Arc::clone(&self.dialects),
            approver: order.approver,
            elicitor: Some(order.elicitor),
            mode: order.mode,
            grants: order.grants,
            result_lifetime: order.result_lifetime,
            editor,
            own_folder: own_folder.and_then(|file| file.parent().map(Path::to_owned)),
            keep: Box::new(fitted) as Box<dyn Any + Send + Sync>,
            parent: None,
            worktrees,
        });
        Ok(backend.map(|backend| {
            let arrivals = Arc::new(McpServerArrivals(Arc::clone(&servers)));
            let backend = backend.with_server_startup(arrivals);
            ConfiguredToolBackend { backend, own_mode, servers }
        }))
    }

    /// Creates the host of these folders in advance, if sessions share it. It stays available as long
    /// as the returned value is kept.
    pub(crate) fn prewarm(
        &self,
        cwd: &Path,
        additional: &[PathBuf],
    ) -> anyhow::Result<Option<impl Any + Send + use<>>> {
        let workspace = self.open_workspace(cwd, additional)?;
        let settings = self.app.load_settings(&workspace, &self.settings_files)?;
        if settings.has_external_tools() {
            return Ok(None);
        }
        let elicitor = Arc::new(UnavailableElicitor);
        self.configured_host(workspace, &settings, &[], Vec::new(), elicitor).map(Some)
    }

    /// Opens a folder and additional ones; those inside an earlier one are skipped.
    pub(crate) fn open_workspace(
        &self,
        cwd: &Path,
        additional: &[PathBuf],
    ) -> Result<Workspace, UsageError> {
        let cwd_only = self.app.config.open_workspace(&[cwd.to_owned()])?;
        if additional.is_empty() {
            return Ok(cwd_only);
        }
        let mut folders = vec![cwd_only.cwd().to_owned()];
        for folder in additional {
            let opened = self.app.config.open_workspace(std::slice::from_ref(folder))?;
            if !folders.iter().any(|known| opened.cwd().starts_with(known)) {
                folders.push(opened.cwd().to_owned());
            }
        }
        self.app.config.open_workspace(&folders)
    }

    fn configured_host(
        &self,
        workspace: Workspace,
        settings: &WorkspaceSettings,
        servers: &[SessionMcpServer],
        tools: Vec<ClientTool>,
        elicitor: Arc<dyn Elicitor>,
    ) -> anyhow::Result<Arc<ConfiguredHost>> {
        let brings_tools =
            settings.has_external_tools() || !servers.is_empty() || !tools.is_empty();
        let folders: Vec<PathBuf> = workspace.roots().map(Path::to_owned).collect();
        // The secret files may change while the settings stay the same.
        let secret_files = self.app.secret_files(settings);
        let made_by = serde_json::to_string(&(settings.entries(), secret_files))?;
        if !brings_tools
            && let Some(fitted) = self.lock().shared.get(&folders).and_then(Weak::upgrade)
            && fitted.settings == made_by
        {
            return Ok(fitted);
        }
        let mut config = self.app.host_config(workspace, settings, None)?;
        config.how_to_allow = HOW_TO_ALLOW.to_owned();
        config.metrics = Arc::clone(&self.metrics);
        let host = Arc::new(self.app.build_host(config, settings)?);
        self.lock().share_language_servers(&host, &folders, &made_by);
        let outside = self.app.external_tools_with(&host, settings, servers, Some(elicitor));
        outside.register_known();
        outside.start_unknown();
        let tools = tools.into_iter().map(|tool| Arc::new(EditorTool::new(tool)) as _).collect();
        host.registry().add(CLIENT_TOOL_SOURCE, tools)?;
        let fitted = Arc::new(ConfiguredHost { host, outside, settings: made_by });
        self.lock().add(folders, &fitted, brings_tools);
        Ok(fitted)
    }

    fn lock(&self) -> MutexGuard<'_, HostCache> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens tool backends on a blocking thread, since this reads files.
pub(crate) struct LocalToolBackendFactory(pub(crate) Arc<LocalToolHostFactory>);

impl ToolBackendFactory for LocalToolBackendFactory {
    fn open(
        &self,
        order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        let tool_host_factory = Arc::clone(&self.0);
        let opening = tokio::task::spawn_blocking(move || {
            tool_host_factory.open_backend(order, EditorExtras::default())
        });
        Box::pin(async move {
            let opened = opening.await.map_err(anyhow::Error::from).flatten();
            let opened = opened
                .unwrap_or_else(|error| Err(ToolBackendError::Workspace(describe_error(&error))));
            opened.map(|opened| Arc::new(opened.backend) as Arc<dyn ToolBackend>)
        })
    }

    fn copy_results(
        &self,
        from: &SessionId,
        to: &SessionId,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        let (app, from, to) = (self.0.app.clone(), from.clone(), to.clone());
        let copying = tokio::task::spawn_blocking(move || {
            let state = app.config.state_dir()?;
            Ok(session_results::copy(&state, &from, &to)?)
        });
        Box::pin(async move {
            let copied = copying.await.map_err(anyhow::Error::from).flatten();
            copied.map_err(|error| {
                ToolBackendError::Workspace(format!(
                    "the stored results of the session could not be copied: {error:#}; check the disk"
                ))
            })
        })
    }

    fn discard_session(&self, session: &SessionId) -> BoxFuture<'_, ()> {
        let (app, session) = (self.0.app.clone(), session.clone());
        let removing = tokio::task::spawn_blocking(move || {
            let removed = app.config.state_dir().map_err(anyhow::Error::from).and_then(|state| {
                // They write their output there.
                let jobs = JobRegistry::open(&state).kill_session(session.as_str(), JOB_END_MAX);
                for job in jobs {
                    tracing::warn!(%session, job = job.id(), "a job of a session does not end");
                }
                finish_worktree(&app, &session);
                Ok(session_results::remove(&state, &session)?)
            });
            if let Err(error) = removed {
                tracing::warn!(%session, %error, "results of a session could not be removed");
            }
        });
        // Only a shutdown cancels it; the next start removes what is left.
        Box::pin(async move { drop(removing.await) })
    }
}

/// Makes a branch of what a killed process left in the worktree of a session.
fn finish_worktree(app: &AppContext, session: &SessionId) {
    let Ok(workspace) = app.config.open_workspace(&[]) else { return };
    if let Ok(store) = app.worktree_store(&workspace, app.config.command_settings()) {
        finish_leftover(&store, session.as_str());
    }
}

impl MetricsSource for LocalToolHostFactory {
    fn tools(&self) -> BTreeMap<String, ToolStats> {
        self.metrics.tools()
    }

    fn sessions(&self) -> BTreeMap<String, SessionCallStats> {
        self.metrics.sessions()
    }

    fn queue_depth(&self) -> u64 {
        self.sum_over_hosts(ToolHost::queue_depth)
    }

    fn in_flight(&self) -> u64 {
        self.sum_over_hosts(ToolHost::in_flight)
    }
}

/// What the tool backend of a session at this terminal is opened with.
pub(crate) struct TerminalBackendRequest<'a> {
    pub(crate) session: &'a SessionInfo,
    pub(crate) cwd: &'a Path,
    /// Settings files to use instead of the usual ones.
    pub(crate) settings_files: &'a [PathBuf],
    pub(crate) mode: Option<PermissionMode>,
    pub(crate) result_lifetime: ResultLifetime,
    /// The grants that it starts with.
    pub(crate) grants: Vec<GrantRecord>,
    /// Stores later grants; without it they last as long as the process.
    pub(crate) grant_store: Option<Arc<StoredGrants>>,
}

/// How to ask for approval on this terminal.
#[derive(Clone)]
pub(crate) struct TerminalPromptOptions {
    /// Whether `--yes` approves everything.
    pub(crate) yes: bool,
    /// Whether stdin carries the prompt, so that answers are read from the terminal.
    pub(crate) takes_stdin: bool,
    /// Lets one question at a time use the terminal.
    pub(crate) turn: PromptTurn,
    /// Whether `--yes` has let a run that repeats itself continue.
    pub(crate) continued: Arc<AtomicBool>,
}

impl TerminalPromptOptions {
    pub(crate) fn answer_source(&self, app: &AppContext) -> Option<AnswerSource> {
        match self.takes_stdin {
            true => app.terminal.tty_answer_source(),
            false => app.terminal.answer_source(),
        }
    }

    /// Asks a yes/no question of the gateway. Without a terminal, the answer is no. `--yes` answers
    /// yes once: no user sees repeated calls, so the run must not go on until its last turn.
    pub(crate) async fn resolve_approval(
        &self,
        app: &AppContext,
        request: &ApprovalRequest,
        withdrawal: &WithdrawalNote,
    ) -> (String, ApprovalAnswer) {
        let id = request.id.clone();
        if self.yes
            && let Some(hosts) = list_unseen_hosts(request)
        {
            app.terminal.print_note(&format!(
                "rejected `{}`: `--yes` does not approve hosts that the user has not seen ({}); approve the call in a terminal, or add rules such as `WebFetch(domain:HOST)` at the gateway",
                escape_line(&request.title),
                escape_line(&hosts)
            ));
            return (id, ApprovalAnswer::RejectOnce);
        }
        if self.yes {
            return match self.continued.swap(true, Ordering::Relaxed) {
                false => (id, ApprovalAnswer::AllowOnce),
                true => (id, ApprovalAnswer::RejectOnce),
            };
        }
        let Some(answers) = self.answer_source(app) else {
            return (id, ApprovalAnswer::RejectOnce);
        };
        let turn = self.turn.begin().await;
        app.terminal.print_note(&request.reason);
        let question = format!("{}?", escape_line(&request.title));
        let stream = app.terminal.err.clone();
        let dialog = DialogRun {
            stream: &app.terminal.err,
            answers: &answers,
            signal_keys: SignalKeys::SendSignals,
            withdrawal: &|| {
                let reason = withdrawal.reason().unwrap_or(QuestionWithdrawal::CallCancelled);
                reason.to_string()
            },
        };
        let answer = dialog.run(&turn, move |keys| {
            let choices = [KeyChoice::new('y', "yes"), KeyChoice::new('n', "no")];
            ask_for_key(&stream, keys, &question, &choices)
        });
        match answer.await {
            Some(KeyOutcome::Chosen('y')) => (id, ApprovalAnswer::AllowOnce),
            _ => (id, ApprovalAnswer::RejectOnce),
        }
    }

    /// Elicitor for questions other than approvals. `--yes` does not answer them.
    pub(crate) fn elicitor(
        &self,
        app: &AppContext,
        withdrawal: WithdrawalNote,
    ) -> Arc<dyn Elicitor> {
        match self.answer_source(app) {
            Some(answers) => {
                let turn = self.turn.clone();
                elicitation::terminal_elicitor(&app.terminal, answers, turn, withdrawal)
            }
            None => Arc::new(UnavailableElicitor),
        }
    }
}

/// The hosts of a request that only configuration files name, or to which a command that runs
/// connects; `None` if there are none. The tool host cannot tell an answer of `--yes` from one of a
/// user, who has seen them.
fn list_unseen_hosts(request: &ApprovalRequest) -> Option<String> {
    let is_connection = request.subject == ApprovalSubject::Connection;
    let is_unseen = |effect: &&ApprovalEffect| {
        effect.kind == "net"
            && effect.verdict == zero_policy::Verdict::Ask.as_str()
            && (is_connection || effect.origin == EffectOrigin::Configuration)
    };
    let hosts: Vec<&str> =
        request.effects.iter().filter(is_unseen).map(|effect| effect.target.as_str()).collect();
    (is_connection || !hosts.is_empty()).then(|| hosts.join(", "))
}

impl AppContext {
    /// Tool backend for a session that asks for approval on this terminal.
    pub(crate) fn local_backend(
        &self,
        request: TerminalBackendRequest<'_>,
        asking: &TerminalPromptOptions,
    ) -> anyhow::Result<(Arc<dyn ToolBackend>, Arc<McpServerSet>)> {
        let TerminalBackendRequest {
            session,
            cwd,
            settings_files,
            mode,
            result_lifetime,
            grants,
            grant_store,
        } = request;
        let tool_host_factory = LocalToolHostFactory::new(self.clone(), settings_files.to_vec());
        let approver = self.terminal_approver(asking, self.rule_files(cwd, settings_files)?);
        let order = ToolBackendRequest {
            session: SessionId::new(session.session_id.clone())?,
            owner: None,
            cwd: cwd.to_owned(),
            folder_access: FolderAccess::Anywhere,
            mode,
            approver: Arc::new(TerminalCallApprover { approver, grants: grant_store }),
            elicitor: asking.elicitor(self, WithdrawalNote::default()),
            grants,
            result_lifetime,
        };
        let opened = tool_host_factory.open_backend(order, EditorExtras::default())??;
        Ok((Arc::new(opened.backend), opened.servers))
    }

    /// Tool backend that lists the tools of a session, and lets no call through.
    pub(crate) fn listing_backend(
        &self,
        session: &SessionInfo,
        cwd: &Path,
    ) -> anyhow::Result<Arc<dyn ToolBackend>> {
        let tool_host_factory = LocalToolHostFactory::new(self.clone(), Vec::new());
        let approver = Arc::new(DenyAllApprover { how_to_allow: "use `zero run`".to_owned() });
        let order = ToolBackendRequest {
            session: SessionId::new(session.session_id.clone())?,
            owner: None,
            cwd: cwd.to_owned(),
            folder_access: FolderAccess::Anywhere,
            mode: Some(PermissionMode::Plan),
            approver: Arc::new(TerminalCallApprover { approver, grants: None }),
            elicitor: Arc::new(UnavailableElicitor),
            grants: Vec::new(),
            result_lifetime: ResultLifetime::Session,
        };
        Ok(Arc::new(tool_host_factory.open_backend(order, EditorExtras::default())??.backend))
    }

    /// The settings files that rules can be added to; none if other files replace them.
    fn rule_files(&self, cwd: &Path, settings_files: &[PathBuf]) -> anyhow::Result<Vec<RuleFile>> {
        if !settings_files.is_empty() {
            return Ok(Vec::new());
        }
        let workspace = self.config.open_workspace(&[cwd.to_owned()])?;
        let settings = self.load_settings(&workspace, &[])?;
        Ok(RuleFile::list(self, &workspace, &settings))
    }

    fn terminal_approver(
        &self,
        asking: &TerminalPromptOptions,
        rule_files: Vec<RuleFile>,
    ) -> Arc<dyn Approver> {
        match asking.answer_source(self) {
            _ if asking.yes => Arc::new(AutoApprover { name: "--yes" }),
            Some(answers) => Arc::new(TerminalApprover {
                terminal: self.terminal.clone(),
                answers,
                turn: asking.turn.clone(),
                rule_files,
            }),
            None => Arc::new(DenyAllApprover { how_to_allow: HOW_TO_ALLOW_IN_RUN.to_owned() }),
        }
    }
}

/// Asks on this terminal.
struct TerminalCallApprover {
    approver: Arc<dyn Approver>,
    /// Where grants are stored; without it they last as long as the process.
    grants: Option<Arc<StoredGrants>>,
}

impl CallApprover for TerminalCallApprover {
    fn name(&self) -> &str {
        self.approver.name()
    }

    fn is_person(&self) -> bool {
        self.approver.is_person()
    }

    fn can_leave_sandbox(&self) -> bool {
        self.approver.can_leave_sandbox()
    }

    fn unattended_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        self.approver.unreachable_hint(question)
    }

    fn ask<'a>(
        &'a self,
        _call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        self.approver.ask(question)
    }

    fn can_review_trials(&self) -> bool {
        self.approver.can_review_trials()
    }

    fn review_trial<'a>(&'a self, review: &'a TrialReview) -> BoxFuture<'a, TrialVerdict> {
        self.approver.review_trial(review)
    }

    fn ask_for_reply<'a>(
        &'a self,
        _call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalReply> {
        self.approver.ask_for_reply(question)
    }

    fn store_grants(&self, grants: Vec<GrantRecord>) {
        if let Some(stored) = &self.grants {
            stored.replace(grants);
        }
    }

    fn take_revoked_grants(&self) -> BoxFuture<'_, Vec<GrantRecord>> {
        match &self.grants {
            Some(stored) => Box::pin(stored.take_revoked()),
            None => Box::pin(std::future::ready(Vec::new())),
        }
    }
}

/// Elicitor without a user; every question is cancelled.
struct UnavailableElicitor;

impl Elicitor for UnavailableElicitor {
    fn is_reachable(&self) -> bool {
        false
    }

    fn elicit<'a>(
        &'a self,
        _elicitation: &'a zero_runtime::Elicitation,
    ) -> BoxFuture<'a, zero_runtime::ElicitationAnswer> {
        Box::pin(std::future::ready(zero_runtime::ElicitationAnswer::Cancel))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use zero_sandbox::ConfigFile;

    use super::*;
    use crate::environment::EnvironmentConfig;
    use crate::terminal::Terminal;

    #[test]
    fn yes_approves_no_host_that_only_files_name() {
        let effect = |kind: &str, verdict: &str, origin| ApprovalEffect {
            kind: kind.to_owned(),
            target: "a.test".to_owned(),
            verdict: verdict.to_owned(),
            reason: String::new(),
            origin,
        };
        let request = |subject, effects| ApprovalRequest {
            id: "ask_1".to_owned(),
            subject,
            call: "c1".to_owned(),
            tool: "Bash".to_owned(),
            title: "Install packages".to_owned(),
            reason: String::new(),
            risk: "high".to_owned(),
            commands: vec!["npm ci".to_owned()],
            effects,
            preview: None,
            input: None,
            options: Vec::new(),
            cwd: "/w".to_owned(),
            expires_ms: 0,
            subagent: None,
        };
        use EffectOrigin::{Call, Configuration};
        for (subject, kind, verdict, origin, expected) in [
            (ApprovalSubject::Call, "net", "ask", Configuration, Some("a.test")),
            (ApprovalSubject::Call, "net", "allow", Configuration, None),
            (ApprovalSubject::Call, "net", "ask", Call, None),
            (ApprovalSubject::Call, "exec", "ask", Call, None),
            (ApprovalSubject::Connection, "net", "ask", Call, Some("a.test")),
        ] {
            let found = list_unseen_hosts(&request(subject, vec![effect(kind, verdict, origin)]));
            assert_eq!(found.as_deref(), expected, "{subject:?} {kind} {verdict} {origin:?}");
        }
    }

    fn make_factory(folder: &Path) -> LocalToolHostFactory {
        let app = AppContext {
            config: EnvironmentConfig::for_test(folder),
            terminal: Terminal::for_test(),
            tools: Arc::new(LazyLock::new(zero_tools::builtin_tools)),
            notifiers: Arc::default(),
            console: Arc::default(),
            gateway_locality: Arc::default(),
        };
        LocalToolHostFactory::new(app, Vec::new())
    }

    fn open_host(workshop: &LocalToolHostFactory, folder: &Path) -> Arc<ConfiguredHost> {
        let workspace = workshop.open_workspace(folder, &[]).unwrap();
        let settings = workshop.app.load_settings(&workspace, &[]).unwrap();
        workshop
            .configured_host(workspace, &settings, &[], Vec::new(), Arc::new(UnavailableElicitor))
            .unwrap()
    }

    #[cfg(feature = "lsp")]
    fn language_servers(fitted: &ConfiguredHost) -> Arc<LanguageServers> {
        fitted.host.extension().unwrap()
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test puts its folders there")]
    async fn prewarmed_host_is_shared_while_held() {
        let temp = tempfile::tempdir().unwrap();
        let work = temp.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let workshop = make_factory(temp.path());
        let ready = workshop.prewarm(&work, &[]).unwrap().unwrap();
        let hosts = || {
            let hosts = workshop.lock();
            hosts.shared.values().filter(|host| host.strong_count() > 0).count()
        };
        assert_eq!(hosts(), 1);
        let opened = open_host(&workshop, &work);
        drop(ready);
        assert!(Arc::ptr_eq(&opened, &open_host(&workshop, &work)), "the one that was made ready");
        drop(opened);
        assert_eq!(hosts(), 0);
        // Those to which servers bring tools are not shared.
        let own = ConfigFile::Own(workshop.app.config.settings_file().unwrap());
        own.write(br#"{"mcpServers": {"a": {"command": "no-such-program"}}}"#).unwrap();
        assert!(workshop.prewarm(&work, &[]).unwrap().is_none());
    }

    #[cfg(feature = "lsp")]
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test puts its folders there")]
    async fn private_hosts_share_language_servers_until_settings_change() {
        let temp = tempfile::tempdir().unwrap();
        let (work, other) = (temp.path().join("work"), temp.path().join("other"));
        for folder in [&work, &other] {
            std::fs::create_dir(folder).unwrap();
        }
        let workshop = make_factory(temp.path());
        let own = ConfigFile::Own(workshop.app.config.settings_file().unwrap());
        let server = r#""mcpServers": {"a": {"command": "no-such-program"}}"#;
        own.write(format!("{{{server}}}").as_bytes()).unwrap();
        let (first, second) = (open_host(&workshop, &work), open_host(&workshop, &work));
        assert!(!Arc::ptr_eq(&first.host, &second.host), "each asks a person of its own");
        assert!(Arc::ptr_eq(&language_servers(&first), &language_servers(&second)));
        // They stay with the remaining host.
        let shared = language_servers(&second);
        drop(first);
        assert!(Arc::ptr_eq(&shared, &language_servers(&open_host(&workshop, &work))));
        assert!(!Arc::ptr_eq(&shared, &language_servers(&open_host(&workshop, &other))));
        let denied = format!(r#"{{{server}, "permissions": {{"deny": ["Read(secret)"]}}}}"#);
        own.write(denied.as_bytes()).unwrap();
        assert!(
            !Arc::ptr_eq(&shared, &language_servers(&open_host(&workshop, &work))),
            "rules hide files"
        );
    }
}
