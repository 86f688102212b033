//! Facts about a file that are known without reading it.

use std::fs::File;

use rustix::fs::Stat;

/// The type of what is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// An ordinary file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, socket or device.
    Special,
}

impl FileType {
    fn from_rustix(kind: rustix::fs::FileType) -> Self {
        match kind {
            rustix::fs::FileType::RegularFile => Self::File,
            rustix::fs::FileType::Directory => Self::Directory,
            rustix::fs::FileType::Symlink => Self::Symlink,
            _ => Self::Special,
        }
    }
}

/// Facts about a file. If two are equal, it is the same file and unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Type of the file itself, as its mode says.
    pub file_type: FileType,
    /// Size in bytes.
    pub size: u64,
    /// When it was last modified, in nanoseconds since 1970.
    pub modified_ns: i128,
    device: u64,
    inode: u64,
}

impl FileFacts {
    pub(crate) fn from_stat(stat: &Stat) -> Self {
        Self {
            file_type: FileType::from_rustix(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128,
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }

    /// The facts of an open file.
    pub fn from_file(file: &File) -> std::io::Result<Self> {
        Ok(Self::from_stat(&rustix::fs::fstat(file)?))
    }
}
