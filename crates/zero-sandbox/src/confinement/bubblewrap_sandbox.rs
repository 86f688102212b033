//! A sandbox of namespaces and mounts, made by bubblewrap, in which the init process waits for its
//! plan.
//!
//! The setup by bubblewrap depends on the profile and the state of the host, not on the command. So
//! a [`BubblewrapSandbox`] can be set up ahead of time and be given a command later. Meanwhile the
//! host may change so that the sandbox differs from one that would be set up now: an editor that
//! replaces a hidden file removes the mount that hid it, a new secret or socket is not hidden at
//! all, a newly mounted disk is writable. So [`BubblewrapSandbox::is_still_valid`] returns true
//! only if the arguments for bubblewrap would be the same byte for byte, everything they mount is
//! still the same file, and the mount tables of the host and of the sandbox are unchanged.
//!
//! The same check applies to a sandbox whose command has ended, if it left nothing there: see
//! [`super::residue`].

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, MemfdFlags, OFlags};

use super::CommandHandles;
use super::expected_mounts::{self, ExpectedMounts, MOUNT_TABLE, MountMismatchError};
use super::host_sockets::HostSockets;
use super::mount_plan::{self, MountPlan};
use super::path_layout::{PathAccess, PathLayout};
use super::placeholders::{self, Placeholders};
use super::residue::{ResidueDetector, ResidueSnapshot};
use super::restrictions::ProcessRestrictions;
use super::sandbox_init::{ExecImage, INIT_PATH, InitPlan, InitSetup};
use super::{ConfineError, NetworkOwner};
use crate::helper_process;
use crate::kernel_file;
use crate::layer_probe::BubblewrapProgram;
use crate::profile::{CommandSpec, NetworkAccess, SandboxProfile};
use crate::spawner::message;

/// How much of bubblewrap's error output is read.
const ERROR_OUTPUT_BYTES_MAX: usize = 4096;

/// How much of a mount table is read. A longer one counts as changed.
const TABLE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The path of a command's terminal in the sandbox's own `/dev`.
const CONSOLE: &str = "/dev/console";

/// What a sandbox is for, as far as bubblewrap has to know.
#[derive(Clone, Copy)]
pub(super) struct SandboxSpec<'a> {
    pub(super) bubblewrap: &'a BubblewrapProgram,
    pub(super) profile: &'a SandboxProfile,
    pub(super) layout: &'a PathLayout,
    /// The working folder of the command.
    pub(super) folder: &'a Path,
    /// The path of its terminal.
    pub(super) terminal: Option<&'a Path>,
    pub(super) network_owner: NetworkOwner,
    /// The host's sockets that must be hidden.
    pub(super) sockets: &'a HostSockets,
}

impl SandboxSpec<'_> {
    fn plan_mounts(&self) -> io::Result<MountPlan> {
        MountPlan::new(self.profile, self.folder, self.layout, self.sockets)
    }
}

/// A sandbox and its resources.
#[derive(Debug)]
pub(super) struct BubblewrapSandbox {
    /// How to execute bubblewrap.
    pub(super) image: ExecImage,
    /// Descriptors that bubblewrap needs until it has started.
    kept_descriptors: Vec<OwnedFd>,
    kept_numbers: Vec<RawFd>,
    /// Where the init process receives its plans. `None` once there will be no more.
    init_channel: Option<OwnedFd>,
    /// The restrictions that were applied with the first plan.
    applied: Option<ProcessRestrictions>,
    /// Where the init process reports about the current command.
    report: Option<OwnedFd>,
    /// Input and output of bubblewrap, which needs neither.
    dev_null: OwnedFd,
    /// Error output of bubblewrap, in case the setup fails.
    error_output: OwnedFd,
    fingerprint: SandboxFingerprint,
    /// The mount table inside: an open file and its contents at the start.
    table: Option<(File, Vec<u8>)>,
    /// Detects what a command left inside.
    residue: Option<ResidueDetector>,
    /// The folder that is mounted as `/tmp`.
    tmp: PathBuf,
    placeholders: Placeholders,
}

/// Everything that determines what a sandbox is.
#[derive(Debug, PartialEq, Eq)]
struct SandboxFingerprint {
    namespaces: Vec<OsString>,
    mounts: MountPlan,
    console: Vec<OsString>,
    /// The identities of the mounted paths, in their order.
    identities: Vec<Option<NodeIdentity>>,
    /// The identities of other visible paths of the host.
    others: Vec<Option<NodeIdentity>>,
    /// The mount table of the host.
    table: Vec<u8>,
}

/// What is at a path: device, inode number and type.
type NodeIdentity = (u64, u64, FileType);

impl SandboxFingerprint {
    /// Describes a sandbox with these mounts, on the host as it is now.
    fn new(spec: &SandboxSpec<'_>, mounts: MountPlan) -> io::Result<Self> {
        let SandboxSpec { bubblewrap, profile, terminal, network_owner, .. } = spec;
        let mut namespaces: Vec<OsString> = bubblewrap.base_args().map(OsString::from).collect();
        if profile.network != NetworkAccess::Host && *network_owner == NetworkOwner::Own {
            namespaces.push("--unshare-net".into());
        }
        let memory = bubblewrap.shared_memory_args(profile.limits.memory_bytes);
        namespaces.extend(memory.into_iter().map(OsString::from));
        namespaces.extend(bubblewrap.message_queue_args().iter().map(OsString::from));
        // The sandbox has its own terminals, among which the given one has no name. Without a name,
        // programs assume that there is no terminal.
        let console = terminal.map_or(Vec::new(), |terminal| {
            vec!["--dev-bind".into(), terminal.into(), CONSOLE.into()]
        });
        let kept = mount_plan::RUN_VISIBLE.iter().map(Path::new);
        let identities = mounts.paths().map(read_identity_no_follow).collect();
        let others = [profile.tmp.as_path()].into_iter().chain(kept).map(read_identity).collect();
        let table = kernel_file::read_bytes(Path::new(MOUNT_TABLE))?;
        Ok(Self { namespaces, mounts, console, identities, others, table })
    }

    /// What the init process has to find.
    fn expected_mounts(&self, tmp: &Path) -> ExpectedMounts {
        let shown = self
            .identities
            .iter()
            .map(|identity| identity.map(|(device, inode, _)| (device, inode)));
        let mounts = self.mounts.iter().zip(shown).map(|((path, mount), it)| (path, mount, it));
        ExpectedMounts::new(mounts, &self.table, tmp)
    }
}

/// Without following links: a path that could be replaced by a link while it is mounted must not be
/// mistaken for the link's target.
fn read_identity_no_follow(path: &Path) -> Option<NodeIdentity> {
    let facts = rustix::fs::fstat(expected_mounts::open_no_follow(path).ok()?).ok()?;
    Some((facts.st_dev, facts.st_ino, FileType::from_raw_mode(facts.st_mode)))
}

fn read_identity(path: &Path) -> Option<NodeIdentity> {
    let facts = rustix::fs::lstat(path).ok()?;
    Some((facts.st_dev, facts.st_ino, FileType::from_raw_mode(facts.st_mode)))
}

impl BubblewrapSandbox {
    /// Prepares a sandbox: creates placeholders on the host, and determines how to start
    /// bubblewrap.
    pub(super) fn new(spec: &SandboxSpec<'_>) -> Result<Self, ConfineError> {
        if !helper_process::can_run_helper() {
            return Err(ConfineError::NoHelper);
        }
        let SandboxSpec { bubblewrap, profile, layout, .. } = spec;
        placeholders::sweep(&profile.tmp);
        let mut placeholders = Placeholders::new(&profile.tmp);
        let mounts = spec.plan_mounts().map_err(ConfineError::Mounts)?;
        mounts
            .create_placeholders(profile, layout, &mut placeholders)
            .map_err(|error| placeholder_error(layout, error))?;
        let fingerprint = SandboxFingerprint::new(spec, mounts).map_err(ConfineError::Mounts)?;
        // Bubblewrap would follow a link, and create missing paths at its target.
        let mut found = fingerprint.mounts.paths().zip(&fingerprint.identities);
        if let Some((path, _)) = found.find(|(_, identity)| identity.is_none()) {
            return Err(MountMismatchError::At(path.to_owned()).into());
        }
        drop(found);
        let (image, kept, init_channel) =
            build_launch(bubblewrap, &fingerprint).map_err(ConfineError::HandOver)?;
        Ok(Self {
            image,
            kept_numbers: kept.iter().map(AsRawFd::as_raw_fd).collect(),
            kept_descriptors: kept,
            init_channel: Some(init_channel),
            applied: None,
            report: None,
            dev_null: open_dev_null().map_err(ConfineError::HandOver)?,
            error_output: write_memfd(&[]).map_err(ConfineError::HandOver)?,
            fingerprint,
            table: None,
            residue: None,
            tmp: profile.tmp.clone(),
            placeholders,
        })
    }

    /// Sends the init process a command with these restrictions and streams, whether it runs
    /// already or not.
    pub(super) fn send_plan(
        &mut self,
        command: CommandSpec,
        restrictions: ProcessRestrictions,
        (streams, capture): CommandHandles<'_>,
    ) -> io::Result<()> {
        let init_channel = self.init_channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let before = match &self.applied {
            None => {
                let expected = self.fingerprint.expected_mounts(&self.tmp);
                Some(InitSetup { restrictions: restrictions.clone(), expected })
            }
            // Restrictions cannot be revoked, and later plans apply no new ones.
            Some(applied) if *applied == restrictions => None,
            Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let (report, inner_report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&report, OFlags::NONBLOCK)?;
        let plan = write_memfd(&serde_json::to_vec(&InitPlan { command, before })?)?;
        let handles = [&plan, &inner_report].into_iter().chain(streams).chain(capture);
        let handles: Vec<_> = handles.map(AsFd::as_fd).collect();
        message::send(init_channel, &(), &handles)?;
        self.report = Some(report);
        self.applied = Some(restrictions);
        Ok(())
    }

    /// After a command of which no process is left: whether another command would find nothing of
    /// it. If so, the sandbox is ready for that one.
    pub(super) fn is_reusable(&mut self) -> bool {
        self.report = None;
        // A terminal belongs to one command, and without Landlock `/dev` can be changed.
        let has_no_terminal = self.fingerprint.console.is_empty();
        let has_landlock = self.applied.as_ref().is_some_and(|it| it.landlock.is_some());
        has_no_terminal
            && has_landlock
            && (self.table.is_some() || self.is_ready())
            && self.residue.as_ref().is_some_and(ResidueDetector::is_clean)
    }

    /// Closes the channel: the init process exits when it has no command.
    pub(super) fn close(&mut self) {
        self.init_channel = None;
    }

    /// Readable once the init process runs, or has failed to start.
    pub(super) fn init_channel(&self) -> Option<&OwnedFd> {
        self.init_channel.as_ref()
    }

    /// Whether the init process waits for its plan and every mount exists. Call it when the channel
    /// is readable.
    pub(super) fn is_ready(&mut self) -> bool {
        let Some(init_channel) = &self.init_channel else { return false };
        let Ok(Some((noted, handles))) = message::receive::<Option<ResidueSnapshot>>(init_channel)
        else {
            return false;
        };
        let mut handles = handles.into_iter();
        let Some(mut table) = handles.next().map(File::from) else { return false };
        let Ok(mounted) = reread_table(&mut table) else { return false };
        // A path may have been replaced right after something was mounted on it.
        let points: Vec<&[u8]> =
            mounted.split(|b| *b == b'\n').filter_map(parse_mount_point).collect();
        let mut paths = self.fingerprint.mounts.paths();
        if !paths.all(|path| points.contains(&escape_path(path).as_slice())) {
            return false;
        }
        self.table = Some((table, mounted));
        self.residue = noted.map(|noted| ResidueDetector::new(handles.collect(), noted));
        true
    }

    /// Whether the sandbox is what would be set up now, and waits for a plan.
    pub(super) fn is_still_valid(&mut self, spec: &SandboxSpec<'_>) -> bool {
        let now = spec.plan_mounts().and_then(|mounts| SandboxFingerprint::new(spec, mounts));
        if !now.is_ok_and(|now| now == self.fingerprint) || self.has_exited() {
            return false;
        }
        let Some((table, mounted)) = &mut self.table else { return false };
        reread_table(table).is_ok_and(|now| now == *mounted)
    }

    fn has_exited(&self) -> bool {
        let Some(init_channel) = &self.init_channel else { return true };
        let mut fds = [PollFd::new(init_channel, PollFlags::IN)];
        let now = Timespec::try_from(Duration::ZERO).ok();
        // The init process sends nothing more, so news means that it has exited.
        !matches!(rustix::event::poll(&mut fds, now.as_ref()), Ok(0))
    }

    /// Whether a path of the host that was to be mounted has disappeared.
    pub(super) fn is_mount_source_missing(&self) -> bool {
        self.fingerprint.mounts.paths().any(|path| read_identity_no_follow(path).is_none())
    }

    /// Whether `path` is a placeholder of this sandbox.
    pub(super) fn is_placeholder(&self, path: &Path) -> bool {
        self.placeholders.holds(path)
    }

    /// All placeholders of this sandbox.
    pub(super) fn placeholder_paths(&self) -> Vec<PathBuf> {
        self.placeholders.paths().map(Path::to_owned).collect()
    }

    pub(super) fn report_fd(&self) -> Option<&OwnedFd> {
        self.report.as_ref()
    }

    pub(super) fn kept_fds(&self) -> &[RawFd] {
        &self.kept_numbers
    }

    /// Closes what only bubblewrap needs, once it runs.
    pub(super) fn release_launch_handles(&mut self) {
        self.kept_descriptors.clear();
    }

    pub(super) fn program_streams(&self) -> [RawFd; 3] {
        let Self { dev_null, error_output, .. } = self;
        [dev_null.as_raw_fd(), dev_null.as_raw_fd(), error_output.as_raw_fd()]
    }

    pub(super) fn read_error_output(&self) -> String {
        let mut bytes = vec![0; ERROR_OUTPUT_BYTES_MAX];
        let count = rustix::io::pread(&self.error_output, &mut bytes, 0).unwrap_or(0);
        bytes.truncate(count);
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Removes the placeholders on the host.
    pub(super) fn cleanup(&mut self) {
        // These descriptors keep the namespaces alive.
        (self.table, self.residue) = (None, None);
        self.placeholders.remove_all();
    }
}

/// Why placeholders could not be created: a folder was renamed meanwhile, or another error.
fn placeholder_error(layout: &PathLayout, error: io::Error) -> ConfineError {
    let swapped = [libc::ELOOP, libc::ENOTDIR, libc::ENOENT].map(Some);
    let is_swapped = swapped.contains(&error.raw_os_error());
    match layout.paths_with(PathAccess::Writable).next() {
        Some(path) if is_swapped || error.kind() == io::ErrorKind::NotFound => {
            MountMismatchError::At(path.to_owned()).into()
        }
        _ => ConfineError::Mounts(error),
    }
}

/// How to start bubblewrap: what to execute, the descriptors it needs, and the channel to the init
/// process.
fn build_launch(
    bubblewrap: &BubblewrapProgram,
    fingerprint: &SandboxFingerprint,
) -> io::Result<(ExecImage, Vec<OwnedFd>, OwnedFd)> {
    let (init_channel, inner_channel) = message::create_channel()?;
    let binary = open_own_binary()?;
    let (mount_args, mut kept) = fingerprint.mounts.args()?;
    let link = format!("/proc/self/fd/{}", binary.as_raw_fd());
    let last = ["--symlink", &link, INIT_PATH, "--chdir", "/"].map(OsString::from);
    let args =
        fingerprint.namespaces.iter().chain(&mount_args).chain(&fingerprint.console).chain(&last);
    let args = write_memfd(&args.flat_map(nul_terminated).collect::<Vec<u8>>())?;
    let argv = [
        bubblewrap.path().as_os_str().to_owned(),
        "--args".into(),
        args.as_raw_fd().to_string().into(),
        "--".into(),
        INIT_PATH.into(),
        inner_channel.as_raw_fd().to_string().into(),
    ];
    let argv = argv.iter().map(|arg| CString::new(arg.as_bytes()));
    let argv: Vec<CString> = argv.collect::<Result<_, _>>()?;
    let program = CString::new(bubblewrap.path().as_os_str().as_bytes())?;
    kept.extend([args, binary, inner_channel]);
    // An empty environment: bubblewrap must not load libraries that the command's variables name.
    Ok((ExecImage { program, argv, envp: Vec::new() }, kept, init_channel))
}

fn nul_terminated(arg: &OsString) -> impl Iterator<Item = u8> + '_ {
    arg.as_bytes().iter().copied().chain([0])
}

fn write_memfd(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("zero", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The path of the terminal that a command gets, if it gets one that has a path here.
pub(super) fn find_terminal_name(stdin: &OwnedFd) -> Option<PathBuf> {
    let handle = PathBuf::from(format!("/proc/self/fd/{}", stdin.as_raw_fd()));
    let name = rustix::fs::readlink(&handle, Vec::new()).ok()?.into_string().ok()?;
    let (given, named) = (rustix::fs::stat(&handle).ok()?, rustix::fs::stat(&name).ok()?);
    let is_device = FileType::from_raw_mode(given.st_mode).is_char_device();
    let is_same = (given.st_dev, given.st_ino) == (named.st_dev, named.st_ino);
    (is_device && is_same && name.starts_with("/dev/pts/")).then(|| name.into())
}

fn open_dev_null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?)
}

/// This binary, even if its path has been replaced since.
#[expect(clippy::disallowed_methods, reason = "our own binary is not a user's file")]
fn open_own_binary() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/exe")?.into())
}

/// Reads a mount table again.
fn reread_table(table: &mut File) -> io::Result<Vec<u8>> {
    table.rewind()?;
    let mut bytes = Vec::new();
    table.take(TABLE_BYTES_MAX).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == TABLE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The mount point of a line: the fifth column.
fn parse_mount_point(line: &[u8]) -> Option<&[u8]> {
    line.split(|byte| *byte == b' ').nth(4)
}

/// A path in the notation of mount tables.
fn escape_path(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => bytes.extend(format!("\\{byte:03o}").bytes()),
            byte => bytes.push(*byte),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_point_is_parsed_from_line() {
        let line = b"36 35 98:0 /mnt1 /a\\040b\\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(parse_mount_point(line), Some(escape_path(Path::new("/a b\\c")).as_slice()));
        assert_eq!(parse_mount_point(b""), None);
    }

    #[test]
    fn mount_table_can_be_reread() {
        let mut table = File::from(open_dev_null().unwrap());
        assert_eq!(reread_table(&mut table).unwrap(), b"");
        let mut table = File::from(write_memfd(b"one").unwrap());
        assert_eq!(reread_table(&mut table).unwrap(), b"one");
        assert_eq!(reread_table(&mut table).unwrap(), b"one");
    }
}
