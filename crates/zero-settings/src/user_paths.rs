//! Where a user's files are, as far as settings need to know it.

use std::path::{Path, PathBuf};

use zero_sandbox::path_survey;

use crate::problem::SettingsError;

/// Where a user's files are. Whoever reads the environment says so; nothing here looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPaths {
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// The user's own settings.
    pub settings_file: Option<PathBuf>,
    /// The folder of zero's own state.
    pub state_dir: Option<PathBuf>,
    /// Where relative paths on the command line start.
    pub cwd: Option<PathBuf>,
}

impl UserPaths {
    /// The usual places below a home folder.
    pub fn for_home(home: &Path) -> Self {
        Self {
            home: Some(home.to_owned()),
            settings_file: Some(home.join(".config/zero/settings.json")),
            state_dir: Some(home.join(".local/state/zero")),
            cwd: None,
        }
    }

    /// What `~` means.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The user's own settings. When nothing says where they are, nobody may go on without them: what
    /// is missing might be the rule that forbids.
    pub fn settings_file(&self) -> Result<&Path, SettingsError> {
        self.settings_file.as_deref().ok_or(SettingsError::UnknownLocation)
    }
}

/// A folder with its links settled; as it is written where it does not exist.
pub fn canonical_folder(cwd: &Path, folder: &Path) -> PathBuf {
    let absolute = cwd.join(folder);
    path_survey::canonicalize(&absolute)
        .unwrap_or_else(|| zero_policy::path::normalize_lexically(&absolute))
}
