//! What is wrong with settings, one entry per wrong place, each with its fix.

use std::fmt;

use zero_core::sanitize::escape_line;

/// One thing that is wrong with a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsProblem {
    /// The file, as it is shown to people.
    pub file: String,
    /// Line and column, both from 1, where the file could be read that far.
    pub place: Option<SettingsLocation>,
    /// What is wrong, and what to do about it.
    pub what: String,
}

/// A place in a text: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingsLocation {
    /// Number of the line, counted from 1.
    pub line: u32,
    /// Number of the character in the line, counted from 1.
    pub column: u32,
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
pub enum SettingsError {
    /// Nothing says where the user's own settings are.
    #[error("cannot locate your settings; set HOME or XDG_CONFIG_HOME to an absolute path")]
    UnknownLocation,
    /// Files say what cannot be used: everything that is wrong, file by file from top to bottom; never
    /// empty.
    #[error("{}", list_problems(.0))]
    Invalid(Vec<SettingsProblem>),
}

fn list_problems(problems: &[SettingsProblem]) -> String {
    let mut text = match problems.len() {
        1 => "the settings have an error:".to_owned(),
        count => format!("the settings have {count} errors:"),
    };
    for problem in problems {
        text.push_str(&format!("\n  {problem}"));
    }
    text
}
