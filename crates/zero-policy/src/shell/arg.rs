//! An argument as far as it can be known before the shell runs.

use std::fmt;

/// One argument of a command, quotes removed and known variables filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// Exactly this text.
    Known(String),
    /// A file name pattern, still to be expanded; `*`, `?` and `[` that were quoted are escaped
    /// with a backslash.
    Pattern(String),
    /// Something that is only known when it runs, such as `$1`, `$(date)`, `{a,b}$x`.
    Unknown {
        /// What it certainly starts with; may be empty. `--out=$x` starts with `--out=`.
        starts_with: String,
        /// The word as it is written in the source, for people.
        written: String,
    },
}

impl Arg {
    /// An argument that is exactly this text.
    pub fn known(text: impl Into<String>) -> Self {
        Self::Known(text.into())
    }

    /// The text, when it is certain.
    pub fn as_known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            _ => None,
        }
    }

    /// What it certainly starts with.
    pub fn certain_start(&self) -> &str {
        match self {
            Self::Known(text) => text,
            // Up to the first character with a meaning.
            Self::Pattern(pattern) => {
                let end = pattern.find(['*', '?', '[', '\\']).unwrap_or(pattern.len());
                &pattern[..end]
            }
            Self::Unknown { starts_with, .. } => starts_with,
        }
    }

    /// Whether it certainly stays one argument: what is known does, and what stands in double
    /// quotes, unless it is a list such as `"$@"`. So does a name that `find` puts in for `{}`.
    pub fn is_one_word(&self) -> bool {
        let Self::Unknown { written, starts_with } = self else {
            return matches!(self, Self::Known(_));
        };
        let quoted = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match quoted {
            Some(inner) => !inner.contains(['"', '@', '`', '\\']),
            // `xargs` puts in names too, several of them, and nobody knows how they start.
            None => {
                !starts_with.is_empty()
                    && written.contains("{}")
                    && !written.contains(['$', '`', '"'])
            }
        }
    }

    /// True when it may turn out to be an option: it starts with `-`, or nothing is known.
    pub fn may_be_option(&self) -> bool {
        let start = self.certain_start();
        start.starts_with('-') || (start.is_empty() && !matches!(self, Self::Known(_)))
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(text) | Self::Pattern(text) => f.write_str(text),
            Self::Unknown { written, .. } => f.write_str(written),
        }
    }
}
