//! Programs that run beside calls and for all of them: servers that bring tools, commands that
//! list them.
//!
//! A service is confined as the commands of a session are: it may change the workspace and its own
//! temporary folder, reads no secret, and reaches only the hosts that are allowed; one that only
//! reads changes nothing of the workspace and reaches nobody. It has a
//! scrubbed environment, its own network and its own end: when its [`ServiceHandle`] is dropped, no
//! process of it is left. Its [`ServiceSupervisor`] decides whether it starts, and records it.

mod hidden_files;
mod request_validation;
mod service_monitor;
mod service_request;
mod service_supervisor;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zero_core::{CommandExecution, CommandLimits, CommandLine, ErrorReason, ToolError};
use zero_sandbox::running_command::{CommandExit, RunningCommand};
use zero_sandbox::{StateDir, Workspace};

use self::hidden_files::HiddenFiles;
use self::service_monitor::ServiceMonitor;
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

/// How long the end of a service that is dropped is waited for.
const END_MAX: Duration = Duration::from_secs(10);

/// A program that runs beside calls. Dropping it ends every process that came of it, and waits until
/// they are gone: a moment, unless one hangs in the kernel. Who must not wait asks for its
/// [end](ServiceHandle::kill) and waits for [that](ServiceHandle::wait) first.
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
pub struct ServiceHost {
    /// What they have in common with commands.
    pub commands: Arc<HostCommands>,
    /// Decides what they may reach.
    pub policy: Arc<dyn CommandPolicy>,
    /// Decides whether they may start, and records them.
    pub supervisor: Arc<dyn ServiceSupervisor>,
    /// Where their connections are recorded.
    pub log: Arc<dyn ConnectionLog>,
    /// What lies outside.
    pub internet: ResolverConfig,
    /// zero's own folder.
    pub state: StateDir,
    /// The folders they work in.
    pub workspace: Workspace,
    /// How much each may use, unless it says otherwise.
    pub limits: CommandLimits,
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
    /// Starts services for this host.
    pub fn new(host: ServiceHost) -> Self {
        Self { host: Arc::new(host) }
    }

    /// Starts a program. Blocks for as long as its walls take to be put up.
    pub fn start(&self, request: &ServiceRequest) -> Result<ServiceHandle, ToolError> {
        let host = &self.host;
        request_validation::check_request(request)?;
        // Nothing runs without a trace.
        let mut record = host.supervisor.open_record(request)?;
        match host.start(request, &mut *record) {
            Ok(begun) => monitor(begun, record),
            Err(error) => {
                record.write_failure(&error);
                Err(error)
            }
        }
    }

    /// What settings and rules deny a program to read that starts now; secrets come on top. Fails where
    /// that cannot be listed: then none starts either. Blocks.
    pub fn list_denied_paths(&self) -> Result<Vec<PathBuf>, ToolError> {
        let ServiceHost { commands, policy, workspace, .. } = &*self.host;
        profile::list_denied_paths(&commands.settings, &**policy, workspace)
    }
}

impl ServiceHost {
    fn start(
        self: &Arc<Self>,
        request: &ServiceRequest,
        record: &mut dyn ServiceRecord,
    ) -> Result<StartedService, ToolError> {
        let execution = CommandExecution {
            command: CommandLine::Program(request.words.clone()),
            folder: request_validation::resolve_folder(request, &self.workspace)?,
            variables: request.variables.clone(),
        };
        record.authorize(&request.name, &execution)?;
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
            policy: Arc::clone(&self.policy),
            // What a person allows for a session is no word about who outlives it.
            grants: Arc::new(Vec::new),
            internet: self.internet.clone(),
            log: Arc::clone(&self.log),
        });
        let name = format!("service-{}-{:016x}", request.name, fastrand::u64(..));
        ServiceResources(Arc::new(SessionCommands::new(&self.state, name, false, network)))
    }
}

/// Sees to it that its end is noticed, and what it left settled.
fn monitor(
    StartedService { mut running, ready, home, sight }: StartedService,
    record: Box<dyn ServiceRecord>,
) -> Result<ServiceHandle, ToolError> {
    let [stdin, stdout, stderr] =
        [running.stdin.take(), running.stdout.take(), running.stderr.take()];
    let pid = running.pid;
    let attended = ServiceMonitor::start(running, ready, move |ended, is_asked| {
        record.write_end(ended, is_asked);
        drop(home);
    });
    let attended = attended.map_err(|error| {
        ToolError::failed(ErrorReason::Io, format!("the service cannot be watched: {error}"))
    })?;
    Ok(ServiceHandle { stdin, stdout, stderr, pid, attended, sight })
}
