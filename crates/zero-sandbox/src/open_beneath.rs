//! Opens files below a folder without following any link.
//!
//! With `openat2`, the kernel refuses links and `..` in one step. Where it is missing (old kernels,
//! containers that filter it), one component is opened at a time, with the same guarantee.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens `relative` below `root`. Any link on the way, including the last component, is an error.
pub fn open(root: impl AsFd, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(
            root.as_fd(),
            path_or_dot(relative),
            flags,
            Mode::empty(),
            resolve,
        ) {
            // ENOSYS: the kernel is older than 5.6. EPERM: a container's filter does not know it.
            Err(Errno::NOSYS | Errno::PERM) => open_stepwise(root, relative, flags),
            opened => opened,
        }
    }
    #[cfg(not(target_os = "linux"))]
    open_stepwise(root, relative, flags)
}

/// The portable way: one component at a time, none of them a link.
fn open_stepwise(root: impl AsFd, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | step_access();
    let mut here = rustix::fs::openat(root, ".", step, Mode::empty())?;
    let mut components = relative.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV) };
        if components.peek().is_none() {
            return rustix::fs::openat(here, name, flags, Mode::empty());
        }
        here = rustix::fs::openat(here, name, step, Mode::empty())?;
    }
    rustix::fs::openat(here, ".", flags, Mode::empty())
}

#[cfg(target_os = "linux")]
fn step_access() -> OFlags {
    OFlags::PATH
}

#[cfg(not(target_os = "linux"))]
fn step_access() -> OFlags {
    OFlags::RDONLY
}

fn path_or_dot(relative: &Path) -> &Path {
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    /// Checks that both ways give the same result.
    #[track_caller]
    fn check(root: &Path, relative: &str, expected: Result<(), Errno>) {
        let dir = rustix::fs::open(root, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let kernel = open(&dir, Path::new(relative), flags).map(drop);
        let steps = open_stepwise(&dir, Path::new(relative), flags).map(drop);
        assert_eq!(kernel, expected, "openat2 of {relative}");
        match expected {
            Ok(()) => assert_eq!(steps, Ok(()), "steps to {relative}"),
            Err(_) => assert!(steps.is_err(), "steps to {relative}"),
        }
    }

    #[test]
    fn open_beneath_refuses_links_and_dots_in_both_modes() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::create_dir(root.join("dir")).unwrap();
        std::fs::write(root.join("dir/file"), "x").unwrap();
        std::os::unix::fs::symlink("dir", root.join("link")).unwrap();
        std::os::unix::fs::symlink("file", root.join("dir/inner")).unwrap();
        check(root, "dir/file", Ok(()));
        check(root, "", Ok(()));
        check(root, "link/file", Err(Errno::LOOP));
        check(root, "dir/inner", Err(Errno::LOOP));
        check(root, "../etc/passwd", Err(Errno::XDEV));
        check(root, "/etc/passwd", Err(Errno::XDEV));
        check(root, "dir/none", Err(Errno::NOENT));
    }
}
