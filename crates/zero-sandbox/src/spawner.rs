//! One helper process that starts commands, so that nothing a command does outlives zero.
//!
//! The warden is this program again under another name, with one thread and nothing of zero's in
//! it. Each command has a keeper, a fork of the warden, which confines and starts it, watches its
//! limits and ends its whole tree. A keeper in whose walls nothing is left waits for another command
//! of the same kind. All notice when zero is gone, however it went, and take everything along.
//!
//! ```text
//! zero ──orders──► warden ──forks──► keeper ──forks──► command and what comes of it
//!   ▲────────────────channel of the command──┘
//! ```
//!
//! Not here: what a command may do ([`SandboxProfile`]), what becomes of its output ([`crate::drain`]).

mod launch;
pub(crate) mod message;
mod prewarmed_sandbox;
mod program_lookup;
mod server;
pub(crate) mod stdio;
mod supervisor;
pub(crate) mod syscalls;
mod worker_pool;

use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cgroup::{CgroupParents, CommandCgroups};
use crate::confinement::ConfinementGap;
use crate::layer_probe::SandboxLayers;
use crate::profile::{CommandSpec, NetworkAccess, ProcessLimits, SandboxProfile};
use crate::running_command::{LimitsReport, ParentStdio, RunningCommand};
use crate::shared_network::SharedNetwork;
use message::{LaunchFailure, LaunchStep, SpawnSpecMessage, SpawnerReply, SpawnerRequest};
pub use server::main;

/// The name under which this program is a warden.
pub const ARGV0: &str = "zero-warden";
/// What is left of a command may take this long to end after its main process.
pub(crate) const LEFTOVER_GRACE: Duration = Duration::from_millis(200);
/// How long walls stand ready after a command: as long as an agent thinks as a rule.
const PREWARM_FOR: Duration = Duration::from_secs(20);
/// How long the end of walls that stand ready is waited for.
const RELEASE_MAX: Duration = Duration::from_secs(10);
/// How long a command may take to start.
const START_MAX: Duration = Duration::from_secs(60);
/// How long the end of a warden is waited for: longer than it waits itself for what it ends.
const SPAWNER_EXIT_MAX: Duration = Duration::from_secs(10);

/// The warden of this process.
static SHARED: OnceLock<Spawner> = OnceLock::new();

/// Starts commands. Can be used by several threads at once.
///
/// Dropping it ends every command it started.
#[derive(Debug)]
pub struct Spawner {
    settings: SpawnerSettings,
    process: Mutex<Option<Arc<SpawnerProcess>>>,
}

/// A command to start.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// What to run.
    pub command: CommandSpec,
    /// What it may do.
    pub profile: SandboxProfile,
    /// What it reads and writes.
    pub stdio: CommandStdio,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// The network it shares with others, under [`NetworkAccess::Loopback`]; its own without.
    pub net: Option<Arc<SharedNetwork>>,
}

/// What a command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStdio {
    /// Three pipes.
    Pipes,
    /// A terminal of that size.
    Pty {
        /// Its lines.
        rows: u16,
        /// Its columns.
        cols: u16,
    },
}

/// What enforces limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitEnforcerChoice {
    /// Control groups where they can be had, the watchdog for the rest.
    #[default]
    Best,
    /// The watchdog, for all of them.
    Watchdog,
}

/// Which layers of confinement are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerSelection {
    /// All that work here.
    #[default]
    All,
    /// All but bubblewrap: no namespaces.
    WithoutBubblewrap,
    /// All but Landlock.
    WithoutLandlock,
}

impl LayerSelection {
    /// What is left of the layers of a machine.
    fn apply(self, layers: SandboxLayers) -> SandboxLayers {
        match self {
            Self::All => layers,
            Self::WithoutBubblewrap => layers.without_bubblewrap(),
            Self::WithoutLandlock => layers.without_landlock(),
        }
    }
}

/// How a warden works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnerSettings {
    /// What enforces limits.
    pub limits_by: LimitEnforcerChoice,
    /// Which layers of confinement are used.
    pub layers: LayerSelection,
    /// How long after a command walls like its own stand ready for the next one. What stands in for
    /// missing files stays as long. With no time at all, none are put up ahead.
    pub ready_for: Duration,
}

impl Default for SpawnerSettings {
    fn default() -> Self {
        let (limits_by, layers) = (LimitEnforcerChoice::default(), LayerSelection::default());
        Self { limits_by, layers, ready_for: PREWARM_FOR }
    }
}

/// Why a command did not start. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no such program.
    #[error("program `{program}` was not found{}", describe_searched_folders(searched))]
    NotFound {
        /// What was asked for.
        program: String,
        /// The folders that were searched; none when a path was given.
        searched: Vec<PathBuf>,
    },
    /// There is one, and it cannot be executed.
    #[error("`{}` cannot be executed: {why}", path.display())]
    NotExecutable {
        /// What was found.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The folder to start in is none.
    #[error("cannot start in folder `{}`", folder.display())]
    BadFolder {
        /// Where it was to start.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The arguments and the environment take more room than there is.
    #[error("the arguments and the environment are too large")]
    TooLarge,
    /// An argument, or a name or value of the environment, cannot be given to a program.
    #[error("{what} cannot be given to a program: it holds a null byte or a misplaced `=`")]
    BadText {
        /// What it is.
        what: String,
    },
    /// It cannot be confined as its profile says.
    #[error("the command cannot be confined: {why}")]
    Refused {
        /// What stands in the way, and what would help.
        why: String,
        /// The promises of the profile that cannot be kept here.
        gaps: Vec<ConfinementGap>,
    },
    /// The system did not start it.
    #[error("could not start the command: {step}")]
    System {
        /// What failed.
        step: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The helper process went away while it started the command.
    #[error("the process that starts commands ended unexpectedly")]
    SpawnerLost,
}

impl SpawnError {
    /// The next thing to try, when we know one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound { .. } => Some("install it, or give its full path"),
            Self::NotExecutable { .. } => Some("run it through its interpreter"),
            Self::TooLarge => Some("give long text through standard input or a file"),
            Self::SpawnerLost => Some("try again"),
            _ => None,
        }
    }
}

impl Spawner {
    /// The warden of this process, started at the first use.
    pub fn shared() -> io::Result<&'static Self> {
        if let Some(warden) = SHARED.get() {
            return Ok(warden);
        }
        // Two threads may both get here; the warden that comes second ends again.
        let warden = Self::start()?;
        Ok(SHARED.get_or_init(|| warden))
    }

    /// Has the warden of this process [rest](Self::rest), if it was started.
    pub fn release_shared_prewarmed() {
        if let Some(warden) = SHARED.get() {
            warden.release_prewarmed();
        }
    }

    /// Takes down walls that stand ready for a command, and waits until nothing of them is left on
    /// the host. To be called before what they stand on goes. The next command has its own again.
    pub fn release_prewarmed(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec};
        let (Some(process), Ok((ours, given))) = (self.lock().clone(), message::create_channel())
        else {
            return;
        };
        // A warden that is gone has taken them along.
        if message::send(&process.orders, &SpawnerRequest::Rest, &[given.as_fd()]).is_ok() {
            drop(given);
            let mut fds = [PollFd::new(&ours, PollFlags::IN)];
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(RELEASE_MAX).ok().as_ref());
        }
    }

    /// Starts a warden. When it dies, the next command starts another.
    pub fn start() -> io::Result<Self> {
        Self::start_with_settings(SpawnerSettings::default())
    }

    /// Starts a warden that works in a certain way.
    pub fn start_with_settings(settings: SpawnerSettings) -> io::Result<Self> {
        let process = Mutex::new(Some(Arc::new(SpawnerProcess::start()?)));
        Ok(Self { settings, process })
    }

    /// Starts a command.
    pub fn spawn(&self, order: SpawnSpec) -> Result<RunningCommand, SpawnError> {
        self.spawn_with_request(
            |like| SpawnerRequest::Command { like },
            self.settings.ready_for,
            order,
        )
    }

    /// Starts a command that is the only one of its kind: walls that are put up ahead stay those of
    /// the commands before it.
    pub fn spawn_one_off(&self, order: SpawnSpec) -> Result<RunningCommand, SpawnError> {
        self.spawn_with_request(|like| SpawnerRequest::Single { like }, Duration::ZERO, order)
    }

    fn spawn_with_request(
        &self,
        wanted: impl FnOnce(u64) -> SpawnerRequest,
        ready_for: Duration,
        order: SpawnSpec,
    ) -> Result<RunningCommand, SpawnError> {
        let SpawnSpec { command, profile, stdio, timeout, net } = order;
        let net = net.filter(|_| profile.network == NetworkAccess::Loopback);
        let command = program_lookup::resolve_program(command)?;
        let SpawnerSettings { limits_by, layers, .. } = self.settings;
        let wanted = &wanted(sandbox_key(&profile, limits_by, layers));
        let joins = net.is_some();
        let stood_in = Vec::new();
        let text = SpawnSpecMessage {
            command,
            profile,
            timeout,
            limits_by,
            layers,
            ready_for,
            joins,
            stood_in,
        };
        match self.dispatch(wanted, &text, stdio, net.as_deref()) {
            // The warden died before it got to it: there is another by now, or will be.
            Err(DispatchError::NotAccepted) => self.dispatch(wanted, &text, stdio, net.as_deref()),
            given => given,
        }
        .map_err(|lost| match lost {
            DispatchError::NotAccepted | DispatchError::LostAfterAccept => SpawnError::SpawnerLost,
            DispatchError::Failed(error) => error,
        })
    }

    /// Gives an order to the warden and waits until its command runs.
    fn dispatch(
        &self,
        wanted: &SpawnerRequest,
        text: &SpawnSpecMessage,
        stdio: CommandStdio,
        net: Option<&SharedNetwork>,
    ) -> Result<RunningCommand, DispatchError> {
        let system = |step: &'static str| {
            move |source: io::Error| DispatchError::Failed(SpawnError::System { step, source })
        };
        let (ends, child_ends) = stdio::open_stdio(stdio).map_err(system("opening its streams"))?;
        let (channel, keeper_channel) =
            message::create_channel().map_err(system("a channel to it"))?;
        let memory = text.to_memfd().map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => DispatchError::Failed(SpawnError::TooLarge),
            _ => system("writing the order")(error),
        })?;
        let mut fds = vec![memory.as_fd(), keeper_channel.as_fd()];
        fds.extend(child_ends.iter().map(|fd| fd.as_fd()));
        fds.extend(net.map(SharedNetwork::as_fd));
        self.send(wanted, &fds).map_err(system("reaching the warden"))?;
        // Only the keeper holds the other ends now, so that its end is seen here.
        drop((child_ends, keeper_channel, memory));
        wait_until_started(channel, ends, &text.command)
    }

    /// What enforces limits here, for commands like those with this profile.
    #[must_use]
    pub fn limits_report(&self, limits: &ProcessLimits) -> LimitsReport {
        match self.settings.limits_by {
            LimitEnforcerChoice::Watchdog => CommandCgroups::default().report(),
            // The groups are made, which proves that they can be, and go away again.
            LimitEnforcerChoice::Best => {
                CommandCgroups::create(&CgroupParents::find(), limits).report()
            }
        }
    }

    /// The layers of confinement that its commands get.
    pub(crate) fn layers(&self) -> SandboxLayers {
        self.settings.layers.apply(SandboxLayers::probe())
    }

    /// The number of the helper process, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.lock().as_ref().map(|process| process.pid)
    }

    /// Sends an order; to a new warden if the old one is gone.
    fn send(&self, wanted: &SpawnerRequest, fds: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
        let current = self.lock().clone();
        if let Some(process) = current {
            match message::send(&process.orders, wanted, fds) {
                Err(error) if is_disconnected(&error) => self.discard_process(&process),
                sent => return sent,
            }
        }
        let process = {
            let mut process = self.lock();
            match &*process {
                // Another thread was faster.
                Some(process) => Arc::clone(process),
                None => {
                    let new = Arc::new(SpawnerProcess::start()?);
                    *process = Some(Arc::clone(&new));
                    new
                }
            }
        };
        message::send(&process.orders, wanted, fds)
    }

    /// Forgets a warden that is gone, unless there is another one already.
    fn discard_process(&self, gone: &Arc<SpawnerProcess>) {
        let mut process = self.lock();
        if process.as_ref().is_some_and(|process| Arc::ptr_eq(process, gone)) {
            *process = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<SpawnerProcess>>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The helper process.
#[derive(Debug)]
struct SpawnerProcess {
    pid: u32,
    child: Mutex<Child>,
    orders: OwnedFd,
}

impl SpawnerProcess {
    fn start() -> io::Result<Self> {
        let (orders, given) = message::create_channel()?;
        #[expect(clippy::disallowed_methods, reason = "this is who starts children")]
        let child = std::process::Command::new("/proc/self/exe")
            .arg0(ARGV0)
            // What zero was told is nobody's business there.
            .env_clear()
            .current_dir("/")
            .stdin(given)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        let process = Self { pid: child.id(), child: Mutex::new(child), orders };
        // Before it gets an order: what it starts has what it has.
        crate::open_file_limit::restore_for_child(process.pid)?;
        Ok(process)
    }
}

impl Drop for SpawnerProcess {
    fn drop(&mut self) {
        // It ends when nobody can send it orders any more.
        let _ = rustix::net::shutdown(&self.orders, rustix::net::Shutdown::Both);
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + SPAWNER_EXIT_MAX;
        while Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn is_disconnected(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

/// A number that is the same for orders that want the same walls, and as good as never otherwise.
/// Whether they are the same is looked at where they stand.
fn sandbox_key(
    profile: &SandboxProfile,
    limits_by: LimitEnforcerChoice,
    layers: LayerSelection,
) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (profile, limits_by, layers).hash(&mut hasher);
    hasher.finish()
}

/// Why an order came to nothing.
#[derive(Debug)]
enum DispatchError {
    /// Nobody took it before the other side was gone: nothing of it was started.
    NotAccepted,
    /// Whoever took it is gone, and may have started it.
    LostAfterAccept,
    /// It failed.
    Failed(SpawnError),
}

/// Waits until a command runs.
fn wait_until_started(
    channel: OwnedFd,
    ends: ParentStdio,
    command: &CommandSpec,
) -> Result<RunningCommand, DispatchError> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let until = Instant::now() + START_MAX;
    let mut lost = DispatchError::NotAccepted;
    loop {
        match message::try_receive::<SpawnerReply>(&channel) {
            Ok(Some(SpawnerReply::Taken)) => {
                lost = DispatchError::LostAfterAccept;
                continue;
            }
            Ok(Some(SpawnerReply::Started { pid, limits, confinement, walls })) => {
                return Ok(RunningCommand::new(pid, limits, confinement, walls, channel, ends));
            }
            Ok(Some(SpawnerReply::Failed(failure))) => {
                return Err(DispatchError::Failed(explain_failure(failure, command)));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(None) => return Err(lost),
            Err(error) if is_disconnected(&error) => return Err(lost),
            Ok(Some(SpawnerReply::Ended(_))) | Err(_) => {
                return Err(DispatchError::LostAfterAccept);
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let source = io::Error::from(io::ErrorKind::TimedOut);
            let step = "it took too long";
            return Err(DispatchError::Failed(SpawnError::System { step, source }));
        }
        let mut fds = [PollFd::new(&channel, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref());
    }
}

/// What a failure on the other side means here.
fn explain_failure(failure: LaunchFailure, command: &CommandSpec) -> SpawnError {
    let LaunchFailure { step, errno, text, gaps } = failure;
    let source = errno.map_or_else(|| io::Error::other(text.clone()), io::Error::from_raw_os_error);
    let path = || PathBuf::from(&command.program);
    let not_executable = |why| SpawnError::NotExecutable { path: path(), why };
    match (step, errno) {
        (LaunchStep::Confine, _) => SpawnError::Refused { why: text, gaps },
        (LaunchStep::Folder, _) => SpawnError::BadFolder { folder: command.folder.clone(), source },
        (LaunchStep::Find, _) => not_executable("what confines the command hides it"),
        (LaunchStep::Execute, Some(libc::E2BIG)) => SpawnError::TooLarge,
        // It was there when it was looked up: what is missing is what its first line names.
        (LaunchStep::Execute, Some(libc::ENOENT)) => {
            not_executable("its interpreter does not exist")
        }
        (LaunchStep::Execute, Some(libc::ENOEXEC)) => not_executable("it is no program"),
        (LaunchStep::Execute, Some(libc::EACCES)) => {
            not_executable("the system does not permit it")
        }
        (LaunchStep::Execute, _) => SpawnError::System { step: "executing it", source },
        (LaunchStep::Order, _) => SpawnError::System { step: "reading the order", source },
        (LaunchStep::Fork, _) => SpawnError::System { step: "making a process", source },
        (LaunchStep::Cgroup, _) => {
            SpawnError::System { step: "joining its control groups", source }
        }
        (LaunchStep::Network, _) => SpawnError::System { step: "going into its network", source },
        (LaunchStep::Stdio, _) => SpawnError::System { step: "connecting its streams", source },
    }
}

fn describe_searched_folders(folders: &[PathBuf]) -> String {
    let folders: Vec<String> = folders.iter().map(|path| format!("`{}`", path.display())).collect();
    if folders.is_empty() { String::new() } else { format!(" in {}", folders.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_dispatched_again_only_if_not_accepted() {
        #[track_caller]
        fn check(told: &[SpawnerReply], is_untaken: bool) {
            let (ours, theirs) = message::create_channel().unwrap();
            for told in told {
                message::send(&theirs, told, &[]).unwrap();
            }
            drop(theirs);
            let (ends, _) = stdio::open_stdio(CommandStdio::Pipes).unwrap();
            let command = CommandSpec {
                program: "x".into(),
                args: Vec::new(),
                folder: "/".into(),
                environment: Vec::new(),
            };
            let lost = wait_until_started(ours, ends, &command).unwrap_err();
            assert_eq!(matches!(lost, DispatchError::NotAccepted), is_untaken, "{lost:?}");
            assert_eq!(matches!(lost, DispatchError::LostAfterAccept), !is_untaken, "{lost:?}");
        }
        check(&[], true);
        check(&[SpawnerReply::Taken], false);
    }
}
