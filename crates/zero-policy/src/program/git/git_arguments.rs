//! The arguments of a git command.
//!
//! git takes any abbreviation of an option that is the only one to fit. The tables here do not hold
//! every option, so an abbreviation counts for every name it could stand for.

use super::super::{args_from, strip_arg_prefix};
use crate::shell::ShellArg;

/// The arguments after a git command, taken apart.
#[derive(Default)]
pub(super) struct GitArguments {
    given: Vec<GitOption>,
    /// Words before `--`.
    pub(super) operands: Vec<ShellArg>,
    /// Words after `--`.
    pub(super) paths: Vec<ShellArg>,
    /// Whether `--` was there.
    pub(super) dashes: bool,
    /// Whether an argument that is not known may be an option.
    pub(super) open: bool,
}

struct GitOption {
    /// A letter, or a name with its two dashes.
    name: String,
    value: Option<ShellArg>,
}

/// Options whose name is the beginning of another's.
const PREFIX_OPTIONS: &[&str] = &["--text", "--no-index", "--all"];

impl GitArguments {
    /// Reads arguments; `short` are letters that take a value, `long` names that do.
    pub(super) fn parse(args: &[ShellArg], short: &str, long: &[&str]) -> Self {
        let mut line = Self::default();
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            at += 1;
            let start = arg.known_prefix();
            let known = arg.as_known().is_some();
            if known && start == "--" {
                line.dashes = true;
                line.paths = args_from(args, at).to_vec();
                break;
            }
            // `--since="$x"` is that option, whatever the value is.
            let is_valued = start.starts_with("--") && start.contains('=');
            line.open |= arg.may_split() || !known && arg.may_be_option() && !is_valued;
            if start.starts_with("--") {
                let name = start.split_once('=').map_or(start, |(name, _)| name);
                let mut value = strip_arg_prefix(arg, &format!("{name}="));
                if value.is_none() && known && long.iter().any(|long| may_abbreviate(name, long)) {
                    value = line.take_value(args.get(at));
                    at += usize::from(value.is_some());
                }
                line.given.push(GitOption { name: name.to_owned(), value });
            } else if let Some(letters) = start.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                at += line.parse_cluster(arg, letters, short, args.get(at));
            } else {
                line.operands.push(arg.clone());
            }
        }
        line
    }

    /// Reads a cluster of letters; gives how many arguments more it took.
    fn parse_cluster(
        &mut self,
        arg: &ShellArg,
        letters: &str,
        short: &str,
        next: Option<&ShellArg>,
    ) -> usize {
        for (at, letter) in letters.char_indices() {
            let end = at + letter.len_utf8();
            let name = letter.to_string();
            if short.contains(letter) {
                let before = letters.get(..end).unwrap_or(letters);
                let attached = strip_arg_prefix(arg, &format!("-{before}"))
                    .filter(|rest| *rest != ShellArg::known(""));
                let apart = if attached.is_none() { self.take_value(next) } else { None };
                let taken = usize::from(apart.is_some());
                self.given.push(GitOption { name, value: attached.or(apart) });
                return taken;
            }
            self.given.push(GitOption { name, value: None });
        }
        0
    }

    /// The next word as a value. One that looks like an option is left to be read as such: should
    /// it be a value after all, it was only judged too strictly.
    fn take_value(&mut self, next: Option<&ShellArg>) -> Option<ShellArg> {
        let next = next.filter(|next| !next.known_prefix().starts_with('-'))?;
        self.open |=
            next.may_split() || matches!(next, ShellArg::Pattern(_)) && next.may_be_option();
        Some(next.clone())
    }

    /// Whether one of these options was given, or something that may stand for it.
    pub(super) fn has(&self, letters: &str, names: &[&str]) -> bool {
        self.matching_options(letters, names).next().is_some()
    }

    /// The values of these options.
    pub(super) fn values(&self, letters: &str, names: &[&str]) -> Vec<ShellArg> {
        self.matching_options(letters, names).filter_map(|given| given.value.clone()).collect()
    }

    fn matching_options<'a>(
        &'a self,
        letters: &'a str,
        names: &'a [&str],
    ) -> impl Iterator<Item = &'a GitOption> {
        self.given.iter().filter(move |given| {
            if given.name.starts_with("--") {
                names.iter().any(|name| may_abbreviate(&given.name, name))
            } else {
                letters.contains(given.name.as_str())
            }
        })
    }

    /// Whether every option is one of these.
    pub(super) fn has_only(&self, letters: &str, names: &[&str]) -> bool {
        self.given.iter().all(|given| match given.name.strip_prefix("--") {
            Some(name) => names.contains(&name),
            None => letters.contains(given.name.as_str()),
        })
    }

    /// All words that are no options.
    pub(super) fn all_operands(&self) -> Vec<ShellArg> {
        self.operands.iter().chain(&self.paths).cloned().collect()
    }
}

/// Whether a written option (with dashes) may stand for a name (without).
fn may_abbreviate(written: &str, name: &str) -> bool {
    written.strip_prefix("--").is_some_and(|written| {
        name == written
            || (!written.is_empty()
                && name.starts_with(written)
                && !PREFIX_OPTIONS
                    .iter()
                    .any(|complete| complete.strip_prefix("--") == Some(written)))
    })
}
