//! Programs that run beside calls and serve all of them: MCP and language servers, commands that
//! list tools.
//!
//! A service is confined like the commands of a session: it may change the workspace and its own
//! temporary folder, cannot read secrets, and connects only to allowed hosts. A read-only service
//! changes nothing in the workspace and has no network. It has a scrubbed environment, its own
//! network and its own lifetime: when its [`ServiceHandle`] is dropped, no process of it is left.
//! Its [`ServiceSupervisor`] decides whether it starts, and records it.

mod hidden_files;
mod request_validation;
mod service_download;
mod service_monitor;
mod service_recording;
mod service_request;
mod service_supervisor;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zero_core::{CommandExecution, CommandLimits, CommandLine, ErrorReason, ToolError};
use zero_policy::{ConnectRequest, HostName, UserApproval};
use zero_sandbox::running_command::{CommandExit, RunningCommand};
use zero_sandbox::{ChangeOrigin, StateDir, Workspace};

use self::hidden_files::HiddenFiles;
pub use self::service_download::DownloadApprover;
use self::service_monitor::ServiceMonitor;
pub use self::service_recording::CallRecording;
use self::service_recording::ServiceRecording;
pub use self::service_request::ServiceRequest;
pub use self::service_supervisor::{ServiceRecord, ServiceSupervisor};
use crate::command_policy::CommandPolicy;
use crate::command_request::StreamMode;
use crate::command_settings::CommandNetwork;
use crate::egress::{ConnectionLog, ResolverConfig};
use crate::host_commands::HostCommands;
use crate::launcher::{CommandLauncher, PreparedLaunch};
use crate::profile;
use crate::session_commands::SessionCommands;
use crate::session_network::{NetworkPolicy, SessionNetwork};

/// The port of registries.
const TLS_PORT: u16 = 443;
/// How long dropping a service waits for its end.
const END_MAX: Duration = Duration::from_secs(10);

/// A running service. Dropping it kills every process of it and waits until they are gone, which
/// takes a moment unless one hangs in the kernel. A caller that must not block calls
/// [`ServiceHandle::kill`] and awaits [`ServiceHandle::wait`] first.
pub struct ServiceHandle {
    /// Its standard input; dropping it closes the input.
    pub stdin: Option<OwnedFd>,
    /// Its standard output.
    pub stdout: Option<OwnedFd>,
    /// Its standard error.
    pub stderr: Option<OwnedFd>,
    /// The process id of the root of its process tree.
    pub pid: i32,
    attended: Arc<ServiceMonitor>,
    hidden_files: HiddenFiles,
    recording: Option<Arc<ServiceRecording>>,
}

impl ServiceHandle {
    /// Records what the service changes from now on as changes of this call. `None` if its changes are
    /// not recorded.
    pub fn record_call(&self, call: ChangeOrigin) -> Option<CallRecording> {
        self.recording.as_ref().map(|recording| ServiceRecording::begin_call(recording, call))
    }

    /// Sends SIGTERM to the main process, which may take its time to exit.
    pub fn terminate(&self) {
        self.attended.terminate();
    }

    /// Kills every process of the service.
    pub fn kill(&self) {
        self.attended.kill();
    }

    /// Waits for the end and returns the exit status. Any number of callers may wait.
    pub async fn wait(&self) -> CommandExit {
        self.attended.wait_ended().await
    }

    /// Whether the service can see a file that it must not read, because the file was created or
    /// replaced since the start. Its answers may then contain data from that file. Blocks while it
    /// searches.
    pub fn is_outdated(&self) -> bool {
        self.hidden_files.is_outdated()
    }

    /// Notes for the user, such as refused hosts and sandbox properties that are not enforced.
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

/// Ends every service of this process; see [`crate::end_all_programs`].
pub(crate) fn end_all_services() {
    service_monitor::end_all(END_MAX);
}

impl fmt::Debug for ServiceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("pid", &self.pid).finish_non_exhaustive()
    }
}

/// Starts services for a host. Cheap to clone; holds no reference to a tool.
#[derive(Clone)]
pub struct ServiceLauncher {
    host: Arc<ServiceHost>,
    download_approver: Option<Arc<dyn DownloadApprover>>,
}

/// What services need from their host.
pub struct ServiceHost {
    /// State shared with commands.
    pub commands: Arc<HostCommands>,
    /// Decides which paths and hosts they may use.
    pub policy: Arc<dyn CommandPolicy>,
    /// Decides whether they may start, and records them.
    pub supervisor: Arc<dyn ServiceSupervisor>,
    /// Where their connections are recorded.
    pub log: Arc<dyn ConnectionLog>,
    /// How host names are resolved.
    pub internet: ResolverConfig,
    /// zero's state folder.
    pub state: StateDir,
    /// The folders that commands work in.
    pub workspace: Workspace,
    /// Resource limits, unless a request changes them.
    pub limits: CommandLimits,
}

/// The temporary files and the network of one service, released when dropped.
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
    hidden_files: HiddenFiles,
    recording: Option<Arc<ServiceRecording>>,
}

impl ServiceLauncher {
    /// A launcher for the services of this host.
    pub fn new(host: ServiceHost) -> Self {
        Self { host: Arc::new(host), download_approver: None }
    }

    /// The same launcher, with an approver for the hosts of services that download themselves.
    #[must_use]
    pub fn with_download_approver(self, approver: Arc<dyn DownloadApprover>) -> Self {
        Self { download_approver: Some(approver), ..self }
    }

    /// Starts a service. Blocks until its sandbox is built.
    pub fn start(&self, request: &ServiceRequest) -> Result<ServiceHandle, ToolError> {
        let host = &self.host;
        request_validation::check_request(request)?;
        // Nothing runs without a record.
        let mut record = host.supervisor.open_record(request)?;
        match host.start(request, self.download_approver.as_ref(), &mut *record) {
            Ok(service) => monitor(service, record),
            Err(error) => {
                record.write_failure(&error);
                Err(error)
            }
        }
    }

    /// The hosts from which a service downloads itself when it starts, and that it may not reach.
    pub fn list_closed_download_hosts(&self, request: &ServiceRequest) -> Vec<HostName> {
        let folder = request.folder.as_deref().unwrap_or_else(|| self.host.workspace.cwd());
        let hosts = service_download::list_hosts(
            request,
            folder,
            self.host.commands.settings.home.as_deref(),
            self.host.commands.environment.variables(),
        );
        hosts.into_iter().filter(|host| !self.host.may_reach(request, host)).collect()
    }

    /// The paths that settings and rules deny to a program that starts now, without the known
    /// secrets. Fails if they cannot be listed: then no service starts either. Blocks.
    pub fn list_denied_paths(&self) -> Result<Vec<PathBuf>, ToolError> {
        let ServiceHost { commands, policy, workspace, .. } = &*self.host;
        profile::list_denied_paths(&commands.settings, &**policy, workspace)
    }
}

impl ServiceHost {
    fn start(
        self: &Arc<Self>,
        request: &ServiceRequest,
        download_approver: Option<&Arc<dyn DownloadApprover>>,
        record: &mut dyn ServiceRecord,
    ) -> Result<StartedService, ToolError> {
        let execution = CommandExecution {
            folder: request_validation::resolve_folder(request, &self.workspace)?,
            variables: request.variables.clone(),
            ..CommandExecution::new(CommandLine::Program(request.words.clone()))
        };
        record.authorize(&request.name, &execution)?;
        self.refuse_closed_download(request, &execution)?;
        let settings = &self.commands.settings;
        let writable =
            request_validation::resolve_writable(request, &self.workspace, settings, &self.state)?;
        let home = self.create_resources(request);
        let limits = self.limits.with_change(&request.limits);
        let launcher = CommandLauncher::new(
            &self.commands,
            &home.0,
            Arc::clone(&self.policy),
            record.call().clone(),
            limits,
        );
        let launcher = launcher
            .with_access(request.access, writable)
            .with_configured_program(&self.workspace, &execution);
        let connections = service_download::hold_connections(request, download_approver);
        let launcher = CommandLauncher { connections, ..launcher };
        let mut ready = launcher.prepare(&self.workspace, &execution, StreamMode::Pipes)?;
        let hidden_files = HiddenFiles::new(Arc::clone(self), ready.masked_paths());
        let recording =
            ServiceRecording::start(&mut ready, &launcher, &self.workspace, &request.name)?;
        let running = ready.spawn_single()?;
        Ok(StartedService { running, ready, home, hidden_files, recording })
    }

    /// Fails if a service downloads itself, and may reach none of the hosts.
    fn refuse_closed_download(
        &self,
        request: &ServiceRequest,
        execution: &CommandExecution,
    ) -> Result<(), ToolError> {
        let folder = execution.folder.as_ref().map_or(self.workspace.cwd(), |it| it.canonical());
        let home = self.commands.settings.home.as_deref();
        let variables = self.commands.environment.variables();
        let hosts = service_download::list_hosts(request, folder, home, variables);
        match hosts.is_empty() || hosts.iter().any(|host| self.may_reach(request, host)) {
            true => Ok(()),
            false => Err(service_download::refusal_error(request, &hosts)),
        }
    }

    /// Whether a service may connect to a host, with TLS.
    fn may_reach(&self, request: &ServiceRequest, host: &HostName) -> bool {
        let network = [&*self.commands.settings.network.hosts, &*request.network].concat();
        let connect_request = ConnectRequest {
            host,
            port: TLS_PORT,
            network: &network,
            grants: &[],
            judged: &[],
            approval: UserApproval::Missing,
        };
        self.policy.authorize_host(connect_request).is_ok()
    }

    fn create_resources(&self, request: &ServiceRequest) -> ServiceResources {
        let CommandNetwork { hosts } = self.commands.settings.network.clone();
        let hosts = [hosts, request.network.clone()].concat();
        let network = SessionNetwork::new(NetworkPolicy {
            allowed: CommandNetwork { hosts },
            policy: Arc::clone(&self.policy),
            // Grants of a session do not apply to a service, which may outlive it.
            grants: Arc::new(Vec::new),
            internet: self.internet.clone(),
            log: Arc::clone(&self.log),
        });
        let name = format!("service-{}-{:016x}", request.name, fastrand::u64(..));
        ServiceResources(Arc::new(SessionCommands::new(&self.state, name, false, network)))
    }
}

/// Starts the thread that notices the end of the service and cleans up.
fn monitor(
    StartedService { mut running, ready, home, hidden_files: sight, recording }: StartedService,
    record: Box<dyn ServiceRecord>,
) -> Result<ServiceHandle, ToolError> {
    let [stdin, stdout, stderr] =
        [running.stdin.take(), running.stdout.take(), running.stderr.take()];
    let pid = running.pid;
    let attended = ServiceMonitor::start(running, ready, move |exit, is_requested| {
        record.write_end(exit, is_requested);
        drop(home);
    });
    let attended = attended.map_err(|error| {
        ToolError::failed(ErrorReason::Io, format!("could not supervise the service: {error}"))
    })?;
    Ok(ServiceHandle { stdin, stdout, stderr, pid, attended, hidden_files: sight, recording })
}
