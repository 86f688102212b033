//! What does the work of sessions on this machine: a host for each folder, with the tools, rules and
//! servers of that folder's settings.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use zero_acp::SessionMcpServer;
use zero_core::SessionId;
use zero_core::event::ApprovalRequest;
use zero_gateway::MetricsSource;
use zero_lsp::LanguageServers;
use zero_mcp::client::McpServerSet;
use zero_policy::PermissionMode;
use zero_runtime::metrics::{CallMetrics, ToolStats};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, Editor, Elicitor, ToolHost, ToolHostConfig,
};
use zero_sandbox::Workspace;
use zero_session::folder_access::FolderAccess;
use zero_session::store::GrantRecord;
use zero_session::tool_backend::local_backend::{
    DialectCache, LocalToolBackend, LocalToolBackendConfig,
};
use zero_session::tool_backend::{
    CallApprover, ToolBackend, ToolBackendError, ToolBackendFactory, ToolBackendRequest,
};
use zero_settings::WorkspaceSettings;
use zero_wire::zero_sessions::SessionInfo;

use crate::AppContext;
use crate::approval::{AutoApprover, DenyAllApprover, TerminalApprover, elicitation};
use crate::exit::UsageError;
use crate::external_tools::ExternalTools;
use crate::terminal::{AnswerSource, ElapsedCounter, escape_line};

/// How to allow what was denied because nobody could be asked.
const HOW_TO_ALLOW: &str =
    "use a client that can be asked, choose another mode, or allow it by a rule in settings";
/// How to allow it where `zero run` could have asked.
const HOW_TO_ALLOW_IN_RUN: &str = "run it with `--yes`, or from a terminal to be asked";

/// Makes hands. Sessions of one folder share a host as long as its settings stay as they are, unless
/// servers bring tools to it: those ask the person of one session.
pub(crate) struct LocalToolHostFactory {
    app: AppContext,
    settings_files: Vec<PathBuf>,
    dialects: Arc<DialectCache>,
    hosts: Mutex<HostCache>,
    /// What all calls count in, whichever host makes them.
    metrics: Arc<CallMetrics>,
}

/// What an editor adds to an order.
#[derive(Default)]
pub(crate) struct EditorExtras {
    /// Further folders of the project.
    pub(crate) additional: Vec<PathBuf>,
    /// Its buffers, where it shares them.
    pub(crate) editor: Option<Arc<dyn Editor>>,
    /// The servers that it names for the session.
    pub(crate) servers: Vec<SessionMcpServer>,
}

/// Hands, and how much the settings there let be done without asking.
pub(crate) struct ConfiguredToolBackend {
    pub(crate) hands: LocalToolBackend,
    pub(crate) own_mode: PermissionMode,
    /// What brings further tools to them.
    pub(crate) servers: Arc<McpServerSet>,
}

/// The hosts that somebody works with.
#[derive(Default)]
struct HostCache {
    /// By the folders they work in.
    shared: HashMap<Vec<PathBuf>, Weak<ConfiguredHost>>,
    own: Vec<Weak<ConfiguredHost>>,
    /// The language servers of hosts, by the folders and the settings that those were made for.
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

    /// Has a host ask the language servers that others of the same folders and settings ask: each holds
    /// a whole project in memory.
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

/// A host, and what brings tools to it.
struct ConfiguredHost {
    host: Arc<ToolHost>,
    outside: ExternalTools,
    /// The settings it was made by.
    settings: String,
}

impl Drop for ConfiguredHost {
    fn drop(&mut self) {
        // Nobody works with it any more: its servers end. Without a runtime they never began.
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

    /// A figure of all hosts that are at work, together.
    fn sum_over_hosts(&self, figure: impl Fn(&ToolHost) -> usize) -> u64 {
        let hosts = self.lock();
        let alive = hosts.shared.values().chain(&hosts.own).filter_map(Weak::upgrade);
        alive.map(|fitted| figure(&fitted.host) as u64).sum()
    }

    /// Hands for a session, without anything that goes over a wire.
    pub(crate) fn open_backend(
        &self,
        order: ToolBackendRequest,
        extras: EditorExtras,
    ) -> anyhow::Result<Result<ConfiguredToolBackend, ToolBackendError>> {
        let EditorExtras { additional, editor, servers } = extras;
        let workspace = self.open_workspace(&order.cwd, &additional)?;
        if let Err(error) = order.reach.check_folder(workspace.cwd()) {
            return Ok(Err(error.into()));
        }
        let settings = self.app.load_settings(&workspace, &self.settings_files)?;
        let elicitor = Arc::clone(&order.elicitor);
        let fitted = self.configured_host(workspace, &settings, &servers, elicitor)?;
        let servers = Arc::clone(&fitted.outside.servers);
        let own_folder = self.app.config.settings_file().ok();
        let hands = LocalToolBackend::new(LocalToolBackendConfig {
            host: Arc::clone(&fitted.host),
            session: order.session,
            dialects: Arc::clone(&self.dialects),
            approver: order.approver,
            elicitor: Some(order.elicitor),
            mode: order.mode,
            standing: order.standing,
            editor,
            own_folder: own_folder.and_then(|file| file.parent().map(Path::to_owned)),
            keep: Box::new(fitted) as Box<dyn Any + Send + Sync>,
        });
        Ok(hands.map(|hands| ConfiguredToolBackend { hands, own_mode: settings.mode(), servers }))
    }

    /// Makes the host of these folders, if sessions there share one. They find it as long as what is
    /// given is kept.
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
        self.configured_host(workspace, &settings, &[], Arc::new(UnavailableElicitor)).map(Some)
    }

    /// Opens a folder and further ones; those that lie in one that is there already add nothing.
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
        elicitor: Arc<dyn Elicitor>,
    ) -> anyhow::Result<Arc<ConfiguredHost>> {
        let brings_tools = settings.has_external_tools() || !servers.is_empty();
        let folders: Vec<PathBuf> = workspace.roots().map(Path::to_owned).collect();
        // A key may be another file tomorrow, without another word in the settings.
        let secret_files = self.app.secret_files(settings);
        let made_by = serde_json::to_string(&(settings.entries(), secret_files))?;
        if !brings_tools
            && let Some(fitted) = self.lock().shared.get(&folders).and_then(Weak::upgrade)
            && fitted.settings == made_by
        {
            return Ok(fitted);
        }
        let policy = self.app.build_policy(&workspace, settings, None)?;
        let commands = self.app.command_settings(settings, workspace.cwd());
        let mut config = ToolHostConfig::new(workspace, self.app.config.state_dir()?);
        settings.apply_limits(&mut config.limits);
        config.policy = policy;
        config.commands = commands;
        config.how_to_allow = HOW_TO_ALLOW.to_owned();
        config.metrics = Arc::clone(&self.metrics);
        let host = Arc::new(self.app.build_host(config, settings)?);
        self.lock().share_language_servers(&host, &folders, &made_by);
        let outside = self.app.external_tools_with(&host, settings, servers, Some(elicitor));
        outside.register_known();
        outside.start_unknown();
        let fitted = Arc::new(ConfiguredHost { host, outside, settings: made_by });
        self.lock().add(folders, &fitted, brings_tools);
        Ok(fitted)
    }

    fn lock(&self) -> MutexGuard<'_, HostCache> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a workshop make the hands of sessions, where nobody waits for the disk.
pub(crate) struct LocalToolBackendFactory(pub(crate) Arc<LocalToolHostFactory>);

impl ToolBackendFactory for LocalToolBackendFactory {
    fn open(
        &self,
        order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        let workshop = Arc::clone(&self.0);
        let opening = tokio::task::spawn_blocking(move || {
            workshop.open_backend(order, EditorExtras::default())
        });
        Box::pin(async move {
            let opened = opening.await.map_err(anyhow::Error::from).flatten();
            let opened = opened
                .unwrap_or_else(|error| Err(ToolBackendError::Workspace(format!("{error:#}"))));
            opened.map(|opened| Arc::new(opened.hands) as Arc<dyn ToolBackend>)
        })
    }
}

impl MetricsSource for LocalToolHostFactory {
    fn tools(&self) -> BTreeMap<String, ToolStats> {
        self.metrics.tools()
    }

    fn queue_depth(&self) -> u64 {
        self.sum_over_hosts(ToolHost::queue_depth)
    }

    fn in_flight(&self) -> u64 {
        self.sum_over_hosts(ToolHost::in_flight)
    }
}

/// How the person at this terminal is asked.
#[derive(Clone)]
pub(crate) struct TerminalPromptOptions {
    /// Whether they said yes beforehand.
    pub(crate) yes: bool,
    /// Whether stdin is taken.
    pub(crate) takes_stdin: bool,
    /// What counts the seconds meanwhile.
    pub(crate) counter: ElapsedCounter,
}

impl TerminalPromptOptions {
    fn answer_source(&self, app: &AppContext) -> Option<AnswerSource> {
        match self.takes_stdin {
            true => app.terminal.tty_answer_source(),
            false => app.terminal.answer_source(),
        }
    }

    /// Asks what only yes and no answer. Where nobody is, the answer is no.
    pub(crate) fn resolve_approval(
        &self,
        app: &AppContext,
        request: &ApprovalRequest,
    ) -> (String, ApprovalAnswer) {
        let id = request.id.clone();
        if self.yes {
            return (id, ApprovalAnswer::AllowOnce);
        }
        let Some(answers) = self.answer_source(app) else {
            return (id, ApprovalAnswer::RejectOnce);
        };
        self.counter.stop();
        app.terminal.print_note(&request.reason);
        let question = format!("{}?", escape_line(&request.title));
        match app.terminal.ask(&answers, &question, "y/N").as_deref() {
            Some("y" | "yes") => (id, ApprovalAnswer::AllowOnce),
            _ => (id, ApprovalAnswer::RejectOnce),
        }
    }

    /// Who is asked something that is no permission. `--yes` answers no such question.
    pub(crate) fn elicitor(&self, app: &AppContext) -> Arc<dyn Elicitor> {
        match self.answer_source(app) {
            Some(answers) => {
                elicitation::terminal_elicitor(&app.terminal, answers, self.counter.clone())
            }
            None => Arc::new(UnavailableElicitor),
        }
    }
}

impl AppContext {
    /// Hands for a session whose person sits at this terminal.
    pub(crate) fn local_backend(
        &self,
        session: &SessionInfo,
        cwd: &Path,
        settings_files: &[PathBuf],
        mode: Option<PermissionMode>,
        asking: &TerminalPromptOptions,
    ) -> anyhow::Result<Arc<dyn ToolBackend>> {
        let workshop = LocalToolHostFactory::new(self.clone(), settings_files.to_vec());
        let approver = self.terminal_approver(asking.yes, asking.answer_source(self));
        let order = ToolBackendRequest {
            session: SessionId::new(session.session_id.clone())?,
            cwd: cwd.to_owned(),
            reach: FolderAccess::Anywhere,
            mode,
            approver: Arc::new(TerminalCallApprover {
                approver,
                counter: asking.counter.clone(),
                turn: tokio::sync::Mutex::default(),
            }),
            elicitor: asking.elicitor(self),
            standing: Vec::new(),
        };
        Ok(Arc::new(workshop.open_backend(order, EditorExtras::default())??.hands))
    }

    fn terminal_approver(&self, yes: bool, answers: Option<AnswerSource>) -> Arc<dyn Approver> {
        match answers {
            _ if yes => Arc::new(AutoApprover { name: "--yes" }),
            Some(answers) => {
                Arc::new(TerminalApprover { terminal: self.terminal.clone(), answers })
            }
            None => Arc::new(DenyAllApprover { how_to_allow: HOW_TO_ALLOW_IN_RUN.to_owned() }),
        }
    }
}

/// Asks at this terminal, one question after another.
struct TerminalCallApprover {
    approver: Arc<dyn Approver>,
    counter: ElapsedCounter,
    turn: tokio::sync::Mutex<()>,
}

impl CallApprover for TerminalCallApprover {
    fn name(&self) -> &str {
        self.approver.name()
    }

    fn unattended_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        self.approver.unreachable_hint(question)
    }

    fn ask<'a>(
        &'a self,
        _call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            self.counter.stop();
            self.approver.ask(question).await
        })
    }

    fn store_grants(&self, _standing: Vec<GrantRecord>) {
        // What is settled here lasts as long as this program.
    }
}

/// Stands where nobody can be asked on behalf of somebody.
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

    fn make_factory(folder: &Path) -> LocalToolHostFactory {
        let app = AppContext {
            config: EnvironmentConfig::for_test(folder),
            terminal: Terminal::for_test(),
            tools: Arc::new(LazyLock::new(zero_tools::builtin_tools)),
        };
        LocalToolHostFactory::new(app, Vec::new())
    }

    fn open_host(workshop: &LocalToolHostFactory, folder: &Path) -> Arc<ConfiguredHost> {
        let workspace = workshop.open_workspace(folder, &[]).unwrap();
        let settings = workshop.app.load_settings(&workspace, &[]).unwrap();
        workshop.configured_host(workspace, &settings, &[], Arc::new(UnavailableElicitor)).unwrap()
    }

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
        // They stay with whoever is left.
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
