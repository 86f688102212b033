//! Identifiers of sessions, runs and calls.
//!
//! They end up in file names, audit rows and protocol frames, so each is short, printable ASCII
//! without separators of paths. Making a fresh one needs randomness, which is the caller's: this
//! crate only turns given bits into an id.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A text that cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not an id: use 1 to {ID_LEN_MAX} ASCII letters, digits, `_`, `-`, `.` or `:`, starting with a letter or digit",
    .text.escape_debug()
)]
pub struct InvalidIdError {
    text: String,
}

/// Longest id accepted, in bytes.
pub const ID_LEN_MAX: usize = 128;

fn checked(text: String) -> Result<Arc<str>, InvalidIdError> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_allowed = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b));
    if starts_well && all_allowed && text.len() <= ID_LEN_MAX {
        Ok(text.into())
    } else {
        Err(InvalidIdError { text })
    }
}

// An id goes along with whatever happens, so a copy of it costs nothing.
macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
        #[serde(try_from = "String")]
        #[schemars(with = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and wraps it.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidIdError> {
                checked(text.into()).map(Self)
            }

            /// An id made of 96 random bits that the caller brings.
            pub fn from_bits(bits: u128) -> Self {
                Self(format!(concat!($prefix, "_{:024x}"), bits & ((1 << 96) - 1)).into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidIdError;

            fn try_from(text: String) -> Result<Self, InvalidIdError> {
                checked(text).map(Self)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

define_id!(
    /// One conversation with its own transcript, grants and files read.
    SessionId, "sess"
);
define_id!(
    /// One prompt being answered within a session.
    RunId, "run"
);
define_id!(
    /// One use of one tool.
    CallId, "call"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_ids_are_valid() {
        let id = CallId::from_bits(u128::MAX);
        assert_eq!(id.as_str(), "call_ffffffffffffffffffffffff");
        assert_eq!(CallId::new(id.as_str()), Ok(id));
    }

    #[test]
    fn ids_reject_path_separators_and_line_breaks() {
        for bad in ["", "../x", ".hidden", "a/b", "a\nb", "a b", &"a".repeat(129)] {
            assert!(SessionId::new(bad).is_err(), "{bad:?}");
        }
        assert!(SessionId::new("agent:main:main").is_ok());
    }
}
