//! Tests of files that a protected name leads to through symlinks.

use std::path::{Path, PathBuf};

use zero_core::{Effect, PathZone, RiskLevel, TargetPath};
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, FolderMember, Machine, PermissionMode,
    Verdict,
};

use crate::engine_harness::build_engine;

/// Symlinks and their targets.
const LINKS: &[(&str, &str)] = &[
    ("/w/.envrc", "/w/conf/envrc"),
    ("/w/.vscode", "/w/conf/vscode"),
    ("/w/.github/workflows", "/w/conf/wf"),
    ("/w/.git/hooks/pre-commit", "/w/scripts/check"),
    ("/w/.husky/pre-push", "/w/scripts/push"),
    ("/w/.idea/deep/tasks.xml", "/w/conf/tasks.xml"),
    ("/w/conf/vscode/tasks.json", "/w/conf/tasks.json"),
    ("/w/pkg/a/.npmrc", "/w/pkg/a/conf/npmrc"),
    ("/w/my.code-workspace", "/w/conf/space"),
    ("/home/me/.bashrc", "/w/shell/bashrc"),
    ("/home/me/.config/nvim", "/w/shell/nvim"),
    ("/w/harmless", "/w/docs"),
];
/// Folders without links.
const FOLDERS: &[&str] = &["/w/src", "/w/docs", "/w/conf/vscode", "/w/huge"];
/// A folder with too many entries.
const HUGE_FOLDER: &str = "/w/huge";

struct LinkMachine;

impl Machine for LinkMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        let plain = EmptyMachine.canonicalize(absolute)?;
        let target = LINKS.iter().find_map(|(link, target)| {
            let below = plain.strip_prefix(link).ok()?;
            Some(Path::new(target).join(below).components().collect::<PathBuf>())
        });
        match target {
            Some(target) => self.canonicalize(&target),
            None => Some(plain),
        }
    }

    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
        EmptyMachine.expand_glob(pattern, most)
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        EmptyMachine.git_helpers(folder)
    }

    fn find_program(&self, name: &str, folder: &Path) -> Option<PathBuf> {
        EmptyMachine.find_program(name, folder)
    }

    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        EmptyMachine.find_file(folder, wanted)
    }

    fn list_folder(&self, folder: &Path, _most: usize) -> Option<Vec<FolderMember>> {
        if folder == Path::new(HUGE_FOLDER) {
            return None;
        }
        let all = LINKS.iter().map(|(link, _)| (Path::new(link), true));
        let all = all.chain(FOLDERS.iter().map(|folder| (Path::new(folder), false)));
        let mut members: Vec<FolderMember> = Vec::new();
        for (path, is_link) in all {
            let Ok(below) = path.strip_prefix(folder) else { continue };
            let mut names = below.components();
            let Some(name) = names.next() else { continue };
            let is_link = is_link && names.next().is_none();
            let path = folder.join(name);
            if !members.iter().any(|member| member.path == path) {
                members.push(FolderMember { path, is_folder: !is_link, is_link });
            }
        }
        Some(members)
    }
}

#[track_caller]
fn check(rules: &str, path: &str, expected: Verdict) {
    let engine = build_engine(rules, PermissionMode::AcceptEdits);
    let target = TargetPath::new(path, PathBuf::from("/w").join(path), PathZone::Workspace);
    let decision = engine.decide(DecisionRequest {
        tool: "Write",
        risk: RiskLevel::Medium,
        effects: &[Effect::Write(target)],
        arguments: None,
        grants: &[],
        mode: None,
        world: &LinkMachine,
    });
    assert_eq!(decision.verdict, expected, "{path}: {}", decision.reason);
}

#[test]
fn target_of_protected_name_is_protected() {
    for path in [
        "conf/envrc",
        "conf/vscode/tasks.json",
        "conf/vscode/new.json",
        "conf/wf/evil.yml",
        "conf/space",
        "pkg/a/conf/npmrc",
        "conf",
        "shell/bashrc",
        "shell/nvim/init.lua",
    ] {
        check("", path, Verdict::Ask);
        check("allow Write; allow Edit", path, Verdict::Ask);
    }
}

#[test]
fn target_of_link_in_protected_folder_is_protected() {
    for path in ["scripts/check", "scripts/push", "conf/tasks.xml", "conf/tasks.json", "scripts"] {
        check("", path, Verdict::Ask);
    }
}

#[test]
fn other_files_are_not_affected_by_links() {
    for path in
        ["src/a.rs", "docs/a.md", "conf/other", "scripts/other", "pkg/a/conf/x", "shell/x", "new/a"]
    {
        check("", path, Verdict::Allow);
    }
}

#[test]
fn unchecked_links_are_asked() {
    check("", "huge/a", Verdict::Ask);
}
