//! What a check found, and how to mend it.

use std::fmt;

/// One violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TidyFinding {
    file: String,
    what: String,
    fix: String,
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
