//! The small files through which the kernel is asked and told: `/proc` and control groups.
//!
//! They are no person's files, so they go round the workspace. They are opened without following
//! a name into being: writing to a control file that is not there fails instead of creating one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Bytes read of one file: the longest are lists of children, seven digits each.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Names read of one folder: no more processes than that are possible.
const NAMES_MAX: usize = 4 * 1024 * 1024;

/// All of a file, as text.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_bytes(path)?).into_owned())
}

/// All of a file, byte for byte: names of files are among them.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = vec![0; 4096];
    let mut len = 0;
    loop {
        let rest = bytes.get_mut(len..).unwrap_or_default();
        match rustix::io::read(&file, rest)? {
            0 => break,
            count => len += count,
        }
        if len >= BYTES_MAX {
            break;
        }
        if len == bytes.len() {
            bytes.resize(len * 2, 0);
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Opens a control file that is there, to write to it.
pub(crate) fn open_to_write(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a folder of control files.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Tells a control file something, in one write as the kernel wants it.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    rustix::io::write(open_to_write(path)?, text.as_bytes())?;
    Ok(())
}

/// What a folder holds.
pub(crate) fn list_names(path: &Path) -> io::Result<Vec<String>> {
    let folder = open_folder(path)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(folder)?.take(NAMES_MAX) {
        // A process that ends while the folder is read ends the reading of its tasks only.
        let Ok(entry) = entry else { break };
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    Ok(names)
}

/// The number after a word, in a file of lines like `oom_kill 3`.
pub(crate) fn read_counter(path: &Path, word: &str) -> Option<u64> {
    let text = read(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The number a file holds.
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    read(path).ok()?.trim().parse().ok()
}
