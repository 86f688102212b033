//! Whose settings a file holds.

use serde::Serialize;

/// The owner of a settings file, weakest first: a later layer overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingsLayerKind {
    /// The user's own settings for all folders.
    User,
    /// The project's settings, shared by everyone who works on it.
    Project,
    /// The user's own settings for this project, not under version control.
    Local,
    /// A file named on the command line.
    Flag,
}

impl SettingsLayerKind {
    /// Stable word for JSON and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Flag => "flag",
        }
    }

    /// Whether the file is in the workspace, where it may have come with a checkout.
    pub fn is_in_workspace(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }
}
