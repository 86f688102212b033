//! Which paths a system call changes, and what has to be recorded of them.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, FileType as KernelFileType, Mode, OFlags, Stat, StatVfsMountFlags,
    StatxAttributes, StatxFlags,
};
use rustix::io::Errno;

use super::held_files::HeldFiles;
use super::notification::{Listener, SyscallAnswer, WaitingCall, read_path};
use super::sandbox_root::SandboxRoot;
use crate::journal::ChangeRecorder;

/// Links that an open follows before it gives up, as in the kernel.
const LINKS_MAX: u32 = 40;
/// How long a folder is not looked up again. A call of the command that may put another folder there ends
/// it at once; changes by other programs in so short a time are not noticed.
const FOLDER_AGE_MAX: Duration = Duration::from_millis(10);
/// The bits of a mode that a command may set.
const MODE_BITS: libc::mode_t = 0o7777;
/// Exchanges two paths.
const RENAME_EXCHANGE: u64 = 2;

/// Records the calls of a command.
pub(super) struct CallRecorder {
    pub(super) recorder: ChangeRecorder,
    root: Option<SandboxRoot>,
    /// The folder of the last call: many calls in turn are about one.
    last_folder: Option<KnownFolder>,
    /// When a call last set out to move a folder.
    moved_at: Option<Instant>,
    /// Whether the command has put nothing but new files and folders into the folders that it made:
    /// no link, and nothing that was elsewhere before. A path in them that has no `..` is then what
    /// it seems, and new, so that nothing has to be looked up. Package managers make thousands.
    has_plain_folders: bool,
    /// A folder that the command made: the last one that a call was about.
    made_folder: Option<PathBuf>,
    /// The process of the last call.
    last_process: Option<KnownProcess>,
    /// Files that may be open for writing when the record continues in another set; `None` for a
    /// command, whose record does not.
    held_files: Option<HeldFiles>,
}

/// A folder as the command sees it.
struct SeenFolder {
    handle: OwnedFd,
    /// The canonical path.
    path: PathBuf,
    /// Whether the command sees it through a read-only mount.
    is_read_only: bool,
}

/// A folder that was looked up a moment ago.
struct KnownFolder {
    /// The path as it was written, from the root.
    written: PathBuf,
    folder: Rc<SeenFolder>,
    since: Instant,
}

/// A process that called before.
struct KnownProcess {
    pid: u32,
    /// Its folder in `/proc`, once it has called a second time: most processes call once.
    folder: Option<OwnedFd>,
}

/// A name in a folder, both as the command sees them.
struct SeenPath {
    /// The canonical path.
    path: PathBuf,
    folder: Rc<SeenFolder>,
}

impl SeenPath {
    fn stat(&self) -> Option<Stat> {
        let name = self.path.file_name()?;
        rustix::fs::statat(&self.folder.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Whether the command sees it through a read-only mount, which protects or hides it: no call of
    /// the command changes it. A link to it in the journal would only make others wonder.
    fn is_read_only(&self) -> bool {
        let Some(name) = self.path.file_name() else { return false };
        let (at, stat) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
        match rustix::fs::statx(&self.folder.handle, name, at, stat) {
            Err(Errno::NOENT) => self.folder.is_read_only,
            // It is in the mount of its folder.
            Ok(facts)
                if facts.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
                    && !facts.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) =>
            {
                self.folder.is_read_only
            }
            // It may be a mount of its own.
            _ => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(&self.folder.handle, name, flags, Mode::empty());
                opened.is_ok_and(is_read_only)
            }
        }
    }
}

impl CallRecorder {
    pub(super) fn new(mut recorder: ChangeRecorder) -> Self {
        let held_files = recorder.is_beside().then(HeldFiles::default);
        recorder.keep_folder(FOLDER_AGE_MAX);
        Self {
            recorder,
            root: None,
            last_folder: None,
            moved_at: None,
            has_plain_folders: true,
            made_folder: None,
            last_process: None,
            held_files,
        }
    }

    /// Records what follows with another recorder, and returns the one so far. A file that is open for
    /// writing is recorded at once: later writes to it are not seen.
    pub(super) fn continue_in(&mut self, mut recorder: ChangeRecorder) -> ChangeRecorder {
        // A call that moves a folder may be about to happen.
        recorder.keep_folder(if self.moved_at.is_some() { Duration::ZERO } else { FOLDER_AGE_MAX });
        recorder.take_guard_of(&self.recorder);
        let before = std::mem::replace(&mut self.recorder, recorder);
        self.has_plain_folders = true;
        self.made_folder = None;
        for path in self.held_files.as_mut().map(HeldFiles::list_open).unwrap_or_default() {
            self.recorder.record_contents(&path);
        }
        before
    }

    fn note_opened(&mut self, call: &WaitingCall, path: &Path) {
        if let Some(held_files) = &mut self.held_files {
            held_files.add(call.pid, path);
        }
    }

    /// Records everything that a call is about to change.
    pub(super) fn record(&mut self, call: &WaitingCall) {
        if self.moved_at.take_if(|at| at.elapsed() >= FOLDER_AGE_MAX).is_some() {
            self.recorder.keep_folder(FOLDER_AGE_MAX);
        }
        if self.root.is_none() {
            self.root = SandboxRoot::of_process(call.pid);
        }
        if self.try_record(call).is_none() {
            self.recorder.note_loss("a program changed files without letting zero see which");
        }
        if !keeps_folders(call) {
            // Later calls may refer to another folder at the same path.
            self.last_folder = None;
            self.recorder.forget_folder();
        }
        if may_move_folder(call) {
            // The folder moves only now: a path that another thread of the command looked up earlier is
            // soon elsewhere.
            self.moved_at = Some(Instant::now());
            self.recorder.keep_folder(Duration::ZERO);
        }
    }

    /// Sets a mode with the set-group-ID bit for a command, if it is that of a folder. The command does
    /// not do it itself: another of its threads could put a program in the place of the folder.
    pub(super) fn set_group_mode(
        &mut self,
        listener: &Listener,
        call: &WaitingCall,
    ) -> SyscallAnswer {
        let [a, b, c, d, ..] = call.args;
        let (at, mode, flags) = match i64::from(call.call) {
            libc::SYS_fchmod => (None, b, 0),
            libc::SYS_fchmodat => (Some((a, b)), c, 0),
            libc::SYS_fchmodat2 => (Some((a, b)), c, d),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => (Some((AT_CWD, a)), b, 0),
            _ => return SyscallAnswer::Continue,
        };
        let mode = Mode::from_raw_mode(mode as libc::mode_t & MODE_BITS);
        if !mode.contains(Mode::SGID) {
            return SyscallAnswer::Continue;
        }
        let path = match at {
            None => self.read_link(call.pid, &descriptor_link(a)),
            Some(at) => self.absolute_path(call, at),
        };
        let follows = flags & u64::from(libc::AT_SYMLINK_NOFOLLOW.unsigned_abs()) == 0;
        let opened = path.ok_or(Errno::PERM).and_then(|path| {
            let flags = if follows { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
            self.open(&path, flags)
        });
        let opened = opened.map_err(|error| if error == Errno::LOOP { Errno::PERM } else { error });
        if !listener.is_waiting(call) {
            return SyscallAnswer::Done(Err(Errno::SRCH));
        }
        SyscallAnswer::Done(opened.and_then(|folder| set_folder_mode(&folder, mode)))
    }

    fn try_record(&mut self, call: &WaitingCall) -> Option<()> {
        let [a, b, c, d, e, _] = call.args;
        let folder_id = AT_CWD;
        match i64::from(call.call) {
            libc::SYS_openat => self.record_open(call, (a, b), c),
            libc::SYS_truncate => {
                self.record_open(call, (folder_id, a), u64::from(libc::O_WRONLY.unsigned_abs()))
            }
            libc::SYS_unlinkat => {
                let is_folder = c & u64::from(libc::AT_REMOVEDIR.unsigned_abs()) != 0;
                self.record_removal(call, (a, b), is_folder)
            }
            libc::SYS_renameat => self.record_rename(call, (a, b), (c, d), 0),
            libc::SYS_renameat2 => self.record_rename(call, (a, b), (c, d), e),
            libc::SYS_linkat => self.record_link(call, (c, d)),
            libc::SYS_symlinkat => self.record_link(call, (b, c)),
            libc::SYS_mkdirat | libc::SYS_mknodat => self.record_name(call, (a, b)),
            libc::SYS_fchmodat | libc::SYS_fchmodat2 => self.record_mode(call, (a, b)),
            libc::SYS_fchmod => {
                let path = self.read_link(call.pid, &descriptor_link(a))?;
                if !self.is_surely_new(&path) && self.recorder.covers(&path) {
                    self.recorder.record_attributes(&path);
                }
                Some(())
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.record_open(call, (folder_id, a), b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                self.record_open(call, (folder_id, a), u64::from(flags.unsigned_abs()))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.record_removal(call, (folder_id, a), false),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rmdir => self.record_removal(call, (folder_id, a), true),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.record_rename(call, (folder_id, a), (folder_id, b), 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link | libc::SYS_symlink => self.record_link(call, (folder_id, b)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir | libc::SYS_mknod => self.record_name(call, (folder_id, a)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => self.record_mode(call, (folder_id, a)),
            _ => Some(()),
        }
    }

    fn record_open(&mut self, call: &WaitingCall, at: (u64, u64), flags: u64) -> Option<()> {
        let has =
            |flag: i32| flags & u64::from(flag.unsigned_abs()) == u64::from(flag.unsigned_abs());
        // A file without a name changes nothing; it may get one with `linkat`.
        if has(libc::O_TMPFILE) || has(libc::O_PATH) {
            return Some(());
        }
        let mut path = self.absolute_path(call, at)?;
        if self.is_surely_new(&path) {
            self.note_opened(call, &path);
            return Some(());
        }
        let is_exclusive = has(libc::O_CREAT) && has(libc::O_EXCL);
        for _ in 0..LINKS_MAX {
            let Some(seen) = self.see(&path)? else { return Some(()) };
            if !self.recorder.covers(&seen.path) {
                return self.record_outside(&seen, is_exclusive);
            }
            self.note_opened(call, &seen.path);
            let Some(stat) = seen.stat() else {
                // Without `O_CREAT` the call fails.
                if has(libc::O_CREAT) {
                    self.recorder.record(&seen.path);
                }
                return Some(());
            };
            match KernelFileType::from_raw_mode(stat.st_mode) {
                // The call fails.
                _ if is_exclusive => return Some(()),
                KernelFileType::Symlink if has(libc::O_NOFOLLOW) => return Some(()),
                KernelFileType::Symlink => path = read_target(&seen)?,
                KernelFileType::RegularFile
                    if stat.st_nlink == 1 && self.recorder.is_in_new_folder(&seen.path) =>
                {
                    return Some(());
                }
                // The call fails.
                KernelFileType::RegularFile if seen.is_read_only() => return Some(()),
                KernelFileType::RegularFile => {
                    self.recorder.record_contents(&seen.path);
                    return Some(());
                }
                // Pipes and devices are not changed, and folders cannot be opened for writing.
                _ => return Some(()),
            }
        }
        // More links than the kernel follows, unless another process changes them meanwhile.
        None
    }

    /// A file outside may be a link to one inside.
    fn record_outside(&mut self, seen: &SeenPath, is_exclusive: bool) -> Option<()> {
        let is_link =
            |stat: Stat| KernelFileType::from_raw_mode(stat.st_mode) == KernelFileType::Symlink;
        if is_exclusive || !seen.stat().is_some_and(is_link) {
            return Some(());
        }
        // A link to a path that does not exist, which the call may create, or that only the command
        // can follow.
        let target = read_handle(self.open(&seen.path, OFlags::PATH).ok()?)?;
        if self.recorder.covers(&target) {
            self.recorder.record_contents(&target);
        }
        Some(())
    }

    fn record_removal(
        &mut self,
        call: &WaitingCall,
        at: (u64, u64),
        is_folder: bool,
    ) -> Option<()> {
        let path = self.absolute_path(call, at)?;
        if self.is_surely_new(&path) {
            return Some(());
        }
        if let Some(seen) = self.see(&path)?.filter(|seen| self.may_change(seen)) {
            if is_folder {
                self.recorder.record_removal(&seen.path);
            } else {
                self.recorder.record(&seen.path);
            }
        }
        Some(())
    }

    fn record_rename(
        &mut self,
        call: &WaitingCall,
        from: (u64, u64),
        to: (u64, u64),
        flags: u64,
    ) -> Option<()> {
        let (from, to) = (self.absolute_path(call, from)?, self.absolute_path(call, to)?);
        if self.is_surely_new(&from) && self.is_surely_new(&to) {
            return Some(());
        }
        let seen = [self.see(&from)?, self.see(&to)?];
        // A rename that fails because a path is missing changes nothing.
        let [Some(from), Some(to)] = seen else { return Some(()) };
        // Neither does one of or over what is protected.
        if from.is_read_only() || to.is_read_only() {
            return Some(());
        }
        // What the command made is plain wherever it moves.
        let is_made_here = self.recorder.is_new(&from.path) && flags & RENAME_EXCHANGE == 0;
        self.has_plain_folders &= is_made_here;
        if self.recorder.covers(&from.path) {
            self.recorder.record_tree(&from.path);
        }
        if self.recorder.covers(&to.path) {
            if flags & RENAME_EXCHANGE == 0 {
                self.recorder.record_removal(&to.path);
            } else {
                self.recorder.record_tree(&to.path);
            }
        }
        Some(())
    }

    /// Records a name that is about to be given to a file that exists, or to a link.
    fn record_link(&mut self, call: &WaitingCall, at: (u64, u64)) -> Option<()> {
        self.has_plain_folders = false;
        self.record_name(call, at)
    }

    fn record_name(&mut self, call: &WaitingCall, at: (u64, u64)) -> Option<()> {
        let path = self.absolute_path(call, at)?;
        if self.is_surely_new(&path) {
            return Some(());
        }
        if let Some(seen) = self.see(&path)?.filter(|seen| self.may_change(seen)) {
            self.recorder.record(&seen.path);
        }
        Some(())
    }

    fn may_change(&self, seen: &SeenPath) -> bool {
        self.recorder.covers(&seen.path) && !seen.is_read_only()
    }

    fn record_mode(&mut self, call: &WaitingCall, at: (u64, u64)) -> Option<()> {
        let path = self.absolute_path(call, at)?;
        if self.is_surely_new(&path) {
            return Some(());
        }
        let handle = match self.open(&path, OFlags::PATH) {
            Ok(handle) => handle,
            Err(Errno::LOOP) => return None,
            Err(_) => return (!leads_out_of_proc(&path)).then_some(()),
        };
        let target = read_handle(&handle)?;
        if self.recorder.covers(&target) && !is_read_only(&handle) {
            self.recorder.record_attributes(&target);
        }
        Some(())
    }

    /// Whether a path is below a folder that the command made, without looking: see
    /// [`Self::has_plain_folders`].
    fn is_surely_new(&mut self, path: &Path) -> bool {
        if !self.has_plain_folders || !is_written_plainly(path) {
            return false;
        }
        if self.made_folder.as_ref().is_some_and(|made| is_below(path, made)) {
            return true;
        }
        let made = self.recorder.made_folder_above(path);
        let is_new = made.is_some();
        self.made_folder = made.or(self.made_folder.take());
        is_new
    }

    /// The path of an argument, from the root of the sandbox.
    fn absolute_path(&mut self, call: &WaitingCall, (folder, path): (u64, u64)) -> Option<PathBuf> {
        let path = read_path(call.pid, path)?;
        if path.is_absolute() {
            return follow_process_link(call.pid, path);
        }
        let base = match folder {
            // The register has the number as 32 bits.
            number if number as u32 == AT_CWD as u32 => self.read_link(call.pid, "cwd")?,
            number => self.read_link(call.pid, &descriptor_link(number))?,
        };
        if path.as_os_str().is_empty() { Some(base) } else { Some(base.join(path)) }
    }

    /// Reads a link in the folder of a process in `/proc`.
    fn read_link(&mut self, pid: u32, name: &str) -> Option<PathBuf> {
        let known = self.last_process.take().filter(|known| known.pid == pid);
        let open = || {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).ok()
        };
        let folder = known.and_then(|known| known.folder.or_else(open));
        let known = folder.as_ref().and_then(|folder| read_link_at(folder, name));
        let found = known.is_some();
        // The number may be that of another process by now.
        self.last_process = Some(KnownProcess { pid, folder: folder.filter(|_| found) });
        known.or_else(|| read_proc_link(&format!("/proc/{pid}/{name}")))
    }

    /// Finds the folder of a path. The inner `None` means that it does not exist, the outer that
    /// only the command can follow the path, such as a link to `/proc/self`.
    #[expect(clippy::option_option, reason = "an unknown path and a missing one differ")]
    fn see(&mut self, path: &Path) -> Option<Option<SeenPath>> {
        let Some((parent, name)) = split_name(path) else { return Some(None) };
        let folder = match self.known_folder(parent) {
            Some(folder) => folder,
            None => match self.open(parent, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(handle) => self.keep_folder(parent, handle)?,
                Err(Errno::LOOP) => return None,
                Err(_) if leads_out_of_proc(path) => return None,
                Err(_) => return Some(None),
            },
        };
        Some(Some(SeenPath { path: folder.path.join(name), folder }))
    }

    fn known_folder(&self, written: &Path) -> Option<Rc<SeenFolder>> {
        let known = self.last_folder.as_ref()?;
        let is_same = known.written.as_os_str() == written.as_os_str()
            && known.since.elapsed() < FOLDER_AGE_MAX;
        is_same.then(|| Rc::clone(&known.folder))
    }

    fn keep_folder(&mut self, written: &Path, handle: OwnedFd) -> Option<Rc<SeenFolder>> {
        let path = read_handle(&handle)?;
        let is_read_only = is_read_only(&handle);
        let folder = Rc::new(SeenFolder { handle, path, is_read_only });
        self.last_folder = self.moved_at.is_none().then(|| KnownFolder {
            written: written.to_owned(),
            folder: Rc::clone(&folder),
            since: Instant::now(),
        });
        Some(folder)
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.root.as_ref().ok_or(Errno::LOOP)?.open(path, flags)
    }
}

/// Whether a path is below a folder, both without `..`.
fn is_below(path: &Path, folder: &Path) -> bool {
    let rest = path.as_os_str().as_bytes().strip_prefix(folder.as_os_str().as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"/") && rest.iter().any(|byte| *byte != b'/'))
}

/// Whether a call leads no path to another folder.
fn keeps_folders(call: &WaitingCall) -> bool {
    match i64::from(call.call) {
        libc::SYS_openat
        | libc::SYS_truncate
        | libc::SYS_fchmod
        | libc::SYS_fchmodat
        | libc::SYS_fchmodat2 => true,
        libc::SYS_unlinkat => call.args[2] & u64::from(libc::AT_REMOVEDIR.unsigned_abs()) == 0,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_creat | libc::SYS_unlink | libc::SYS_chmod => true,
        _ => false,
    }
}

/// Whether a call may put another folder at a path where one is.
fn may_move_folder(call: &WaitingCall) -> bool {
    match i64::from(call.call) {
        libc::SYS_renameat | libc::SYS_renameat2 => true,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => true,
        _ => false,
    }
}

/// Sets the mode of a folder with the rights that a command has.
fn set_folder_mode(folder: &OwnedFd, mut mode: Mode) -> Result<(), Errno> {
    use std::os::fd::AsRawFd as _;
    let stat = rustix::fs::fstat(folder)?;
    let is_folder = KernelFileType::from_raw_mode(stat.st_mode) == KernelFileType::Directory;
    if !is_folder || stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno::PERM);
    }
    let is_own_group = |group: u32| {
        rustix::process::getegid().as_raw() == group
            || rustix::process::getgroups()
                .is_ok_and(|groups| groups.iter().any(|own| own.as_raw() == group))
    };
    // As the kernel does for everyone but root, who has no privileges in the sandbox.
    if !is_own_group(stat.st_gid) {
        mode.remove(Mode::SGID);
    }
    // The handle is in the mount that the command sees, so that a read-only one stays so.
    rustix::fs::chmodat(
        CWD,
        format!("/proc/self/fd/{}", folder.as_raw_fd()),
        mode,
        AtFlags::empty(),
    )
}

fn is_read_only(handle: impl AsFd) -> bool {
    let mount = rustix::fs::fstatvfs(handle);
    mount.is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The number for the current folder, as a call has it in its register.
const AT_CWD: u64 = libc::AT_FDCWD as i64 as u64;

/// The folder and the name of a path; `None` if it cannot be changed by that name.
fn split_name(path: &Path) -> Option<(&Path, &OsStr)> {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/')? + 1;
    let bytes = bytes.get(..end)?;
    let start = bytes.iter().rposition(|byte| *byte == b'/')? + 1;
    let (parent, name) = bytes.split_at_checked(start)?;
    let is_name = name != b"." && name != b"..";
    is_name.then_some((Path::new(OsStr::from_bytes(parent)), OsStr::from_bytes(name)))
}

/// Whether a path has no part that stands for another folder, and ends with a name.
fn is_written_plainly(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.starts_with(b"/")
        && !bytes.ends_with(b"/.")
        && bytes.split(|byte| *byte == b'/').all(|part| part != b"..")
}

/// Whether a path goes through a link of `/proc` to a folder or file of a process, which only the
/// command can follow. Other files of `/proc` are no files of a workspace.
fn leads_out_of_proc(path: &Path) -> bool {
    let is_link = |part: &OsStr| part == "cwd" || part == "root" || part == "fd";
    path.strip_prefix("/proc").is_ok_and(|rest| rest.iter().any(is_link))
}

/// Replaces a link of `/proc` or `/dev` that means something else for each process.
fn follow_process_link(pid: u32, path: PathBuf) -> Option<PathBuf> {
    let streams = [("/dev/stdin", 0), ("/dev/stdout", 1), ("/dev/stderr", 2)];
    if let Some((_, number)) = streams.iter().find(|(name, _)| path == Path::new(name)) {
        return read_descriptor(pid, *number);
    }
    let own = ["/proc/self", "/proc/thread-self"];
    let own = own.iter().find_map(|folder| path.strip_prefix(folder).ok());
    let (kind, rest) = match (own, path.strip_prefix("/dev/fd")) {
        (Some(rest), _) => {
            let mut parts = rest.components();
            (parts.next().map(|part| part.as_os_str().to_owned()), parts.as_path().to_owned())
        }
        (None, Ok(rest)) => (Some("fd".into()), rest.to_owned()),
        (None, Err(_)) => return Some(path),
    };
    let base = match kind.as_deref().and_then(OsStr::to_str) {
        Some("cwd") => read_proc_link(&format!("/proc/{pid}/cwd"))?,
        Some("root") => PathBuf::from("/"),
        Some("fd") => {
            let mut parts = rest.components();
            let number = parts.next()?.as_os_str().to_str()?.parse().ok()?;
            return Some(read_descriptor(pid, number)?.join(parts.as_path()));
        }
        _ => return Some(path),
    };
    Some(base.join(rest))
}

fn read_target(seen: &SeenPath) -> Option<PathBuf> {
    let name = seen.path.file_name()?;
    let target = rustix::fs::readlinkat(&seen.folder.handle, name, Vec::new()).ok()?;
    let target = PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes()));
    Some(seen.path.parent()?.join(target))
}

fn read_descriptor(pid: u32, number: u64) -> Option<PathBuf> {
    read_proc_link(&format!("/proc/{pid}/{}", descriptor_link(number)))
}

/// The link to an open file in the folder of a process.
fn descriptor_link(number: u64) -> String {
    // The register has the number as 32 bits.
    format!("fd/{}", number as u32)
}

fn read_handle(handle: impl AsFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    read_proc_link(&format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd()))
}

pub(super) fn read_proc_link(link: &str) -> Option<PathBuf> {
    read_link_at(CWD, link)
}

fn read_link_at(folder: impl AsFd, name: &str) -> Option<PathBuf> {
    let target = rustix::fs::readlinkat(folder, name, Vec::with_capacity(256)).ok()?;
    Some(std::ffi::OsString::from_vec(target.into_bytes()).into())
}
