//! What a check found, below all checks.

use std::fmt;

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TidyFinding {
    /// The file, with its line if it is known.
    pub(super) file: String,
    pub(super) what: String,
    /// What to do about it.
    pub(super) fix: String,
}

impl TidyFinding {
    pub(super) fn new(
        file: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { file: file.into(), what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.file, self.what, self.fix)
    }
}
