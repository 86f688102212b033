//! What a session may do without asking if no rule decides.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a session may do without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Reads of the workspace are allowed; everything else is asked.
    #[default]
    Ask,
    /// Changes to files of the workspace are allowed, too.
    AcceptEdits,
    /// Nothing is changed or run, whatever rules allow.
    Plan,
    /// Everything that the sandbox confines is allowed.
    Auto,
}

impl PermissionMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Ask, Self::AcceptEdits, Self::Plan, Self::Auto];

    /// The name used in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Plan => "plan",
            Self::Auto => "auto",
        }
    }

    /// Whether this mode allows nothing without asking that `other` does not allow. The more
    /// permissive modes differ in kind, so neither of them is within the other.
    pub fn is_within(self, other: Self) -> bool {
        match self {
            Self::Plan => true,
            Self::Ask => other != Self::Plan,
            Self::AcceptEdits | Self::Auto => self == other,
        }
    }

    /// Whether changes to files of the workspace are allowed without asking.
    pub fn accepts_edits(self) -> bool {
        matches!(self, Self::AcceptEdits | Self::Auto)
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not the name of a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode `{0}`; the modes are ask, accept-edits, plan and auto")]
pub struct UnknownModeError(String);

impl FromStr for PermissionMode {
    type Err = UnknownModeError;

    fn from_str(text: &str) -> Result<Self, UnknownModeError> {
        let found = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        found.ok_or_else(|| UnknownModeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_mode_ordering_is_partial() {
        let within = |mode: PermissionMode| PermissionMode::ALL.map(|other| mode.is_within(other));
        assert_eq!(within(PermissionMode::Plan), [true; 4]);
        assert_eq!(within(PermissionMode::Ask), [true, true, false, true]);
        assert_eq!(within(PermissionMode::AcceptEdits), [false, true, false, false]);
        assert_eq!(within(PermissionMode::Auto), [false, false, false, true]);
    }
}
