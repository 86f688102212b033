//! An argument as far as it can be known before the shell runs.

use std::fmt;

/// One argument of a command, quotes removed and known variables filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellArg {
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

impl ShellArg {
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
    pub fn known_prefix(&self) -> &str {
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

    /// Whether it may turn out to be several arguments, or none, because something unknown in it
    /// stands outside double quotes. A pattern counts as one: its names all begin alike.
    pub fn may_split(&self) -> bool {
        let Self::Unknown { starts_with, written } = self else { return false };
        // A name that `find` puts in. `xargs` puts in several, and nobody knows how they begin.
        if !starts_with.is_empty() && written.contains("{}") && !written.contains(['$', '`', '"']) {
            return false;
        }
        let mut quoted = false;
        for char in written.chars() {
            match char {
                '"' => quoted = !quoted,
                // A list such as `"$@"` stays a list.
                '@' | '`' | '\\' if quoted => return true,
                _ if quoted => {}
                // Of what stands outside, nothing may expand.
                char => {
                    if !(char.is_ascii_alphanumeric() || "-_=+.,:/%^".contains(char)) {
                        return true;
                    }
                }
            }
        }
        !written.contains('"')
    }

    /// True when it may turn out to be an option: it starts with `-`, or nothing is known.
    pub fn may_be_option(&self) -> bool {
        let start = self.known_prefix();
        start.starts_with('-') || (start.is_empty() && !matches!(self, Self::Known(_)))
    }
}

impl fmt::Display for ShellArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(text) | Self::Pattern(text) => f.write_str(text),
            Self::Unknown { written, .. } => f.write_str(written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, splits: bool) {
        let starts_with = written.split(['$', '"', '~']).next().unwrap_or_default().to_owned();
        let arg = ShellArg::Unknown { starts_with, written: written.to_owned() };
        assert_eq!(arg.may_split(), splits, "{written}");
    }

    #[test]
    fn quoted_argument_does_not_split() {
        for written in
            ["\"$x\"", "\"a $x b\"", "-n\"$x\"", "--since=\"$x\"", "\"$a\"/\"$b\"", "\"$(ls)\""]
        {
            check(written, false);
        }
        for written in [
            "$x",
            "a$x",
            "\"$x\"$y",
            "\"$@\"",
            "\"${x[@]}\"",
            "\"$a\" \"$b\"",
            "\"$(echo \"$x\")\"",
            "{\"$x\",b}",
            "~\"$x\"",
            "$(ls)",
            "",
            "…",
        ] {
            check(written, true);
        }
    }
}
