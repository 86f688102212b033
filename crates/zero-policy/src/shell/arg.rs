//! An argument, as far as it is known before the shell runs.

use std::fmt;

/// One argument of a command, with quotes removed and known variables expanded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShellArg {
    /// Exactly this text.
    Known(String),
    /// A glob that is not expanded yet; quoted `*`, `?` and `[` are escaped with a backslash.
    Pattern(String),
    /// A value that is only known at run time, such as `$1`, `$(date)`, `{a,b}$x`.
    Unknown {
        /// The known prefix; may be empty. `--out=$x` starts with `--out=`.
        starts_with: String,
        /// The word as written in the source, for display.
        written: String,
    },
}

impl ShellArg {
    /// An argument that is exactly this text.
    pub fn known(text: impl Into<String>) -> Self {
        Self::Known(text.into())
    }

    /// The text, if it is known.
    pub fn as_known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            _ => None,
        }
    }

    /// The text before the first part that only the run decides.
    pub fn known_prefix(&self) -> &str {
        match self {
            Self::Known(text) => text,
            // Up to the first glob character.
            Self::Pattern(pattern) => {
                let end = pattern.find(['*', '?', '[', '\\']).unwrap_or(pattern.len());
                &pattern[..end]
            }
            Self::Unknown { starts_with, .. } => starts_with,
        }
    }

    /// The same without its first bytes, which must be known.
    pub(crate) fn skip_prefix(&self, bytes: usize) -> Self {
        let skip = |text: &str| text.get(bytes..).unwrap_or_default().to_owned();
        match self {
            Self::Known(text) => Self::Known(skip(text)),
            Self::Pattern(pattern) => Self::Pattern(skip(pattern)),
            Self::Unknown { starts_with, written } => {
                Self::Unknown { starts_with: skip(starts_with), written: written.clone() }
            }
        }
    }

    /// The folder that a glob lists when it is expanded, as far as it is known; `None` for anything
    /// else.
    pub fn listed_folder(&self) -> Option<Self> {
        match self {
            Self::Pattern(_) => Some(Self::known(match self.known_prefix().rsplit_once('/') {
                Some(("", _)) => "/",
                Some((folder, _)) => folder,
                None => ".",
            })),
            // The home of another user.
            Self::Unknown { written, .. }
                if written.starts_with('~') && written.contains(['*', '?', '[']) =>
            {
                Some(self.clone())
            }
            Self::Known(_) | Self::Unknown { .. } => None,
        }
    }

    /// Whether it may expand to several arguments, or none, because something unknown in it is
    /// outside double quotes. A glob counts as one: all its matches have the same prefix.
    pub fn may_split(&self) -> bool {
        let Self::Unknown { starts_with, written } = self else { return false };
        // A name that `find` inserts. `xargs` inserts several, with unknown prefixes.
        if !starts_with.is_empty() && written.contains("{}") && !written.contains(['$', '`', '"']) {
            return false;
        }
        let mut quoted = false;
        for char in written.chars() {
            match char {
                '"' => quoted = !quoted,
                // A list such as `"$@"` expands to several words even in quotes.
                '@' | '`' | '\\' if quoted => return true,
                _ if quoted => {}
                // Outside quotes, no character may start an expansion.
                char => {
                    if !(char.is_ascii_alphanumeric() || "-_=+.,:/%^".contains(char)) {
                        return true;
                    }
                }
            }
        }
        !written.contains('"')
    }

    /// Whether it may be an option: it starts with `-`, or its start is unknown.
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
