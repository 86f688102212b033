//! Reads and writes the small files of the kernel: `/proc` and control groups.
//!
//! They are not the user's files, so they do not go through the workspace. No file is ever created:
//! writing to a control file that does not exist fails.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Most bytes of one file: the longest are lists of children, seven digits each.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most names of one folder: there cannot be more processes.
const NAMES_MAX: usize = 4 * 1024 * 1024;

/// Reads a whole file as text.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_bytes(path)?).into_owned())
}

/// Reads a whole file as bytes: it may contain names of files.
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

/// Opens an existing control file for writing.
pub(crate) fn open_to_write(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a folder of control files.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Writes to a control file in a single write, as the kernel requires.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    rustix::io::write(open_to_write(path)?, text.as_bytes())?;
    Ok(())
}

/// The names in a folder.
pub(crate) fn list_names(path: &Path) -> io::Result<Vec<String>> {
    let folder = open_folder(path)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(folder)?.take(NAMES_MAX) {
        // If a process ends while its folder is read, only that listing ends.
        let Ok(entry) = entry else { break };
        let name = entry.file_name().to_string_lossy();
        if name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    Ok(names)
}

/// The number after a word, in a file with lines like `oom_kill 3`.
pub(crate) fn read_counter(path: &Path, word: &str) -> Option<u64> {
    let text = read(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The number that a file contains.
pub(crate) fn read_number(path: &Path) -> Option<u64> {
    read(path).ok()?.trim().parse().ok()
}
