//! What is wrong with settings, one entry per wrong place, each with its fix.

use std::fmt;

use crate::exit::UsageError;
use crate::terminal::escape_line;

/// One thing that is wrong with a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingsProblem {
    /// The file, as it is shown to people.
    pub(crate) file: String,
    /// Line and column, both from 1, where the file could be read that far.
    pub(crate) place: Option<SettingsLocation>,
    /// What is wrong, and what to do about it.
    pub(crate) what: String,
}

/// A place in a text: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SettingsLocation {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key of a downloaded file is quoted here; it must not pass for a line of ours.
        let (file, what) = (escape_line(&self.file), escape_line(&self.what));
        match self.place {
            Some(SettingsLocation { line, column }) => write!(f, "{file}:{line}:{column}: {what}"),
            None => write!(f, "{file}: {what}"),
        }
    }
}

/// Settings that cannot be used. Nothing runs under half of them: what is missing might be the
/// rule that forbids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct SettingsError {
    /// Everything that is wrong, file by file from top to bottom; never empty.
    pub(crate) problems: Vec<SettingsProblem>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.len() {
            1 => f.write_str("the settings have an error:")?,
            count => write!(f, "the settings have {count} errors:")?,
        }
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// Whether an error is about what a person wrote, in a settings file or on the command line: it stays
/// until they change that.
pub(crate) fn is_about_settings(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<SettingsError>() || cause.is::<UsageError>())
}

impl From<SettingsError> for UsageError {
    fn from(error: SettingsError) -> Self {
        Self(error.to_string())
    }
}
