//! Brings a profile and the layers of this machine together, and a command under both.
//!
//! With bubblewrap the command runs in namespaces of its own, where most of the profile is a matter
//! of what is mounted, and this binary is started once more inside to give up the rest. Without,
//! the process that is to become the command gives everything up by itself. Either way Landlock, the
//! filter of system calls and the limits come last, right before exec. What bubblewrap puts up may
//! stand before there is a command: see [`bubblewrap_sandbox`].
//!
//! What no layer can enforce is an error that names it. A profile may say that it can do without;
//! then [`ConfinementReport::missing_paths`] says that it does.
//!
//! What cannot be had at all, and is true of every such confinement: another name for a masked file
//! that exists already (a hard link) reads it; and a file of the host that somebody outside replaces
//! while the command runs loses the mount that lay on it. Who swaps a folder of the workspace for a
//! link while walls are put up can have bubblewrap make something empty where the link leads to, with
//! the name of what is protected or masked in that folder, and nothing more: see [`expected_mounts`].
//! Without namespaces the names and
//! arguments of the host's processes can be seen.

mod bubblewrap_sandbox;
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
use crate::profile::{CommandSpec, NetworkAccess, SandboxProfile, SandboxProperty};
use crate::running_command::ConfinementReport;

/// Rules about files that one command may need.
const RULES_MAX: usize = 8192;

/// Devices that hold nothing of anybody's. Not the terminals: those of the person are among them.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Whose network a command has that is not the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetworkOwner {
    /// Its own, made for it.
    Own,
    /// The one in which it is started.
    Session,
}

/// Why a command cannot be confined as its profile says.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfineError {
    /// This machine cannot enforce part of the profile.
    #[error("{}", gaps::describe_gaps(.0))]
    Unenforceable(Vec<ConfinementGap>),
    /// A path depends on where somebody stands.
    #[error("`{}` is not an absolute path", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// A profile that lets everything be written to confines nothing.
    #[error("`/` cannot be a writable folder")]
    WritableRoot,
    /// What is to be written to could be anything.
    #[error(
        "`{}` is a link in a folder that commands write to, and could lead anywhere: make what it \
         leads to writable by its own path instead, or put a real folder in its place",
        path.display()
    )]
    LinkedWritable {
        /// The link.
        path: PathBuf,
    },
    /// The private `/tmp` is not there.
    #[error("the private folder for temporary files `{}` is not there", path.display())]
    NoTmp {
        /// Where it should be.
        path: PathBuf,
    },
    /// The mounts could not be prepared.
    #[error("the mounts could not be prepared")]
    Mounts(#[source] io::Error),
    /// Something is not where it was a moment ago.
    #[error(transparent)]
    Changed(#[from] MountMismatchError),
    /// The process could not be told what to give up.
    #[error(transparent)]
    Restrict(#[from] RestrictionError),
    /// Part of the command holds a zero byte.
    #[error("the command holds a zero byte")]
    ZeroByte(#[from] NulError),
    /// The program that runs this does not look at its name first.
    #[error("this program cannot start itself as a helper: `main` must begin with `from_argv0`")]
    NoHelper,
    /// What the helper needs to know could not be handed over.
    #[error("the command could not be handed over")]
    HandOver(#[source] io::Error),
}

/// A command that is ready to start, confined.
#[derive(Debug)]
pub(crate) struct PreparedCommand {
    way: ConfinementMethod,
    confinement: ConfinementReport,
}

/// How the command gets under its walls.
#[derive(Debug)]
enum ConfinementMethod {
    /// Through bubblewrap and the last step inside it.
    Bubblewrap(Box<BubblewrapSandbox>),
    /// The process gives everything up by itself.
    Direct(ExecImage, PreparedRestrictions),
}

impl PreparedCommand {
    /// Prepares `command` to run under `profile` by means of `layers`, with these `streams`,
    /// with the network it is started in where that is not its own, and without the `sockets` that
    /// were there when it was ordered.
    pub(crate) fn new(
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        command: &CommandSpec,
        streams: [&OwnedFd; 3],
        whose: NetworkOwner,
        sockets: &HostSockets,
    ) -> Result<Self, ConfineError> {
        let intent = ConfinementPlan::new(profile, layers, &command.folder, &|_| false)?;
        let way = match &layers.bubblewrap {
            Ok(bubblewrap) => {
                let terminal = bubblewrap_sandbox::find_terminal_name(streams[0]);
                let (layout, folder) = (&intent.layout, command.folder.as_path());
                let terminal = terminal.as_deref();
                let purpose =
                    SandboxSpec { bubblewrap, profile, layout, folder, terminal, whose, sockets };
                let mut inside = BubblewrapSandbox::new(&purpose)?;
                let restrictions = intent.to_filtered_restrictions()?;
                let command = with_tmp(command, Path::new(mount_plan::TMP));
                inside.send_plan(command, restrictions, streams).map_err(ConfineError::HandOver)?;
                ConfinementMethod::Bubblewrap(Box::new(inside))
            }
            Err(_) => {
                let image = ExecImage::new(&with_tmp(command, &profile.tmp))?;
                ConfinementMethod::Direct(
                    image,
                    PreparedRestrictions::new(&intent.restrictions, &command.folder)?,
                )
            }
        };
        Ok(Self { way, confinement: intent.confinement })
    }

    /// Prepares walls for a command under `profile` that is not known yet, but for where it will
    /// start. None where a command needs nothing that could be prepared, and where something empty
    /// would have to stand in for more than `may_stand_in` says: a path that was there for the last
    /// command and is gone may be one that the next one may make.
    pub(crate) fn prewarm(
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        folder: &Path,
        may_stand_in: &[PathBuf],
    ) -> Result<Option<Self>, ConfineError> {
        let Ok(bubblewrap) = &layers.bubblewrap else { return Ok(None) };
        let intent = ConfinementPlan::new(profile, layers, folder, &|_| false)?;
        if mount_plan::missing_paths(&intent.layout)
            .any(|(path, ..)| !is_covered_by(path, may_stand_in))
        {
            return Ok(None);
        }
        let (layout, terminal, whose) = (&intent.layout, None, NetworkOwner::Own);
        let sockets = &HostSockets::for_command(profile, folder);
        let purpose = SandboxSpec { bubblewrap, profile, layout, folder, terminal, whose, sockets };
        let inside = BubblewrapSandbox::new(&purpose)?;
        let way = ConfinementMethod::Bubblewrap(Box::new(inside));
        Ok(Some(Self { way, confinement: intent.confinement }))
    }

    /// After walls were put up [ahead](Self::ahead): where there is news once they [stand](Self::is_up),
    /// or will not.
    pub(crate) fn init_channel(&self) -> Option<&OwnedFd> {
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => inside.init_channel(),
            ConfinementMethod::Direct(..) => None,
        }
    }

    /// Whether they stand, when there is news at their [door](Self::door).
    pub(crate) fn is_ready(&mut self) -> bool {
        match &mut self.way {
            ConfinementMethod::Bubblewrap(inside) => inside.is_ready(),
            ConfinementMethod::Direct(..) => false,
        }
    }

    /// Gives walls that stand ready a command, if they are those that it would get now, with a
    /// network of its own. Where they are not, or it fails, they are of no more use.
    pub(crate) fn assign_command(
        &mut self,
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        command: &CommandSpec,
        streams: [&OwnedFd; 3],
    ) -> bool {
        let terminal = bubblewrap_sandbox::find_terminal_name(streams[0]);
        let folder = command.folder.as_path();
        let intent = self.plan_if_valid(profile, layers, folder, terminal.as_deref());
        let (Some(intent), ConfinementMethod::Bubblewrap(inside)) = (intent, &mut self.way) else {
            return false;
        };
        let Ok(restrictions) = intent.to_filtered_restrictions() else { return false };
        self.confinement = intent.confinement;
        let command = with_tmp(command, Path::new(mount_plan::TMP));
        inside.send_plan(command, restrictions, streams).is_ok()
    }

    /// After a command of which no process is left: whether nothing else of it is left in its walls,
    /// and another one may [take](Self::take) them.
    pub(crate) fn is_reusable(&mut self) -> bool {
        match &mut self.way {
            ConfinementMethod::Bubblewrap(inside) => inside.is_reusable(),
            ConfinementMethod::Direct(..) => false,
        }
    }

    /// Has the last step end once no command is there.
    pub(crate) fn close(&mut self) {
        if let ConfinementMethod::Bubblewrap(inside) = &mut self.way {
            inside.close();
        }
    }

    fn plan_if_valid(
        &mut self,
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        folder: &Path,
        terminal: Option<&Path>,
    ) -> Option<ConfinementPlan> {
        let (ConfinementMethod::Bubblewrap(inside), Ok(bubblewrap)) =
            (&mut self.way, &layers.bubblewrap)
        else {
            return None;
        };
        let intent =
            ConfinementPlan::new(profile, layers, folder, &|path| inside.is_placeholder(path))
                .ok()?;
        let (layout, whose, sockets) =
            (&intent.layout, NetworkOwner::Own, &HostSockets::for_command(profile, folder));
        let purpose = SandboxSpec { bubblewrap, profile, layout, folder, terminal, whose, sockets };
        inside.is_still_valid(&purpose).then_some(intent)
    }

    fn image(&self) -> &ExecImage {
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => &inside.image,
            ConfinementMethod::Direct(image, _) => image,
        }
    }

    /// The program to execute.
    pub(crate) fn program(&self) -> &CStr {
        &self.image().program
    }

    /// Its arguments, its name first.
    pub(crate) fn argv(&self) -> &[CString] {
        &self.image().argv
    }

    /// Its environment.
    pub(crate) fn envp(&self) -> &[CString] {
        &self.image().envp
    }

    /// The streams of the program, where they are not those of the command.
    pub(crate) fn program_streams(&self) -> Option<[RawFd; 3]> {
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => Some(inside.program_streams()),
            ConfinementMethod::Direct(..) => None,
        }
    }

    /// Gives up what the profile does not grant. Afterwards this process can do nothing sensible
    /// but execute [`PreparedCommand::filter_program`].
    ///
    /// Every open handle but the first three is closed by that, but for those it needs.
    ///
    /// # Safety
    ///
    /// For the only thread of a process, or for a forked child right before exec: part of what is
    /// given up belongs to the process and part to the thread. Makes system calls only, and
    /// allocates nothing.
    #[expect(unsafe_code, reason = "a promise only the caller can make")]
    pub(crate) unsafe fn restrict_self(&self) -> Result<(), Errno> {
        restrictions::become_session_leader();
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => {
                restrictions::reset_inherited_state()?;
                restrictions::close_on_exec(inside.kept_fds())
            }
            ConfinementMethod::Direct(_, ready) => Ok(ready.apply()?),
        }
    }

    /// Lets go of what only the program needs. To be called when it runs: what is said inside has
    /// an end only when nobody out here could say anything.
    pub(crate) fn release_launch_handles(&mut self) {
        if let ConfinementMethod::Bubblewrap(inside) = &mut self.way {
            inside.release_launch_handles();
        }
    }

    /// Where the last step says what becomes of the command: see [`word::InitReport`]. None where the
    /// program is the command itself.
    pub(crate) fn report_fd(&self) -> Option<&OwnedFd> {
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => inside.report_fd(),
            ConfinementMethod::Direct(..) => None,
        }
    }

    /// What was said about walls that could not be put up.
    pub(crate) fn read_error_output(&self) -> String {
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => inside.read_error_output(),
            ConfinementMethod::Direct(..) => String::new(),
        }
    }

    /// Whether something of the host is gone on which the walls were to stand.
    pub(crate) fn is_mount_source_missing(&self) -> bool {
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => inside.is_mount_source_missing(),
            ConfinementMethod::Direct(..) => false,
        }
    }

    /// Processes of the tree that belong to the walls and not to the command.
    pub(crate) fn sandbox_process_count(&self) -> u64 {
        match &self.way {
            // Bubblewrap and the last step.
            ConfinementMethod::Bubblewrap(_) => 2,
            ConfinementMethod::Direct(..) => 0,
        }
    }

    /// The paths at which something stands that is empty and was made for commands.
    pub(crate) fn placeholder_paths(&self) -> Vec<PathBuf> {
        match &self.way {
            ConfinementMethod::Bubblewrap(inside) => inside.placeholder_paths(),
            ConfinementMethod::Direct(..) => Vec::new(),
        }
    }

    /// What is enforced, and what is not, by leave of the profile.
    pub(crate) fn confinement(&self) -> &ConfinementReport {
        &self.confinement
    }

    /// Takes away what had to be made on the host. To be called when nothing is left of the
    /// command; dropping does the same.
    pub(crate) fn cleanup(&mut self) {
        if let ConfinementMethod::Bubblewrap(inside) = &mut self.way {
            inside.cleanup();
        }
    }
}

/// A profile brought together with the layers of this machine, at one moment.
struct ConfinementPlan {
    layout: PathLayout,
    restrictions: ProcessRestrictions,
    confinement: ConfinementReport,
}

impl ConfinementPlan {
    /// Changes nothing. What `stands_in` for something missing is taken for missing.
    fn new(
        profile: &SandboxProfile,
        layers: &SandboxLayers,
        folder: &Path,
        stands_in: &dyn Fn(&Path) -> bool,
    ) -> Result<Self, ConfineError> {
        let SandboxProfile { writable, protected, protected_files, masked, tmp, .. } = profile;
        let held = protected.iter().chain(protected_files);
        let named = writable.iter().chain(held).chain(masked).chain([tmp]);
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
            Err(_) => landlock::read_rules_except(&list_unreadable_paths(&layout), RULES_MAX),
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

    /// What the last step inside has to give up.
    fn to_filtered_restrictions(&self) -> Result<ProcessRestrictions, ConfineError> {
        let mut restrictions = self.restrictions.clone();
        if let Some(sockets) = restrictions.sockets {
            // Made here, where it was made before; the last step would begin from nothing.
            let filter = syscall_filter::filter_program(sockets).map_err(RestrictionError::from)?;
            restrictions.filter = syscall_filter::to_numbers(&filter);
        }
        Ok(restrictions)
    }
}

/// Takes away what commands with a private `/tmp` in the same folder as `tmp` left behind when
/// their process was killed. Returns how many empty folders and files there were.
pub fn sweep_placeholders(tmp: &Path) -> usize {
    placeholders::sweep(tmp)
}

/// What must not be read when there are no mounts to hide it: what is masked, but for what lies in
/// writable folders, and every device that is not harmless. Root owns the disks.
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
        // Inside, what has to be there is known by what has to be mounted.
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
        file_bytes: profile.limits.file_bytes,
    }
}

/// Whether a path is one of them, or lies where one of them would: what is missing beneath a folder
/// that is missing.
fn is_covered_by(path: &Path, paths: &[PathBuf]) -> bool {
    paths.iter().any(|one| path.starts_with(one) || one.starts_with(path))
}

fn with_tmp(command: &CommandSpec, tmp: &Path) -> CommandSpec {
    let mut command = command.clone();
    command.environment.retain(|(name, _)| name != "TMPDIR");
    command.environment.push(("TMPDIR".into(), tmp.into()));
    command
}
