//! Identifiers of sessions, runs and calls.
//!
//! They are used in file names, audit rows and protocol frames, so each is short printable ASCII
//! without path separators. Generating one needs randomness, which the caller supplies: this crate
//! only converts given bits to an id.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is not an id: use 1 to {ID_LEN_MAX} ASCII letters, digits, `_`, `-`, `.` or `:`, starting with a letter or digit",
    .text.escape_debug()
)]
pub struct InvalidIdError {
    text: String,
}

/// Longest id, in bytes.
pub const ID_LEN_MAX: usize = 128;

/// A version 4 UUID of random bits.
pub fn uuid_of_bits(bits: u128) -> String {
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

fn checked(text: String) -> Result<Arc<str>, InvalidIdError> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_allowed = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b));
    if starts_well && all_allowed && text.len() <= ID_LEN_MAX {
        Ok(text.into())
    } else {
        Err(InvalidIdError { text })
    }
}

// Ids are copied often, so cloning is cheap.
macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
        #[serde(try_from = "String")]
        #[schemars(with = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Validates `text` and wraps it.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidIdError> {
                checked(text.into()).map(Self)
            }

            /// An id made of 96 random bits that the caller supplies.
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
    /// One conversation with its own transcript, grants and seen files.
    SessionId, "sess"
);
define_id!(
    /// One prompt and its processing within a session.
    RunId, "run"
);
define_id!(
    /// One call of one tool.
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
