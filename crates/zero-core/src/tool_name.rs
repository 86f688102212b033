//! Tool names, validated once when they are created.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of a tool as the model sees it: `Read`, or `github__create_issue` for a remote one.
///
/// Invariant: 1 to 64 ASCII letters, digits, `_` or `-`, starting with a letter. It is validated
/// here and nowhere else, so a `ToolName` is safe as a log field, metric label or audit column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

/// A text that is not a valid tool name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not a tool name: use 1 to {} ASCII letters, digits, `_` or `-`, starting with a letter",
    .name.escape_debug(), ToolName::LEN_MAX
)]
pub struct InvalidToolNameError {
    name: String,
}

impl ToolName {
    /// Longest name that all current model APIs accept.
    pub const LEN_MAX: usize = 64;

    /// Validates `name` and wraps it.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidToolNameError> {
        Self::try_from(name.into())
    }

    /// The name `prefix__original` of an external tool.
    ///
    /// Invalid characters become `_`. A name that was changed or cut ends in a hash of the
    /// original, so that `a.b` and `a b` differ and the name of a tool never depends on other
    /// tools. Fails if the prefix is not a valid start of a name, or leaves no space.
    pub fn from_namespaced(prefix: &str, original: &str) -> Result<Self, InvalidToolNameError> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let cleaned: String =
            original.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
        let room = Self::LEN_MAX.saturating_sub(prefix.len() + SEPARATOR.len());
        if cleaned == original && !cleaned.is_empty() && cleaned.len() <= room {
            return Self::new(format!("{prefix}{SEPARATOR}{cleaned}"));
        }
        let mark = format!("_{:08x}", short_hash(original));
        let kept: String = cleaned.chars().take(room.saturating_sub(mark.len())).collect();
        Self::new(format!("{prefix}{SEPARATOR}{kept}{mark}"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Source of the tools that a client of the Agent Client Protocol provides: `acp__NAME`. No server
/// can have this name.
pub const CLIENT_TOOL_SOURCE: &str = "acp";

/// The client's terminal among the tools of [`CLIENT_TOOL_SOURCE`]. No rule or grant allows it
/// without a question, because its commands run outside the sandbox.
pub const CLIENT_TERMINAL: &str = "terminal";

/// Separates the source of a tool from its own name.
const SEPARATOR: &str = "__";

/// A short hash that is the same in every version: 64-bit FNV-1a, folded to 32 bits. It does not
/// resist attacks; the registry checks for duplicates anyway.
fn short_hash(text: &str) -> u32 {
    let hash = fnv_1a(text.as_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "both halves are folded into one")]
    {
        (hash >> 32) as u32 ^ hash as u32
    }
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl TryFrom<String> for ToolName {
    type Error = InvalidToolNameError;

    fn try_from(name: String) -> Result<Self, InvalidToolNameError> {
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let all_allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !(starts_well && all_allowed && name.len() <= Self::LEN_MAX) {
            return Err(InvalidToolNameError { name });
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
    fn only_plain_tool_names_are_valid() {
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

    #[test]
    fn namespaced_tool_name_is_sanitized_and_unique() {
        #[track_caller]
        fn check(prefix: &str, original: &str, expected: &str) {
            let name = ToolName::from_namespaced(prefix, original);
            assert_eq!(name.as_ref().map_or("", ToolName::as_str), expected, "{original:?}");
        }
        check("cmd", "weather", "cmd__weather");
        check("cmd", "Read", "cmd__Read");
        check("cmd", "cmd__x", "cmd__cmd__x");
        check("cmd", "2nd", "cmd__2nd");
        check("cmd", "get.weather", "cmd__get_weather_3b8df3f2");
        check("cmd", "get weather", "cmd__get_weather_90c99821");
        check("cmd", "п", "cmd____bdb31bd7");
        check("cmd", "", "cmd___4fd0bfc1");
        let longest = "a".repeat(59);
        check("cmd", &longest, &format!("cmd__{longest}"));
        let (long, kept) = ("a".repeat(60), "a".repeat(50));
        check("cmd", &long, &format!("cmd__{kept}_e8cfc3a7"));
        check("", "x", "");
        check("1", "x", "");
        check("a b", "x", "");
        check(&"p".repeat(60), "long name", "");
    }

    #[test]
    fn fnv_1a_matches_published_values() {
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
