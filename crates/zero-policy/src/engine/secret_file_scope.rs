//! Which secret files of the workspace the commands of a call may read.
//!
//! A line that names a secret file asks. One that reads a folder names none of the files in it, so
//! the sandbox hides the secret ones, unless a rule or the user allowed the commands.

use super::CallAssessment;
use crate::command_access::SecretFileScope;
use crate::decision::Verdict;
use crate::program::{CommandClass, FileAccess, reads_named_files_only};
use crate::shell::analysis::{AnalysisNodeKind, CommandInvocation, ScriptAnalysis};

impl CallAssessment {
    /// The secret files that the commands may read, if the verdict on the call is `verdict`.
    pub(super) fn secret_file_scope(&self, verdict: Verdict) -> SecretFileScope {
        // The answer to a question is about the command as a whole.
        if !self.guards_secret_files || verdict != Verdict::Allow {
            return SecretFileScope::All;
        }
        let mut is_covered = false;
        for (tree, analysis) in self.analyses.iter().enumerate() {
            let covered = self.list_covered_nodes(tree, analysis);
            is_covered |= covered.contains(&true);
            if analysis.unparsed.is_some() || !reads_named_files(analysis, &covered) {
                return SecretFileScope::Hidden;
            }
        }
        if is_covered { SecretFileScope::All } else { SecretFileScope::Named }
    }

    /// For each node, whether it is a command that a rule or a grant allows, or part of one.
    fn list_covered_nodes(&self, tree: usize, analysis: &ScriptAnalysis) -> Vec<bool> {
        let mut covered: Vec<bool> = Vec::with_capacity(analysis.nodes.len());
        for (at, node) in analysis.nodes.iter().enumerate() {
            covered.push(match &node.kind {
                // The first verdict on a command is that on the command itself.
                AnalysisNodeKind::Command(_) => self
                    .judged
                    .iter()
                    .find(|judged| judged.tree == Some(tree) && judged.node == Some(at))
                    .is_some_and(|judged| judged.rule.is_some()),
                AnalysisNodeKind::File(file) if !file.redirected => {
                    node.parent.and_then(|parent| covered.get(parent).copied()).unwrap_or_default()
                }
                _ => false,
            });
        }
        covered
    }
}

/// Whether every command that neither a rule nor the user allowed reads the files that it names and
/// no others.
fn reads_named_files(analysis: &ScriptAnalysis, covered: &[bool]) -> bool {
    analysis.nodes.iter().zip(covered).all(|(node, covered)| match &node.kind {
        _ if *covered => true,
        AnalysisNodeKind::Command(invocation) => is_bounded(invocation),
        AnalysisNodeKind::File(file) => file.access != FileAccess::Read || !file.recursive,
        AnalysisNodeKind::Structure | AnalysisNodeKind::Host(_) => true,
        AnalysisNodeKind::Uncertainty(_) => false,
    })
}

fn is_bounded(invocation: &CommandInvocation) -> bool {
    let is_known = match invocation.analysis.class {
        CommandClass::Opaque => false,
        // The command that it runs is a node of its own.
        CommandClass::Wrapper => true,
        CommandClass::ReadOnly | CommandClass::Files => reads_named_files_only(&invocation.argv),
    };
    is_known && !invocation.more_arguments
}
