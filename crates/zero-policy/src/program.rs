//! Analyzes the command lines of known programs: what they read, write, run and connect to.
//!
//! There is one table per kind of program. A program in no table is [`CommandClass::Opaque`]: it
//! may do anything its process may do, and only a rule can allow it.

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

/// The effects of a command line, as far as its program is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandAnalysis {
    /// How complete the analysis is.
    pub nature: CommandClass,
    /// Files it accesses.
    pub touches: Vec<FileTouch>,
    /// Hosts it connects to: a URL, `user@host:path` or a bare host, as written in the arguments.
    pub hosts: Vec<ShellArg>,
    /// Commands it runs.
    pub runs: Vec<NestedExecution>,
    /// Why it is critical, in a few words such as `removes files recursively`.
    pub critical: Option<&'static str>,
    /// Why a rule for its name alone does not cover it, in a few words such as `\`-c\` sets an
    /// alias that runs a command`.
    pub caution: Option<String>,
    /// The folder it works in, if an option such as `git -C` sets one. `touches` are relative to
    /// it.
    pub folder: Option<ShellArg>,
}

/// How complete a [`CommandAnalysis`] is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandClass {
    /// It only reads, and all reads are in `touches`. Needs no rule.
    ReadOnly,
    /// It only changes files and fetches from hosts, and all of them are in `touches` and `hosts`.
    /// Needs no rule of its own: the verdicts on those decide.
    Files,
    /// It only runs the commands in `runs`. Needs no rule of its own: the verdicts on those decide.
    Wrapper,
    /// It may do anything.
    #[default]
    Opaque,
}

/// The kind of access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileAccess {
    /// Reads its content or its names.
    Read,
    /// Creates or changes it.
    Write,
    /// Removes it.
    Delete,
}

/// A file that a command accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTouch {
    /// The kind of access.
    pub access: FileAccess,
    /// Its path, relative to the working folder of the command.
    pub path: ShellArg,
    /// Whether everything beneath it is included.
    pub recursive: bool,
}

/// Something that a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NestedExecution {
    /// A program with arguments.
    Command {
        /// Program and arguments.
        argv: Vec<ShellArg>,
        /// Variables set for it.
        variables: Vec<(String, ShellArg)>,
        /// Its working folder, if it differs from the outer command's.
        folder: Option<ShellArg>,
        /// Whether unknown arguments are appended, as `xargs` does.
        more_arguments: bool,
    },
    /// A script for a shell.
    Script {
        /// The script, as far as its value is known before it runs.
        text: ShellArg,
        /// Its working folder, if it differs from the outer command's.
        folder: Option<ShellArg>,
    },
    /// A script for a shell that is read from standard input.
    ScriptFromInput,
    /// Something unknown, with the reason.
    Unknown(&'static str),
}

/// Analyzes a command line: its program first, then its arguments.
///
/// The program is looked up by the last component of its path. `argv` must not be empty.
pub fn analyze(argv: &[ShellArg]) -> CommandAnalysis {
    let Some((program, args)) = argv.split_first() else {
        return CommandAnalysis::opaque();
    };
    let Some(written) = program.as_known() else {
        return CommandAnalysis::opaque()
            .with_run(NestedExecution::Unknown("the program is only known at run time"));
    };
    let name = plain_name(written);
    // On a case-insensitive file system, `RM` runs `rm`.
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
        // Only hosts and files are accessed: rules about those decide.
        study.nature = CommandClass::Files;
    }
    if !is_in_system_folder(written) {
        // `./ls` may be any program, whatever its name. The restrictions known for the name apply,
        // but it still needs a rule.
        study.nature = CommandClass::Opaque;
    }
    study
}

/// Whether a program only fetches from the hosts it names.
fn only_fetches(name: &str, args: &[ShellArg]) -> bool {
    match name {
        "curl" | "wget" | "wget2" => true,
        "git" => args.first().and_then(ShellArg::as_known) == Some("clone"),
        _ => false,
    }
}

/// Whether a command reads by default and writes only with certain options: a rule that allows `git
/// log` with any arguments is not meant to include `--output`.
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

/// Tries each table in turn. Tables of programs that run others come first: what they run must be
/// found even if another table has the same name.
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

/// The name in the tables: without folders, without `.exe`, and without the `g` prefix of GNU
/// programs.
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

/// Whether a program is in a system folder. True for a bare name: the caller checks which file it
/// resolves to.
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

    /// Adds a command that it runs; does nothing if `argv` is empty.
    #[must_use]
    fn with_command(self, argv: &[ShellArg]) -> Self {
        if argv.is_empty() { self } else { self.with_run(NestedExecution::from_argv(argv)) }
    }

    /// Adds scripts that a shell runs.
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

    /// Sets the working folder of the command and of what it runs.
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

    /// Adds a caution; the first one is kept.
    #[must_use]
    fn with_caution(mut self, why: impl Into<String>) -> Self {
        self.caution.get_or_insert_with(|| why.into());
        self
    }

    /// Like [`CommandAnalysis::with_caution`], if `holds`.
    #[must_use]
    fn with_caution_if(self, holds: bool, why: &str) -> Self {
        if holds { self.with_caution(why) } else { self }
    }

    /// Marks a command line that is not fully parsed, so that what it runs is a guess.
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

    /// A program with further unknown arguments.
    fn from_argv_and_more(argv: Vec<ShellArg>) -> Self {
        Self::Command { argv, variables: Vec::new(), folder: None, more_arguments: true }
    }

    fn from_variables_and_argv(variables: Vec<(String, ShellArg)>, argv: Vec<ShellArg>) -> Self {
        Self::Command { argv, variables, folder: None, more_arguments: false }
    }

    fn from_script(text: &ShellArg) -> Self {
        Self::Script { text: text.clone(), folder: None }
    }

    /// Words that a shell joins into one script.
    fn from_script_words(words: &[ShellArg]) -> Self {
        Self::Script { text: join_args(words), folder: None }
    }
}

/// Known words followed by arguments.
fn prefix_args(words: &[&str], args: &[ShellArg]) -> Vec<ShellArg> {
    words.iter().copied().map(ShellArg::known).chain(args.iter().cloned()).collect()
}

/// The words joined with spaces; known as far as each of them is.
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

/// An argument without a known prefix: `x` of `of=x`.
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

/// An argument of which only the written form is known.
fn unknown_arg(starts_with: impl Into<String>, written: impl Into<String>) -> ShellArg {
    ShellArg::Unknown { starts_with: starts_with.into(), written: written.into() }
}

/// The arguments from `at` on; empty if there are none.
fn args_from(args: &[ShellArg], at: usize) -> &[ShellArg] {
    args.get(at..).unwrap_or_default()
}

/// The text of an argument; empty if it is not known.
fn known_text(arg: Option<&ShellArg>) -> &str {
    arg.and_then(ShellArg::as_known).unwrap_or_default()
}

/// Name and value, if the argument is known to have the form `NAME=value`.
fn parse_assignment(arg: &ShellArg) -> Option<(String, ShellArg)> {
    let (name, _) = arg.known_prefix().split_once('=')?;
    let value = strip_arg_prefix(arg, &format!("{name}="))?;
    (!name.is_empty()).then(|| (name.to_owned(), value))
}

#[cfg(test)]
mod tests;
