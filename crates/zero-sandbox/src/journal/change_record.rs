//! The serialised form of a change in the journal: [`ChangeRecord`].

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::content_digest::sha256;
use super::file_snapshot::FileSnapshot;
use super::portable_path::PortablePath;
use crate::file_attributes::FileAttributes;

/// A change as it is stored in the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ChangeRecord {
    pub(super) id: u64,
    pub(super) time: String,
    pub(super) tool: String,
    pub(super) call: String,
    /// The ID by which the session knows the call; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) caller: Option<String>,
    pub(super) path: PortablePath,
    pub(super) before: RecordedState,
    pub(super) after: RecordedState,
    /// Folders that were created for the file, outermost first.
    pub(super) created_folders: Vec<PortablePath>,
    /// The number of the change that this one undid.
    pub(super) undoes: Option<u64>,
    /// The process that makes the change; part of the name of its temporary file.
    pub(super) pid: u32,
}

/// The state before or after a change, without the contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum RecordedState {
    Absent,
    File { bytes: u64, sha256: String, attributes: Option<FileAttributes> },
    Symlink { target: PortablePath },
}

impl RecordedState {
    /// The state of a file that is about to be written.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self::File { bytes: bytes.len() as u64, sha256: sha256(bytes), attributes: None }
    }

    /// The state of an existing path.
    pub(super) fn from_snapshot(snapshot: &FileSnapshot, stat: Option<&Stat>) -> Self {
        match snapshot {
            FileSnapshot::Absent => Self::Absent,
            FileSnapshot::Symlink { target } => Self::Symlink { target: target.as_path().into() },
            FileSnapshot::File { bytes, .. } => Self::File {
                bytes: bytes.len() as u64,
                sha256: sha256(bytes),
                attributes: stat.map(FileAttributes::from_stat),
            },
        }
    }

    /// Whether a path is in this state.
    pub(super) fn matches(&self, now: &FileSnapshot) -> bool {
        match (self, now) {
            (Self::Absent, FileSnapshot::Absent) => true,
            (Self::File { bytes: size, sha256: hash, .. }, FileSnapshot::File { bytes, .. }) => {
                *size == bytes.len() as u64 && *hash == sha256(bytes)
            }
            (Self::Symlink { target: a }, FileSnapshot::Symlink { target: b }) => a.to_path() == *b,
            _ => false,
        }
    }
}
