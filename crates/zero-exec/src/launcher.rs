//! Starts a confined program: a command of a call, or a service that outlives calls.
//!
//! Both get the same kind of sandbox, the same few variables and the same authorized network. The
//! caller supplies what differs: the session that owns temporary files and network, the limits, and
//! further writable folders.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zero_core::{CallId, CommandExecution, CommandLimits, CommandLine, ErrorReason, ToolError};
use zero_policy::{CommandAccess, HostName, NetworkScope, WriteScope};
use zero_sandbox::command_capture::CommandCapture;
use zero_sandbox::running_command::RunningCommand;
use zero_sandbox::spawner::{CommandStdio, SpawnSpec, Spawner};
use zero_sandbox::{AcceptedWeakness, CommandSpec, SandboxProperty, Workspace, helper_process};

use crate::command_policy::CommandPolicy;
use crate::command_request::StreamMode;
use crate::egress::HeldConnections;
use crate::git_config_draft::GitConfigDraft;
use crate::host_commands::HostCommands;
use crate::package_caches::{CacheOwner, PackageCaches};
use crate::read_failure::HiddenHome;
use crate::sandbox_diagnosis::LaunchFacts;
use crate::session_commands::{SessionCommands, StartGuard};
use crate::session_network::{NetworkAssignment, NetworkCall, NetworkSharing, NetworkUseGuard};
use crate::shell::{self, LastFolderFile};
use crate::tree_watch::TreeWatch;
use crate::write_failure::CommandLocation;
use crate::{command_errors, profile};

/// Size of a command's terminal.
const TERMINAL: CommandStdio = CommandStdio::Pty { rows: 24, cols: 80 };

/// Starts confined programs.
#[derive(Clone)]
pub struct CommandLauncher {
    /// State shared by all commands of the host.
    pub host: Arc<HostCommands>,
    /// State shared by all commands of the session.
    pub session: Arc<SessionCommands>,
    /// Decides which paths and hosts a program may use.
    pub policy: Arc<dyn CommandPolicy>,
    /// The call that connections are attributed to.
    pub call: CallId,
    /// The id by which the session knows the call, for the record of changes.
    pub caller: Option<CallId>,
    /// The hosts that were allowed for the call.
    pub hosts: Arc<[HostName]>,
    /// Asks about hosts that were not judged; `None` if no user can be asked.
    pub connections: Option<Arc<HeldConnections>>,
    /// Resource limits of each command.
    pub limits: CommandLimits,
    /// Folders that commands may change, in addition to the workspace.
    pub writable: Vec<PathBuf>,
    /// Sandbox properties that may be missing.
    pub weaknesses: Vec<AcceptedWeakness>,
    /// The general access of the program.
    pub access: LaunchAccess,
    /// What the commands of the call were judged to change and reach.
    pub judged: CommandAccess,
    /// Secret files of the workspace that are hidden from them, because reading these was not
    /// allowed.
    pub hidden_secrets: Vec<PathBuf>,
    /// The identity of a service, which has package caches of its own.
    pub service: Option<String>,
    /// Whether the user tries its command: everything that it changes is recorded, or it does not run.
    pub is_trial: bool,
}

/// The general access of a started program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchAccess {
    /// That of commands: it changes the workspace and connects to allowed hosts.
    #[default]
    AsCommands,
    /// Read-only: it changes only its temporary files and the folders that belong to it, and has no
    /// network.
    ReadOnly,
}

impl CommandLauncher {
    /// A launcher with the access that settings give to every command of a host.
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
            caller: None,
            hosts: Arc::new([]),
            connections: None,
            limits,
            writable: host.settings.writable.clone(),
            weaknesses: host.settings.weaknesses.clone(),
            access: LaunchAccess::AsCommands,
            judged: CommandAccess::default(),
            hidden_secrets: Vec::new(),
            service: None,
            is_trial: false,
        }
    }

    /// Changes the general access, and adds folders of the program's own that it may change.
    pub fn with_access(mut self, access: LaunchAccess, own: Vec<PathBuf>) -> Self {
        self.access = access;
        match access {
            LaunchAccess::AsCommands => self.writable.extend(own),
            LaunchAccess::ReadOnly => {
                self.writable = own;
                // The user is not asked about such a program: without these properties it does not
                // run.
                let must_hold =
                    [SandboxProperty::Writes, SandboxProperty::Masked, SandboxProperty::Network];
                self.weaknesses.retain(|weakness| !must_hold.contains(weakness));
            }
        }
        self
    }

    /// Lets a program of the settings read what it needs of the home folder: the folder in which it
    /// starts, and the project, or else the folder, of each file that its command line names.
    pub fn with_configured_program(
        mut self,
        workspace: &Workspace,
        execution: &CommandExecution,
    ) -> Self {
        self.judged.reads = profile::list_named_folders(&self.host, workspace, execution);
        let folder = execution.folder.as_ref().map_or(workspace.cwd(), |folder| folder.canonical());
        self.service = Some(format!("{execution} in {}", folder.display()));
        self
    }

    /// Prepares one command. It starts in the workspace's first folder unless it names another.
    pub fn prepare(
        &self,
        workspace: &Workspace,
        execution: &CommandExecution,
        streams: StreamMode,
    ) -> Result<PreparedLaunch, ToolError> {
        if execution.outside_sandbox && self.access == LaunchAccess::AsCommands {
            // Nothing of its profile applies, so nothing has to be opened or watched for it.
            let access = LaunchAccess::ReadOnly;
            let launcher = Self { access, writable: Vec::new(), ..self.clone() };
            let mut ready = launcher.prepare(workspace, execution, streams)?;
            ready.facts.is_outside = true;
            return Ok(ready);
        }
        let start = self.session.begin_start();
        let start = start.map_err(|error| command_errors::temp_folder_error(&error))?;
        let outside = match execution.outside_sandbox {
            true => Some(self.session.open_outside_folder()),
            false => None,
        };
        let outside =
            outside.transpose().map_err(|error| command_errors::temp_folder_error(&error))?;
        let tmp = outside.as_ref().unwrap_or(&self.session.tmp);
        let folder = execution.folder.as_ref().map_or_else(|| workspace.cwd(), |f| f.canonical());
        let assignment = match self.access {
            LaunchAccess::AsCommands => self.session.network.assign(
                NetworkCall {
                    id: &self.call,
                    hosts: &self.hosts,
                    scope: &self.judged.network,
                    connections: self.connections.as_ref(),
                },
                match self.session.remembers {
                    true => NetworkSharing::Session,
                    false => NetworkSharing::None,
                },
                &self.weaknesses,
            )?,
            LaunchAccess::ReadOnly => NetworkAssignment::none(),
        };
        // A program without a cache of its own may fail, and is no less confined.
        let caches = self.open_package_caches(workspace);
        let caches = caches.map(Arc::new);
        let environment = self.host.environment.build(
            self.host.registry_variables(folder),
            caches.as_ref().map_or_else(Vec::new, |caches| caches.variables()),
            assignment.variables,
            &execution.variables,
            streams,
            tmp.path(),
        );
        let draft = match self.access {
            LaunchAccess::AsCommands => {
                GitConfigDraft::new(workspace, folder, tmp.path(), &self.judged.git_settings)
            }
            LaunchAccess::ReadOnly => None,
        };
        let (program, args, end_note) = match &execution.command {
            CommandLine::Shell(line) => {
                let line = match &draft {
                    Some(draft) => Cow::Owned(draft.wrap_line(line)),
                    None => Cow::Borrowed(line.as_str()),
                };
                shell::wrap(&line, tmp, workspace, &environment)
            }
            CommandLine::Program(words) => {
                let mut words = words.iter().map(OsString::from);
                (words.next().unwrap_or_default(), words.collect(), LastFolderFile::none())
            }
        };
        let cache_folders = caches.as_ref().map_or(&[][..], |caches| caches.folders());
        let (mut profile, watch, home) =
            profile::build_profile(self, workspace, assignment.network, cache_folders)?;
        // The helper that starts a command sets `TMPDIR` from it.
        profile.tmp = tmp.path().to_owned();
        let roots = workspace.roots().map(Path::to_owned).chain(self.writable.iter().cloned());
        let location = CommandLocation { roots: roots.collect(), folder: folder.to_owned() };
        let watch = watch.with_location(location);
        let hidden = HiddenHome {
            hidden: home.hidden,
            readable: profile.readable.clone(),
            folder: folder.to_owned(),
            exposed: home.exposed,
            secrets: self.hidden_secrets.clone(),
            root: workspace.cwd().to_owned(),
        };
        let order = SpawnSpec {
            command: CommandSpec { program, args, folder: folder.to_owned(), environment },
            profile,
            stdio: match streams {
                StreamMode::Pipes => CommandStdio::Pipes,
                StreamMode::Terminal => TERMINAL,
            },
            timeout: None,
            net: assignment.net,
            capture: None,
        };
        let network = assignment.network_use;
        let folder = folder.to_owned();
        let facts = LaunchFacts {
            limits: self.limits,
            streams,
            tool: None,
            packages: caches,
            is_outside: false,
        };
        let capture = None;
        Ok(PreparedLaunch {
            order,
            folder,
            end_note,
            watch,
            hidden,
            network,
            facts,
            draft,
            capture,
            start,
        })
    }
}

impl CommandLauncher {
    /// The caches of package managers, for a command that may change anything in the workspace.
    fn open_package_caches(&self, workspace: &Workspace) -> Option<PackageCaches> {
        let may_install = self.access == LaunchAccess::AsCommands
            && self.judged.writes == WriteScope::Workspace
            && self.judged.network != NetworkScope::Nothing;
        if !may_install {
            return None;
        }
        let owner = CacheOwner {
            state: &self.host.state,
            home: self.host.settings.home.as_deref(),
            environment: self.host.environment.variables(),
            writable: &self.writable,
            bytes_max: self.host.settings.package_cache_bytes_max,
            service: self.service.as_deref(),
        };
        PackageCaches::open(&owner, workspace)
            .inspect_err(|error| tracing::warn!(%error, "no cache for packages could be made"))
            .ok()
    }
}

/// Something that only has to be started. While it lives, its session does not end: drop it once the
/// session has the command.
pub struct PreparedLaunch {
    pub(crate) order: SpawnSpec,
    pub(crate) folder: PathBuf,
    pub(crate) end_note: LastFolderFile,
    /// The paths that the command may not create.
    pub watch: TreeWatch,
    /// What the command does not see.
    pub hidden: HiddenHome,
    /// Its use of the session's network.
    pub network: NetworkUseGuard,
    /// What it is started with.
    pub facts: LaunchFacts,
    /// The settings of git that it may change.
    pub(crate) draft: Option<GitConfigDraft>,
    /// Records its changes.
    pub capture: Option<CommandCapture>,
    /// Keeps the session from ending meanwhile.
    pub(crate) start: StartGuard,
}

impl PreparedLaunch {
    /// The files and folders that are hidden from the command.
    pub fn masked_paths(&self) -> &[PathBuf] {
        &self.order.profile.masked
    }

    /// Starts the command in a sandbox that later commands may reuse.
    pub fn spawn(&self, timeout: Option<Duration>) -> Result<RunningCommand, ToolError> {
        let order = SpawnSpec { timeout, ..self.order.clone() };
        let spawner = shared_spawner()?;
        let spawned = match self.facts.is_outside {
            true => spawner.spawn_outside(order),
            false => spawner.spawn(order),
        };
        spawned.map_err(|error| command_errors::start_error(&error))
    }

    /// Starts the command in a sandbox of its own.
    pub fn spawn_single(&self) -> Result<RunningCommand, ToolError> {
        shared_spawner()?
            .spawn_one_off(self.order.clone())
            .map_err(|error| command_errors::start_error(&error))
    }
}

fn shared_spawner() -> Result<&'static Spawner, ToolError> {
    if !helper_process::can_run_helper() {
        let message = "this program cannot start commands: it does not initialize zero's spawner";
        return Err(ToolError::failed(ErrorReason::Io, message));
    }
    Spawner::shared().map_err(|error| command_errors::spawner_error(&error))
}
