//! A command line as a tree with the verdict of each node, for explanations.

use crate::decision::Verdict;
use crate::shell::analysis::{AnalysisNodeKind, ScriptAnalysis};

use super::{CallAssessment, EffectAssessment};

/// A command line with its verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictTree {
    /// The nodes; a parent comes before its children.
    pub nodes: Vec<VerdictNode>,
}

/// A node of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictNode {
    /// Index of its parent.
    pub parent: Option<usize>,
    /// Its text for display.
    pub label: String,
    /// The strictest verdict on the node and its descendants.
    pub verdict: Verdict,
    /// The reason, if the node itself was evaluated.
    pub reason: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
}

impl CallAssessment {
    /// Builds one tree per command line.
    pub(super) fn build_trees(&self) -> Vec<VerdictTree> {
        self.analyses
            .iter()
            .enumerate()
            .map(|(at, analysis)| self.build_tree(at, analysis))
            .collect()
    }

    fn build_tree(&self, tree: usize, analysis: &ScriptAnalysis) -> VerdictTree {
        let mut nodes: Vec<VerdictNode> = analysis
            .nodes
            .iter()
            .map(|node| {
                let parent = node.parent;
                let label = node.label.clone();
                VerdictNode { parent, label, verdict: Verdict::Allow, reason: None, rule: None }
            })
            .collect();
        for judged in self.judged.iter().filter(|judged| judged.tree == Some(tree)) {
            match judged.node.and_then(|at| nodes.get_mut(at)) {
                Some(node) => record_verdict(node, judged),
                None => {
                    let mut node = VerdictNode {
                        parent: None,
                        label: judged.target.clone(),
                        verdict: Verdict::Allow,
                        reason: None,
                        rule: None,
                    };
                    record_verdict(&mut node, judged);
                    nodes.push(node);
                }
            }
        }
        // A harmless file has no verdict of its own.
        for (node, known) in nodes.iter_mut().zip(&analysis.nodes) {
            if node.reason.is_none() && !matches!(known.kind, AnalysisNodeKind::Structure) {
                node.reason = Some("harmless".to_owned());
            }
        }
        inherit_verdicts(&mut nodes);
        VerdictTree { nodes }
    }
}

/// Gives each node the strictest verdict below it. Its reason then names the part that decided.
fn inherit_verdicts(nodes: &mut [VerdictNode]) {
    let own: Vec<Verdict> = nodes.iter().map(|node| node.verdict).collect();
    let mut decisive: Vec<Option<String>> = vec![None; nodes.len()];
    for at in (0..nodes.len()).rev() {
        let Some(VerdictNode { parent: Some(parent), verdict, label, .. }) = nodes.get(at) else {
            continue;
        };
        let (parent, verdict, label) = (*parent, *verdict, label.clone());
        let (Some(node), Some(part)) = (nodes.get_mut(parent), decisive.get_mut(parent)) else {
            continue;
        };
        if verdict > own.get(parent).copied().unwrap_or(verdict) && verdict >= node.verdict {
            *part = Some(label);
        }
        node.verdict = node.verdict.max(verdict);
    }
    for (node, part) in nodes.iter_mut().zip(decisive) {
        let verb = match node.verdict {
            Verdict::Deny => "denied",
            Verdict::Ask => "asks",
            Verdict::Allow => continue,
        };
        if let (Some(reason), Some(part)) = (&mut node.reason, part) {
            reason.push_str(&format!("; {verb} because of `{part}`"));
        }
    }
}

fn record_verdict(node: &mut VerdictNode, judged: &EffectAssessment) {
    if node.reason.is_none() || judged.verdict > node.verdict {
        node.verdict = judged.verdict;
        node.reason = Some(judged.reason.clone());
        node.rule = judged.rule.clone();
    }
}
