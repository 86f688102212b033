//! A file for the output of one command, for when it is too long to be told.

use zero_sandbox::StateDir;
use zero_sandbox::drain::Spill;

use crate::context::CallContext;

/// A file for output that is too long.
pub(super) struct SpillFile {
    folder: StateDir,
    name: String,
    path: String,
    file: std::fs::File,
}

impl SpillFile {
    /// Makes one; a command whose output cannot be kept runs all the same.
    pub(super) fn create(cx: &CallContext) -> Option<Self> {
        let folder = cx.commands().spill.clone();
        let name = format!("{}-output.txt", cx.call());
        match folder.create_new(&name) {
            Ok(file) => {
                let path = folder.path().join(&name).display().to_string();
                Some(Self { folder, name, path, file })
            }
            Err(error) => {
                tracing::warn!(%error, "the output of a command cannot be kept");
                None
            }
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// What writes to it.
    pub(super) fn writer(&self, cx: &CallContext) -> Option<Spill> {
        let file = self.file.try_clone().ok()?;
        Some(Spill { file, bytes_max: cx.limits().file_bytes_max.get() })
    }

    /// Keeps the file when something is only there, and says where it is.
    pub(super) fn settle(self, omitted_bytes: u64) -> Option<String> {
        if omitted_bytes > 0 {
            return Some(self.path);
        }
        let _ = self.folder.remove(&self.name);
        None
    }
}
