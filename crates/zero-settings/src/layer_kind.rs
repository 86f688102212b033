//! Whose settings a file holds.

use serde::Serialize;

/// Whose settings they are, weakest first: what stands further down wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingsLayerKind {
    /// The person's own, for all they do.
    User,
    /// The project's, shared by all who work on it.
    Project,
    /// The person's own for this project, kept out of version control.
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

    /// Whether the file lies in the workspace, where it may have come with a checkout.
    pub fn is_in_workspace(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }
}
