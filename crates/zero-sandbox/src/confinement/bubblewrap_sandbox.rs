//! A sandbox of namespaces and mounts, in which the last step waits for its plan.
//!
//! What bubblewrap puts up depends on the profile and on what the host looks like, not on the
//! command. So it can be put up ahead, while nobody waits, and be given a command later. Meanwhile
//! the host may change in ways that make it another sandbox than one put up now would be: an editor
//! that replaces a hidden file takes away what hid it, a new secret or socket is not hidden at all,
//! a disk that is mounted comes in writable. So [`BubblewrapSandbox::is_still_valid`] says yes only when what
//! would be asked of bubblewrap now is the same to the byte, everything it is mounted on is still
//! what it was, and the mounts on the host and inside are those of then.
//!
//! What holds for walls that had no command yet holds for those whose command has ended, if it left
//! nothing in them: see [`super::residue`].

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, MemfdFlags, OFlags};

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

/// How much of what bubblewrap says about a failure is read.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// How much of a list of mounts is read. A longer one is never the same as another.
const TABLE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Where the terminal of a command is in the child's own `/dev`.
const CONSOLE: &str = "/dev/console";

/// What a sandbox is for, as far as bubblewrap has to know.
#[derive(Clone, Copy)]
pub(super) struct SandboxSpec<'a> {
    pub(super) bubblewrap: &'a BubblewrapProgram,
    pub(super) profile: &'a SandboxProfile,
    pub(super) layout: &'a PathLayout,
    /// Where the command starts.
    pub(super) folder: &'a Path,
    /// The terminal it gets, by name.
    pub(super) terminal: Option<&'a Path>,
    pub(super) whose: NetworkOwner,
    /// The host's sockets that it must not reach.
    pub(super) sockets: &'a HostSockets,
}

impl SandboxSpec<'_> {
    fn plan_mounts(&self) -> io::Result<MountPlan> {
        MountPlan::new(self.profile, self.folder, self.layout, self.sockets)
    }
}

/// A sandbox and what belongs to it.
#[derive(Debug)]
pub(super) struct BubblewrapSandbox {
    /// Bubblewrap.
    pub(super) image: ExecImage,
    /// Handles that it needs until it has started.
    kept: Vec<OwnedFd>,
    kept_numbers: Vec<RawFd>,
    /// Where the last step takes its plans, until there are no more.
    door: Option<OwnedFd>,
    /// What it gave up with the first of them.
    given_up: Option<ProcessRestrictions>,
    /// Where it says what becomes of the command, while it has one.
    word: Option<OwnedFd>,
    /// Stands for input and output of bubblewrap, which has none.
    nothing: OwnedFd,
    /// What bubblewrap says when the walls cannot be put up.
    complaints: OwnedFd,
    shape: SandboxFingerprint,
    /// The mounts inside, where they can be read and what they were.
    table: Option<(File, Vec<u8>)>,
    /// What a command could leave inside.
    traces: Option<ResidueDetector>,
    /// What is shown as `/tmp`.
    tmp: PathBuf,
    placeholders: Placeholders,
}

/// All that decides what a sandbox is.
#[derive(Debug, PartialEq, Eq)]
struct SandboxFingerprint {
    namespaces: Vec<OsString>,
    mounts: MountPlan,
    console: Vec<OsString>,
    /// What is at the paths of the mounts, in their order.
    things: Vec<Option<NodeIdentity>>,
    /// What else of the host is shown.
    others: Vec<Option<NodeIdentity>>,
    /// The host's list of mounts.
    table: Vec<u8>,
}

/// What is at a path: device, number and kind.
type NodeIdentity = (u64, u64, FileType);

impl SandboxFingerprint {
    /// What a sandbox is with these mounts, on the host as it is now.
    fn new(purpose: &SandboxSpec<'_>, mounts: MountPlan) -> io::Result<Self> {
        let SandboxSpec { bubblewrap, profile, terminal, whose, .. } = purpose;
        let mut namespaces: Vec<OsString> = bubblewrap.base_args().map(OsString::from).collect();
        if profile.network != NetworkAccess::Host && *whose == NetworkOwner::Own {
            namespaces.push("--unshare-net".into());
        }
        let memory = bubblewrap.shared_memory_args(profile.limits.memory_bytes);
        namespaces.extend(memory.into_iter().map(OsString::from));
        namespaces.extend(bubblewrap.message_queue_args().iter().map(OsString::from));
        // The child has terminals of its own, among which the one it was given has no name. Without
        // one, programs that ask for it believe that there is no terminal.
        let console = terminal.map_or(Vec::new(), |terminal| {
            vec!["--dev-bind".into(), terminal.into(), CONSOLE.into()]
        });
        let kept = mount_plan::RUN_VISIBLE.iter().map(Path::new);
        let things = mounts.paths().map(read_identity_no_follow).collect();
        let others = [profile.tmp.as_path()].into_iter().chain(kept).map(read_identity).collect();
        let table = kernel_file::read_bytes(Path::new(MOUNT_TABLE))?;
        Ok(Self { namespaces, mounts, console, things, others, table })
    }

    /// What the last step has to find.
    fn expected_mounts(&self, tmp: &Path) -> ExpectedMounts {
        let shown = self.things.iter().map(|thing| thing.map(|(device, inode, _)| (device, inode)));
        let mounts = self.mounts.iter().zip(shown).map(|((path, mount), it)| (path, mount, it));
        ExpectedMounts::new(mounts, &self.table, tmp)
    }
}

/// Found without following a link: what could be swapped for one while it is mounted must not be
/// taken for what it leads to.
fn read_identity_no_follow(path: &Path) -> Option<NodeIdentity> {
    let facts = rustix::fs::fstat(expected_mounts::open_no_follow(path).ok()?).ok()?;
    Some((facts.st_dev, facts.st_ino, FileType::from_raw_mode(facts.st_mode)))
}

fn read_identity(path: &Path) -> Option<NodeIdentity> {
    let facts = rustix::fs::lstat(path).ok()?;
    Some((facts.st_dev, facts.st_ino, FileType::from_raw_mode(facts.st_mode)))
}

impl BubblewrapSandbox {
    /// Prepares a sandbox: makes what has to stand on the host, and says how to start bubblewrap.
    pub(super) fn new(purpose: &SandboxSpec<'_>) -> Result<Self, ConfineError> {
        if !helper_process::can_run_helper() {
            return Err(ConfineError::NoHelper);
        }
        let SandboxSpec { bubblewrap, profile, layout, .. } = purpose;
        placeholders::sweep(&profile.tmp);
        let mut placeholders = Placeholders::new(&profile.tmp);
        let mounts = purpose.plan_mounts().map_err(ConfineError::Mounts)?;
        mounts
            .create_placeholders(profile, layout, &mut placeholders)
            .map_err(|error| placeholder_error(layout, error))?;
        let shape = SandboxFingerprint::new(purpose, mounts).map_err(ConfineError::Mounts)?;
        // Bubblewrap would follow a link, and make what is missing where it leads to.
        let mut found = shape.mounts.paths().zip(&shape.things);
        if let Some((path, _)) = found.find(|(_, thing)| thing.is_none()) {
            return Err(MountMismatchError::At(path.to_owned()).into());
        }
        drop(found);
        let (image, kept, door) =
            build_launch(bubblewrap, &shape).map_err(ConfineError::HandOver)?;
        Ok(Self {
            image,
            kept_numbers: kept.iter().map(AsRawFd::as_raw_fd).collect(),
            kept,
            door: Some(door),
            given_up: None,
            word: None,
            nothing: open_dev_null().map_err(ConfineError::HandOver)?,
            complaints: write_memfd(&[]).map_err(ConfineError::HandOver)?,
            shape,
            table: None,
            traces: None,
            tmp: profile.tmp.clone(),
            placeholders,
        })
    }

    /// Gives the last step a command that gives these things up, with its streams, be it there
    /// already or not yet.
    pub(super) fn send_plan(
        &mut self,
        command: CommandSpec,
        restrictions: ProcessRestrictions,
        streams: [&OwnedFd; 3],
    ) -> io::Result<()> {
        let door = self.door.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let before = match &self.given_up {
            None => {
                let expected = self.shape.expected_mounts(&self.tmp);
                Some(InitSetup { restrictions: restrictions.clone(), expected })
            }
            // What was given up cannot be had back, and nothing more is given up.
            Some(given_up) if *given_up == restrictions => None,
            Some(_) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let (word, inner_word) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&word, OFlags::NONBLOCK)?;
        let plan = write_memfd(&serde_json::to_vec(&InitPlan { command, before })?)?;
        let handles = [&plan, &inner_word].into_iter().chain(streams);
        let handles: Vec<_> = handles.map(AsFd::as_fd).collect();
        message::send(door, &(), &handles)?;
        self.word = Some(word);
        self.given_up = Some(restrictions);
        Ok(())
    }

    /// After a command of which no process is left: whether another one would find nothing of it
    /// either. If so, these walls wait for that one.
    pub(super) fn is_reusable(&mut self) -> bool {
        self.word = None;
        // A terminal is one command's own, and without Landlock so is `/dev`.
        let is_anybodys = self.shape.console.is_empty();
        let is_held = self.given_up.as_ref().is_some_and(|it| it.landlock.is_some());
        is_anybodys
            && is_held
            && (self.table.is_some() || self.is_ready())
            && self.traces.as_ref().is_some_and(ResidueDetector::is_clean)
    }

    /// Has no more commands: the last step ends when it has none.
    pub(super) fn close(&mut self) {
        self.door = None;
    }

    /// Where there is news when the last step is there, or will not be.
    pub(super) fn init_channel(&self) -> Option<&OwnedFd> {
        self.door.as_ref()
    }

    /// Whether the last step is there and waits for its plan, behind every mount that was asked for.
    /// To be asked when there is news.
    pub(super) fn is_ready(&mut self) -> bool {
        let Some(door) = &self.door else { return false };
        let Ok(Some((noted, handles))) = message::receive::<Option<ResidueSnapshot>>(door) else {
            return false;
        };
        let mut handles = handles.into_iter();
        let Some(mut table) = handles.next().map(File::from) else { return false };
        let Ok(mounted) = reread_table(&mut table) else { return false };
        // Something may have been replaced right after it was mounted on.
        let points: Vec<&[u8]> =
            mounted.split(|b| *b == b'\n').filter_map(parse_mount_point).collect();
        let mut paths = self.shape.mounts.paths();
        if !paths.all(|path| points.contains(&escape_path(path).as_slice())) {
            return false;
        }
        self.table = Some((table, mounted));
        self.traces = noted.map(|noted| ResidueDetector::new(handles.collect(), noted));
        true
    }

    /// Whether it is what would be put up now, and waits for its plan.
    pub(super) fn is_still_valid(&mut self, purpose: &SandboxSpec<'_>) -> bool {
        let now = purpose.plan_mounts().and_then(|mounts| SandboxFingerprint::new(purpose, mounts));
        if !now.is_ok_and(|now| now == self.shape) || self.has_exited() {
            return false;
        }
        let Some((table, mounted)) = &mut self.table else { return false };
        reread_table(table).is_ok_and(|now| now == *mounted)
    }

    fn has_exited(&self) -> bool {
        let Some(door) = &self.door else { return true };
        let mut fds = [PollFd::new(door, PollFlags::IN)];
        let now = Timespec::try_from(Duration::ZERO).ok();
        // Nothing more is said there, so news is the end.
        !matches!(rustix::event::poll(&mut fds, now.as_ref()), Ok(0))
    }

    /// Whether something of the host is gone on which it was to be mounted.
    pub(super) fn is_mount_source_missing(&self) -> bool {
        self.shape.mounts.paths().any(|path| read_identity_no_follow(path).is_none())
    }

    /// Whether what is at `path` stands in for something that is missing, because of us.
    pub(super) fn is_placeholder(&self, path: &Path) -> bool {
        self.placeholders.holds(path)
    }

    /// All paths of which that is so.
    pub(super) fn placeholder_paths(&self) -> Vec<PathBuf> {
        self.placeholders.paths().map(Path::to_owned).collect()
    }

    pub(super) fn report_fd(&self) -> Option<&OwnedFd> {
        self.word.as_ref()
    }

    pub(super) fn kept_fds(&self) -> &[RawFd] {
        &self.kept_numbers
    }

    /// Lets go of what only bubblewrap needs, once it runs.
    pub(super) fn release_launch_handles(&mut self) {
        self.kept.clear();
    }

    pub(super) fn program_streams(&self) -> [RawFd; 3] {
        let Self { nothing, complaints, .. } = self;
        [nothing.as_raw_fd(), nothing.as_raw_fd(), complaints.as_raw_fd()]
    }

    pub(super) fn read_error_output(&self) -> String {
        let mut bytes = vec![0; COMPLAINT_BYTES_MAX];
        let count = rustix::io::pread(&self.complaints, &mut bytes, 0).unwrap_or(0);
        bytes.truncate(count);
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Takes away what stands on the host.
    pub(super) fn cleanup(&mut self) {
        // Whoever holds these holds the namespaces.
        (self.table, self.traces) = (None, None);
        self.placeholders.remove_all();
    }
}

/// Why something could not be made to stand on the host: somebody renames folders there, or more.
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

/// How to start bubblewrap: what to execute, the handles it needs, and where the last step inside
/// takes its plan.
fn build_launch(
    bubblewrap: &BubblewrapProgram,
    shape: &SandboxFingerprint,
) -> io::Result<(ExecImage, Vec<OwnedFd>, OwnedFd)> {
    let (door, inner_door) = message::create_channel()?;
    let binary = open_own_binary()?;
    let (mount_args, mut kept) = shape.mounts.args()?;
    let link = format!("/proc/self/fd/{}", binary.as_raw_fd());
    let last = ["--symlink", &link, INIT_PATH, "--chdir", "/"].map(OsString::from);
    let args = shape.namespaces.iter().chain(&mount_args).chain(&shape.console).chain(&last);
    let args = write_memfd(&args.flat_map(nul_terminated).collect::<Vec<u8>>())?;
    let words = [
        bubblewrap.path().as_os_str().to_owned(),
        "--args".into(),
        args.as_raw_fd().to_string().into(),
        "--".into(),
        INIT_PATH.into(),
        inner_door.as_raw_fd().to_string().into(),
    ];
    let argv = words.iter().map(|word| CString::new(word.as_bytes()));
    let argv: Vec<CString> = argv.collect::<Result<_, _>>()?;
    let program = CString::new(bubblewrap.path().as_os_str().as_bytes())?;
    kept.extend([args, binary, inner_door]);
    // An empty environment: bubblewrap must not load what the command's variables name.
    Ok((ExecImage { program, argv, envp: Vec::new() }, kept, door))
}

fn nul_terminated(word: &OsString) -> impl Iterator<Item = u8> + '_ {
    word.as_bytes().iter().copied().chain([0])
}

fn write_memfd(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("zero", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The name of the terminal that a command is given, if it is given one that has a name here.
pub(super) fn find_terminal_name(stdin: &OwnedFd) -> Option<PathBuf> {
    let handle = PathBuf::from(format!("/proc/self/fd/{}", stdin.as_raw_fd()));
    let name = rustix::fs::readlink(&handle, Vec::new()).ok()?.into_string().ok()?;
    let (given, named) = (rustix::fs::stat(&handle).ok()?, rustix::fs::stat(&name).ok()?);
    let is_device = FileType::from_raw_mode(given.st_mode).is_char_device();
    let is_same = (given.st_dev, given.st_ino) == (named.st_dev, named.st_ino);
    (is_device && is_same && name.starts_with("/dev/pts/")).then(|| name.into())
}

/// A stream that leads nowhere.
fn open_dev_null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?)
}

/// This binary, also when another one has taken its path since.
#[expect(clippy::disallowed_methods, reason = "our own binary is no person's file")]
fn open_own_binary() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/exe")?.into())
}

/// All that a list of mounts says now.
fn reread_table(table: &mut File) -> io::Result<Vec<u8>> {
    table.rewind()?;
    let mut bytes = Vec::new();
    table.take(TABLE_BYTES_MAX).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == TABLE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Where the mount of a line is: the fifth column.
fn parse_mount_point(line: &[u8]) -> Option<&[u8]> {
    line.split(|byte| *byte == b' ').nth(4)
}

/// A path as lists of mounts write it.
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
