//! Whether what a critical command is about to remove fits into what is kept for undo.
//!
//! A command that removes files is recorded while it runs, and by then it is too late to ask. The
//! paths that it names are therefore measured before.

use std::path::{Path, PathBuf};

use zero_core::{ByteSize, RiskLevel};
use zero_exec::UndoSettings;
use zero_sandbox::{Workspace, path_survey};

use crate::policy::{PolicyDecision, Verdict};

/// Most files that are measured before a command; a tree with more is taken for too large.
const FILES_MAX: usize = 200_000;
/// What a pattern for everything in a folder ends with.
const EVERYTHING: [&str; 2] = ["/**", "/*"];

/// Asks about a critical command whose removals cannot be undone, and says why.
pub(crate) async fn tighten(
    decision: PolicyDecision,
    undo: UndoSettings,
    workspace: &Workspace,
) -> PolicyDecision {
    let runs_command = decision.effects.iter().any(|effect| effect.kind == "exec");
    let is_asked = runs_command && decision.risk == RiskLevel::Critical && undo.commands;
    if !is_asked || decision.verdict == Verdict::Deny {
        return decision;
    }
    let removed = decision.effects.iter().filter(|effect| effect.kind == "delete");
    let paths: Vec<PathBuf> =
        removed.filter_map(|effect| find_path(&effect.target, workspace)).collect();
    let most = undo.limits.bytes_max;
    // Reads a whole tree.
    let measured = tokio::task::spawn_blocking(move || describe_excess(&paths, most)).await;
    match measured.unwrap_or_else(|_| Some("its size could not be found out".to_owned())) {
        Some(why) => PolicyDecision {
            reason: format!("{}; its changes cannot be undone: {why}", decision.reason),
            verdict: decision.verdict.max(Verdict::Ask),
            grants: Vec::new(),
            ..decision
        },
        None => decision,
    }
}

/// The path of an effect, if it is in the workspace. Paths elsewhere are never recorded.
fn find_path(target: &str, workspace: &Workspace) -> Option<PathBuf> {
    let plain = EVERYTHING.iter().find_map(|end| target.strip_suffix(end)).unwrap_or(target);
    let path = workspace.cwd().join(Path::new(plain));
    workspace.roots().any(|root| path.starts_with(root)).then_some(path)
}

/// Why the files at these paths do not fit, if so.
fn describe_excess(paths: &[PathBuf], most: ByteSize) -> Option<String> {
    let mut sum = 0_u64;
    for (at, path) in paths.iter().enumerate() {
        let is_counted = paths.iter().take(at).any(|before| path.starts_with(before));
        if is_counted || !path_survey::exists(path) {
            continue;
        }
        if path_survey::is_larger_than(path, most.get()) {
            sum = u64::MAX;
            break;
        }
        let Some(bytes) = path_survey::read_tree_bytes(path, FILES_MAX) else {
            return Some(format!("it removes more than {FILES_MAX} files"));
        };
        sum = sum.saturating_add(bytes);
    }
    let is_excess = sum > most.get();
    is_excess.then(|| format!("it removes more than the {most} that are kept for undo"))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test uses real files directly")]
mod tests {
    use super::*;

    #[test]
    fn removal_beyond_quota_is_named_and_counted_once() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("big")).unwrap();
        std::fs::write(root.join("big/file"), vec![1; 60_000]).unwrap();
        let workspace = Workspace::open(std::slice::from_ref(&root), None).unwrap();
        let find = |target: &str| find_path(target, &workspace);
        let paths = [find("big/**").unwrap(), find("big/file").unwrap()];
        assert_eq!(describe_excess(&paths, ByteSize::bytes(100_000)), None);
        let why = describe_excess(&paths, ByteSize::bytes(50_000)).unwrap();
        assert!(why.contains("that are kept for undo"), "{why}");
        assert!(describe_excess(&paths[1..], ByteSize::bytes(50_000)).is_some());
        assert_eq!(find("/etc/passwd"), None);
        assert_eq!(describe_excess(&[root.join("missing")], ByteSize::bytes(0)), None);
    }
}
