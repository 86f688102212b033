//! A host: the tools, the policy and the limits of one workspace.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use zero_core::{ExtraRootCertificates, HostLimits, SessionId, ToolError, ToolName};
use zero_exec::jobs::JobRegistry;
use zero_exec::services::{ServiceHost, ServiceLauncher};
use zero_exec::{
    CommandLauncher, CommandSettings, HostCommands, ResolverConfig, SandboxProbeReport,
};
use zero_sandbox::{Journal, StateDir, Workspace};

use crate::admission::AdmissionController;
use crate::approver::Approver;
use crate::audit::{AuditLog, ConnectionAuditLog};
pub use crate::call_id::new_call_id;
use crate::elicitation::Elicitor;
use crate::hooks::{HookSet, HookSettings};
use crate::host_extensions::HostExtensions;
use crate::host_session::{ToolHostSession, ToolHostSessionConfig};
use crate::metrics::CallMetrics;
use crate::observer::CallEventObserver;
use crate::policy::{Policy, RiskPolicy};
use crate::redaction::{SecretMaskConfig, WorkspaceSecrets};
use crate::registry::ToolRegistry;
use crate::service_rows::ServiceAuditor;
use crate::started_calls::StartedCalls;
use crate::web::NetworkGuard;

/// The configuration of a host.
pub struct ToolHostConfig {
    /// The folders it works in.
    pub workspace: Workspace,
    /// Its state folder.
    pub state: StateDir,
    /// Its limits.
    pub limits: HostLimits,
    /// Its policy.
    pub policy: Arc<dyn Policy>,
    /// Asks the user for approval in sessions without their own approver. Without any, calls that
    /// need approval are denied.
    pub approver: Option<Arc<dyn Approver>>,
    /// Asks the user questions in sessions without their own elicitor.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Observes the calls of sessions without their own observer.
    pub observer: Option<Arc<dyn CallEventObserver>>,
    /// How the user could allow a call that was denied because there is no approver, for the
    /// message.
    pub how_to_allow: String,
    /// The settings of its commands.
    pub commands: CommandSettings,
    /// Commands that run before and after its calls.
    pub hooks: HookSettings,
    /// How host names are resolved.
    pub internet: ResolverConfig,
    /// Certificates to trust in addition to the machine's.
    pub extra_roots: ExtraRootCertificates,
    /// Its counters; several hosts may share them.
    pub metrics: Arc<CallMetrics>,
    /// Where it finds the secret values that it masks.
    pub secrets: SecretMaskConfig,
    /// Whether its tools keep the earlier content of a file that they change beside it, unless a call
    /// says otherwise.
    pub file_backup: bool,
    /// Where it adds the calls that it starts.
    pub started_calls: Option<Arc<StartedCalls>>,
}

impl ToolHostConfig {
    /// A host that decides by risk and cannot ask the user.
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
            secrets: SecretMaskConfig::default(),
            file_backup: false,
            started_calls: None,
        }
    }
}

/// The tools, the policy and the limits of one workspace. [`crate::pipeline`] has the steps of a
/// call.
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
    pub(crate) audit: AuditLog,
    pub(crate) metrics: Arc<CallMetrics>,
    pub(crate) companions: Arc<HostExtensions>,
    pub(crate) secrets: Arc<WorkspaceSecrets>,
    pub(crate) file_backup: bool,
    pub(crate) started_calls: Option<Arc<StartedCalls>>,
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
            secrets,
            file_backup,
            started_calls,
        } = config;
        let roots = workspace.roots().map(Path::to_owned).collect();
        Self {
            secrets: Arc::new(WorkspaceSecrets::new(&secrets, roots)),
            file_backup,
            started_calls,
            registry: Arc::default(),
            journal: Journal::new(&state, workspace.clone(), limits.file_bytes_max),
            admission: AdmissionController::new(&limits),
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

    /// Its state folder.
    pub fn state(&self) -> &StateDir {
        &self.state
    }

    /// The bounds of its calls and results.
    pub fn limits(&self) -> &HostLimits {
        &self.limits
    }

    /// Starts services.
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
            limits: self.limits.command_limits(),
        })
    }

    /// Runs `true`, confined as the commands of `tool` are, and reports what was enforced. It runs
    /// even if a property cannot be enforced, so that the report is complete.
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

    /// Stores a value that its tools share between calls: one of each type, for the lifetime of the
    /// host.
    pub fn insert_extension<T: Send + Sync + 'static>(&self, companion: Arc<T>) {
        self.companions.insert(companion);
    }

    /// The stored value of this type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.companions.get()
    }

    /// What judges the calls of this host.
    pub fn policy(&self) -> &Arc<dyn Policy> {
        &self.policy
    }

    /// Applies the policy to zero's own connections.
    pub fn network_guard(&self) -> &NetworkGuard {
        &self.guard
    }

    /// How host names are resolved.
    pub fn resolver_config(&self) -> &ResolverConfig {
        &self.internet
    }

    /// Its counters.
    pub fn metrics(&self) -> &CallMetrics {
        &self.metrics
    }

    /// Calls that wait for a slot.
    pub fn queue_depth(&self) -> usize {
        self.admission.waiting_calls()
    }

    /// Calls that hold a slot.
    pub fn in_flight(&self) -> usize {
        self.admission.running_calls()
    }

    /// The journal of changes in its workspace.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The secret values that it masks.
    pub fn secrets(&self) -> &Arc<WorkspaceSecrets> {
        &self.secrets
    }

    /// Its audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Recovers, once, the changes that a killed process left incomplete in this workspace.
    pub(crate) fn recover(&self) {
        self.recovered.get_or_init(|| {
            // A job may be working in a folder that the undo moves. If that cannot be found out, one
            // may be.
            let is_busy = || {
                let jobs = JobRegistry::open(&self.state);
                let found = jobs.find_running_beside(self.workspace.roots());
                !matches!(found, Ok(None))
            };
            if let Err(error) = self.journal.recover_beside(&is_busy) {
                // A failure is no reason to stop.
                tracing::warn!(%error, "cannot recover the journal");
            }
        });
    }

    /// Removes, once, the files that killed processes left of their sessions.
    fn sweep(&self) {
        self.swept.get_or_init(|| ToolHostSession::sweep(&self.state));
    }

    /// Opens a session with the host's approver, observer and mode.
    pub fn open_session(&self, id: SessionId) -> Result<ToolHostSession, ToolError> {
        self.open_session_with(id, ToolHostSessionConfig::default())
    }

    /// Opens a session with some of its own. So one host serves many sessions, each with its own
    /// user.
    pub fn open_session_with(
        &self,
        id: SessionId,
        config: ToolHostSessionConfig,
    ) -> Result<ToolHostSession, ToolError> {
        self.sweep();
        ToolHostSession::open(id, self, config)
    }

    /// A session for single calls: it keeps no state, and its results outlive it.
    pub fn open_one_shot_session(&self) -> Result<ToolHostSession, ToolError> {
        self.sweep();
        ToolHostSession::open_one_shot(self)
    }
}
