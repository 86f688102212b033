//! [`FileSnapshot`]: the state of a path at a time.

use std::path::PathBuf;

use crate::file_attributes::FileAttributes;
use crate::file_facts::FileFacts;

/// What is, or was, at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSnapshot {
    /// Nothing exists there.
    Absent,
    /// An ordinary file.
    File {
        /// Its whole contents.
        bytes: Vec<u8>,
        /// Its facts when it was read.
        facts: FileFacts,
        /// Its mode and owner.
        attributes: FileAttributes,
    },
    /// A symbolic link.
    Symlink {
        /// Its target, as written in the link.
        target: PathBuf,
    },
}

impl FileSnapshot {
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            Self::Absent | Self::Symlink { .. } => None,
        }
    }
}
