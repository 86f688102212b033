//! The names of the dialects.

use std::fmt;
use std::str::FromStr;

/// Which names and fields the tools are offered under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialectName {
    /// zero's own: the tools as they are.
    Canonical,
    /// `read_file`, `edit_file`, …
    Acp,
    /// `read_file`, `read_many_files`, `grep_search`, …
    Qwen,
    /// `read`, `edit`, `grep`, …
    Opencode,
}

impl DialectName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Canonical, Self::Acp, Self::Qwen, Self::Opencode];

    /// The name as people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::Acp => "acp",
            Self::Qwen => "qwen",
            Self::Opencode => "opencode",
        }
    }
}

impl fmt::Display for DialectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no dialect `{0}`; the dialects are canonical, acp, qwen and opencode")]
pub struct UnknownDialect(String);

impl FromStr for DialectName {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        Self::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| UnknownDialect(text.to_owned()))
    }
}
