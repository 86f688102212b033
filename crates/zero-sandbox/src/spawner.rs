//! Starts commands through a helper process, so that no process of a command outlives zero.
//!
//! [`Spawner`] is zero's side: it starts the helper, the spawner process, which is this program
//! under another name ([`ARGV0`]) with one thread and none of zero's state. For each command
//! ([`SpawnSpec`]) the spawner process forks a supervisor, which sets up the sandbox, starts the
//! command, watches its limits and kills its whole process tree. If a command leaves nothing
//! behind, its supervisor keeps the sandbox for the next command of the same kind. All of these
//! processes notice when zero exits, for whatever reason, and end everything they started.
//!
//! ```text
//! zero ──requests──► spawner ──forks──► supervisor ──forks──► command and its descendants
//!   ▲────────────────channel of the command──┘
//! ```
//!
//! Not here: what a command may do ([`SandboxProfile`]), and how its output is read
//! ([`crate::output_collector`]).

mod launch;
pub(crate) mod message;
mod prewarmed_sandbox;
mod program_lookup;
pub(crate) mod server;
mod spawner_settings;
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

use crate::cgroup::{CgroupParents, CommandCgroups};
use crate::confinement::ConfinementGap;
use crate::layer_probe::SandboxLayers;
use crate::profile::{CommandSpec, NetworkAccess, ProcessLimits, SandboxProfile, SandboxProperty};
use crate::running_command::{LimitsReport, ParentStdio, RunningCommand};
use crate::shared_network::SharedNetwork;
use message::{LaunchFailure, LaunchStep, SpawnSpecMessage, SpawnerReply, SpawnerRequest};
pub use spawner_settings::{LayerSelection, LimitEnforcerChoice, SpawnerSettings};

/// The name (`argv[0]`) under which this program runs as the spawner process.
pub const ARGV0: &str = "zero-warden";
/// How long [`Spawner::release_prewarmed`] waits until prewarmed sandboxes are gone.
const RELEASE_MAX: Duration = Duration::from_secs(10);
/// How long a command may take to start.
const START_MAX: Duration = Duration::from_secs(60);
/// How long to wait for the spawner process to exit. Longer than the spawner itself waits for the
/// processes it ends.
const SPAWNER_EXIT_MAX: Duration = Duration::from_secs(10);

/// The spawner that [`Spawner::shared`] returns.
static SHARED: OnceLock<Spawner> = OnceLock::new();
/// Held while it starts, so that all callers wait for the same one.
static SHARED_START: Mutex<()> = Mutex::new(());

/// Starts commands in the sandbox. Can be used by several threads at once.
///
/// Dropping it ends every command it started.
#[derive(Debug)]
pub struct Spawner {
    settings: SpawnerSettings,
    process: Mutex<Option<Arc<SpawnerProcess>>>,
}

/// A command to start, with everything that is fixed at its start.
#[derive(Clone, Debug)]
pub struct SpawnSpec {
    /// The program, its arguments, folder and environment.
    pub command: CommandSpec,
    /// What the command may read, write and connect to.
    pub profile: SandboxProfile,
    /// Pipes or a terminal.
    pub stdio: CommandStdio,
    /// How long the command may run; without a limit if `None`.
    pub timeout: Option<Duration>,
    /// The network namespace that the command shares with others under [`NetworkAccess::Loopback`].
    /// If `None`, it gets its own.
    pub net: Option<Arc<SharedNetwork>>,
    /// Where the listener of its changes is sent, if they are recorded.
    pub capture: Option<Arc<OwnedFd>>,
}

/// How the standard streams of a command are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStdio {
    /// One pipe each for standard input, output and error output.
    Pipes,
    /// A pseudoterminal of the given size, for all three streams.
    Pty {
        /// Height in lines.
        rows: u16,
        /// Width in columns.
        cols: u16,
    },
}

/// Most folders that an error about a missing program names.
const SEARCHED_SHOWN_MAX: usize = 4;

/// Why a command did not start. No process of it is running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// No program of this name exists.
    #[error("program `{program}` was not found{}", describe_searched_folders(searched))]
    NotFound {
        /// The name or path that was requested.
        program: String,
        /// The folders that were searched; empty if a path was given.
        searched: Vec<PathBuf>,
    },
    /// The program exists but cannot be executed.
    #[error("`{}` cannot be executed: {why}", path.display())]
    NotExecutable {
        /// The file that was found.
        path: PathBuf,
        /// What prevents its execution.
        why: &'static str,
    },
    /// The working folder does not exist or is not a folder.
    #[error("cannot start in folder `{}`", folder.display())]
    BadFolder {
        /// The folder that was requested.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The arguments and the environment exceed what the kernel accepts.
    #[error("the arguments and the environment are larger than the kernel accepts")]
    TooLarge,
    /// An argument, or a name or value of the environment, cannot be passed to a program.
    #[error("{what} cannot be given to a program: it contains a null byte or a misplaced `=`")]
    BadText {
        /// Which text it is, for the message.
        what: String,
    },
    /// The sandbox cannot enforce the profile.
    #[error("the command cannot be confined: {why}")]
    Refused {
        /// What prevents it, and what would help.
        why: String,
        /// The properties of the profile that cannot be enforced here.
        gaps: Vec<ConfinementGap>,
    },
    /// A system call failed.
    #[error("could not start the command: {step}")]
    System {
        /// What zero was doing.
        step: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The spawner process ended while it started the command.
    #[error("the spawner process ended unexpectedly")]
    SpawnerLost,
}

impl SpawnError {
    /// What the user can do about it, if there is something.
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
    /// Returns the spawner of this process and starts it at the first use.
    pub fn shared() -> io::Result<&'static Self> {
        if let Some(spawner) = SHARED.get() {
            return Ok(spawner);
        }
        let _starting = SHARED_START.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(spawner) = SHARED.get() {
            return Ok(spawner);
        }
        let spawner = Self::start()?;
        Ok(SHARED.get_or_init(|| spawner))
    }

    /// Starts the shared spawner while the caller prepares the first command: its process needs a few
    /// milliseconds to find out what this machine can confine. If that fails, the command says so.
    pub fn start_shared_early() {
        if SHARED.get().is_none() {
            let thread = std::thread::Builder::new().name("zero-spawner-start".to_owned());
            let _ = thread.spawn(|| drop(Self::shared()));
        }
    }

    /// [Releases the prewarmed sandboxes](Self::release_prewarmed) of the shared spawner, if it was
    /// started.
    pub fn release_shared_prewarmed() {
        if let Some(spawner) = SHARED.get() {
            spawner.release_prewarmed();
        }
    }

    /// Removes prewarmed sandboxes and waits until nothing of them is left on the host. Call it
    /// before the folders they mount are removed. The next command gets a new sandbox.
    pub fn release_prewarmed(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec};
        let (Some(process), Ok((ours, given))) = (self.lock().clone(), message::create_channel())
        else {
            return;
        };
        // If the spawner process has ended, its sandboxes have too.
        if message::send(&process.orders, &SpawnerRequest::Discard, &[given.as_fd()]).is_ok() {
            drop(given);
            let mut fds = [PollFd::new(&ours, PollFlags::IN)];
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(RELEASE_MAX).ok().as_ref());
        }
    }

    /// Starts a spawner with default settings. If its process dies, the next command starts
    /// another.
    pub fn start() -> io::Result<Self> {
        Self::start_with_settings(SpawnerSettings::default())
    }

    /// Starts a spawner with the given settings.
    pub fn start_with_settings(settings: SpawnerSettings) -> io::Result<Self> {
        let process = Mutex::new(Some(Arc::new(SpawnerProcess::start()?)));
        Ok(Self { settings, process })
    }

    /// Starts a command and returns once its program runs.
    pub fn spawn(&self, order: SpawnSpec) -> Result<RunningCommand, SpawnError> {
        self.spawn_with_request(
            |like, joins| SpawnerRequest::Command { like, joins },
            self.settings.ready_for,
            order,
        )
    }

    /// Starts a command that is the only one of its kind: the next prewarmed sandbox is for the
    /// kind of the commands before it.
    pub fn spawn_one_off(&self, order: SpawnSpec) -> Result<RunningCommand, SpawnError> {
        self.spawn_with_request(|like, _| SpawnerRequest::Single { like }, Duration::ZERO, order)
    }

    /// Starts a command outside the sandbox, because the user decided so: of its profile, only the
    /// limits and the folder for temporary files apply.
    pub fn spawn_outside(&self, order: SpawnSpec) -> Result<RunningCommand, SpawnError> {
        let profile = SandboxProfile {
            writable: Vec::new(),
            changeable: Vec::new(),
            protected: Vec::new(),
            protected_files: Vec::new(),
            masked: Vec::new(),
            readable: Vec::new(),
            network: NetworkAccess::Host,
            weaknesses: SandboxProperty::ALL.to_vec(),
            ..order.profile
        };
        self.spawn_with_layers(
            |like, _| SpawnerRequest::Single { like },
            (Duration::ZERO, LayerSelection::Nothing),
            SpawnSpec { profile, net: None, ..order },
        )
    }

    fn spawn_with_request(
        &self,
        request: impl FnOnce(u64, bool) -> SpawnerRequest,
        ready_for: Duration,
        order: SpawnSpec,
    ) -> Result<RunningCommand, SpawnError> {
        self.spawn_with_layers(request, (ready_for, self.settings.layers), order)
    }

    fn spawn_with_layers(
        &self,
        request: impl FnOnce(u64, bool) -> SpawnerRequest,
        (ready_for, layers): (Duration, LayerSelection),
        order: SpawnSpec,
    ) -> Result<RunningCommand, SpawnError> {
        let SpawnSpec { command, profile, stdio, timeout, net, capture } = order;
        let net = net.filter(|_| profile.network == NetworkAccess::Loopback);
        let command = program_lookup::resolve_program(command)?;
        let SpawnerSettings { limits_by, .. } = self.settings;
        let joins = net.is_some();
        let request = &request(sandbox_key(&profile, limits_by, layers), joins);
        let stood_in = Vec::new();
        let text = SpawnSpecMessage {
            command,
            profile,
            timeout,
            limits_by,
            layers,
            ready_for,
            joins,
            captures: capture.is_some(),
            stood_in,
        };
        let capture = capture.as_deref();
        match self.dispatch(request, &text, stdio, (net.as_deref(), capture)) {
            // The spawner process died before it accepted the command; send it to a new one.
            Err(DispatchError::NotAccepted) => {
                self.dispatch(request, &text, stdio, (net.as_deref(), capture))
            }
            given => given,
        }
        .map_err(|lost| match lost {
            DispatchError::NotAccepted | DispatchError::LostAfterAccept => SpawnError::SpawnerLost,
            DispatchError::Failed(error) => error,
        })
    }

    /// Sends a request to the spawner process and waits until its command runs.
    fn dispatch(
        &self,
        request: &SpawnerRequest,
        text: &SpawnSpecMessage,
        stdio: CommandStdio,
        (net, capture): (Option<&SharedNetwork>, Option<&OwnedFd>),
    ) -> Result<RunningCommand, DispatchError> {
        let system = |step: &'static str| {
            move |source: io::Error| DispatchError::Failed(SpawnError::System { step, source })
        };
        let (ends, child_ends) = stdio::open_stdio(stdio).map_err(system("opening its streams"))?;
        let (channel, supervisor_channel) =
            message::create_channel().map_err(system("a channel to it"))?;
        let memory = text.to_memfd().map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => DispatchError::Failed(SpawnError::TooLarge),
            _ => system("writing the request")(error),
        })?;
        let mut fds = vec![memory.as_fd(), supervisor_channel.as_fd()];
        fds.extend(child_ends.iter().map(|fd| fd.as_fd()));
        fds.extend(capture.map(OwnedFd::as_fd));
        fds.extend(net.map(SharedNetwork::as_fd));
        self.send(request, &fds).map_err(system("contacting the spawner process"))?;
        // Now only the supervisor holds the other ends, so that we notice when it ends.
        drop((child_ends, supervisor_channel, memory));
        wait_until_started(channel, ends, &text.command)
    }

    /// Reports what enforces these limits for commands of this spawner.
    #[must_use]
    pub fn limits_report(&self, limits: &ProcessLimits) -> LimitsReport {
        match self.settings.limits_by {
            LimitEnforcerChoice::Watchdog => CommandCgroups::default().report(),
            // Creates the groups to prove that this works, and removes them again.
            LimitEnforcerChoice::Best => {
                CommandCgroups::create(&CgroupParents::find(), limits).report()
            }
        }
    }

    /// The sandbox layers that its commands get.
    pub(crate) fn layers(&self) -> SandboxLayers {
        self.settings.layers.apply(SandboxLayers::probe())
    }

    /// The process ID of the spawner process, if it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.lock().as_ref().map(|process| process.pid)
    }

    /// Sends a request, to a new spawner process if the old one has ended.
    fn send(
        &self,
        request: &SpawnerRequest,
        fds: &[std::os::fd::BorrowedFd<'_>],
    ) -> io::Result<()> {
        let current = self.lock().clone();
        if let Some(process) = current {
            match message::send(&process.orders, request, fds) {
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
        message::send(&process.orders, request, fds)
    }

    /// Forgets a spawner process that has ended, unless it was replaced already.
    fn discard_process(&self, old_spawner: &Arc<SpawnerProcess>) {
        let mut process = self.lock();
        if process.as_ref().is_some_and(|process| Arc::ptr_eq(process, old_spawner)) {
            *process = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<SpawnerProcess>>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The spawner process, seen from zero.
#[derive(Debug)]
struct SpawnerProcess {
    pid: u32,
    child: Mutex<Child>,
    orders: OwnedFd,
}

impl SpawnerProcess {
    fn start() -> io::Result<Self> {
        let (orders, given) = message::create_channel()?;
        #[expect(clippy::disallowed_methods, reason = "this module starts the child processes")]
        let child = std::process::Command::new("/proc/self/exe")
            .arg0(ARGV0)
            // The environment of zero may contain secrets.
            .env_clear()
            .current_dir("/")
            .stdin(given)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()?;
        let process = Self { pid: child.id(), child: Mutex::new(child), orders };
        // Before the first request, since commands inherit the limit.
        crate::open_file_limit::restore_for_child(process.pid)?;
        Ok(process)
    }
}

impl Drop for SpawnerProcess {
    fn drop(&mut self) {
        // It exits when its request channel is closed.
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

/// A hash that is equal for commands that need the same sandbox, and practically never otherwise.
/// The supervisor compares the profiles themselves.
fn sandbox_key(
    profile: &SandboxProfile,
    limits_by: LimitEnforcerChoice,
    layers: LayerSelection,
) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (profile, limits_by, layers).hash(&mut hasher);
    hasher.finish()
}

/// Why a request failed.
#[derive(Debug)]
enum DispatchError {
    /// The other side was gone before it accepted the request: nothing was started.
    NotAccepted,
    /// The supervisor accepted the request and is gone; it may have started the command.
    LostAfterAccept,
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
            Ok(Some(SpawnerReply::Started { pid, limits, confinement, sandbox_reuse })) => {
                return Ok(RunningCommand::new(
                    pid,
                    limits,
                    confinement,
                    sandbox_reuse,
                    channel,
                    ends,
                ));
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

/// Translates a failure in the supervisor into an error for the caller.
fn explain_failure(failure: LaunchFailure, command: &CommandSpec) -> SpawnError {
    let LaunchFailure { step, errno, text, gaps } = failure;
    let source = errno.map_or_else(|| io::Error::other(text.clone()), io::Error::from_raw_os_error);
    let path = || PathBuf::from(&command.program);
    let not_executable = |why| SpawnError::NotExecutable { path: path(), why };
    match (step, errno) {
        (LaunchStep::Confine, _) => SpawnError::Refused { why: text, gaps },
        (LaunchStep::Folder, _) => SpawnError::BadFolder { folder: command.folder.clone(), source },
        (LaunchStep::Find, _) => not_executable("the sandbox hides it"),
        (LaunchStep::Execute, Some(libc::E2BIG)) => SpawnError::TooLarge,
        // The program was found before, so the interpreter that its first line names is missing.
        (LaunchStep::Execute, Some(libc::ENOENT)) => {
            not_executable("its interpreter does not exist")
        }
        (LaunchStep::Execute, Some(libc::ENOEXEC)) => not_executable("it is not a program"),
        (LaunchStep::Execute, Some(libc::EACCES)) => {
            not_executable("the system does not permit it")
        }
        (LaunchStep::Execute, _) => SpawnError::System { step: "executing it", source },
        (LaunchStep::Order, _) => SpawnError::System { step: "reading the request", source },
        (LaunchStep::Fork, _) => SpawnError::System { step: "making a process", source },
        (LaunchStep::Cgroup, _) => {
            SpawnError::System { step: "joining its control groups", source }
        }
        (LaunchStep::Network, _) => SpawnError::System { step: "joining its network", source },
        (LaunchStep::Stdio, _) => SpawnError::System { step: "connecting its streams", source },
    }
}

/// Names the first of the folders that were searched, each once.
fn describe_searched_folders(folders: &[PathBuf]) -> String {
    let mut named: Vec<&PathBuf> = Vec::new();
    for folder in folders {
        if !named.contains(&folder) {
            named.push(folder);
        }
    }
    let more = match named.len().saturating_sub(SEARCHED_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more folders of `PATH`"),
    };
    named.truncate(SEARCHED_SHOWN_MAX);
    let named: Vec<String> = named.iter().map(|path| format!("`{}`", path.display())).collect();
    if named.is_empty() { String::new() } else { format!(" in {}{more}", named.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_dispatched_again_only_if_not_accepted() {
        #[track_caller]
        fn check(replies: &[SpawnerReply], is_untaken: bool) {
            let (ours, theirs) = message::create_channel().unwrap();
            for reply in replies {
                message::send(&theirs, reply, &[]).unwrap();
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
