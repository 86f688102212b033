//! Which files the commands of a call may send to another machine.
//!
//! A command that connects to a host may send what it reads, except for a key with which it proves who
//! it is. What another command of the line reads may reach it through a pipe, a variable or a file.

use std::collections::{BTreeSet, HashMap};

use super::{CallAssessment, EffectAssessment};
use crate::command_access::SentFile;
use crate::host::HostName;
use crate::program::{FileAccess, sends_operands};
use crate::shell::ShellArg;
use crate::shell::analysis::{
    AnalysisNode, AnalysisNodeKind, CommandInvocation, FileUse, ScriptAnalysis,
};

impl CallAssessment {
    /// The files that commands may send, by each of their paths.
    pub(super) fn sent_files(&self) -> BTreeSet<SentFile> {
        let named = self.judged.iter().flat_map(|judged| judged.secret_operands.iter().cloned());
        let mut sent: BTreeSet<SentFile> =
            named.map(|path| SentFile { path, recursive: false }).collect();
        for (tree, analysis) in self.analyses.iter().enumerate() {
            sent.extend(self.list_piped_secrets(tree, analysis));
            let nodes = find_sent_nodes(analysis);
            for judged in self.judged.iter().filter(|judged| judged.tree == Some(tree)) {
                let Some((_, recursive)) =
                    nodes.iter().find(|(node, _)| judged.node == Some(*node))
                else {
                    continue;
                };
                let reads = judged.reads.iter().chain(&judged.private_reads);
                let paths = reads.chain(&judged.operands).cloned();
                sent.extend(paths.map(|path| SentFile { path, recursive: *recursive }));
            }
        }
        sent
    }

    /// The secret files that a pipeline reads whose commands may send them, as in `tool < .env`.
    fn list_piped_secrets(&self, tree: usize, analysis: &ScriptAnalysis) -> Vec<SentFile> {
        let own = || self.judged.iter().filter(|judged| judged.tree == Some(tree));
        if !own().any(|judged| judged.may_send) {
            return Vec::new();
        }
        let nodes = &analysis.nodes;
        let roots = find_roots(nodes);
        let senders: BTreeSet<usize> =
            own().filter(|judged| judged.may_send).filter_map(|judged| judged.node).collect();
        let sender_roots: BTreeSet<usize> =
            senders.iter().filter_map(|node| roots.get(*node).copied()).collect();
        let is_piped = |judged: &&EffectAssessment| {
            let Some(at) = judged.node else { return false };
            let Some(AnalysisNodeKind::File(file)) = nodes.get(at).map(|node| &node.kind) else {
                return false;
            };
            let parent = nodes.get(at).and_then(|node| node.parent);
            let command = parent.and_then(|parent| find_command(nodes, parent));
            if command.is_some_and(|command| is_kept(command, file)) {
                return false;
            }
            // The words of a sender are judged by themselves.
            if !file.redirected && parent.is_some_and(|parent| senders.contains(&parent)) {
                return false;
            }
            // A file of `tool < file` is beside the command. A substitution makes words of a file.
            let is_beside = file.redirected && parent.is_none();
            is_beside
                || !is_substituted(nodes, at)
                    && roots.get(at).is_some_and(|root| sender_roots.contains(root))
        };
        let paths = own().filter(is_piped).flat_map(|judged| judged.secret_reads.iter().cloned());
        paths.map(|path| SentFile { path, recursive: false }).collect()
    }
}

/// The nodes of the files that may be sent, and of the commands whose operands may be, each with whether
/// everything beneath is included.
fn find_sent_nodes(analysis: &ScriptAnalysis) -> Vec<(usize, bool)> {
    let nodes = &analysis.nodes;
    let roots = find_roots(nodes);
    let is_connecting = |node: &AnalysisNode| match &node.kind {
        AnalysisNodeKind::Host(host) => may_be_elsewhere(host),
        AnalysisNodeKind::Command(invocation) => {
            invocation.analysis.publishes_reads || sends_operands(&invocation.argv)
        }
        _ => false,
    };
    let connecting: Vec<usize> = nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| is_connecting(node))
        .filter_map(|(at, _)| roots.get(at).copied())
        .collect();
    let stored = find_stored(nodes, &roots);
    let mut sent = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        match &node.kind {
            AnalysisNodeKind::Command(invocation) if sends_operands(&invocation.argv) => {
                sent.push((at, true));
            }
            AnalysisNodeKind::File(file) if file.access == FileAccess::Read => {
                let command = node.parent.and_then(|parent| find_command(nodes, parent));
                let is_sent = match command {
                    Some(invocation) if is_kept(invocation, file) => false,
                    _ if file.recursive => {
                        let root = roots.get(at);
                        let is_piped = root.is_some_and(|root| connecting.contains(root));
                        let is_stored = root.is_some_and(|root| stored.contains(root));
                        is_piped
                            || !connecting.is_empty() && (is_substituted(nodes, at) || is_stored)
                    }
                    _ => !connecting.is_empty(),
                };
                if is_sent {
                    sent.push((at, file.recursive));
                }
            }
            _ => {}
        }
    }
    sent
}

/// For each node, the node at the top of its line: of a pipeline, that is the pipeline.
fn find_roots(nodes: &[AnalysisNode]) -> Vec<usize> {
    let mut roots: Vec<usize> = Vec::with_capacity(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        let root = node.parent.and_then(|parent| roots.get(parent).copied()).unwrap_or(at);
        roots.push(root);
    }
    roots
}

fn find_command(nodes: &[AnalysisNode], at: usize) -> Option<&CommandInvocation> {
    match &nodes.get(at)?.kind {
        AnalysisNodeKind::Command(invocation) => Some(invocation),
        _ => None,
    }
}

/// Whether a command uses a file without passing it on: a key to prove who it is, or variables for the
/// commands that follow, which name them.
fn is_kept(invocation: &CommandInvocation, file: &FileUse) -> bool {
    let is_identity = || !file.recursive && invocation.analysis.identity_files.contains(&file.path);
    let program = invocation.argv.first().and_then(ShellArg::as_known);
    matches!(program, Some("." | "source")) || is_identity()
}

/// The roots whose commands write a file, such as an archive, that commands of other roots read.
fn find_stored(nodes: &[AnalysisNode], roots: &[usize]) -> BTreeSet<usize> {
    let files = |access: FileAccess| {
        nodes.iter().zip(roots).filter_map(move |(node, root)| match &node.kind {
            AnalysisNodeKind::File(file) if file.access == access => {
                Some((file.path.as_known().map(file_name), *root))
            }
            _ => None,
        })
    };
    // For each name, the first root that reads it and the last one.
    let mut readers: HashMap<&str, (usize, usize)> = HashMap::new();
    for (name, root) in files(FileAccess::Read) {
        if let Some(name) = name {
            readers.entry(name).or_insert((root, root)).1 = root;
        }
    }
    let is_read_elsewhere = |name: Option<&str>, root: usize| match name {
        Some(name) => readers.get(name).is_some_and(|of| *of != (root, root)),
        None => true,
    };
    let written = files(FileAccess::Write);
    written.filter(|(name, root)| is_read_elsewhere(*name, *root)).map(|(_, root)| root).collect()
}

/// The last part of a path: the folders that it is relative to may differ.
fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Whether a file is read in a substitution, whose output is a word of another command.
fn is_substituted(nodes: &[AnalysisNode], at: usize) -> bool {
    let mut above = nodes.get(at).and_then(|node| node.parent);
    while let Some(node) = above.and_then(|at| nodes.get(at)) {
        if node.is_substitution() {
            return true;
        }
        above = node.parent;
    }
    false
}

/// Whether a host may be another machine.
fn may_be_elsewhere(host: &ShellArg) -> bool {
    let known = host.as_known().and_then(|text| HostName::parse(text).ok());
    known.is_none_or(|host| host.private_reason() != Some("this machine"))
}
