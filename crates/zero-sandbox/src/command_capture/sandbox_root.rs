//! [`SandboxRoot`]: opens paths as the processes of a sandbox see them.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How often a path is looked up again if the kernel asks for it.
const RETRIES_MAX: u32 = 64;
/// Links in a path before it leads nowhere, as in the kernel.
const LINKS_MAX: u32 = 40;
/// Deepest folder of a path.
const DEPTH_MAX: usize = 4_096;
/// The kind of file system that `/proc` is.
const PROC_MAGIC: u64 = 0x9fa0;

/// The root folder of a sandbox, which all processes of a command share.
pub(super) struct SandboxRoot(OwnedFd);

impl SandboxRoot {
    /// The root folder of a process; `None` if it is gone.
    pub(super) fn of_process(pid: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = format!("/proc/{pid}/root");
        rustix::fs::openat(CWD, root, flags, Mode::empty()).ok().map(Self)
    }

    /// Opens a path as the sandbox has it. An error that does not mean that the command cannot reach the
    /// path either becomes `LOOP`, such as a link that only the command can follow.
    pub(super) fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        const MISSING: [Errno; 4] =
            [Errno::NOENT, Errno::NOTDIR, Errno::NAMETOOLONG, Errno::ACCESS];
        let flags = flags | OFlags::CLOEXEC;
        let opened = match self.open_at_once(path, flags) {
            // The kernel is too old, or a filter around zero does not know the call: that of a service
            // manager or a container.
            Err(Errno::NOSYS | Errno::PERM) => self.open_stepwise(path, flags),
            opened => opened,
        };
        opened.map_err(|error| if MISSING.contains(&error) { error } else { Errno::LOOP })
    }

    fn open_at_once(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let open =
            || rustix::fs::openat2(&self.0, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        let mut opened = open();
        // Something was renamed meanwhile, so the kernel does not know where `..` leads.
        for _ in 0..RETRIES_MAX {
            if !matches!(opened, Err(Errno::AGAIN)) {
                break;
            }
            opened = open();
        }
        opened
    }

    /// The portable way: one component at a time. Links are followed from here, so that none of them leads
    /// out of the root.
    fn open_stepwise(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        // The folders above the next component, below the root.
        let mut above: Vec<OwnedFd> = Vec::new();
        let mut rest = split_reversed(path);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            let here = above.last().map_or(self.0.as_fd(), |folder| folder.as_fd());
            let name = match part {
                PathPart::Root => {
                    above.clear();
                    continue;
                }
                PathPart::Parent => {
                    above.pop();
                    continue;
                }
                PathPart::Name(name) => name,
            };
            let stat = rustix::fs::statat(here, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            let is_last = rest.is_empty();
            let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            if is_link && !(is_last && flags.contains(OFlags::NOFOLLOW)) {
                links += 1;
                // What such a link of `/proc` means depends on who asks.
                if links > LINKS_MAX || rustix::fs::fstatfs(here)?.f_type as u64 == PROC_MAGIC {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(here, &name, Vec::new())?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                rest.extend(split_reversed(&target));
                continue;
            }
            if above.len() >= DEPTH_MAX {
                return Err(Errno::NAMETOOLONG);
            }
            let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let step = if is_last { flags } else { folder } | OFlags::NOFOLLOW;
            let next = rustix::fs::openat(here, &name, step, Mode::empty())?;
            if is_last {
                return Ok(next);
            }
            above.push(next);
        }
        let here = above.last().map_or(self.0.as_fd(), |folder| folder.as_fd());
        rustix::fs::openat(here, ".", flags, Mode::empty())
    }
}

enum PathPart {
    Root,
    Parent,
    Name(OsString),
}

/// The parts of a path, the last first.
fn split_reversed(path: &Path) -> Vec<PathPart> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::RootDir => Some(PathPart::Root),
        Component::ParentDir => Some(PathPart::Parent),
        Component::Normal(name) => Some(PathPart::Name(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test stands outside zero and makes real files")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Checks that both ways lead to the same file, or to none.
    #[track_caller]
    fn check(root: &SandboxRoot, path: &str, flags: OFlags, expected: Result<(), Errno>) {
        let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
        let inode = |opened: Result<OwnedFd, Errno>| {
            opened.map(|file| rustix::fs::fstat(file).unwrap()).map(|stat| stat.st_ino)
        };
        let at_once = inode(root.open_at_once(Path::new(path), flags));
        let stepwise = inode(root.open_stepwise(Path::new(path), flags));
        assert_eq!(at_once.map(drop), expected, "{path}");
        assert_eq!(stepwise, at_once, "{path}, one component at a time");
    }

    #[test]
    fn stepwise_open_finds_what_kernel_finds() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().join("root");
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::fs::write(top.join("a/b/file"), "x").unwrap();
        std::fs::write(temp.path().join("outside"), "x").unwrap();
        for (target, link) in [
            ("a", "to-a"),
            ("/a/b", "absolute"),
            ("../../../outside", "a/out"),
            ("../a/b/file", "a/around"),
            ("self", "self"),
            ("nowhere", "a/dangling"),
        ] {
            symlink(target, top.join(link)).unwrap();
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = SandboxRoot(rustix::fs::open(&top, flags, Mode::empty()).unwrap());
        let any = OFlags::empty();
        for path in
            ["/", "/a/b/file", "/to-a/b/file", "/absolute/file", "/a/around", "/../a/./b/../b"]
        {
            check(&root, path, any, Ok(()));
        }
        check(&root, "/a/out", any, Err(Errno::NOENT));
        check(&root, "/a/out", OFlags::NOFOLLOW, Ok(()));
        check(&root, "/a/dangling", any, Err(Errno::NOENT));
        check(&root, "/self/x", any, Err(Errno::LOOP));
        check(&root, "/a/b/file/x", any, Err(Errno::NOTDIR));
        check(&root, "/a/b/file", OFlags::DIRECTORY, Err(Errno::NOTDIR));
        check(&root, "/a/b/none", any, Err(Errno::NOENT));
    }

    #[test]
    fn links_of_proc_are_not_followed() {
        let root = SandboxRoot(rustix::fs::open("/", OFlags::PATH, Mode::empty()).unwrap());
        let opened = root.open_stepwise(Path::new("/proc/1/root/etc"), OFlags::PATH);
        assert_eq!(opened.map(drop), Err(Errno::LOOP));
    }
}
