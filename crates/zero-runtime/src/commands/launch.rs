//! Starts something confined: a command of a call, or a service that runs beside calls.
//!
//! Both get the same walls, the same few variables and the same judged network. What differs, whose
//! temporary files and network those are, how much it may use and what else it may change, is said
//! by whoever starts it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zero_core::{CallId, CommandLimits, CommandLine, Execution, Reason, ToolError};
use zero_policy::HostName;
use zero_sandbox::running::Running;
use zero_sandbox::warden::{Order, Stdio, Warden};
use zero_sandbox::{CommandSpec, Property, Weakness, Workspace, child};

use super::network::Given;
use super::shell::{self, EndNote};
use super::{Commands, NetworkUse, SessionCommands, Streams, Watch, failure, profile};
use crate::policy::Policy;

/// Size of the terminal of a command that has one.
const TERMINAL: Stdio = Stdio::Pty { rows: 24, cols: 80 };

/// What it takes to start something confined.
#[derive(Clone)]
pub(crate) struct Launcher {
    pub(crate) host: Arc<Commands>,
    pub(crate) session: Arc<SessionCommands>,
    pub(crate) policy: Arc<dyn Policy>,
    /// Whose connections its connections are.
    pub(crate) call: CallId,
    /// The hosts that were judged for the call and allowed.
    pub(crate) hosts: Arc<[HostName]>,
    /// How much each command may use.
    pub(crate) limits: CommandLimits,
    /// Folders that it may change, beside those of the workspace.
    pub(crate) writable: Vec<PathBuf>,
    /// Properties of its confinement that may be missing.
    pub(crate) weaknesses: Vec<Weakness>,
    /// What it may do at all.
    pub(crate) access: Access,
}

/// What something that is started may do at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// What commands may: change the workspace, and reach whom they may reach.
    #[default]
    AsCommands,
    /// Look at things. It changes nothing but its temporary files and the folders that it was
    /// given for itself, and reaches nobody.
    ReadOnly,
}

impl Launcher {
    /// Starts what the settings of a host let every command do.
    pub(crate) fn new(
        host: &Arc<Commands>,
        session: &Arc<SessionCommands>,
        policy: &Arc<dyn Policy>,
        call: CallId,
        limits: CommandLimits,
    ) -> Self {
        Self {
            host: Arc::clone(host),
            session: Arc::clone(session),
            policy: Arc::clone(policy),
            call,
            hosts: Arc::new([]),
            limits,
            writable: host.settings.writable.clone(),
            weaknesses: host.settings.weaknesses.clone(),
            access: Access::AsCommands,
        }
    }

    /// The same for something that may do this at all, and change folders of its own beside that.
    pub(crate) fn limited_to(mut self, access: Access, own: Vec<PathBuf>) -> Self {
        self.access = access;
        match access {
            Access::AsCommands => self.writable.extend(own),
            Access::ReadOnly => {
                self.writable = own;
                // Nobody is asked about it: these hold, or it does not run.
                let must_hold = [Property::Writes, Property::Masked, Property::Network];
                self.weaknesses.retain(|weakness| !must_hold.contains(weakness));
            }
        }
        self
    }

    /// Makes everything ready for one command, whose folder is the workspace's first unless it says
    /// otherwise.
    pub(crate) fn ready(
        &self,
        workspace: &Workspace,
        execution: &Execution,
        streams: Streams,
    ) -> Result<Ready, ToolError> {
        self.session.make_tmp().map_err(|error| failure::no_tmp(&error))?;
        let tmp = &self.session.tmp;
        let folder = execution.folder.as_ref().map_or_else(|| workspace.cwd(), |f| f.canonical());
        let given = match self.access {
            Access::AsCommands => {
                self.session.network.give(&self.call, &self.hosts, &self.weaknesses)?
            }
            Access::ReadOnly => Given::nothing(),
        };
        let mut environment =
            self.host.environment.with(given.variables, &execution.variables, streams, tmp.path());
        let (program, args, end_note) = match &execution.command {
            CommandLine::Shell(line) => shell::wrapped(line, tmp, &mut environment),
            CommandLine::Program(words) => {
                let mut words = words.iter().map(OsString::from);
                (words.next().unwrap_or_default(), words.collect(), EndNote::none())
            }
        };
        let (profile, watch) = profile::profile_for(self, workspace, given.network)?;
        let order = Order {
            command: CommandSpec { program, args, folder: folder.to_owned(), environment },
            profile,
            stdio: match streams {
                Streams::Pipes => Stdio::Pipes,
                Streams::Terminal => TERMINAL,
            },
            timeout: None,
            net: given.net,
        };
        let network = given.network_use;
        Ok(Ready { order, folder: folder.to_owned(), end_note, watch, network })
    }
}

/// Something that only has to be started.
pub(crate) struct Ready {
    order: Order,
    pub(super) folder: PathBuf,
    pub(super) end_note: EndNote,
    pub(crate) watch: Watch,
    pub(crate) network: NetworkUse,
}

impl Ready {
    /// The files and folders that are hidden from it.
    pub(crate) fn masked(&self) -> &[PathBuf] {
        &self.order.profile.masked
    }

    /// Starts it as one of many that come one after the other.
    pub(super) fn spawn(&self, timeout: Option<Duration>) -> Result<Running, ToolError> {
        let order = Order { timeout, ..self.order.clone() };
        warden()?.spawn(order).map_err(|error| failure::of_start(&error))
    }

    /// Starts it as the only one of its kind.
    pub(crate) fn spawn_single(&self) -> Result<Running, ToolError> {
        warden()?.spawn_single(self.order.clone()).map_err(|error| failure::of_start(&error))
    }
}

fn warden() -> Result<&'static Warden, ToolError> {
    if !child::can_be_helper() {
        let message = "this program cannot start commands: it does not begin as zero does";
        return Err(ToolError::failed(Reason::Io, message));
    }
    Warden::shared().map_err(|error| failure::no_warden(&error))
}
