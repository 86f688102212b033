//! Starts something confined: a command of a call, or a service that runs beside calls.
//!
//! Both get the same walls, the same few variables and the same judged network. What differs, whose
//! temporary files and network those are, how much it may use and what else it may change, is said
//! by whoever starts it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zero_core::{CallId, CommandExecution, CommandLimits, CommandLine, ErrorReason, ToolError};
use zero_policy::HostName;
use zero_sandbox::running_command::RunningCommand;
use zero_sandbox::spawner::{CommandStdio, SpawnSpec, Spawner};
use zero_sandbox::{AcceptedWeakness, CommandSpec, SandboxProperty, Workspace, helper_process};

use crate::command_policy::CommandPolicy;
use crate::command_request::StreamMode;
use crate::host_commands::HostCommands;
use crate::session_commands::{SessionCommands, StartGuard};
use crate::session_network::{NetworkAssignment, NetworkUseGuard};
use crate::shell::{self, LastFolderFile};
use crate::tree_watch::TreeWatch;
use crate::{command_errors, profile};

/// Size of the terminal of a command that has one.
const TERMINAL: CommandStdio = CommandStdio::Pty { rows: 24, cols: 80 };

/// What it takes to start something confined.
#[derive(Clone)]
pub struct CommandLauncher {
    /// What the commands of its host have in common.
    pub host: Arc<HostCommands>,
    /// What those of its session have in common.
    pub session: Arc<SessionCommands>,
    /// Decides what it may reach.
    pub policy: Arc<dyn CommandPolicy>,
    /// Whose connections its connections are.
    pub call: CallId,
    /// The hosts that were judged for the call and allowed.
    pub hosts: Arc<[HostName]>,
    /// How much each command may use.
    pub limits: CommandLimits,
    /// Folders that it may change, beside those of the workspace.
    pub writable: Vec<PathBuf>,
    /// Properties of its confinement that may be missing.
    pub weaknesses: Vec<AcceptedWeakness>,
    /// What it may do at all.
    pub access: LaunchAccess,
}

/// What something that is started may do at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchAccess {
    /// What commands may: change the workspace, and reach whom they may reach.
    #[default]
    AsCommands,
    /// Look at things. It changes nothing but its temporary files and the folders that it was
    /// given for itself, and reaches nobody.
    ReadOnly,
}

impl CommandLauncher {
    /// Starts what the settings of a host let every command do.
    pub fn new(
        host: &Arc<HostCommands>,
        session: &Arc<SessionCommands>,
        policy: Arc<dyn CommandPolicy>,
        call: CallId,
        limits: CommandLimits,
    ) -> Self {
        Self {
            host: Arc::clone(host),
            session: Arc::clone(session),
            policy,
            call,
            hosts: Arc::new([]),
            limits,
            writable: host.settings.writable.clone(),
            weaknesses: host.settings.weaknesses.clone(),
            access: LaunchAccess::AsCommands,
        }
    }

    /// The same for something that may do this at all, and change folders of its own beside that.
    pub fn with_access(mut self, access: LaunchAccess, own: Vec<PathBuf>) -> Self {
        self.access = access;
        match access {
            LaunchAccess::AsCommands => self.writable.extend(own),
            LaunchAccess::ReadOnly => {
                self.writable = own;
                // Nobody is asked about it: these hold, or it does not run.
                let must_hold =
                    [SandboxProperty::Writes, SandboxProperty::Masked, SandboxProperty::Network];
                self.weaknesses.retain(|weakness| !must_hold.contains(weakness));
            }
        }
        self
    }

    /// Makes everything ready for one command, whose folder is the workspace's first unless it says
    /// otherwise.
    pub fn prepare(
        &self,
        workspace: &Workspace,
        execution: &CommandExecution,
        streams: StreamMode,
    ) -> Result<PreparedLaunch, ToolError> {
        let start = self.session.begin_start();
        let start = start.map_err(|error| command_errors::temp_folder_error(&error))?;
        let tmp = &self.session.tmp;
        let folder = execution.folder.as_ref().map_or_else(|| workspace.cwd(), |f| f.canonical());
        let given = match self.access {
            LaunchAccess::AsCommands => {
                self.session.network.assign(&self.call, &self.hosts, &self.weaknesses)?
            }
            LaunchAccess::ReadOnly => NetworkAssignment::none(),
        };
        let mut environment =
            self.host.environment.build(given.variables, &execution.variables, streams, tmp.path());
        let (program, args, end_note) = match &execution.command {
            CommandLine::Shell(line) => shell::wrap(line, tmp, &mut environment),
            CommandLine::Program(words) => {
                let mut words = words.iter().map(OsString::from);
                (words.next().unwrap_or_default(), words.collect(), LastFolderFile::none())
            }
        };
        let (profile, watch) = profile::build_profile(self, workspace, given.network)?;
        let order = SpawnSpec {
            command: CommandSpec { program, args, folder: folder.to_owned(), environment },
            profile,
            stdio: match streams {
                StreamMode::Pipes => CommandStdio::Pipes,
                StreamMode::Terminal => TERMINAL,
            },
            timeout: None,
            net: given.net,
        };
        let network = given.network_use;
        Ok(PreparedLaunch { order, folder: folder.to_owned(), end_note, watch, network, start })
    }
}

/// Something that only has to be started. While it lives, its session does not end: drop it once the
/// session has the command.
pub struct PreparedLaunch {
    order: SpawnSpec,
    pub(crate) folder: PathBuf,
    pub(crate) end_note: LastFolderFile,
    /// What it may not make.
    pub watch: TreeWatch,
    /// The use it makes of its session's network.
    pub network: NetworkUseGuard,
    /// Keeps the session from ending meanwhile.
    pub(crate) start: StartGuard,
}

impl PreparedLaunch {
    /// The files and folders that are hidden from it.
    pub fn masked_paths(&self) -> &[PathBuf] {
        &self.order.profile.masked
    }

    /// Starts it as one of many that come one after the other.
    pub fn spawn(&self, timeout: Option<Duration>) -> Result<RunningCommand, ToolError> {
        let order = SpawnSpec { timeout, ..self.order.clone() };
        shared_spawner()?.spawn(order).map_err(|error| command_errors::start_error(&error))
    }

    /// Starts it as the only one of its kind.
    pub fn spawn_single(&self) -> Result<RunningCommand, ToolError> {
        shared_spawner()?
            .spawn_one_off(self.order.clone())
            .map_err(|error| command_errors::start_error(&error))
    }
}

fn shared_spawner() -> Result<&'static Spawner, ToolError> {
    if !helper_process::can_run_helper() {
        let message = "this program cannot start commands: it does not begin as zero does";
        return Err(ToolError::failed(ErrorReason::Io, message));
    }
    Spawner::shared().map_err(|error| command_errors::spawner_error(&error))
}
