//! Ways to change and read files other than opening them by name.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::check_syscall;

/// The result of an attempt of this module; `None` for other attempts.
pub(crate) fn attempt(name: &str, args: &[&str]) -> Option<io::Result<String>> {
    let ok = |()| "ok".to_owned();
    Some(match (name, args) {
        ("open-trunc", [path]) => {
            OpenOptions::new().write(true).truncate(true).open(path).map(|_| ok(()))
        }
        ("rmdir", [path]) => fs::remove_dir(path).map(ok),
        ("symlink", [path]) => std::os::unix::fs::symlink("nowhere", path).map(ok),
        ("mknod", [path]) => {
            with_path(path, |path| unsafe { libc::mknod(path, libc::S_IFREG | 0o644, 0).into() })
        }
        ("mkfifo", [path]) => with_path(path, |path| unsafe { libc::mkfifo(path, 0o644).into() }),
        ("chown", [path]) => with_path(path, |path| unsafe {
            libc::chown(path, libc::geteuid(), libc::getegid()).into()
        }),
        ("touch", [path]) => with_path(path, |path| unsafe {
            libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0).into()
        }),
        ("setxattr", [path]) => with_path(path, |path| unsafe {
            libc::setxattr(path, c"user.attacked".as_ptr(), c"1".as_ptr().cast(), 1, 0).into()
        }),
        // A descriptor for reading is enough for these.
        ("fchmod", [path]) => with_file(path, |file| unsafe { libc::fchmod(file, 0o777).into() }),
        ("set-id", [how, path]) => create_set_id(how, path),
        ("swap", [from, to]) => swap(from, to),
        ("write-through-hardlink", [path, link]) => {
            fs::hard_link(path, link).and_then(|()| fs::write(link, "attacked")).map(ok)
        }
        ("write-through-link", [path, link]) => std::os::unix::fs::symlink(path, link)
            .and_then(|()| fs::write(link, "attacked"))
            .map(ok),
        // A descriptor without access rights is opened again with them.
        ("read-through-handle", [path]) => with_handle_path(path, |again| {
            let mut text = String::new();
            File::open(again)?.read_to_string(&mut text).map(|_| ())
        }),
        ("write-through-handle", [path]) => with_handle_path(path, |again| {
            OpenOptions::new().write(true).open(again)?.write_all(b"attacked")
        }),
        ("read-through-folder-handle", [folder, name]) => {
            with_handle_path(folder, |again| File::open(format!("{again}/{name}")).map(drop))
        }
        _ => return None,
    })
}

/// Makes a new program that runs as its owner.
fn create_set_id(how: &str, path: &str) -> io::Result<String> {
    let (write, mode) = (libc::O_CREAT | libc::O_WRONLY, 0o4755);
    let at = libc::AT_FDCWD;
    match how {
        "chmod" => {
            File::create(path)?;
            with_path(path, |path| unsafe { libc::chmod(path, mode).into() })
        }
        "fchmodat" => {
            File::create(path)?;
            with_path(path, |path| unsafe { libc::fchmodat(at, path, mode, 0).into() })
        }
        "fchmod" => {
            File::create(path)?;
            with_file(path, |file| unsafe { libc::fchmod(file, mode).into() })
        }
        "open" => with_path(path, |path| unsafe { libc::open(path, write, mode).into() }),
        "creat" => with_path(path, |path| unsafe { libc::creat(path, mode).into() }),
        "mknod" => {
            with_path(path, |path| unsafe { libc::mknod(path, libc::S_IFREG | mode, 0).into() })
        }
        "openat2" => with_path(path, |path| {
            // Flags, mode, and how the path is resolved.
            let how = [u64::from(write.unsigned_abs()), u64::from(mode), 0];
            unsafe { libc::syscall(libc::SYS_openat2, at, path, &how, size_of_val(&how)) }
        }),
        _ => Err(io::Error::other("no such way")),
    }
}

fn with_path(
    path: &str,
    call: impl FnOnce(*const libc::c_char) -> libc::c_long,
) -> io::Result<String> {
    let path = CString::new(path)?;
    check_syscall(call(path.as_ptr()))
}

fn with_file(path: &str, call: impl FnOnce(i32) -> libc::c_long) -> io::Result<String> {
    let file = File::open(path)?;
    check_syscall(call(file.as_raw_fd()))
}

fn swap(from: &str, to: &str) -> io::Result<String> {
    let (from, to) = (CString::new(from)?, CString::new(to)?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
    check_syscall(unsafe {
        libc::syscall(libc::SYS_renameat2, here, from.as_ptr(), here, to.as_ptr(), flags)
    })
}

fn with_handle_path(path: &str, then: impl FnOnce(&str) -> io::Result<()>) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    then(&format!("/proc/self/fd/{}", file.as_raw_fd())).map(|()| "ok".to_owned())
}
