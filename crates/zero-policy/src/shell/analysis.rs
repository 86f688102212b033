//! What a script would do, as far as it can be said without running it.
//!
//! A flat list of nodes that form a tree: commands, the files and hosts they touch, and doubts.
//! The engine judges the nodes, and the tree is what a person sees when they ask why.

use std::path::PathBuf;

use crate::program::{CommandAnalysis, FileAccess};
use crate::shell::ShellArg;
use crate::shell::ast::SourceSpan;

/// What a script would do.
#[derive(Clone, Debug, Default)]
pub struct ScriptAnalysis {
    /// The nodes; a parent stands before its children.
    pub nodes: Vec<AnalysisNode>,
    /// Text that could not be parsed and may still be run.
    pub unparsed: Option<String>,
}

/// A place in the tree.
#[derive(Clone, Debug)]
pub struct AnalysisNode {
    /// Index of its parent.
    pub parent: Option<usize>,
    /// How a person sees it.
    pub label: String,
    /// Where it stands in the text that was given; what comes out of an inner text has the place of
    /// the command that runs it.
    pub span: SourceSpan,
    /// What it is.
    pub kind: AnalysisNodeKind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum AnalysisNodeKind {
    /// A place where others hang: a pipeline, a loop, a substitution.
    Structure,
    /// A command that runs.
    Command(Box<CommandInvocation>),
    /// A file that is touched.
    File(FileUse),
    /// A host that is talked to.
    Host(ShellArg),
    /// Something that cannot be known or does not hold still. Never allowed by itself.
    Uncertainty(Uncertainty),
}

/// A command that runs.
#[derive(Clone, Debug)]
pub struct CommandInvocation {
    /// Program and arguments; never empty.
    pub argv: Vec<ShellArg>,
    /// What is known of it.
    pub study: CommandAnalysis,
    /// Where it runs.
    pub folders: WorkingFolders,
    /// Whether more arguments follow that are not known, as with `xargs`.
    pub more_arguments: bool,
}

/// A file that is touched.
#[derive(Clone, Debug)]
pub struct FileUse {
    /// What is done to it.
    pub access: FileAccess,
    /// Which file, as written.
    pub path: ShellArg,
    /// Where a relative path starts.
    pub folders: WorkingFolders,
    /// Whether everything beneath it is included.
    pub recursive: bool,
    /// Whether the shell itself opens it, for a redirection. A rule that allows the command says
    /// nothing about it.
    pub redirected: bool,
}

/// The folder a command runs in: one of these, or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkingFolders {
    /// One of these; at least one.
    OneOf(Vec<PathBuf>),
    /// Nobody knows.
    Unknown,
}

/// Why something is never allowed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncertainty {
    /// In words that follow "because": `the program is only known when it runs`.
    pub reason: String,
    /// What kind of doubt.
    pub kind: UncertaintyKind,
}

/// What kind of doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertaintyKind {
    /// It cannot be parsed, resolved or found out.
    Unresolved,
    /// It is known, and it makes a command another one than its name says.
    Altered,
    /// It is too large or too deep to be judged at all.
    Unbounded,
}
