//! What is known of programs: what a command line of theirs reads, writes, runs and reaches.
//!
//! A table per kind of program. What no table knows is [`CommandClass::Opaque`]: it may do anything its
//! process may do, and only a rule can allow it.

#[cfg(test)]
mod analysis_text;
mod builtins;
mod containers;
mod critical_actions;
mod files;
mod find;
mod git;
mod npm;
mod option_overrides;
mod options;
mod privilege;
mod remote;
mod runners;
mod shells;
mod wrappers;
mod zero_cli;

use crate::shell::ShellArg;
use crate::word_list::words;

/// What a command line does, as far as its program is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandAnalysis {
    /// How much of what it does is said here.
    pub nature: CommandClass,
    /// Files it touches.
    pub touches: Vec<FileTouch>,
    /// Hosts it talks to: a URL, `user@host:path` or a bare host, as it stands in the arguments.
    pub hosts: Vec<ShellArg>,
    /// Commands it runs.
    pub runs: Vec<NestedExecution>,
    /// Why it is critical, in a few words such as `removes files recursively`.
    pub critical: Option<&'static str>,
    /// Why no rule may cover it by its name alone, in a few words such as
    /// `\`-c\` sets an alias that runs a command`.
    pub caution: Option<String>,
    /// The folder it works in when it is told one, as `git -C` does. `touches` count from it.
    pub folder: Option<ShellArg>,
}

/// How much of what a command does its [`CommandAnalysis`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandClass {
    /// It only looks, and what it looks at is in `touches`. Needs no rule.
    ReadOnly,
    /// What it does is change files and fetch from hosts, and they are all in `touches` and
    /// `hosts`. Needs no rule of its own: those decide.
    Files,
    /// It does nothing but run what is in `runs`. Needs no rule of its own: those decide.
    Wrapper,
    /// Anything.
    #[default]
    Opaque,
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    /// Its content or its names are looked at.
    Read,
    /// It is made or changed.
    Write,
    /// It is removed.
    Delete,
}

/// A file that a command touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTouch {
    /// What is done to it.
    pub access: FileAccess,
    /// Its path, relative to where the command runs.
    pub path: ShellArg,
    /// Whether everything beneath it is meant.
    pub recursive: bool,
}

/// Something a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestedExecution {
    /// A program with arguments.
    Command {
        /// Program and arguments.
        argv: Vec<ShellArg>,
        /// Variables set for it.
        variables: Vec<(String, ShellArg)>,
        /// The folder it runs in, when another than the outer command's.
        folder: Option<ShellArg>,
        /// Whether more arguments are added that cannot be known, as `xargs` does.
        more_arguments: bool,
    },
    /// A text for a shell.
    Script {
        /// The script, as far as its value is known before it runs.
        text: ShellArg,
        /// The folder it runs in, when another than the outer command's.
        folder: Option<ShellArg>,
    },
    /// A text for a shell that comes from standard input.
    ScriptFromInput,
    /// Something, but nobody can say what. The words say why.
    Unknown(&'static str),
}

/// Studies a command line: its program first, then its arguments.
///
/// The program is looked up by the last part of its path. `argv` is never empty.
pub fn analyze(argv: &[ShellArg]) -> CommandAnalysis {
    let Some((program, args)) = argv.split_first() else {
        return CommandAnalysis::opaque();
    };
    let Some(written) = program.as_known() else {
        return CommandAnalysis::opaque()
            .with_run(NestedExecution::Unknown("which program it is shows only when it runs"));
    };
    let name = plain_name(written);
    // A disk that does not tell `RM` from `rm` runs the same program.
    let folded = name.to_ascii_lowercase();
    let mut study = analyze_by_table(name, args)
        .or_else(|| {
            Some(CommandAnalysis {
                nature: CommandClass::Opaque,
                ..analyze_by_table(&folded, args)?
            })
        })
        .unwrap_or_default();
    let judged = critical_actions::assess(&folded, args);
    study.critical = study.critical.or(judged.critical);
    study.caution = study.caution.or(judged.caution);
    let steered = option_overrides::find_overrides(&folded, args);
    study.caution = study.caution.or(steered.caution);
    if let Some(folder) = steered.folder {
        study = study.in_folder(&folder);
    }
    if only_fetches(name, args) && study.runs.is_empty() && study.caution.is_none() {
        // Nothing but the hosts and the files: rules about those decide.
        study.nature = CommandClass::Files;
    }
    if !is_in_system_folder(written) {
        // `./ls` may be anything, whatever it is called. What is known of its namesake still
        // holds it back, but does not excuse it from a rule.
        study.nature = CommandClass::Opaque;
    }
    study
}

/// Programs that do nothing but fetch from the hosts they name.
fn only_fetches(name: &str, args: &[ShellArg]) -> bool {
    match name {
        "curl" | "wget" | "wget2" => true,
        "git" => args.first().and_then(ShellArg::as_known) == Some("clone"),
        _ => false,
    }
}

/// Whether a command is there to look, and writes only where an option says so: whoever allows
/// `git log` with any arguments has not thought of `--output`.
pub(crate) fn reads_by_default(argv: &[ShellArg], nature: CommandClass) -> bool {
    let name = argv.first().and_then(ShellArg::as_known).map_or("", plain_name);
    let fetches = only_fetches(name, argv.get(1..).unwrap_or_default());
    match name {
        "git" => nature != CommandClass::Opaque && !fetches,
        "sort" | "uniq" | "find" | "fd" | "fdfind" | "tree" | "rg" | "grep" | "awk" | "gawk"
        | "mawk" | "jq" | "xxd" | "diff" | "sdiff" | "shuf" | "iconv" | "xmllint" => true,
        _ => false,
    }
}

/// Asks each table in turn. Those that run something come first: what they run must be seen even
/// where another table also knows the name.
fn analyze_by_table(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    shells::analyze(name, args)
        .or_else(|| builtins::analyze(name, args))
        .or_else(|| wrappers::analyze(name, args))
        .or_else(|| runners::analyze(name, args))
        .or_else(|| privilege::analyze(name, args))
        .or_else(|| remote::analyze(name, args))
        .or_else(|| containers::analyze(name, args))
        .or_else(|| find::analyze(name, args))
        .or_else(|| (name == "git").then(|| git::analyze(args)))
        .or_else(|| git::analyze_dashed_name(name, args))
        .or_else(|| npm::analyze(name, args))
        .or_else(|| zero_cli::analyze(name, args))
        .or_else(|| critical_actions::analyze(name, args))
        .or_else(|| files::analyze(name, args))
}

/// The name a program is known by: without folders, without `.exe`, and without the `g` that GNU
/// programs carry where others have the name.
fn plain_name(written: &str) -> &str {
    const GNU: &[&str] = &[
        "chgrp", "chmod", "chown", "chroot", "dd", "echo", "env", "find", "kill", "nice", "nohup",
        "printf", "rm", "rmdir", "shred", "stdbuf", "test", "time", "timeout", "truncate",
        "unlink", "xargs",
    ];
    let base = written.rsplit('/').next().unwrap_or(written);
    let base = base.strip_suffix(".exe").unwrap_or(base);
    base.strip_prefix('g').filter(|rest| GNU.contains(rest)).unwrap_or(base)
}

/// Whether a program called like this is found where a system keeps its programs. A bare name is:
/// which file it stands for is for the caller to ask.
fn is_in_system_folder(written: &str) -> bool {
    const FOLDERS: &[&str] = words!(
        "/bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin \
         /run/current-system/sw/bin"
    );
    written.rsplit_once('/').is_none_or(|(folder, _)| FOLDERS.contains(&folder))
}

impl CommandAnalysis {
    fn with_class(nature: CommandClass) -> Self {
        Self { nature, ..Self::default() }
    }

    fn opaque() -> Self {
        Self::with_class(CommandClass::Opaque)
    }

    fn read_only() -> Self {
        Self::with_class(CommandClass::ReadOnly)
    }

    fn wrapper() -> Self {
        Self::with_class(CommandClass::Wrapper)
    }

    #[must_use]
    fn with_run(mut self, run: NestedExecution) -> Self {
        self.runs.push(run);
        self
    }

    /// Adds a command it runs; without words there is none.
    #[must_use]
    fn with_command(self, argv: &[ShellArg]) -> Self {
        if argv.is_empty() { self } else { self.with_run(NestedExecution::from_argv(argv)) }
    }

    /// Adds texts that a shell runs.
    #[must_use]
    fn with_scripts<'a>(mut self, texts: impl IntoIterator<Item = &'a ShellArg>) -> Self {
        self.runs.extend(texts.into_iter().map(NestedExecution::from_script));
        self
    }

    #[must_use]
    fn with_touch(mut self, access: FileAccess, path: &ShellArg) -> Self {
        self.touches.push(FileTouch { access, path: path.clone(), recursive: false });
        self
    }

    #[must_use]
    fn with_touches(mut self, access: FileAccess, paths: &[ShellArg]) -> Self {
        self.touches.extend(paths.iter().map(|path| FileTouch {
            access,
            path: path.clone(),
            recursive: false,
        }));
        self
    }

    #[must_use]
    fn with_recursive_touch(mut self, access: FileAccess, path: &ShellArg) -> Self {
        self.touches.push(FileTouch { access, path: path.clone(), recursive: true });
        self
    }

    #[must_use]
    fn with_host(mut self, host: &ShellArg) -> Self {
        self.hosts.push(host.clone());
        self
    }

    /// Lets it work in a folder, and what it runs too.
    #[must_use]
    fn in_folder(mut self, within: &ShellArg) -> Self {
        self.folder.get_or_insert_with(|| within.clone());
        for run in &mut self.runs {
            if let NestedExecution::Command { folder, .. }
            | NestedExecution::Script { folder, .. } = run
            {
                folder.get_or_insert_with(|| within.clone());
            }
        }
        self
    }

    /// Says why no rule may cover it; the first reason stays.
    #[must_use]
    fn with_caution(mut self, why: impl Into<String>) -> Self {
        self.caution.get_or_insert_with(|| why.into());
        self
    }

    /// Like [`CommandAnalysis::with_caution`], where it depends.
    #[must_use]
    fn with_caution_if(self, holds: bool, why: &str) -> Self {
        if holds { self.with_caution(why) } else { self }
    }

    /// Marks a command line that is not fully understood, so that what it runs is a guess.
    #[must_use]
    fn mark_guess_if(self, uncertain: bool) -> Self {
        if uncertain {
            self.with_run(NestedExecution::Unknown(
                "its options are not all known, so what it runs is a guess",
            ))
        } else {
            self
        }
    }

    #[must_use]
    fn mark_critical(mut self, why: &'static str) -> Self {
        self.critical.get_or_insert(why);
        self
    }
}

impl NestedExecution {
    fn from_argv(argv: &[ShellArg]) -> Self {
        Self::Command {
            argv: argv.to_vec(),
            variables: Vec::new(),
            folder: None,
            more_arguments: false,
        }
    }

    /// A program that gets more arguments than are known.
    fn from_argv_and_more(argv: Vec<ShellArg>) -> Self {
        Self::Command { argv, variables: Vec::new(), folder: None, more_arguments: true }
    }

    fn from_variables_and_argv(variables: Vec<(String, ShellArg)>, argv: Vec<ShellArg>) -> Self {
        Self::Command { argv, variables, folder: None, more_arguments: false }
    }

    fn from_script(text: &ShellArg) -> Self {
        Self::Script { text: text.clone(), folder: None }
    }

    /// Words that a shell will read as one text.
    fn from_script_words(words: &[ShellArg]) -> Self {
        Self::Script { text: join_args(words), folder: None }
    }
}

/// Words that are certain, and arguments behind them.
fn prefix_args(words: &[&str], args: &[ShellArg]) -> Vec<ShellArg> {
    words.iter().copied().map(ShellArg::known).chain(args.iter().cloned()).collect()
}

/// The words with spaces between, known as far as each of them is.
fn join_args(words: &[ShellArg]) -> ShellArg {
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

/// An argument without its first bytes, which are certain: `x` of `of=x`.
fn strip_arg_prefix(arg: &ShellArg, prefix: &str) -> Option<ShellArg> {
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

/// An argument of which nothing is known but how people write it.
fn unknown_arg(starts_with: impl Into<String>, written: impl Into<String>) -> ShellArg {
    ShellArg::Unknown { starts_with: starts_with.into(), written: written.into() }
}

/// The rest of the arguments from `at` on; empty when there are none.
fn args_from(args: &[ShellArg], at: usize) -> &[ShellArg] {
    args.get(at..).unwrap_or_default()
}

/// What is known of an argument as a word to compare; empty when it is not certain.
fn known_text(arg: Option<&ShellArg>) -> &str {
    arg.and_then(ShellArg::as_known).unwrap_or_default()
}

/// `NAME` and its value, when the argument certainly is `NAME=value`.
fn parse_assignment(arg: &ShellArg) -> Option<(String, ShellArg)> {
    let (name, _) = arg.known_prefix().split_once('=')?;
    let value = strip_arg_prefix(arg, &format!("{name}="))?;
    (!name.is_empty()).then(|| (name.to_owned(), value))
}

#[cfg(test)]
mod tests;
