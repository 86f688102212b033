//! The effects of a script, as far as they are known without running it.
//!
//! A flat list of nodes that form a tree: commands, the files and hosts they access, and
//! uncertainties. The engine evaluates the nodes, and explanations show the tree.

use std::path::PathBuf;

use crate::program::{
    CommandAnalysis, CommandClass, FileAccess, FileTouch, GitSettingChange, ignores_environment,
};
use crate::shell::ShellArg;
use crate::shell::ast::SourceSpan;

/// The effects of a script.
#[derive(Clone, Debug, Default)]
pub struct ScriptAnalysis {
    /// The nodes; a parent comes before its children.
    pub nodes: Vec<AnalysisNode>,
    /// Text that could not be parsed and may still run.
    pub unparsed: Option<String>,
    /// The settings of git that it changes, if it is a single command that changes known ones.
    pub git_settings: Vec<GitSettingChange>,
}

impl ScriptAnalysis {
    /// The settings that a line changes, if it is nothing but one call of git.
    pub(crate) fn find_git_settings(&self, line: &str) -> Vec<GitSettingChange> {
        let mut only: Option<&CommandInvocation> = None;
        for node in &self.nodes {
            match &node.kind {
                AnalysisNodeKind::Command(invocation) if only.is_none() => only = Some(invocation),
                AnalysisNodeKind::File(file) if !file.redirected => {}
                AnalysisNodeKind::Host(_) => {}
                _ => return Vec::new(),
            }
        }
        let is_plain = |invocation: &&CommandInvocation| {
            // Without variables before it.
            line.starts_with("git ")
                && !line.contains(['\n', '&', ';', '|', '<', '>', '$', '`', '('])
                && invocation.argv.first().and_then(ShellArg::as_known) == Some("git")
                && invocation.analysis.caution.is_none()
                && invocation.analysis.critical.is_none()
                && !invocation.more_arguments
        };
        let found = only.filter(is_plain).filter(|_| self.unparsed.is_none());
        found.map(|invocation| invocation.analysis.git_settings.clone()).unwrap_or_default()
    }

    /// Whether all that it does is known, and it only reads files.
    pub(crate) fn only_reads(&self) -> bool {
        let reads = |node: &AnalysisNode| match &node.kind {
            AnalysisNodeKind::Structure => true,
            AnalysisNodeKind::Command(invocation) => {
                invocation.analysis.class == CommandClass::ReadOnly
            }
            AnalysisNodeKind::File(file) => file.access == FileAccess::Read,
            AnalysisNodeKind::Host(_) | AnalysisNodeKind::Uncertainty(_) => false,
        };
        self.unparsed.is_none() && self.nodes.iter().all(reads)
    }

    /// Whether a command may run in one of several folders, because `cd` may have failed.
    pub(crate) fn has_several_folders(&self) -> bool {
        self.nodes.iter().any(|node| match &node.kind {
            AnalysisNodeKind::Command(invocation) => {
                matches!(&invocation.folders, WorkingFolders::OneOf(folders) if folders.len() > 1)
            }
            _ => false,
        })
    }

    /// Records that a variable of unknown effect is set for all commands.
    pub(crate) fn distrust_environment(&mut self) {
        for node in &mut self.nodes {
            if let AnalysisNodeKind::Command(invocation) = &mut node.kind {
                invocation.distrust_environment();
            }
        }
    }
}

/// A node of the tree.
#[derive(Clone, Debug)]
pub struct AnalysisNode {
    /// Index of its parent.
    pub parent: Option<usize>,
    /// Its text for display.
    pub label: String,
    /// Its position in the given text; nodes from an inner script have the position of the command
    /// that runs it.
    pub span: SourceSpan,
    /// Its kind.
    pub kind: AnalysisNodeKind,
}

/// The kind of a node.
#[derive(Clone, Debug)]
pub enum AnalysisNodeKind {
    /// A parent of other nodes: a pipeline, a loop, a substitution.
    Structure,
    /// A command that runs.
    Command(Box<CommandInvocation>),
    /// A file that is accessed.
    File(FileUse),
    /// A host that is connected to.
    Host(ShellArg),
    /// Something that is unknown or may change. Never allowed by itself.
    Uncertainty(Uncertainty),
}

/// A command that runs.
#[derive(Clone, Debug)]
pub struct CommandInvocation {
    /// Program and arguments; never empty.
    pub argv: Vec<ShellArg>,
    /// Its analysis.
    pub analysis: CommandAnalysis,
    /// The folders it may run in.
    pub folders: WorkingFolders,
    /// Whether unknown arguments follow, as with `xargs`.
    pub more_arguments: bool,
}

impl CommandInvocation {
    /// Records that a variable of unknown effect is set for it: it may do more than its arguments
    /// say.
    pub(crate) fn distrust_environment(&mut self) {
        let is_judged = matches!(self.analysis.class, CommandClass::ReadOnly | CommandClass::Files);
        if is_judged && !ignores_environment(&self.argv) {
            self.analysis.class = CommandClass::Opaque;
        }
    }
}

/// A file that is accessed.
#[derive(Clone, Debug)]
pub struct FileUse {
    /// The kind of access.
    pub access: FileAccess,
    /// The file, as written.
    pub path: ShellArg,
    /// The base of a relative path.
    pub folders: WorkingFolders,
    /// Whether everything beneath it is included.
    pub recursive: bool,
    /// Whether the shell itself opens it, for a redirection. A rule that allows the command does
    /// not cover it.
    pub redirected: bool,
}

impl FileUse {
    pub(super) fn new(touch: FileTouch, folders: WorkingFolders, redirected: bool) -> Self {
        let FileTouch { access, path, recursive } = touch;
        Self { access, path, folders, recursive, redirected }
    }
}

/// The folder that a command runs in: one of several, or any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkingFolders {
    /// One of these; at least one.
    OneOf(Vec<PathBuf>),
    /// It may be any folder.
    Unknown,
}

/// Why something is never allowed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncertainty {
    /// A clause that follows "because": `the program is only known when it runs`.
    pub reason: String,
    /// The kind of uncertainty.
    pub kind: UncertaintyKind,
}

/// The kind of an uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncertaintyKind {
    /// It cannot be parsed or resolved.
    Unresolved,
    /// It is known, and it changes what a command does compared to its name.
    Altered,
    /// It is too large or too deep to be evaluated at all.
    Unbounded,
}
