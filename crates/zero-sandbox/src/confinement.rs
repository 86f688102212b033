//! Combines a [`SandboxProfile`] with the [`SandboxLayers`] of this machine into a
//! [`PreparedCommand`], which is a command ready to start in its sandbox.
//!
//! With bubblewrap, the command runs in its own namespaces, where most of the profile is enforced
//! by mounts, and this binary is started once more inside ([`sandbox_init`]) to apply the rest.
//! Without bubblewrap, the process that becomes the command applies all restrictions itself. In
//! both cases Landlock, the seccomp filter and the limits come last, right before exec. A
//! bubblewrap sandbox can be set up before there is a command: see [`bubblewrap_sandbox`].
//!
//! A property that no layer can enforce is an error that names it, unless the profile accepts the
//! weakness; then [`ConfinementReport::missing`] lists it.
//!
//! Known limits of this kind of confinement: a masked file can be read through another hard link
//! that exists already. If a program on the host replaces a file while the command runs, the mount
//! on that file is lost. If a program replaces a folder of the workspace by a link while the
//! sandbox is set up, bubblewrap may create an empty file or folder at the target of the link, with
//! the name of a protected or masked path in that folder, and nothing more: see
//! [`expected_mounts`]. Without namespaces, the command can see the names and arguments of the
//! host's processes.

mod bubblewrap_sandbox;
pub(crate) mod capture_filter;
mod expected_mounts;
pub(crate) mod gaps;
pub(crate) mod host_sockets;
pub(crate) mod init_report;
pub(crate) mod landlock;
mod mount_plan;
mod path_layout;
mod placeholders;
pub(crate) mod residue;
mod restrictions;
pub(crate) mod sandbox_init;
pub(crate) mod syscall_filter;

use std::ffi::{CStr, CString, NulError};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

pub use self::gaps::ConfinementGap;

use self::bubblewrap_sandbox::{BubblewrapSandbox, SandboxSpec};
use self::expected_mounts::MountMismatchError;
use self::host_sockets::HostSockets;
use self::landlock::{LandlockAccess, LandlockRule, TcpAccess};
use self::path_layout::{PathAccess, PathLayout};
use self::restrictions::{PreparedRestrictions, ProcessRestrictions, RestrictionError};
use self::sandbox_init::ExecImage;
use self::syscall_filter::SocketAccess;
use crate::layer_probe::SandboxLayers;
use crate::limit_watchdog::disk_watch;
use crate::profile::{CommandSpec, NetworkAccess, SandboxProfile, SandboxProperty};
use crate::running_command::ConfinementReport;
use crate::shared_network::NetworkIdentity;

/// Most Landlock rules about files for one command.
const RULES_MAX: usize = 8192;

/// Devices that expose no data. Terminals are not listed, since they include the user's.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// The streams of a command, and the channel for the listener of its changes.
pub(crate) type CommandHandles<'a> = ([&'a OwnedFd; 3], Option<&'a OwnedFd>);

/// Which network a command has, if it is not the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkOwner {
    /// A network namespace created for it.
    Own,
    /// The network namespace in which it is started.
    Session,
}

impl NetworkOwner {
    /// The owner for a command that joins this network, or none.
    pub(crate) fn for_network(network: Option<NetworkIdentity>) -> Self {
        if network.is_some() { Self::Session } else { Self::Own }
    }
}

/// Why a command cannot be confined as its profile demands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfineError {
    /// This machine cannot enforce part of the profile.
    #[error("{}", gaps::describe_gaps(.0))]
    Unenforceable(Vec<ConfinementGap>),
    /// A path is relative, so its meaning depends on the working folder.
    #[error("`{}` is not an absolute path", path.display())]
    NotAbsolute {
        /// The relative path.
        path: PathBuf,
    },
    /// A profile with a writable `/` would confine nothing.
    #[error("`/` cannot be a writable folder")]
    WritableRoot,
    /// A writable path goes through a link that a command could have created.
    #[error(
        "`{}` is a link in a folder that commands can write to, so it could point anywhere: make \
         its target writable by its own path, or replace the link by a real folder",
        path.display()
    )]
    LinkedWritable {
        /// The link.
        path: PathBuf,
    },
    /// The private `/tmp` does not exist.
    #[error("the private folder for temporary files `{}` does not exist", path.display())]
    NoTmp {
        /// The configured path.
        path: PathBuf,
    },
    /// The mounts could not be prepared.
    #[error("the mounts could not be prepared")]
    Mounts(#[source] io::Error),
    /// A mounted path has changed on the host.
    #[error(transparent)]
    Changed(#[from] MountMismatchError),
    /// The restrictions could not be prepared.
    #[error(transparent)]
    Restrict(#[from] RestrictionError),
    /// Part of the command contains a null byte.
    #[error("the command contains a null byte")]
    ZeroByte(#[from] NulError),
    /// The program that links this crate does not check its `argv[0]` first.
    #[error("this program cannot start itself as a helper: `main` must begin with `from_argv0`")]
    NoHelper,
    /// The plan could not be passed to the init process.
    #[error("the command could not be passed to the sandbox; try again")]
    HandOver(#[source] io::Error),
}

/// A command that is ready to start, confined.
#[derive(Debug)]
pub(crate) struct PreparedCommand {
    method: ConfinementMethod,
    confinement: ConfinementReport,
}

/// How the command is confined.
#[derive(Debug)]
enum ConfinementMethod {
    /// By bubblewrap and the init process inside it.
    Bubblewrap(Box<BubblewrapSandbox>),
    /// By the process itself, right before exec.
    Direct(ExecImage, PreparedRestrictions),
}

impl PreparedCommand {
    /// Prepares `command` to run under `profile` with these `layers` and `streams`. It gets its own
    /// network or joins the one it is started in, as `network_owner` says, and `sockets` of the
    /// host are hidden.
    pub(crate) fn new(
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        command: &CommandSpec,
        (streams, capture): CommandHandles<'_>,
        network_owner: NetworkOwner,
        sockets: &HostSockets,
    ) -> Result<Self, ConfineError> {
        let plan = ConfinementPlan::new(profile, layers, &command.folder, &|_| false)?;
        let method = match &layers.bubblewrap {
            Ok(bubblewrap) => {
                let terminal = bubblewrap_sandbox::find_terminal_name(streams[0]);
                let (layout, folder) = (&plan.layout, command.folder.as_path());
                let terminal = terminal.as_deref();
                let purpose = SandboxSpec {
                    bubblewrap,
                    profile,
                    layout,
                    folder,
                    terminal,
                    network_owner,
                    sockets,
                };
                let mut inside = BubblewrapSandbox::new(&purpose)?;
                let restrictions = plan.to_filtered_restrictions()?;
                let command = with_tmp(command, Path::new(mount_plan::TMP));
                inside
                    .send_plan(command, restrictions, (streams, capture))
                    .map_err(ConfineError::HandOver)?;
                ConfinementMethod::Bubblewrap(Box::new(inside))
            }
            Err(_) => {
                let image = ExecImage::new(&with_tmp(command, &profile.tmp))?;
                ConfinementMethod::Direct(
                    image,
                    PreparedRestrictions::new(&plan.restrictions, &command.folder)?,
                )
            }
        };
        Ok(Self { method, confinement: plan.confinement })
    }

    /// Prepares a sandbox for a command under `profile` that is not known yet, except for its
    /// folder. Returns `None` if there is nothing to prepare, or if a placeholder would be needed
    /// for a path that `may_stand_in` does not list: a path that existed for the last command and
    /// is gone now may be one that the next command may create.
    pub(crate) fn prewarm(
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        folder: &Path,
        network_owner: NetworkOwner,
        may_stand_in: &[PathBuf],
    ) -> Result<Option<Self>, ConfineError> {
        let Ok(bubblewrap) = &layers.bubblewrap else { return Ok(None) };
        let plan = ConfinementPlan::new(profile, layers, folder, &|_| false)?;
        if mount_plan::missing_paths(&plan.layout)
            .any(|(path, ..)| !is_covered_by(path, may_stand_in))
        {
            return Ok(None);
        }
        let (layout, terminal) = (&plan.layout, None);
        let sockets = &HostSockets::for_command(profile, folder);
        let purpose =
            SandboxSpec { bubblewrap, profile, layout, folder, terminal, network_owner, sockets };
        let inside = BubblewrapSandbox::new(&purpose)?;
        let method = ConfinementMethod::Bubblewrap(Box::new(inside));
        Ok(Some(Self { method, confinement: plan.confinement }))
    }

    /// The channel of a [prewarmed](Self::prewarm) sandbox. It is readable once the sandbox is
    /// [ready](Self::is_ready) or has failed.
    pub(crate) fn init_channel(&self) -> Option<&OwnedFd> {
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => inside.init_channel(),
            ConfinementMethod::Direct(..) => None,
        }
    }

    /// Whether the sandbox is set up. Call it when the [channel](Self::init_channel) is readable.
    pub(crate) fn is_ready(&mut self) -> bool {
        match &mut self.method {
            ConfinementMethod::Bubblewrap(inside) => inside.is_ready(),
            ConfinementMethod::Direct(..) => false,
        }
    }

    /// Starts a command in a sandbox that is ready, if it is the sandbox that the command would get
    /// now. If this returns false, the sandbox cannot be used any more.
    pub(crate) fn assign_command(
        &mut self,
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        command: &CommandSpec,
        network_owner: NetworkOwner,
        (streams, capture): CommandHandles<'_>,
    ) -> bool {
        let terminal = bubblewrap_sandbox::find_terminal_name(streams[0]);
        let folder = command.folder.as_path();
        let plan = self.plan_if_valid(profile, layers, folder, network_owner, terminal.as_deref());
        let (Some(plan), ConfinementMethod::Bubblewrap(inside)) = (plan, &mut self.method) else {
            return false;
        };
        let Ok(restrictions) = plan.to_filtered_restrictions() else { return false };
        self.confinement = plan.confinement;
        let command = with_tmp(command, Path::new(mount_plan::TMP));
        inside.send_plan(command, restrictions, (streams, capture)).is_ok()
    }

    /// After a command of which no process is left: whether it left nothing else in the sandbox, so
    /// that another command can be [assigned](Self::assign_command).
    pub(crate) fn is_reusable(&mut self) -> bool {
        match &mut self.method {
            ConfinementMethod::Bubblewrap(inside) => inside.is_reusable(),
            ConfinementMethod::Direct(..) => false,
        }
    }

    /// Makes the init process exit once it has no command.
    pub(crate) fn close(&mut self) {
        if let ConfinementMethod::Bubblewrap(inside) = &mut self.method {
            inside.close();
        }
    }

    fn plan_if_valid(
        &mut self,
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        folder: &Path,
        network_owner: NetworkOwner,
        terminal: Option<&Path>,
    ) -> Option<ConfinementPlan> {
        let (ConfinementMethod::Bubblewrap(inside), Ok(bubblewrap)) =
            (&mut self.method, &layers.bubblewrap)
        else {
            return None;
        };
        let plan =
            ConfinementPlan::new(profile, layers, folder, &|path| inside.is_placeholder(path))
                .ok()?;
        let (layout, sockets) = (&plan.layout, &HostSockets::for_command(profile, folder));
        let purpose =
            SandboxSpec { bubblewrap, profile, layout, folder, terminal, network_owner, sockets };
        inside.is_still_valid(&purpose).then_some(plan)
    }

    fn image(&self) -> &ExecImage {
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => &inside.image,
            ConfinementMethod::Direct(image, _) => image,
        }
    }

    /// The program to execute.
    pub(crate) fn program(&self) -> &CStr {
        &self.image().program
    }

    /// Its arguments, including `argv[0]`.
    pub(crate) fn argv(&self) -> &[CString] {
        &self.image().argv
    }

    /// Its environment.
    pub(crate) fn envp(&self) -> &[CString] {
        &self.image().envp
    }

    /// The streams of the program, if they differ from those of the command.
    pub(crate) fn program_streams(&self) -> Option<[RawFd; 3]> {
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => Some(inside.program_streams()),
            ConfinementMethod::Direct(..) => None,
        }
    }

    /// Drops everything that the profile does not grant. Afterwards this process can only execute
    /// [`PreparedCommand::program`].
    ///
    /// All descriptors but the standard streams and those that the program needs are closed on
    /// exec.
    ///
    /// # Safety
    ///
    /// Only for a process with one thread, or for a forked child right before exec: some
    /// restrictions apply to the process and some to the thread. Makes system calls only, and
    /// allocates nothing.
    #[expect(unsafe_code, reason = "only the caller can guarantee the preconditions")]
    pub(crate) unsafe fn restrict_self(&self) -> Result<(), Errno> {
        restrictions::become_session_leader();
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => {
                restrictions::reset_inherited_state()?;
                restrictions::close_on_exec(inside.kept_fds())
            }
            ConfinementMethod::Direct(_, ready) => Ok(ready.apply()?),
        }
    }

    /// Closes the descriptors that only the program needs. Call it once the program runs: the
    /// report pipe reaches its end only when no writer is left here.
    pub(crate) fn release_launch_handles(&mut self) {
        if let ConfinementMethod::Bubblewrap(inside) = &mut self.method {
            inside.release_launch_handles();
        }
    }

    /// Where the init process reports about the command: see [`init_report::InitReport`]. `None` if
    /// the program is the command itself.
    pub(crate) fn report_fd(&self) -> Option<&OwnedFd> {
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => inside.report_fd(),
            ConfinementMethod::Direct(..) => None,
        }
    }

    /// The error output of a sandbox that could not be set up.
    pub(crate) fn read_error_output(&self) -> String {
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => inside.read_error_output(),
            ConfinementMethod::Direct(..) => String::new(),
        }
    }

    /// Whether a path of the host that was to be mounted has disappeared.
    pub(crate) fn is_mount_source_missing(&self) -> bool {
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => inside.is_mount_source_missing(),
            ConfinementMethod::Direct(..) => false,
        }
    }

    /// The number of processes in the tree that belong to the sandbox and not to the command.
    pub(crate) fn sandbox_process_count(&self) -> u64 {
        match &self.method {
            // Bubblewrap and the init process.
            ConfinementMethod::Bubblewrap(_) => 2,
            ConfinementMethod::Direct(..) => 0,
        }
    }

    /// The paths of the placeholders that this sandbox uses.
    pub(crate) fn placeholder_paths(&self) -> Vec<PathBuf> {
        match &self.method {
            ConfinementMethod::Bubblewrap(inside) => inside.placeholder_paths(),
            ConfinementMethod::Direct(..) => Vec::new(),
        }
    }

    /// What is enforced, and which weaknesses the profile accepts.
    pub(crate) fn confinement(&self) -> &ConfinementReport {
        &self.confinement
    }

    /// Removes what had to be created on the host. Call it when no process of the command is left;
    /// dropping does the same.
    pub(crate) fn cleanup(&mut self) {
        if let ConfinementMethod::Bubblewrap(inside) = &mut self.method {
            inside.cleanup();
        }
    }
}

/// A profile combined with the layers and paths of this machine, at one moment.
struct ConfinementPlan {
    layout: PathLayout,
    restrictions: ProcessRestrictions,
    confinement: ConfinementReport,
}

impl ConfinementPlan {
    /// Changes nothing on the host. Paths for which `stands_in` returns true are placeholders and
    /// count as missing.
    fn new(
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        folder: &Path,
        stands_in: &dyn Fn(&Path) -> bool,
    ) -> Result<Self, ConfineError> {
        let SandboxProfile { writable, protected, protected_files, masked, readable, tmp, .. } =
            profile;
        let held = protected.iter().chain(protected_files);
        let named = writable.iter().chain(held).chain(masked).chain(readable).chain([tmp]);
        let mut paths = named.map(PathBuf::as_path).chain([folder]);
        if let Some(path) = paths.find(|path| !path.is_absolute()) {
            return Err(ConfineError::NotAbsolute { path: path.to_owned() });
        }
        if !profile.tmp.is_dir() {
            return Err(ConfineError::NoTmp { path: profile.tmp.clone() });
        }
        let layout = PathLayout::new(profile, stands_in);
        if layout.paths_with(PathAccess::Writable).any(|path| path == Path::new("/")) {
            return Err(ConfineError::WritableRoot);
        }
        if let Some(path) = layout.linked_writable.first() {
            return Err(ConfineError::LinkedWritable { path: path.clone() });
        }
        let readable = match &layers.bubblewrap {
            Ok(_) => Some(vec![LandlockRule::new("/", LandlockAccess::Read)]),
            Err(_) => {
                let readable = layout.paths_with(PathAccess::Readable).map(Path::to_owned);
                let masked = list_unreadable_paths(&layout);
                landlock::read_rules_except(&masked, readable.collect(), RULES_MAX)
            }
        };
        let gaps = gaps::find_gaps(profile, layers, &layout, readable.is_some());
        if gaps.iter().any(|gap| !profile.weaknesses.contains(&gap.property)) {
            let not_allowed = |gap: &ConfinementGap| !profile.weaknesses.contains(&gap.property);
            return Err(ConfineError::Unenforceable(
                gaps.into_iter().filter(not_allowed).collect(),
            ));
        }
        let readable =
            readable.unwrap_or_else(|| vec![LandlockRule::new("/", LandlockAccess::Read)]);
        let restrictions = build_restrictions(profile, layers, &layout, readable);
        let holds =
            SandboxProperty::ALL.into_iter().filter(|property| !gaps::has_gap(&gaps, *property));
        let confinement = ConfinementReport { holds: holds.collect(), missing: gaps };
        Ok(Self { layout, restrictions, confinement })
    }

    /// The restrictions that the init process has to apply.
    fn to_filtered_restrictions(&self) -> Result<ProcessRestrictions, ConfineError> {
        let mut restrictions = self.restrictions.clone();
        if let Some(sockets) = restrictions.sockets {
            // Compiled and cached in this process; the init process would have to compile it again.
            let filter = syscall_filter::filter_program(sockets).map_err(RestrictionError::from)?;
            restrictions.filter = syscall_filter::to_numbers(&filter);
        }
        Ok(restrictions)
    }
}

/// Removes placeholders that were left by killed processes, for commands whose private `/tmp` is in
/// the same folder as `tmp`. Returns how many empty folders and files were removed.
pub fn sweep_placeholders(tmp: &Path) -> usize {
    placeholders::sweep(tmp)
}

/// Paths that must not be readable when there are no mounts to hide them: masked paths outside of
/// writable folders, and all devices that are not harmless, since root may read the disks.
fn list_unreadable_paths(layout: &PathLayout) -> Vec<PathBuf> {
    let masked = layout
        .paths_with(PathAccess::Masked)
        .filter(|path| layout.writable_folder_above(path).is_none());
    masked.map(Path::to_owned).chain([PathBuf::from("/dev")]).collect()
}

fn build_restrictions(
    profile: &SandboxProfile,
    layers: &SandboxLayers,
    layout: &PathLayout,
    readable: Vec<LandlockRule>,
) -> ProcessRestrictions {
    let mut rules = readable;
    let inside = layers.bubblewrap.is_ok();
    if inside {
        rules.push(LandlockRule::new("/dev", LandlockAccess::Use));
        rules.push(LandlockRule::new("/dev/shm", LandlockAccess::Change));
        rules.push(LandlockRule::new(mount_plan::TMP, LandlockAccess::Change));
    } else {
        rules.extend(DEVICES.iter().map(|device| LandlockRule::new(device, LandlockAccess::Use)));
        rules.push(LandlockRule::new(&profile.tmp, LandlockAccess::Change));
    }
    for path in layout.paths_with(PathAccess::Writable) {
        // In a sandbox, the expected identity is taken from the expected mounts.
        let exactly = if inside { None } else { expected_mounts::read_identity(path) };
        if inside || exactly.is_some() {
            rules.push(LandlockRule { exactly, ..LandlockRule::new(path, LandlockAccess::Change) });
        }
    }
    let tcp =
        if profile.network == NetworkAccess::Nothing { TcpAccess::Closed } else { TcpAccess::Open };
    let sockets = match (&profile.network, inside) {
        (NetworkAccess::Nothing, true) => SocketAccess::Unix,
        (NetworkAccess::Nothing, false) => SocketAccess::Pairs,
        (_, true) => SocketAccess::UnixAndInternet,
        (_, false) => SocketAccess::Internet,
    };
    ProcessRestrictions {
        landlock: layers.landlock.as_ref().ok().map(|abi| (*abi, rules, tcp)),
        sockets: layers.seccomp.is_ok().then_some(sockets),
        filter: Vec::new(),
        open_files: profile.limits.open_files,
        file_bytes: profile.limits.file_bytes.min(disk_watch::free_bytes_for_file(profile)),
    }
}

/// Whether a path is one of `paths`, or above or below one: a missing path can be inside a missing
/// folder.
fn is_covered_by(path: &Path, paths: &[PathBuf]) -> bool {
    paths.iter().any(|one| path.starts_with(one) || one.starts_with(path))
}

fn with_tmp(command: &CommandSpec, tmp: &Path) -> CommandSpec {
    let mut command = command.clone();
    command.environment.retain(|(name, _)| name != "TMPDIR");
    command.environment.push(("TMPDIR".into(), tmp.into()));
    command
}
