//! Sessions on this machine: the store, the models and agents, and the local tool backends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zero_core::SessionId;
use zero_gateway::{AuthConfig, ConsoleConfig, GatewayConfig, GatewayLimits};
use zero_runtime::tool::BoxFuture;
use zero_sandbox::StateDir;
use zero_sandbox::folder_lease::{self, FolderLease};
use zero_session::agent::{AgentRegistry, DIRECT};
use zero_session::budget::BudgetRules;
use zero_session::event_bus::EventBus;
use zero_session::model::catalog::{self, ModelCatalog, ModelConfig, NO_MODEL_HELP};
use zero_session::node_membership::{NodeMembership, SessionLease};
use zero_session::notification::command_notifier::CommandNotifier;
use zero_session::notification::{Notifier, NotifyingBus, WebhookNotifier};
use zero_session::sessions::{
    RetentionRules, SessionLimits, SessionManager, SessionManagerConfig, SubagentLimits,
};
use zero_settings::WorkspaceSettings;
use zero_settings::budgets::BudgetSettings;

use crate::AppContext;
use crate::exit::UsageError;
use crate::paired_device_file::PairedDeviceFile;
use crate::session_store::{OpenStore, StoreChoice, remove_orphan_results};
use crate::settings_adapter::models;
use crate::settings_adapter::network::extra_roots;
use crate::terminal::escape_line;
use crate::tool_host_factory::{LocalToolBackendFactory, LocalToolHostFactory};

/// Folder with one subfolder per process that runs sessions, while it is alive.
const NODES_DIR: &str = "nodes";
/// Leases of the sessions whose tools a process serves: the id of the session and the name of the
/// process.
const SERVED_DIR: &str = "served-sessions";
const SERVER_SEPARATOR: char = '.';
/// Session store in the state folder.
pub(crate) const STORE_FILE: &str = "sessions.sqlite";

impl AppContext {
    /// Configuration of a gateway for the sessions on this machine. `cwd` is the folder of sessions
    /// that name none.
    pub(crate) async fn gateway_config(
        &self,
        settings: &WorkspaceSettings,
        settings_files: &[PathBuf],
        cwd: PathBuf,
        auth: AuthConfig,
        store: StoreChoice,
    ) -> anyhow::Result<GatewayConfig> {
        let tool_host_factory =
            Arc::new(LocalToolHostFactory::new(self.clone(), settings_files.to_vec()));
        let state = self.config.state_dir()?;
        let OpenStore { store, nodes, bus } = store.open(state.clone()).await?;
        remove_orphan_results(&state, &*store).await;
        let notifiers = self.make_notifiers(settings, &cwd)?;
        let bus: Arc<dyn EventBus> = match notifiers.is_empty() {
            true => bus,
            false => {
                let min_seconds = settings.notify().min_seconds();
                let console = Arc::clone(&self.console);
                Arc::new(NotifyingBus::new(bus, notifiers.clone(), min_seconds, console))
            }
        };
        // The first gateway in a process is the only one.
        let _ = self.notifiers.set(notifiers);
        let models = self.load_models(settings)?;
        for problem in fallback_problems(&models, settings) {
            let text = format!("{problem}; it does not stand in for another one");
            self.terminal.print_note(&escape_line(&text));
        }
        let sessions = SessionManager::start(SessionManagerConfig {
            store,
            bus,
            agents: self.load_agents(settings)?,
            models,
            backend_factory: Arc::new(LocalToolBackendFactory(Arc::clone(&tool_host_factory))),
            cwd,
            nodes,
            limits: session_limits(settings),
        });
        Ok(GatewayConfig {
            sessions: sessions.await?,
            auth,
            limits: gateway_limits(settings),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            tool_metrics: tool_host_factory,
            console: ConsoleConfig {
                devices: Arc::new(PairedDeviceFile::new(self.config.state_dir()?)),
                ..ConsoleConfig::default()
            },
        })
    }

    /// The webhook and the program of the user's settings.
    fn make_notifiers(
        &self,
        settings: &WorkspaceSettings,
        cwd: &Path,
    ) -> anyhow::Result<Vec<Arc<dyn Notifier>>> {
        let mut notifiers: Vec<Arc<dyn Notifier>> = Vec::new();
        if let Some(address) = settings.notify().webhook {
            let roots = extra_roots(settings, &self.config)?;
            let made = WebhookNotifier::new(address, &roots);
            notifiers.push(made.map_err(|error| {
                UsageError(format!("could not create an HTTP client: {error}"))
            })?);
        }
        match self.notification_program(settings, cwd) {
            Ok(None) => {}
            Ok(Some(program)) => notifiers.push(CommandNotifier::start(program)?),
            // Without it, everything else works.
            Err(error) => self.terminal.print_note(&format!("{error}; you are not notified by it")),
        }
        Ok(notifiers)
    }

    /// Models from settings and environment.
    fn load_models(&self, settings: &WorkspaceSettings) -> Result<ModelCatalog, UsageError> {
        let (configs, default) = self.model_configs(settings);
        let extra_roots = extra_roots(settings, &self.config)?;
        Ok(ModelCatalog::with_extra_roots(extra_roots, configs, default))
    }

    /// Why the model that ZERO_MODEL or the settings choose cannot be used; `None` if none is chosen.
    pub(crate) fn chosen_model_error(&self, settings: &WorkspaceSettings) -> Option<UsageError> {
        let (origin, name) = match self.config.variable("ZERO_MODEL").map(str::trim) {
            Some(name) if !name.is_empty() => ("ZERO_MODEL", name.to_owned()),
            _ => ("`model` in settings", settings.default_model()?),
        };
        let models = match self.load_models(settings) {
            Ok(models) => models,
            Err(error) => return Some(error),
        };
        let error = models.get(Some(&name)).err()?;
        let has_models = models.names().any(|name| name != DIRECT);
        let advice = if has_models { String::new() } else { format!("; {NO_MODEL_HELP}") };
        Some(UsageError(format!("{origin}: {error}{advice}")))
    }

    /// Model configurations, and the name of the default model.
    pub(crate) fn model_configs(
        &self,
        settings: &WorkspaceSettings,
    ) -> (Vec<ModelConfig>, Option<String>) {
        let environment = |name: &str| self.config.variable(name).map(str::to_owned);
        let mut configs = catalog::from_environment(&environment);
        configs.extend(models::model_configs(settings, &self.config));
        let chosen = match environment("ZERO_MODEL") {
            Some(_) => None,
            None => settings.default_model(),
        };
        let default = chosen.or_else(|| catalog::default_model_name(&environment, &configs));
        (configs, default)
    }

    pub(crate) fn load_agents(
        &self,
        settings: &WorkspaceSettings,
    ) -> Result<AgentRegistry, UsageError> {
        let agents = AgentRegistry::new(models::agent_profiles(settings), settings.default_agent());
        let default = agents.default_id();
        if agents.get(default).is_none() {
            let known: Vec<&str> = agents.list().map(|agent| agent.id.as_str()).collect();
            return Err(UsageError(format!(
                "`agent` in settings is `{default}`, which does not exist; use one of {}, or add it to `agents`",
                known.join(", ")
            )));
        }
        Ok(agents)
    }
}

/// This process in the list of processes that share the store. File locks detect dead ones.
pub(crate) struct ProcessNode {
    state: StateDir,
    name: String,
    _lease: FolderLease,
}

impl ProcessNode {
    pub(crate) fn register(state: StateDir) -> std::io::Result<Self> {
        let name = format!("{:016x}", fastrand::u64(..));
        let lease = FolderLease::acquire(&state, NODES_DIR, &name)?;
        Ok(Self { state, name, _lease: lease })
    }
}

impl NodeMembership for ProcessNode {
    fn local_name(&self) -> &str {
        &self.name
    }

    fn lease_session(&self, session: &SessionId) -> std::io::Result<Option<SessionLease>> {
        let name = format!("{session}{SERVER_SEPARATOR}{}", self.name);
        Ok(Some(Arc::new(FolderLease::acquire(&self.state, SERVED_DIR, &name)?)))
    }

    fn is_served_elsewhere(&self, session: &SessionId) -> bool {
        match list_servers(&self.state) {
            Ok(servers) => {
                servers.iter().any(|(served, node)| served == session && *node != self.name)
            }
            Err(_) => true,
        }
    }

    fn is_alive(&self, node: &str) -> BoxFuture<'_, bool> {
        // Remove entries of dead processes first; the remaining ones are alive.
        folder_lease::sweep(&self.state, &[NODES_DIR]);
        // What cannot be read does not prove that a process is dead.
        let names = self.state.child(NODES_DIR).list_names();
        let is_alive = names.map_or(true, |names| names.iter().any(|name| name == node));
        Box::pin(std::future::ready(is_alive))
    }
}

/// How many processes use the sessions of a state folder.
pub(crate) fn count_processes(state: &StateDir) -> std::io::Result<usize> {
    folder_lease::sweep(state, &[NODES_DIR]);
    let names = state.child(NODES_DIR).list_names()?;
    // A sweep is bounded, and may leave some of dead processes.
    Ok(names.iter().filter(|name| FolderLease::is_held(state, NODES_DIR, name)).count())
}

/// The sessions whose tools a live process serves, each with the name of that process.
fn list_servers(state: &StateDir) -> std::io::Result<Vec<(SessionId, String)>> {
    folder_lease::sweep(state, &[SERVED_DIR]);
    let names = state.child(SERVED_DIR).list_names()?;
    let served = names.into_iter().filter_map(|name| {
        let (session, node) = name.rsplit_once(SERVER_SEPARATOR)?;
        let server = (SessionId::new(session).ok()?, node.to_owned());
        // A sweep is bounded, and may leave some of dead processes.
        FolderLease::is_held(state, SERVED_DIR, &name).then_some(server)
    });
    Ok(served.collect())
}

/// The sessions whose tools a live process serves.
pub(crate) fn served_sessions(state: &StateDir) -> std::io::Result<Vec<SessionId>> {
    Ok(list_servers(state)?.into_iter().map(|(session, _)| session).collect())
}

/// Session limits from the settings.
fn gateway_limits(settings: &WorkspaceSettings) -> GatewayLimits {
    let mut limits = GatewayLimits::default();
    if let Some(seconds) = settings.gateway().tool_host_timeout_seconds {
        limits.tool_host_silence_max = Duration::from_secs(seconds);
    }
    limits
}

/// What is wrong with the models that settings let stand in for others. These are passed over.
pub(crate) fn fallback_problems(
    models: &ModelCatalog,
    settings: &WorkspaceSettings,
) -> Vec<String> {
    let agents = models::agent_profiles(settings);
    let of_agents = agents.iter().flat_map(|agent| {
        let names = agent.fallback.iter().flatten();
        names.map(|name| (format!("agents.{}", agent.id), name))
    });
    let of_models = models
        .fallbacks()
        .flat_map(|(model, names)| names.iter().map(move |name| (format!("models.{model}"), name)));
    let wrong = of_models.chain(of_agents);
    wrong.filter_map(|(owner, name)| models.check_fallback(&owner, name).err()).collect()
}

fn session_limits(settings: &WorkspaceSettings) -> SessionLimits {
    let (usual, named) = (SessionLimits::default(), settings.gateway());
    SessionLimits {
        sessions_max: named.max_sessions.unwrap_or(usual.sessions_max),
        session_bytes_max: named.max_session_bytes.unwrap_or(usual.session_bytes_max),
        owner_bytes_max: named.max_owner_bytes.unwrap_or(usual.owner_bytes_max),
        retention: retention_rules(settings),
        budgets: budget_rules(settings),
        subagents: subagent_limits(settings),
        ..usual
    }
}

fn subagent_limits(settings: &WorkspaceSettings) -> SubagentLimits {
    let (usual, named) = (SubagentLimits::default(), settings.subagents());
    SubagentLimits {
        parallel_max: named.max_parallel.unwrap_or(usual.parallel_max),
        depth_max: named.max_depth.unwrap_or(usual.depth_max),
    }
}

fn budget_rules(settings: &WorkspaceSettings) -> BudgetRules {
    let BudgetSettings { run, session, agent, owner } = settings.budgets();
    BudgetRules { run, session, agent, owner }
}

/// Which sessions the settings no longer keep.
pub(crate) fn retention_rules(settings: &WorkspaceSettings) -> RetentionRules {
    let named = settings.gateway().retention.unwrap_or_default();
    RetentionRules { idle_max: named.session_days.map(days), store_bytes_max: named.store_bytes }
}

/// A number of days.
pub(crate) fn days(count: u32) -> Duration {
    Duration::from_secs(u64::from(count) * 24 * 60 * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_is_served_elsewhere_until_its_lease_ends() {
        let temp = tempfile::tempdir().unwrap();
        let node = || ProcessNode::register(StateDir::new(temp.path())).unwrap();
        let (ours, theirs) = (node(), node());
        let [one, other] = ["one", "one.more"].map(|id| SessionId::new(id).unwrap());
        let lease = theirs.lease_session(&one).unwrap();
        assert!(ours.is_served_elsewhere(&one) && !ours.is_served_elsewhere(&other));
        assert!(!theirs.is_served_elsewhere(&one), "by this process itself");
        let both = ours.lease_session(&one).unwrap();
        assert_eq!(served_sessions(&ours.state).unwrap().len(), 2);
        drop(lease);
        assert!(!ours.is_served_elsewhere(&one) && theirs.is_served_elsewhere(&one));
        drop(both);
        assert_eq!(served_sessions(&ours.state).unwrap(), []);
    }
}
