//! Programs that run beside calls and for all of them: servers that bring tools, commands that
//! list them.
//!
//! A service is confined as the commands of a session are: it may change the workspace and its own
//! temporary folder, reads no secret, and reaches only the hosts that are allowed; one that only
//! reads changes nothing of the workspace and reaches nobody. It has a
//! scrubbed environment, its own network and its own end: when its [`ServiceHandle`] is dropped, no
//! process of it is left. Nobody is asked about it, since it stands in settings that a person wrote
//! or trusted; a rule that denies its command holds all the same.

mod hidden_files;
mod request_validation;
mod service_monitor;
mod service_record;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zero_core::{
    CommandExecution, CommandLimitChange, CommandLimits, CommandLine, Effect, ErrorReason,
    ToolError,
};
use zero_exec::ResolverConfig;
use zero_policy::{HostPattern, PermissionMode, Verdict};
use zero_sandbox::running_command::{CommandExit, RunningCommand};
use zero_sandbox::{StateDir, Workspace};

use self::hidden_files::HiddenFiles;
use self::service_monitor::ServiceMonitor;
use self::service_record::ServiceRecord;
use crate::audit::{self, AuditLog, ConnectionAuditLog};
use crate::authorization;
pub use crate::commands::LaunchAccess;
use crate::commands::{
    self, CommandLauncher, CommandNetwork, HostCommands, NetworkPolicy, PreparedLaunch,
    SessionCommands, SessionNetwork, StreamMode,
};
use crate::policy::{Policy, PolicyDecision, PolicyRequest};
use crate::tool_host::ToolHost;

/// How long the end of a service that is dropped is waited for.
const END_MAX: Duration = Duration::from_secs(10);

/// A program to run beside calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRequest {
    /// What it is called in records and folders, such as `mcp-github`: letters, digits, `-`, `_`.
    pub name: String,
    /// The program and its arguments; no shell looks at them.
    pub words: Vec<String>,
    /// Where it starts; the workspace's first folder when absent.
    pub folder: Option<PathBuf>,
    /// Variables on top of the usual few. Their values may be secrets: they are not recorded.
    pub variables: Vec<(String, String)>,
    /// Hosts it may reach beside those that settings and rules allow to commands.
    pub network: Vec<HostPattern>,
    /// Folders it may change beside those that commands may.
    pub writable: Vec<PathBuf>,
    /// Limits that differ from those of commands.
    pub limits: CommandLimitChange,
    /// What it may do at all.
    pub access: LaunchAccess,
}

/// A program that runs beside calls. Dropping it ends every process that came of it, and waits until
/// they are gone: a moment, unless one hangs in the kernel. Who must not wait asks for its
/// [end](Service::kill) and waits for [that](Service::ended) first.
pub struct ServiceHandle {
    /// Where its input goes; dropping it ends the input.
    pub stdin: Option<OwnedFd>,
    /// Where its output comes from.
    pub stdout: Option<OwnedFd>,
    /// Where its error output comes from.
    pub stderr: Option<OwnedFd>,
    /// The number of the process at the top of its tree.
    pub pid: i32,
    attended: Arc<ServiceMonitor>,
    sight: HiddenFiles,
}

impl ServiceHandle {
    /// Asks its main process to end, by SIGTERM. It may take its time.
    pub fn terminate(&self) {
        self.attended.terminate();
    }

    /// Ends every process of it at once.
    pub fn kill(&self) {
        self.attended.kill();
    }

    /// How it ended; waits for it. Any number may wait.
    pub async fn wait(&self) -> CommandExit {
        self.attended.wait_ended().await
    }

    /// Whether it can see a file or folder that may not be read: one that was made or replaced since
    /// it started. What it says may then be of that. Blocks, as long as looking for those takes.
    pub fn is_outdated(&self) -> bool {
        self.sight.is_outdated()
    }

    /// What is to be known of it for a person, such as hosts it was refused and what of its
    /// confinement is missing.
    pub fn notes(&self) -> Vec<String> {
        self.attended.notes()
    }
}

impl Drop for ServiceHandle {
    fn drop(&mut self) {
        self.attended.kill();
        self.attended.wait(END_MAX);
    }
}

impl fmt::Debug for ServiceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Starts services for a host. Cheap to clone, and keeps no tool alive.
#[derive(Clone)]
pub struct ServiceLauncher {
    host: Arc<ServiceHost>,
}

/// What services need of their host.
struct ServiceHost {
    commands: Arc<HostCommands>,
    policy: Arc<dyn Policy>,
    internet: ResolverConfig,
    state: StateDir,
    workspace: Workspace,
    limits: CommandLimits,
    audit: AuditLog,
}

/// What only one service has: its temporary files and its network. They go with it.
struct ServiceResources(Arc<SessionCommands>);

impl Drop for ServiceResources {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A service that was just started.
struct StartedService {
    running: RunningCommand,
    ready: PreparedLaunch,
    home: ServiceResources,
    sight: HiddenFiles,
}

impl ServiceLauncher {
    pub(crate) fn new(host: &ToolHost) -> Self {
        let host = ServiceHost {
            commands: Arc::clone(&host.commands),
            policy: Arc::clone(&host.policy),
            internet: host.internet.clone(),
            state: host.state.clone(),
            workspace: host.workspace.clone(),
            limits: host.limits.command,
            audit: AuditLog::new(&host.state),
        };
        Self { host: Arc::new(host) }
    }

    /// Starts a program. Blocks for as long as its walls take to be put up.
    pub fn start(&self, request: &ServiceRequest) -> Result<ServiceHandle, ToolError> {
        let host = &self.host;
        request_validation::check_request(request)?;
        // Nothing runs without a trace.
        host.audit
            .ensure_writable(Timestamp::now())
            .map_err(|error| audit::unwritable_log_error(&error))?;
        let mut record = ServiceRecord::new(request, &host.workspace);
        match host.start(request, &mut record) {
            Ok(begun) => self.monitor(begun, record),
            Err(error) => {
                record.write_failure(&host.audit, &error);
                Err(error)
            }
        }
    }

    /// What settings and rules deny a program to read that starts now; secrets come on top. Fails where
    /// that cannot be listed: then none starts either. Blocks.
    pub fn list_denied_paths(&self) -> Result<Vec<PathBuf>, ToolError> {
        let ServiceHost { commands, policy, workspace, .. } = &*self.host;
        commands::list_denied_paths(&commands.settings, &**policy, workspace)
    }

    /// Sees to it that its end is noticed, and what it left settled.
    fn monitor(
        &self,
        StartedService { mut running, ready, home, sight }: StartedService,
        record: ServiceRecord,
    ) -> Result<ServiceHandle, ToolError> {
        let [stdin, stdout, stderr] =
            [running.stdin.take(), running.stdout.take(), running.stderr.take()];
        let pid = running.pid;
        let host = Arc::clone(&self.host);
        let attended = ServiceMonitor::start(running, ready, move |ended, is_asked| {
            record.write_end(&host.audit, ended, is_asked);
            drop(home);
        });
        let attended = attended.map_err(|error| {
            ToolError::failed(ErrorReason::Io, format!("the service cannot be watched: {error}"))
        })?;
        Ok(ServiceHandle { stdin, stdout, stderr, pid, attended, sight })
    }
}

impl ServiceHost {
    fn start(
        self: &Arc<Self>,
        request: &ServiceRequest,
        record: &mut ServiceRecord,
    ) -> Result<StartedService, ToolError> {
        let execution = CommandExecution {
            command: CommandLine::Program(request.words.clone()),
            folder: request_validation::resolve_folder(request, &self.workspace)?,
            variables: request.variables.clone(),
        };
        let decision = decide_configured_command(&*self.policy, &self.workspace, &execution, None)?;
        record.record_decision(&decision);
        if decision.verdict == Verdict::Deny {
            return Err(denial_error(&format!("start `{}`", request.name), &decision));
        }
        let settings = &self.commands.settings;
        let writable =
            request_validation::resolve_writable(request, &self.workspace, settings, &self.state)?;
        let home = self.create_resources(request);
        let limits = self.limits.with_change(&request.limits);
        let launcher = CommandLauncher::new(
            &self.commands,
            &home.0,
            &self.policy,
            record.call().clone(),
            limits,
        );
        let launcher = launcher.with_access(request.access, writable);
        let ready = launcher.prepare(&self.workspace, &execution, StreamMode::Pipes)?;
        let sight = HiddenFiles::new(Arc::clone(self), ready.masked_paths());
        let running = ready.spawn_single()?;
        Ok(StartedService { running, ready, home, sight })
    }

    fn create_resources(&self, request: &ServiceRequest) -> ServiceResources {
        let CommandNetwork { hosts, localhost } = self.commands.settings.network.clone();
        let hosts = [hosts, request.network.clone()].concat();
        let network = SessionNetwork::new(NetworkPolicy {
            allowed: CommandNetwork { hosts, localhost },
            policy: Arc::<dyn Policy>::clone(&self.policy),
            // What a person allows for a session is no word about who outlives it.
            grants: Arc::new(Vec::new),
            internet: self.internet.clone(),
            log: Arc::new(ConnectionAuditLog::new(&self.state, self.workspace.clone(), None)),
        });
        let name = format!("service-{}-{:016x}", request.name, fastrand::u64(..));
        ServiceResources(Arc::new(SessionCommands::new(&self.state, name, false, network)))
    }
}

/// Judges something that settings name, by the rules for commands. Only what they deny counts: that
/// settings name it is as good as being asked. Without a mode, that of the settings holds.
pub(crate) fn decide_configured_command(
    policy: &dyn Policy,
    workspace: &Workspace,
    execution: &CommandExecution,
    mode: Option<PermissionMode>,
) -> Result<PolicyDecision, ToolError> {
    Ok(policy.decide(PolicyRequest {
        spec: &request_validation::command_spec()?,
        effects: &[Effect::Exec(execution.clone())],
        workspace,
        grants: &[],
        mode,
    }))
}

/// The error of something that a rule denies.
pub(crate) fn denial_error(what: &str, decision: &PolicyDecision) -> ToolError {
    let why = match (&decision.rule, &decision.source) {
        (Some(rule), Some(source)) => {
            format!("denied by rule `{rule}`; to allow it, remove or narrow that rule in {source}")
        }
        (Some(rule), None) => format!("denied by rule `{rule}`"),
        (None, _) => format!("denied, {}", decision.reason),
    };
    authorization::denial_error(decision, ErrorReason::Denied, format!("{what}: {why}"))
}
