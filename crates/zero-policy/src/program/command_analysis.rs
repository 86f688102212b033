//! What a command line does: the files it touches, the hosts it reaches and the commands it runs.

use crate::program::arguments::join_args;
use crate::shell::ShellArg;

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

impl CommandAnalysis {
    pub(super) fn with_class(nature: CommandClass) -> Self {
        Self { nature, ..Self::default() }
    }

    pub(super) fn opaque() -> Self {
        Self::with_class(CommandClass::Opaque)
    }

    pub(super) fn read_only() -> Self {
        Self::with_class(CommandClass::ReadOnly)
    }

    pub(super) fn wrapper() -> Self {
        Self::with_class(CommandClass::Wrapper)
    }

    #[must_use]
    pub(super) fn with_run(mut self, run: NestedExecution) -> Self {
        self.runs.push(run);
        self
    }

    /// Adds a command it runs; without words there is none.
    #[must_use]
    pub(super) fn with_command(self, argv: &[ShellArg]) -> Self {
        if argv.is_empty() { self } else { self.with_run(NestedExecution::from_argv(argv)) }
    }

    /// Adds texts that a shell runs.
    #[must_use]
    pub(super) fn with_scripts<'a>(
        mut self,
        texts: impl IntoIterator<Item = &'a ShellArg>,
    ) -> Self {
        self.runs.extend(texts.into_iter().map(NestedExecution::from_script));
        self
    }

    #[must_use]
    pub(super) fn with_touch(mut self, access: FileAccess, path: &ShellArg) -> Self {
        self.touches.push(FileTouch { access, path: path.clone(), recursive: false });
        self
    }

    #[must_use]
    pub(super) fn with_touches(mut self, access: FileAccess, paths: &[ShellArg]) -> Self {
        self.touches.extend(paths.iter().map(|path| FileTouch {
            access,
            path: path.clone(),
            recursive: false,
        }));
        self
    }

    #[must_use]
    pub(super) fn with_recursive_touch(mut self, access: FileAccess, path: &ShellArg) -> Self {
        self.touches.push(FileTouch { access, path: path.clone(), recursive: true });
        self
    }

    #[must_use]
    pub(super) fn with_host(mut self, host: &ShellArg) -> Self {
        self.hosts.push(host.clone());
        self
    }

    /// Lets it work in a folder, and what it runs too.
    #[must_use]
    pub(super) fn in_folder(mut self, within: &ShellArg) -> Self {
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
    pub(super) fn with_caution(mut self, why: impl Into<String>) -> Self {
        self.caution.get_or_insert_with(|| why.into());
        self
    }

    /// Like [`CommandAnalysis::with_caution`], where it depends.
    #[must_use]
    pub(super) fn with_caution_if(self, holds: bool, why: &str) -> Self {
        if holds { self.with_caution(why) } else { self }
    }

    /// Marks a command line that is not fully understood, so that what it runs is a guess.
    #[must_use]
    pub(super) fn mark_guess_if(self, uncertain: bool) -> Self {
        if uncertain {
            self.with_run(NestedExecution::Unknown(
                "its options are not all known, so what it runs is a guess",
            ))
        } else {
            self
        }
    }

    #[must_use]
    pub(super) fn mark_critical(mut self, why: &'static str) -> Self {
        self.critical.get_or_insert(why);
        self
    }
}

impl NestedExecution {
    pub(super) fn from_argv(argv: &[ShellArg]) -> Self {
        Self::Command {
            argv: argv.to_vec(),
            variables: Vec::new(),
            folder: None,
            more_arguments: false,
        }
    }

    /// A program that gets more arguments than are known.
    pub(super) fn from_argv_and_more(argv: Vec<ShellArg>) -> Self {
        Self::Command { argv, variables: Vec::new(), folder: None, more_arguments: true }
    }

    pub(super) fn from_variables_and_argv(
        variables: Vec<(String, ShellArg)>,
        argv: Vec<ShellArg>,
    ) -> Self {
        Self::Command { argv, variables, folder: None, more_arguments: false }
    }

    pub(super) fn from_script(text: &ShellArg) -> Self {
        Self::Script { text: text.clone(), folder: None }
    }

    /// Words that a shell will read as one text.
    pub(super) fn from_script_words(words: &[ShellArg]) -> Self {
        Self::Script { text: join_args(words), folder: None }
    }
}
