//! What zero knows of a worktree, in a file that no command can change.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zero_sandbox::StateDir;

use super::WorktreeError;
use super::worktree_git::ParentRepository;

pub(super) const FILE: &str = "record.json";
/// Its name until it is complete.
const NEW_FILE: &str = "record.new";
/// Largest file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// What is stored about a worktree, so that a later process can take over its commits or remove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorktreeRecord {
    /// Name of the sub-agent.
    pub(super) name: String,
    /// Its working folder.
    pub(super) tree: PathBuf,
    /// The folder in it that corresponds to that of the parent's session.
    pub(super) cwd: PathBuf,
    pub(super) parent: ParentRepository,
    /// The branch that gets its changes.
    pub(super) branch: String,
    /// The commit from which it started.
    pub(super) base: String,
    /// The settings of its repository.
    pub(super) settings: String,
    /// What it does not have.
    pub(super) notes: Vec<String>,
    /// Whether its branch exists, but it contains more than that.
    pub(super) is_kept: bool,
    /// Whether its branch exists, or nothing was changed, and only its removal is left.
    #[serde(default)]
    pub(super) is_done: bool,
    /// Whether the sub-agent waits for an answer, so that a later process continues it.
    #[serde(default)]
    pub(super) is_waiting: bool,
}

impl WorktreeRecord {
    pub(super) fn write(&self, folder: &StateDir) -> Result<(), WorktreeError> {
        let text = serde_json::to_vec(self).map_err(|error| WorktreeError::State(error.into()))?;
        let write = || {
            folder.remove(NEW_FILE)?;
            let mut file = folder.create_new(NEW_FILE)?;
            file.write_all(&text)?;
            file.sync_all()?;
            folder.rename(NEW_FILE, FILE)?;
            folder.sync()
        };
        write().map_err(WorktreeError::State)
    }

    /// Reads it; `None` if the worktree was never complete.
    pub(super) fn read(folder: &StateDir) -> Result<Option<Self>, WorktreeError> {
        let file = match folder.open(FILE) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(WorktreeError::State)?,
        };
        let mut text = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut text).map_err(WorktreeError::State)?;
        let record = serde_json::from_slice(&text);
        record.map(Some).map_err(|error| WorktreeError::State(error.into()))
    }
}
