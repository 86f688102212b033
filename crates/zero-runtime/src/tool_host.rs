//! A host: the tools, the judge and the bounds of one workspace.

use std::sync::{Arc, OnceLock};

use zero_core::{ExtraRootCertificates, HostLimits, SessionId, ToolError, ToolName};
use zero_exec::services::{ServiceHost, ServiceLauncher};
use zero_exec::{
    CommandLauncher, CommandSettings, HostCommands, ResolverConfig, SandboxProbeReport,
};
use zero_sandbox::{Journal, StateDir, Workspace};

use crate::admission::AdmissionController;
use crate::approver::Approver;
use crate::audit::{AuditLog, ConnectionAuditLog};
pub use crate::call_id::new_call_id;
use crate::circuit_breaker::CircuitBreakers;
use crate::elicitation::Elicitor;
use crate::hooks::{HookSet, HookSettings};
use crate::host_extensions::HostExtensions;
use crate::host_session::{ToolHostSession, ToolHostSessionConfig};
use crate::metrics::CallMetrics;
use crate::observer::CallEventObserver;
use crate::policy::{Policy, RiskPolicy};
use crate::registry::ToolRegistry;
use crate::service_rows::ServiceAuditor;
use crate::web::NetworkGuard;

/// What a host is made of.
pub struct ToolHostConfig {
    /// The folders it works in.
    pub workspace: Workspace,
    /// Where it keeps its own state.
    pub state: StateDir,
    /// Its bounds.
    pub limits: HostLimits,
    /// Its judge.
    pub policy: Arc<dyn Policy>,
    /// How to reach the person, for sessions that bring no way of their own; without one, what would
    /// be asked is denied.
    pub approver: Option<Arc<dyn Approver>>,
    /// How the person is asked what only they know, for sessions that bring no way of their own.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Who watches the calls of sessions that nobody else watches.
    pub observer: Option<Arc<dyn CallEventObserver>>,
    /// How a person would allow what was denied for want of an approver, for the message.
    pub how_to_allow: String,
    /// What holds for its commands.
    pub commands: CommandSettings,
    /// What has a say before its calls, and a word after them.
    pub hooks: HookSettings,
    /// What lies outside of this machine.
    pub internet: ResolverConfig,
    /// Certificates that are trusted there besides those of the machine.
    pub extra_roots: ExtraRootCertificates,
    /// Its counters; several hosts may count together.
    pub metrics: Arc<CallMetrics>,
}

impl ToolHostConfig {
    /// A host that judges by risk and reaches nobody.
    pub fn new(workspace: Workspace, state: StateDir) -> Self {
        Self {
            workspace,
            state,
            limits: HostLimits::default(),
            policy: Arc::new(RiskPolicy),
            approver: None,
            elicitor: None,
            observer: None,
            how_to_allow: "run it where a user can approve it".to_owned(),
            commands: CommandSettings::default(),
            hooks: HookSettings::default(),
            internet: ResolverConfig::default(),
            extra_roots: ExtraRootCertificates::default(),
            metrics: Arc::default(),
        }
    }
}

/// The tools, the judge and the bounds of one workspace. See [`crate::pipeline`] for what a call
/// goes through.
pub struct ToolHost {
    pub(crate) registry: Arc<ToolRegistry>,
    pub(crate) workspace: Workspace,
    pub(crate) state: StateDir,
    pub(crate) journal: Journal,
    pub(crate) limits: Arc<HostLimits>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
    pub(crate) observer: Option<Arc<dyn CallEventObserver>>,
    pub(crate) how_to_allow: String,
    pub(crate) commands: Arc<HostCommands>,
    pub(crate) hooks: Option<HookSet>,
    pub(crate) internet: ResolverConfig,
    pub(crate) guard: NetworkGuard,
    pub(crate) admission: AdmissionController,
    pub(crate) breakers: CircuitBreakers,
    pub(crate) audit: AuditLog,
    pub(crate) metrics: Arc<CallMetrics>,
    pub(crate) companions: Arc<HostExtensions>,
    recovered: OnceLock<()>,
    swept: OnceLock<()>,
}

impl ToolHost {
    /// A host without tools.
    pub fn new(config: ToolHostConfig) -> Self {
        let ToolHostConfig {
            workspace,
            state,
            limits,
            policy,
            approver,
            elicitor,
            observer,
            how_to_allow,
            commands,
            hooks,
            internet,
            extra_roots,
            metrics,
        } = config;
        Self {
            registry: Arc::default(),
            journal: Journal::new(&state, workspace.clone(), limits.file_bytes_max),
            admission: AdmissionController::new(&limits),
            breakers: CircuitBreakers::new(&limits),
            audit: AuditLog::new(&state),
            metrics,
            companions: Arc::default(),
            recovered: OnceLock::new(),
            swept: OnceLock::new(),
            commands: Arc::new(HostCommands::new(commands, &state)),
            hooks: HookSet::new(hooks),
            limits: Arc::new(limits),
            guard: NetworkGuard::new(Arc::clone(&policy), internet.clone())
                .with_extra_roots(extra_roots),
            workspace,
            state,
            policy,
            approver,
            elicitor,
            observer,
            how_to_allow,
            internet,
        }
    }

    /// Its tools.
    pub fn registry(&self) -> &Arc<ToolRegistry> {
        &self.registry
    }

    /// The folders it works in.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Where it keeps its own state.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// Its bounds.
    pub fn limits(&self) -> &HostLimits {
        &self.limits
    }

    /// What starts programs that run beside its calls.
    pub fn services(&self) -> ServiceLauncher {
        let workspace = self.workspace.clone();
        ServiceLauncher::new(ServiceHost {
            commands: Arc::clone(&self.commands),
            policy: self.policy.clone(),
            supervisor: Arc::new(ServiceAuditor::new(
                &self.state,
                Arc::clone(&self.policy),
                workspace.clone(),
            )),
            log: Arc::new(ConnectionAuditLog::new(&self.state, workspace.clone(), None)),
            internet: self.internet.clone(),
            state: self.state.clone(),
            workspace,
            limits: self.limits.command,
        })
    }

    /// Runs `true`, confined as the commands of `tool` are, and says what held. Where something
    /// cannot be enforced it runs nevertheless, so that all of it is known.
    pub fn probe_sandbox(&self, tool: &ToolName) -> Result<SandboxProbeReport, ToolError> {
        let session = self.open_one_shot_session()?;
        let launcher = CommandLauncher::new(
            &self.commands,
            &session.commands,
            self.policy.clone(),
            new_call_id(),
            self.limits.command_limits_for(tool),
        );
        zero_exec::probe_sandbox(launcher, session.workspace())
    }

    /// Keeps something that its tools share between calls: one of each type, as long as the host.
    pub fn insert_extension<T: Send + Sync + 'static>(&self, companion: Arc<T>) {
        self.companions.insert(companion);
    }

    /// What was kept of that type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.companions.get()
    }

    /// Its judge.
    pub fn policy(&self) -> &Arc<dyn Policy> {
        &self.policy
    }

    /// Judges where zero itself connects to, by its policy.
    pub fn network_guard(&self) -> &NetworkGuard {
        &self.guard
    }

    /// What lies outside of this machine, as it sees it.
    pub fn resolver_config(&self) -> &ResolverConfig {
        &self.internet
    }

    /// Its counters.
    pub fn metrics(&self) -> &CallMetrics {
        &self.metrics
    }

    /// Calls waiting for a place.
    pub fn queue_depth(&self) -> usize {
        self.admission.waiting_calls()
    }

    /// Calls that hold a place.
    pub fn in_flight(&self) -> usize {
        self.admission.running_calls()
    }

    /// The recorded changes of its workspace.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Its log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Settles, once, what a process that died in mid-change left behind in this workspace.
    pub(crate) fn recover(&self) {
        self.recovered.get_or_init(|| {
            if let Err(error) = self.journal.recover() {
                // It is no reason not to go on.
                tracing::warn!(%error, "the journal could not be cleaned up");
            }
        });
    }

    /// Takes away, once, what killed processes left of their sessions.
    fn sweep(&self) {
        self.swept.get_or_init(|| ToolHostSession::sweep(&self.state));
    }

    /// Starts a session that has the host's approver, observer and mode.
    pub fn open_session(&self, id: SessionId) -> Result<ToolHostSession, ToolError> {
        self.open_session_with(id, ToolHostSessionConfig::default())
    }

    /// Starts a session that brings some of them along. So one host serves many, each with its own
    /// person.
    pub fn open_session_with(
        &self,
        id: SessionId,
        config: ToolHostSessionConfig,
    ) -> Result<ToolHostSession, ToolError> {
        self.sweep();
        ToolHostSession::open(id, self, config)
    }

    /// A session for single calls: it remembers nothing, and its results outlive it.
    pub fn open_one_shot_session(&self) -> Result<ToolHostSession, ToolError> {
        self.sweep();
        ToolHostSession::open_one_shot(self)
    }
}
