//! Arguments of a command line, each known as far as it is before the command runs.

use crate::shell::ShellArg;

/// Words that are certain, and arguments behind them.
pub(super) fn prefix_args(words: &[&str], args: &[ShellArg]) -> Vec<ShellArg> {
    words.iter().copied().map(ShellArg::known).chain(args.iter().cloned()).collect()
}

/// The words joined with spaces; known as far as each of them is.
pub(super) fn join_args(words: &[ShellArg]) -> ShellArg {
    let mut certain = String::new();
    let mut written = String::new();
    let mut all_known = true;
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            written.push(' ');
            if all_known {
                certain.push(' ');
            }
        }
        written.push_str(&word.to_string());
        if all_known {
            certain.push_str(word.known_prefix());
        }
        all_known &= word.as_known().is_some();
    }
    if all_known {
        ShellArg::Known(certain)
    } else {
        ShellArg::Unknown { starts_with: certain, written }
    }
}

/// An argument without a known prefix: `x` of `of=x`.
pub(super) fn strip_arg_prefix(arg: &ShellArg, prefix: &str) -> Option<ShellArg> {
    let rest = arg.known_prefix().strip_prefix(prefix)?.to_owned();
    Some(match arg {
        ShellArg::Known(_) => ShellArg::Known(rest),
        ShellArg::Pattern(pattern) => ShellArg::Pattern(pattern.strip_prefix(prefix)?.to_owned()),
        ShellArg::Unknown { written, .. } => {
            let written = written.strip_prefix(prefix).unwrap_or(written).to_owned();
            ShellArg::Unknown { starts_with: rest, written }
        }
    })
}

/// An argument of which only the written form is known.
pub(super) fn unknown_arg(starts_with: impl Into<String>, written: impl Into<String>) -> ShellArg {
    ShellArg::Unknown { starts_with: starts_with.into(), written: written.into() }
}

/// The arguments from `at` on; empty if there are none.
pub(super) fn args_from(args: &[ShellArg], at: usize) -> &[ShellArg] {
    args.get(at..).unwrap_or_default()
}

/// The text of an argument; empty if it is not known.
pub(super) fn known_text(arg: Option<&ShellArg>) -> &str {
    arg.and_then(ShellArg::as_known).unwrap_or_default()
}

/// Name and value, if the argument is known to have the form `NAME=value`.
pub(super) fn parse_assignment(arg: &ShellArg) -> Option<(String, ShellArg)> {
    let (name, _) = arg.known_prefix().split_once('=')?;
    let value = strip_arg_prefix(arg, &format!("{name}="))?;
    (!name.is_empty()).then(|| (name.to_owned(), value))
}
