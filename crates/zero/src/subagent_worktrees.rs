//! Gives sub-agents git worktrees of their own, each with a tool host that confines its sub-agent to it.
//!
//! The host has the rules, limits and trust of the parent's. Paths that rules deny in the parent's
//! folder are denied in the worktree, and the parent's repository is closed to the sub-agent.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use zero_core::SessionId;
use zero_exec::worktrees::{SubagentWorktree, WorktreeReport, WorktreeStore};
use zero_exec::{CommandSettings, HostCommands};
use zero_lsp::FolderTrustCheck;
use zero_policy::PolicyRule;
use zero_runtime::metrics::CallMetrics;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::ToolBackendError;
use zero_runtime::{Elicitor, ToolHost};
use zero_sandbox::Workspace;
use zero_session::local_backend::subagent_tools::{Worktree, WorktreeProvider, WorktreeTools};
use zero_settings::WorkspaceSettings;

use crate::AppContext;
use crate::error_chain::describe_error;
use crate::external_tools::ExternalTools;
use crate::folder_trust::check_trusted;

/// The folder of worktrees, beside zero's state: no command can use that.
const FOLDER: &str = "zero-worktrees";
/// Where the rules come from that close the repository of the parent.
const CLOSED_BY: &str = "the worktree of the sub-agent";
/// Most worktrees of killed processes that are finished when another one is made.
const LEFTOVERS_MAX: usize = 4;

impl AppContext {
    /// The worktrees of this machine's sub-agents. git is not searched in the workspace.
    pub(crate) fn worktree_store(
        &self,
        workspace: &Workspace,
        commands: CommandSettings,
    ) -> anyhow::Result<WorktreeStore> {
        let state = self.config.state_dir()?;
        let weaknesses = commands.weaknesses.clone();
        Ok(WorktreeStore {
            folder: state.path().with_file_name(FOLDER),
            home: self.config.home().map(Path::to_owned),
            search_path: HostCommands::new(commands, &state).trusted_search_path(workspace),
            state,
            weaknesses,
        })
    }
}

/// Makes worktrees for the sub-agents of sessions in one workspace.
pub(crate) struct SubagentWorktrees {
    pub(crate) app: AppContext,
    /// The workspace of the parent.
    pub(crate) workspace: Workspace,
    /// Its settings.
    pub(crate) settings: WorkspaceSettings,
    pub(crate) metrics: Arc<CallMetrics>,
    /// Asks the parent's user the questions of MCP servers.
    pub(crate) elicitor: Arc<dyn Elicitor>,
    /// Advice for calls about which no user can be asked.
    pub(crate) how_to_allow: &'static str,
}

impl SubagentWorktrees {
    /// Takes over the worktree of a sub-agent that waited for an answer.
    fn resume(&self, session: &str) -> anyhow::Result<(SubagentWorktree, Arc<ToolHost>)> {
        let commands = self.app.command_settings(&self.settings, self.workspace.cwd());
        let store = self.app.worktree_store(&self.workspace, commands)?;
        let worktree = store.take_over(session)?;
        // If it does not wait, an earlier process has made the branch, or is about to.
        let worktree = worktree.filter(|worktree| worktree.waits_for().is_some()).context(
            "the worktree in which the sub-agent waited is gone; after 30 days, its changes are on a branch of the repository",
        )?;
        let host = self.build_host(&worktree)?;
        Ok((worktree, host))
    }

    fn make(&self, session: &str, name: &str) -> anyhow::Result<(SubagentWorktree, Arc<ToolHost>)> {
        let commands = self.app.command_settings(&self.settings, self.workspace.cwd());
        let store = self.app.worktree_store(&self.workspace, commands)?;
        finish_leftovers(&store, LEFTOVERS_MAX);
        let worktree = store.open(session, name, self.workspace.cwd())?;
        match self.build_host(&worktree) {
            Ok(host) => Ok((worktree, host)),
            Err(error) => {
                worktree.discard();
                Err(error)
            }
        }
    }

    /// A host with the rights of the parent's, in the worktree and nowhere else.
    fn build_host(&self, worktree: &SubagentWorktree) -> anyhow::Result<Arc<ToolHost>> {
        let (app, settings, original) = (&self.app, &self.settings, self.workspace.cwd());
        let workspace = app.config.open_workspace(&[worktree.cwd().to_owned()])?;
        let copy = workspace.cwd().to_owned();
        let rules = self.list_rules(worktree)?;
        let policy = app.build_confined_policy(&workspace, settings, rules)?;
        let mut config = app.host_config(workspace, settings, None)?;
        config.policy = policy;
        config.how_to_allow = self.how_to_allow.to_owned();
        config.metrics = Arc::clone(&self.metrics);
        let commands = &mut config.commands;
        // Folders that all commands may change could contain the parent's files.
        commands.writable.clear();
        WorktreeStore::retain_bearable(&mut commands.weaknesses);
        for paths in [&mut commands.masked, &mut commands.protected] {
            let inside = paths.iter().filter_map(|path| path.strip_prefix(original).ok());
            let copies: Vec<PathBuf> = inside.map(|path| copy.join(path)).collect();
            paths.extend(copies);
        }
        let trust = self.trust_check(copy);
        Ok(Arc::new(app.build_host_with_trust(config, settings, trust)?))
    }

    /// The rules of the parent, those that say the same of the worktree, and those that close the
    /// parent's folders.
    fn list_rules(&self, worktree: &SubagentWorktree) -> anyhow::Result<Vec<PolicyRule>> {
        const NOT_TEXT: &str = "the path of the repository is not UTF-8 text, so rules cannot name it; leave out `isolation`";
        let (original, home) = (self.workspace.cwd(), self.app.config.home());
        let mut rules = self.settings.policy_rules();
        for rule in self.settings.policy_rules() {
            rules.extend(rule.for_copy_of(original, home).context(NOT_TEXT)?);
        }
        let roots = self.workspace.roots().map(Path::to_owned);
        for folder in worktree.parent_folders().into_iter().chain(roots) {
            rules.push(PolicyRule::deny_reading(&folder, CLOSED_BY).context(NOT_TEXT)?);
        }
        Ok(rules)
    }

    /// The worktree is trusted as far as the folder of the parent is.
    fn trust_check(&self, copy: PathBuf) -> FolderTrustCheck {
        let (config, original) = (self.app.config.clone(), self.workspace.cwd().to_owned());
        Arc::new(move |folder| {
            let state = config.state_dir().map_err(|error| error.to_string())?;
            let folder = if folder.starts_with(&copy) { original.as_path() } else { folder };
            check_trusted(&config, &state, folder)
        })
    }
}

/// A way to make worktrees that outlives the call.
pub(crate) struct SharedWorktrees(pub(crate) Arc<SubagentWorktrees>);

impl WorktreeProvider for SharedWorktrees {
    fn open(
        &self,
        session: &SessionId,
        name: &str,
    ) -> BoxFuture<'_, Result<WorktreeTools, ToolBackendError>> {
        let (maker, session) = (Arc::clone(&self.0), session.to_string());
        let name = name.to_owned();
        Box::pin(self.host("made", move || maker.make(&session, &name)))
    }

    fn reopen(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<WorktreeTools, ToolBackendError>> {
        let (maker, session) = (Arc::clone(&self.0), session.to_string());
        Box::pin(self.host("opened again", move || maker.resume(&session)))
    }
}

impl SharedWorktrees {
    async fn host(
        &self,
        verb: &'static str,
        make: impl FnOnce() -> anyhow::Result<(SubagentWorktree, Arc<ToolHost>)> + Send + 'static,
    ) -> Result<WorktreeTools, ToolBackendError> {
        let worktrees = &self.0;
        let made = tokio::task::spawn_blocking(make).await;
        let (worktree, host) = made.map_err(anyhow::Error::from).flatten().map_err(|error| {
            let why = describe_error(&error);
            ToolBackendError::Workspace(format!("no worktree could be {verb}: {why}"))
        })?;
        let elicitor = Arc::clone(&worktrees.elicitor);
        let (app, settings) = (&worktrees.app, &worktrees.settings);
        let outside = Arc::new(app.external_tools_with(&host, settings, &[], Some(elicitor)));
        outside.register_known();
        outside.start_unknown();
        let worktree = HostedWorktree {
            worktree: Arc::new(Mutex::new(Some(worktree))),
            outside: Arc::clone(&outside),
        };
        Ok(WorktreeTools { host, keep: Box::new(outside), worktree: Arc::new(worktree) })
    }
}

/// A worktree, and the servers that work in it.
struct HostedWorktree {
    /// Taken when it is closed.
    worktree: Arc<Mutex<Option<SubagentWorktree>>>,
    outside: Arc<ExternalTools>,
}

impl Worktree for HostedWorktree {
    fn close(&self) -> BoxFuture<'_, Result<Option<WorktreeReport>, ToolBackendError>> {
        Box::pin(async move {
            self.outside.servers.stop().await;
            let worktree = self.worktree.lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some(worktree) = worktree else { return Ok(None) };
            let closing = tokio::task::spawn_blocking(move || worktree.close());
            let closed = closing.await.map_err(anyhow::Error::from);
            let closed = closed.and_then(|closed| Ok(closed?));
            closed.map_err(|error| ToolBackendError::Workspace(describe_error(&error)))
        })
    }

    fn set_waiting(&self, waits: bool) -> BoxFuture<'_, ()> {
        let worktree = Arc::clone(&self.worktree);
        let set = move || {
            let mut worktree = worktree.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(worktree) = worktree.as_mut() else { return };
            if let Err(error) = worktree.set_waiting(waits) {
                tracing::warn!(%error, "a worktree does not outlive this process while its sub-agent waits");
            }
        };
        Box::pin(async move { drop(tokio::task::spawn_blocking(set).await) })
    }
}

/// Finishes worktrees whose processes were killed: their changes become a branch, too. Returns a line
/// for each one of which something is left.
pub(crate) fn finish_leftovers(store: &WorktreeStore, most: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for session in store.list().unwrap_or_default() {
        if lines.len() >= most {
            break;
        }
        lines.extend(finish_leftover(store, &session));
    }
    lines
}

/// Finishes the worktree of a session, if its process was killed.
pub(crate) fn finish_leftover(store: &WorktreeStore, session: &str) -> Option<String> {
    let line = match store.take_over(session) {
        Ok(None) => return None,
        // Its sub-agent goes on there, as long as an answer may come.
        Ok(Some(worktree)) if worktree.waits_for().is_some_and(|left| !left.is_zero()) => {
            return None;
        }
        Ok(Some(worktree)) => match worktree.kept_for() {
            Some(left) if left.is_zero() => {
                let branch = worktree.branch().to_owned();
                worktree.discard();
                format!("removed what was kept of a worktree besides its branch `{branch}`")
            }
            Some(_) => return None,
            None => match worktree.close() {
                Ok(None) => return None,
                Ok(Some(report)) => {
                    let branch = report.branch;
                    format!(
                        "the changes of a sub-agent that was killed are on the branch `{branch}`"
                    )
                }
                Err(error) => {
                    let why = describe_error(&anyhow::Error::from(error));
                    format!("a sub-agent was killed; {why}")
                }
            },
        },
        Err(error) => format!("the worktree of the session `{session}` cannot be used: {error}"),
    };
    tracing::warn!(session, "{line}");
    Some(line)
}
