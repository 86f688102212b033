//! What a script would do, as far as it can be said without running it.
//!
//! A flat list of nodes that form a tree: commands, the files and hosts they touch, and doubts.
//! The engine judges the nodes, and the tree is what a person sees when they ask why.

use std::path::PathBuf;

use crate::program::{Access, Study};
use crate::shell::Arg;
use crate::shell::ast::Span;

/// What a script would do.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// The nodes; a parent stands before its children.
    pub nodes: Vec<Node>,
    /// Text that could not be parsed and may still be run.
    pub unparsed: Option<String>,
}

/// A place in the tree.
#[derive(Clone, Debug)]
pub struct Node {
    /// The node it hangs from.
    pub parent: Option<usize>,
    /// How a person sees it.
    pub label: String,
    /// Where it stands in the text that was given; what comes out of an inner text has the place of
    /// the command that runs it.
    pub span: Span,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A place where others hang: a pipeline, a loop, a substitution.
    Structure,
    /// A command that runs.
    Command(Box<Invocation>),
    /// A file that is touched.
    File(FileUse),
    /// A host that is talked to.
    Host(Arg),
    /// Something that cannot be known or does not hold still. Never allowed by itself.
    Doubt(Doubt),
}

/// A command that runs.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Program and arguments; never empty.
    pub argv: Vec<Arg>,
    /// What is known of it.
    pub study: Study,
    /// Where it runs.
    pub folders: Folders,
    /// Whether more arguments follow that are not known, as with `xargs`.
    pub more_arguments: bool,
}

/// A file that is touched.
#[derive(Clone, Debug)]
pub struct FileUse {
    /// What is done to it.
    pub access: Access,
    /// Which file, as written.
    pub path: Arg,
    /// Where a relative path starts.
    pub folders: Folders,
    /// Whether everything beneath it is meant.
    pub recursive: bool,
    /// Whether the shell itself opens it, for a redirection. A rule that allows the command says
    /// nothing about it.
    pub redirected: bool,
}

/// The folder a command runs in: one of these, or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folders {
    /// One of these; at least one.
    OneOf(Vec<PathBuf>),
    /// Nobody knows.
    Unknown,
}

/// Why something is never allowed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// In words that follow "because": `the program is only known when it runs`.
    pub reason: String,
    /// What kind of doubt.
    pub kind: DoubtKind,
}

/// What kind of doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoubtKind {
    /// It cannot be parsed, resolved or found out.
    Unresolved,
    /// It is known, and it makes a command another one than its name says.
    Altered,
    /// It is too large or too deep to be judged at all.
    Unbounded,
}
