//! [`WatchedPath`]: a path that commands may not create.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use zero_sandbox::path_survey;
use zero_sandbox::quarantine::{self, EntryKind};

use crate::profile::git_repositories::STAND_INS;

/// A path that commands may not create.
#[derive(Clone, Debug)]
pub(crate) struct WatchedPath {
    path: PathBuf,
    /// The length of its base folder, in bytes.
    root_len: usize,
    pub(crate) why: &'static str,
    /// What was there before: nothing, or a link.
    pub(super) before: EntryKind,
    /// Whether a rule of the user can let commands create it.
    pub(super) opens_by_rule: bool,
}

impl WatchedPath {
    /// A missing path, relative to a base folder.
    pub(crate) fn new(root: &Path, relative: &Path, why: &'static str) -> Self {
        let (path, root_len) = (root.join(relative), root.as_os_str().len());
        Self { path, root_len, why, before: EntryKind::Missing, opens_by_rule: true }
    }

    /// The same path, which no rule lets commands create.
    pub(crate) fn closed_to_rules(self) -> Self {
        Self { opens_by_rule: false, ..self }
    }

    /// The same path with its previous state.
    pub(crate) fn with_previous(self, before: EntryKind) -> Self {
        Self { before, ..self }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn root(&self) -> &Path {
        let bytes = self.path.as_os_str().as_bytes();
        Path::new(OsStr::from_bytes(bytes.get(..self.root_len).unwrap_or(bytes)))
    }

    fn relative(&self) -> &Path {
        self.path.strip_prefix(self.root()).unwrap_or(&self.path)
    }

    /// The current state.
    pub(crate) fn inspect(&self) -> EntryKind {
        quarantine::inspect(self.root(), &self.path)
    }

    /// Where the state `after` differs from the one before, relative to the base folder.
    pub(super) fn find_change<'a>(&'a self, after: &'a EntryKind) -> Option<&'a Path> {
        let relative = self.relative();
        match (&self.before, after) {
            (before, after) if before == after => None,
            // A link that was there is now missing or something else.
            (EntryKind::Link { at, .. }, _) => Some(at),
            (_, EntryKind::Present) => Some(relative),
            (_, EntryKind::Link { at, .. })
                if at == relative || path_survey::exists(self.path()) =>
            {
                Some(at)
            }
            _ => None,
        }
    }

    /// The current state; an empty placeholder counts as missing.
    pub(super) fn inspect_ignoring_placeholders(&self) -> EntryKind {
        match self.inspect() {
            EntryKind::Present
                if is_placeholder(self.relative()) && quarantine::is_empty(&self.path) =>
            {
                EntryKind::Missing
            }
            kind => kind,
        }
    }
}

/// Whether an empty placeholder may be at such a path while commands run.
fn is_placeholder(relative: &Path) -> bool {
    STAND_INS.iter().any(|name| relative == Path::new(name))
}
