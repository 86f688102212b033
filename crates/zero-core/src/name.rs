//! Tool names, checked once where they enter.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of a tool as the model sees it: `Read`, or `github__create_issue` for a remote one.
///
/// Invariant: 1 to 64 ASCII letters, digits, `_` or `-`, starting with a letter. It is checked
/// here and nowhere else, so a `ToolName` is safe as a log field, metric label or audit column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

/// A text that cannot name a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a tool name: use 1 to {} ASCII letters, digits, `_` or `-`, starting with a letter",
    .name.escape_debug(), ToolName::LEN_MAX
)]
pub struct InvalidToolName {
    name: String,
}

impl ToolName {
    /// Longest name the model interfaces of today agree on.
    pub const LEN_MAX: usize = 64;

    /// Checks `name` and wraps it.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidToolName> {
        Self::try_from(name.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ToolName {
    type Error = InvalidToolName;

    fn try_from(name: String) -> Result<Self, InvalidToolName> {
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let all_allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !(starts_well && all_allowed && name.len() <= Self::LEN_MAX) {
            return Err(InvalidToolName { name });
        }
        Ok(Self(name))
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ToolName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, valid: bool) {
        assert_eq!(ToolName::new(name).is_ok(), valid, "{name:?}");
    }

    #[test]
    fn only_plain_names_pass() {
        check("Read", true);
        check("github__create_issue", true);
        check("lsp-hover", true);
        check(&"a".repeat(64), true);
        check(&"a".repeat(65), false);
        check("", false);
        check("1st", false);
        check("_hidden", false);
        check("Read File", false);
        check("Rеad", false); // a Cyrillic е
        check("Read\n", false);
    }
}
