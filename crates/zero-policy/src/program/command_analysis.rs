//! What a command line does: the files it touches, the hosts it reaches and the commands it runs.

use std::fmt;

use crate::program::arguments::join_args;
use crate::shell::ShellArg;

/// The effects of a command line, as far as its program is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandAnalysis {
    /// How complete the analysis is.
    pub class: CommandClass,
    /// Files it touches.
    pub touches: Vec<FileTouch>,
    /// Those of `touches` with which it proves who it is to the hosts, and which it does not send.
    pub identity_files: Vec<ShellArg>,
    /// Whether others get what it reads although it connects to no host: it becomes a message in a
    /// repository.
    pub publishes_reads: bool,
    /// Hosts it connects to: a URL, `user@host:path` or a bare host, as written in the arguments.
    pub hosts: Vec<ShellArg>,
    /// Commands it runs.
    pub runs: Vec<NestedExecution>,
    /// Why it is critical, in a few words such as `removes files recursively`.
    pub critical: Option<&'static str>,
    /// Whether it is critical only because it overwrites the files in `touches`, each of which its
    /// arguments name. A mode that accepts edits of these files accepts it.
    pub edits_named_files: bool,
    /// Why a rule for its name alone does not cover it, in a few words such as `\`-c\` sets an
    /// alias that runs a command`.
    pub caution: Option<String>,
    /// The settings of the repository that it changes, if they are known and make git run nothing.
    pub git_settings: Vec<GitSettingChange>,
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
    /// Anything.
    #[default]
    Opaque,
}

/// A change of a setting of a git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSettingChange {
    /// Its name, such as `user.name`.
    pub name: String,
    /// Its new value; `None` if it is removed.
    pub value: Option<String>,
}

impl fmt::Display for GitSettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.value {
            Some(value) => write!(f, "sets `{name}` to `{value}`"),
            None => write!(f, "removes `{name}`"),
        }
    }
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileAccess {
    /// Reads its content or its names.
    Read,
    /// It is made or changed.
    Write,
    /// It is removed.
    Delete,
}

/// A file that a command accesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileTouch {
    /// What is done to it.
    pub access: FileAccess,
    /// Its path, relative to the working folder of the command.
    pub path: ShellArg,
    /// Whether everything beneath it is included.
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
        /// Its working folder, if it differs from the outer command's.
        folder: Option<ShellArg>,
        /// Whether unknown arguments are appended, as `xargs` does.
        more_arguments: bool,
    },
    /// A text for a shell.
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

impl CommandAnalysis {
    pub(super) fn with_class(class: CommandClass) -> Self {
        Self { class, ..Self::default() }
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

    /// Adds settings of the repository that it changes, and their file.
    #[must_use]
    pub(super) fn with_git_settings(mut self, changes: Vec<GitSettingChange>) -> Self {
        if changes.is_empty() {
            return self;
        }
        self.git_settings = changes;
        let file = ShellArg::known(".git/config");
        let is_known = |touch: &FileTouch| touch.access == FileAccess::Write && touch.path == file;
        match self.touches.iter().any(is_known) {
            true => self,
            false => self.with_touch(FileAccess::Write, &file),
        }
    }

    #[must_use]
    pub(super) fn with_run(mut self, run: NestedExecution) -> Self {
        self.runs.push(run);
        self
    }

    /// Adds a command that it runs; does nothing if `argv` is empty.
    #[must_use]
    pub(super) fn with_command(self, argv: &[ShellArg]) -> Self {
        if argv.is_empty() { self } else { self.with_run(NestedExecution::from_argv(argv)) }
    }

    /// Adds scripts that a shell runs.
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

    /// Adds files with which it proves who it is.
    #[must_use]
    pub(super) fn with_identity_files(mut self, paths: Vec<ShellArg>) -> Self {
        self = self.with_touches(FileAccess::Read, &paths);
        self.identity_files.extend(paths);
        self
    }

    #[must_use]
    pub(super) fn with_recursive_touch(mut self, access: FileAccess, path: &ShellArg) -> Self {
        self.touches.push(FileTouch { access, path: path.clone(), recursive: true });
        self
    }

    #[must_use]
    pub(super) fn with_recursive_touches(self, access: FileAccess, paths: &[ShellArg]) -> Self {
        paths.iter().fold(self, |analysis, path| analysis.with_recursive_touch(access, path))
    }

    #[must_use]
    pub(super) fn with_host(mut self, host: &ShellArg) -> Self {
        self.hosts.push(host.clone());
        self
    }

    /// Sets the working folder of the command and of what it runs.
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

    /// Adds a caution; the first one is kept.
    #[must_use]
    pub(super) fn with_caution(mut self, why: impl Into<String>) -> Self {
        self.caution.get_or_insert_with(|| why.into());
        self
    }

    /// Like [`CommandAnalysis::with_caution`], if `holds`.
    #[must_use]
    pub(super) fn with_caution_if(self, holds: bool, why: &str) -> Self {
        if holds { self.with_caution(why) } else { self }
    }

    /// Marks a command line that is not fully parsed, so that what it runs is a guess.
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
