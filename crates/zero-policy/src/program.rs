//! What is known of programs: what a command line of theirs reads, writes, runs and reaches.
//!
//! A table per kind of program. What no table knows is [`Nature::Program`]: it may do anything its
//! process may do, and only a rule can allow it.

mod files;
mod options;

use crate::shell::Arg;

/// What a command line does, as far as its program is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Study {
    /// How much of what it does is said here.
    pub nature: Nature,
    /// Files it touches.
    pub touches: Vec<Touch>,
    /// Hosts it talks to: a URL, `user@host:path` or a bare host, as it stands in the arguments.
    pub hosts: Vec<Arg>,
    /// Commands it runs.
    pub runs: Vec<Run>,
    /// Why it is critical, in a few words such as `removes files recursively`.
    pub critical: Option<&'static str>,
    /// Why no rule may cover it by its name alone, in a few words such as
    /// `\`-c\` sets an alias that runs a command`.
    pub caution: Option<String>,
}

/// How much of what a command does its [`Study`] says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nature {
    /// It only looks, and what it looks at is in `touches`. Needs no rule.
    ReadOnly,
    /// What it does is change files, and they are all in `touches`. Needs no rule of its own: the
    /// files decide.
    Files,
    /// It does nothing but run what is in `runs`. Needs no rule of its own: those decide.
    Wrapper,
    /// Anything.
    #[default]
    Program,
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Its content or its names are looked at.
    Read,
    /// It is made or changed.
    Write,
    /// It is removed.
    Delete,
}

/// A file that a command touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// What is done to it.
    pub access: Access,
    /// Its path, relative to where the command runs.
    pub path: Arg,
    /// Whether everything beneath it is meant.
    pub recursive: bool,
}

/// Something a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// A program with arguments.
    Command {
        /// Program and arguments.
        argv: Vec<Arg>,
        /// Variables set for it.
        variables: Vec<(String, Arg)>,
        /// The folder it runs in, when another than the outer command's.
        folder: Option<Arg>,
        /// Whether more arguments are added that cannot be known, as `xargs` does.
        more_arguments: bool,
    },
    /// A text for a shell.
    Script {
        /// The text.
        text: Arg,
        /// The folder it runs in, when another than the outer command's.
        folder: Option<Arg>,
    },
    /// A text for a shell that comes from standard input.
    ScriptFromInput,
    /// Something, but nobody can say what. The words say why.
    Unknown(&'static str),
}

/// Studies a command line: its program first, then its arguments.
///
/// The program is looked up by the last part of its path. `argv` is never empty.
pub fn study(argv: &[Arg]) -> Study {
    let Some((program, args)) = argv.split_first() else { return Study::default() };
    let name = program.as_known().and_then(|path| path.rsplit('/').next());
    name.and_then(|name| files::study(name, args)).unwrap_or_default()
}
