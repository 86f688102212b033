//! The locations of a user's files, as far as settings need them.

use std::path::{Path, PathBuf};

use zero_sandbox::path_survey;

use crate::problem::SettingsError;

/// The locations of a user's files. The caller fills them in from the environment; this crate does
/// not read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPaths {
    /// The home folder, which replaces `~`.
    pub home: Option<PathBuf>,
    /// The user's own settings file.
    pub settings_file: Option<PathBuf>,
    /// The folder of zero's own state.
    pub state_dir: Option<PathBuf>,
    /// Where relative paths on the command line start.
    pub cwd: Option<PathBuf>,
}

impl UserPaths {
    /// The usual locations below a home folder.
    pub fn for_home(home: &Path) -> Self {
        Self {
            home: Some(home.to_owned()),
            settings_file: Some(home.join(".config/zero/settings.json")),
            state_dir: Some(home.join(".local/state/zero")),
            cwd: None,
        }
    }

    /// The home folder, which replaces `~`.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The user's own settings file. An unknown location is an error, because the missing settings
    /// could contain a deny rule.
    pub fn settings_file(&self) -> Result<&Path, SettingsError> {
        self.settings_file.as_deref().ok_or(SettingsError::UnknownLocation)
    }
}

/// A folder with links resolved; as written if it does not exist.
pub fn canonical_folder(cwd: &Path, folder: &Path) -> PathBuf {
    let absolute = cwd.join(folder);
    path_survey::canonicalize(&absolute)
        .unwrap_or_else(|| zero_policy::path::normalize_lexically(&absolute))
}
