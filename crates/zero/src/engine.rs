//! The sessions of this machine: where they are kept, which models and agents there are, and what
//! does the work of those whose tools run here.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use zero_gateway::{AuthConfig, GatewayConfig, GatewayLimits};
use zero_sandbox::StateDir;
use zero_sandbox::lease::{self, Lease};
use zero_session::agent::Agents;
use zero_session::local_bus::LocalBus;
use zero_session::model::catalogue::{self, ModelConfig, Models};
use zero_session::nodes::Nodes;
use zero_session::sessions::{SessionLimits, Sessions, SessionsConfig};
use zero_session::sqlite_store::SqliteStore;

use crate::App;
use crate::exit::UsageError;
use crate::settings::Settings;
use crate::workshop::{Workshop, WorkshopHands};

/// Shelf of the processes that run sessions, one folder each while it lives.
const NODES: &str = "nodes";
/// The file that holds all sessions.
pub(crate) const STORE: &str = "sessions.sqlite";

impl App {
    /// A gateway in front of the sessions of this machine. `cwd` is the folder of those that name
    /// none.
    pub(crate) async fn gateway(
        &self,
        settings: &Settings,
        settings_files: &[PathBuf],
        cwd: PathBuf,
        auth: AuthConfig,
    ) -> anyhow::Result<GatewayConfig> {
        let workshop = Arc::new(Workshop::new(self.clone(), settings_files.to_vec()));
        let state = self.config.state()?;
        // Another process may have the file for a while, and then others are served all the same.
        let opening = tokio::task::spawn_blocking(move || {
            let store = SqliteStore::open(&state.path().join(STORE))?;
            let node =
                ThisProcess::begin(state).context("could not take a name among processes")?;
            anyhow::Ok((store, node))
        });
        let (store, node) = opening.await.context("zero is shutting down")??;
        let sessions = Sessions::start(SessionsConfig {
            store: Arc::new(store),
            bus: Arc::new(LocalBus::new()),
            agents: self.agents(settings)?,
            models: self.models(settings)?,
            hands: Arc::new(WorkshopHands(Arc::clone(&workshop))),
            cwd,
            nodes: Arc::new(node),
            limits: session_limits(settings),
        });
        Ok(GatewayConfig {
            sessions: sessions.await?,
            auth,
            limits: GatewayLimits::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            tool_metrics: workshop,
        })
    }

    /// The models of settings and environment.
    fn models(&self, settings: &Settings) -> Result<Models, UsageError> {
        let (configs, default) = self.model_configs(settings);
        Ok(Models::trusting(settings.extra_roots(&self.config)?, configs, default))
    }

    /// How those are reached, and which is the usual one.
    pub(crate) fn model_configs(&self, settings: &Settings) -> (Vec<ModelConfig>, Option<String>) {
        let environment = |name: &str| self.config.variable(name).map(str::to_owned);
        let mut configs = catalogue::from_environment(&environment);
        configs.extend(settings.models(&self.config));
        let chosen = match environment("ZERO_MODEL") {
            Some(_) => None,
            None => settings.default_model(),
        };
        let default = chosen.or_else(|| catalogue::chosen(&environment, &configs));
        (configs, default)
    }

    pub(crate) fn agents(&self, settings: &Settings) -> Result<Agents, UsageError> {
        let agents = Agents::new(settings.agents(), settings.default_agent());
        let default = agents.default_id();
        if agents.get(default).is_none() {
            let known: Vec<&str> = agents.list().map(|agent| agent.id.as_str()).collect();
            return Err(UsageError(format!(
                "`agent` of the settings is `{default}`, which is none of {}; name one of these, or add it to `agents`",
                known.join(", ")
            )));
        }
        Ok(agents)
    }
}

/// This process among those that share the store. The kernel says when one is gone.
struct ThisProcess {
    state: StateDir,
    name: String,
    _lease: Lease,
}

impl ThisProcess {
    fn begin(state: StateDir) -> std::io::Result<Self> {
        let name = format!("{:016x}", fastrand::u64(..));
        let lease = Lease::take(&state, NODES, &name)?;
        Ok(Self { state, name, _lease: lease })
    }
}

impl Nodes for ThisProcess {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_alive(&self, node: &str) -> bool {
        // What a killed process left goes first, so that what is still there is alive.
        lease::sweep(&self.state, &[NODES]);
        self.state.child(NODES).names().is_ok_and(|names| names.iter().any(|name| name == node))
    }
}

/// The bounds of sessions, as far as settings name them.
fn session_limits(settings: &Settings) -> SessionLimits {
    let (usual, named) = (SessionLimits::default(), settings.gateway());
    SessionLimits {
        sessions_max: named.max_sessions.unwrap_or(usual.sessions_max),
        session_bytes_max: named.max_session_bytes.unwrap_or(usual.session_bytes_max),
        ..usual
    }
}
