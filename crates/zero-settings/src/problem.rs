//! Errors in settings, each with its location and its fix.

use std::fmt;

use zero_core::sanitize::escape_line;

/// One error in a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsProblem {
    /// The file name for messages.
    pub file: String,
    /// Line and column, both from 1, if they are known.
    pub place: Option<SettingsLocation>,
    /// What is wrong, and how to fix it.
    pub what: String,
}

/// A location in a text: line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingsLocation {
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A key of a downloaded file is quoted here; it must not imitate a line of this message.
        let (file, what) = (escape_line(&self.file), escape_line(&self.what));
        match self.place {
            Some(SettingsLocation { line, column }) => write!(f, "{file}:{line}:{column}: {what}"),
            None => write!(f, "{file}: {what}"),
        }
    }
}

/// Settings that cannot be used. zero does not run with a part of them, because the missing part
/// could be a deny rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The location of the user's settings is unknown.
    #[error("cannot locate your settings; set HOME or XDG_CONFIG_HOME to an absolute path")]
    UnknownLocation,
    /// Files with errors: all errors, by file and line; never empty.
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
