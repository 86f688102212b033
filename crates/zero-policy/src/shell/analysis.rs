//! The effects of a script, as far as they are known without running it.
//!
//! A flat list of nodes that form a tree: commands, the files and hosts they access, and
//! uncertainties. The engine evaluates the nodes, and explanations show the tree.

use std::path::PathBuf;

use crate::program::{
    CommandAnalysis, CommandClass, FileAccess, FileTouch, GitSettingChange, PackageManager,
    ignores_environment,
};
use crate::shell::ShellArg;
use crate::shell::ast::{ListItem, ShellCommand, ShellCommandKind, SourceSpan};

/// The effects of a script.
#[derive(Clone, Debug, Default)]
pub struct ScriptAnalysis {
    /// The nodes; a parent comes before its children.
    pub nodes: Vec<AnalysisNode>,
    /// Text that could not be parsed and may still run.
    pub unparsed: Option<String>,
    /// The settings of git that it changes, if its commands change known ones and do nothing else.
    pub git_settings: Vec<GitSettingChange>,
}

impl ScriptAnalysis {
    /// The settings that each command of a line changes, if they are nothing but calls of git that change
    /// settings or only read.
    pub(crate) fn find_git_settings(&self, line: &str) -> Vec<Vec<GitSettingChange>> {
        let mut invocations: Vec<&CommandInvocation> = Vec::new();
        for node in &self.nodes {
            match &node.kind {
                AnalysisNodeKind::Command(invocation) => invocations.push(invocation),
                AnalysisNodeKind::File(file) if !file.redirected => {}
                AnalysisNodeKind::Host(_) | AnalysisNodeKind::Structure => {}
                _ => return Vec::new(),
            }
        }
        let is_option = |arg: &ShellArg| arg.known_prefix().starts_with('-');
        let is_plain = |invocation: &&CommandInvocation| {
            let CommandInvocation { argv, analysis, more_arguments, .. } = invocation;
            let reads = analysis.class == CommandClass::ReadOnly;
            argv.first().and_then(ShellArg::as_known) == Some("git")
                // Options before the command may name another repository.
                && !argv.get(1).is_some_and(is_option)
                && (reads || !analysis.git_settings.is_empty())
                && analysis.caution.is_none()
                && analysis.critical.is_none()
                && !more_arguments
        };
        let count = count_plain_commands(line);
        if self.unparsed.is_some()
            || count != Some(invocations.len())
            || !invocations.iter().all(is_plain)
        {
            return Vec::new();
        }
        invocations.iter().map(|invocation| invocation.analysis.git_settings.clone()).collect()
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

/// Labels of substitutions, whose output is a word of the command around them, or a file of it.
pub(crate) const COMMAND_SUBSTITUTION: &str = "$( )";
pub(crate) const PROCESS_SUBSTITUTION: &str = "<( )";

impl AnalysisNode {
    /// Whether its commands run in a substitution.
    pub(crate) fn is_substitution(&self) -> bool {
        matches!(self.kind, AnalysisNodeKind::Structure)
            && [COMMAND_SUBSTITUTION, PROCESS_SUBSTITUTION].contains(&self.label.as_str())
    }
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
    /// Registries of package managers that the script names by variables before it.
    pub registries: Vec<(PackageManager, String)>,
}

/// Number of commands of a line that runs them one after the other, without variables and expansions.
/// `None` for other lines.
fn count_plain_commands(line: &str) -> Option<usize> {
    if line.contains(['$', '`', '(', '|', '<', '>']) {
        return None;
    }
    let parsed = super::parse(line);
    let is_plain = |item: &ListItem| match item.pipeline.commands.as_slice() {
        [ShellCommand { kind: ShellCommandKind::Simple(simple), redirects, .. }] => {
            !item.background
                && !item.pipeline.negated
                && redirects.is_empty()
                && simple.assignments.is_empty()
        }
        _ => false,
    };
    let items = &parsed.list.items;
    (parsed.error.is_none() && items.iter().all(is_plain)).then_some(items.len())
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
