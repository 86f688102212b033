//! The key of a session: `agent:<agent>:<name>`, or `acp:<uuid>`; and its address, which names the
//! owner too.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Key of a session, with its agent.
///
/// Invariant: at most [`SessionKey::LEN_MAX`] characters; `agent:<agent>:<name>` with an agent of 1 to
/// 64 lower-case letters, digits, `_` or `-` that starts with a letter or digit, and a name of at least
/// one character, exactly as it was written. The name may contain anything except control characters:
/// it is never a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionKey(String);

/// A text that is not a valid key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSessionKeyError {
    /// It is empty or too long.
    #[error("a session key has 1 to {max} characters, this one has {0}", max = SessionKey::LEN_MAX)]
    Length(usize),
    /// It has the prefix of a key but is malformed.
    #[error("malformed session key \"{}\"; write `agent:<agent>:<name>`, or a name alone", .0.escape_debug())]
    Malformed(String),
}

impl SessionKey {
    /// Longest key, in characters.
    pub const LEN_MAX: usize = 512;

    /// Resolves `written` to a key. A bare name is put under the default agent; `main` and `global`
    /// are its main session.
    pub fn resolve(written: &str, default_agent: &str) -> Result<Self, InvalidSessionKeyError> {
        let length = written.chars().count();
        if length == 0 || length > Self::LEN_MAX {
            return Err(InvalidSessionKeyError::Length(length));
        }
        let malformed = || InvalidSessionKeyError::Malformed(written.to_owned());
        let given = written.trim();
        if given.is_empty() || given.chars().any(char::is_control) {
            return Err(malformed());
        }
        let key = match given.split_once(':') {
            Some((prefix, rest)) if prefix.eq_ignore_ascii_case("agent") => {
                let (agent, name) = rest.split_once(':').ok_or_else(malformed)?;
                let agent = agent.to_ascii_lowercase();
                if !is_agent_id(&agent) || name.is_empty() {
                    return Err(malformed());
                }
                format!("agent:{agent}:{name}")
            }
            _ if given.eq_ignore_ascii_case("agent") => return Err(malformed()),
            _ if given == "global" => format!("agent:{default_agent}:main"),
            _ => format!("agent:{default_agent}:{given}"),
        };
        let length = key.chars().count();
        if length > Self::LEN_MAX {
            return Err(InvalidSessionKeyError::Length(length));
        }
        Ok(Self(key))
    }

    /// The agent in the key.
    pub fn agent(&self) -> &str {
        self.parts().0
    }

    /// The part after the agent.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// Whether the agent in the key is only a default, so that the session can use another. True
    /// for keys that editors generate.
    pub fn can_change_agent(&self) -> bool {
        ["acp:", "acp-bridge:"].iter().any(|prefix| self.name().starts_with(prefix))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parts(&self) -> (&str, &str) {
        let rest = self.0.strip_prefix("agent:").unwrap_or(&self.0);
        rest.split_once(':').unwrap_or((rest, ""))
    }
}

/// Owner and key of a session: what identifies it among the sessions of a store. The same key of two
/// owners is two sessions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionAddress {
    /// Owner of the session.
    pub owner: String,
    /// Key of the session among those of its owner.
    pub key: SessionKey,
}

impl SessionAddress {
    const PREFIX: &str = "owner:";

    /// The address of an owner's session.
    pub fn new(owner: impl Into<String>, key: SessionKey) -> Self {
        Self { owner: owner.into(), key }
    }

    /// Splits `owner:<owner>:<key>`, as [`Self::to_text`] writes it, into owner and key; `None` for
    /// any other text, which is a key alone.
    pub fn split_text(text: &str) -> Option<(String, &str)> {
        let (owner, key) = text.strip_prefix(Self::PREFIX)?.split_once(':')?;
        let is_whole = key.starts_with("agent:") && !owner.is_empty();
        is_whole.then(|| (owner.replace("%3A", ":").replace("%25", "%"), key))
    }

    /// The address as `owner` writes it: the key alone for a session of their own, otherwise with
    /// the session's owner before it.
    pub fn to_text(&self, owner: &str) -> String {
        if self.owner == owner {
            return self.key.to_string();
        }
        let theirs = self.owner.replace('%', "%25").replace(':', "%3A");
        format!("{}{theirs}:{}", Self::PREFIX, self.key)
    }
}

/// Whether a text is a valid agent name.
pub fn is_agent_id(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    starts_well && text.len() <= 64 && text.bytes().all(allowed)
}

impl TryFrom<String> for SessionKey {
    type Error = InvalidSessionKeyError;

    fn try_from(text: String) -> Result<Self, InvalidSessionKeyError> {
        let key = Self::resolve(&text, "main")?;
        if key.0 == text { Ok(key) } else { Err(InvalidSessionKeyError::Malformed(text)) }
    }
}

impl From<SessionKey> for String {
    fn from(key: SessionKey) -> Self {
        key.0
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, expected: &str) {
        let key = SessionKey::resolve(written, "main").map(|key| key.to_string());
        assert_eq!(key.unwrap_or_else(|error| error.to_string()), expected, "{written:?}");
    }

    #[test]
    fn session_key_keeps_its_name_as_written() {
        check("agent:main:main", "agent:main:main");
        check("main", "agent:main:main");
        check("MAIN", "agent:main:MAIN");
        check("global", "agent:main:main");
        check("acp:4b7c", "agent:main:acp:4b7c");
        check("Agent:QA:Bug-123", "agent:qa:Bug-123");
        check("agent:qa: Ärger", "agent:qa: Ärger");
        check(" main ", "agent:main:main");
        check("agent:main:mixed case/../x", "agent:main:mixed case/../x");
    }

    #[test]
    fn malformed_session_key_prefix_is_rejected() {
        for bad in ["agent", "agent:main", "agent::x", "agent:main:", "agent:a b:x", "a\nb", " "] {
            let error = SessionKey::resolve(bad, "main").unwrap_err();
            assert!(error.to_string().contains("malformed session key"), "{bad:?}: {error}");
        }
        check("", "a session key has 1 to 512 characters, this one has 0");
        check(&"a".repeat(513), "a session key has 1 to 512 characters, this one has 513");
        check(&"a".repeat(510), "a session key has 1 to 512 characters, this one has 521");
    }

    #[test]
    fn session_key_splits_into_agent_and_name() {
        let key = SessionKey::resolve("agent:qa:acp:1", "main").unwrap();
        assert_eq!((key.agent(), key.name()), ("qa", "acp:1"));
    }

    #[test]
    fn address_names_other_owners_only() {
        let key = SessionKey::resolve("main", "main").unwrap();
        for owner in ["bob", "this machine", "a:agent:b", "100%3A:", "agent"] {
            let address = SessionAddress::new(owner, key.clone());
            assert_eq!(address.to_text(owner), "agent:main:main");
            let text = address.to_text("alice");
            assert!(text.starts_with("owner:"), "{text}");
            let split = SessionAddress::split_text(&text);
            assert_eq!(split, Some((owner.to_owned(), "agent:main:main")), "{text}");
        }
        for alone in ["main", "agent:main:main", "owner:x", "owner:x:y", "owner::agent:a:b"] {
            assert_eq!(SessionAddress::split_text(alone), None, "{alone}");
        }
    }

    #[test]
    fn only_editor_keys_can_change_agent() {
        let rows = [
            ("acp:1", true),
            ("agent:main:acp-bridge:1", true),
            ("main", false),
            ("acp", false),
            ("agent:acp:x", false),
        ];
        for (written, expected) in rows {
            let key = SessionKey::resolve(written, "main").unwrap();
            assert_eq!(key.can_change_agent(), expected, "{written}");
        }
    }
}
