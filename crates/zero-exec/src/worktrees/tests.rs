//! Worktrees whose sub-agents are hostile, or whose processes were killed, with the real git.
#![expect(clippy::disallowed_methods, reason = "tests set up real files and repositories")]

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

// The test program is also the helper program that starts git.
zero_sandbox::dispatch_helper_before_main!();

const ID: &str = "sub_agent_1";

/// A repository `repo` with one commit, and a store of worktrees beside it.
struct StoreFixture {
    temp: tempfile::TempDir,
    store: WorktreeStore,
}

impl StoreFixture {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("repo/sub")).unwrap();
        std::fs::create_dir_all(root.join("home")).unwrap();
        let store = WorktreeStore {
            folder: root.join("trees"),
            state: StateDir::new(root.join("state")),
            home: Some(root.join("home")),
            search_path: std::env::var("PATH").unwrap(),
            weaknesses: Vec::new(),
        };
        let fixture = Self { temp, store };
        fixture.write("repo/hello.txt", "hello\n");
        fixture.write("repo/sub/a.txt", "a\n");
        fixture.git(&["init", "-q", "-b", "main"]);
        fixture.commit();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "-q", "-m", "start"]);
    }

    #[track_caller]
    fn git(&self, args: &[&str]) -> String {
        run_git(&self.path("repo"), args)
    }

    fn open(&self) -> SubagentWorktree {
        self.store.open(ID, "task", &self.path("repo")).unwrap()
    }

    fn branches(&self) -> String {
        self.git(&["branch", "--list", "--format=%(refname:short)", "zero/*"])
    }
}

#[track_caller]
fn run_git(folder: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let mut git = Command::new("git");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(folder).args(identity).args(args);
    let output = git.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn worktree_killed_before_its_removal_is_closed_with_the_same_commit() {
    let fixture = StoreFixture::new();
    let worktree = fixture.open();
    std::fs::write(worktree.cwd().join("made.txt"), "made\n").unwrap();
    let (report, is_kept) = worktree.store_changes(ID).unwrap();
    let branch = report.unwrap().branch;
    assert!(!is_kept);
    let tip = fixture.git(&["rev-parse", &branch]);
    // A second later, git would give another commit another date.
    let date = fixture.git(&["log", "-1", "--format=%ct", &branch]);
    while run_git(&fixture.path("repo"), &["var", "GIT_COMMITTER_IDENT"]).contains(&date) {
        std::thread::yield_now();
    }
    drop(worktree);
    let again = fixture.store.take_over(ID).unwrap().unwrap();
    let report = again.close().unwrap().unwrap();
    assert_eq!((report.branch.as_str(), report.files), (branch.as_str(), 1));
    assert_eq!(fixture.git(&["rev-parse", &branch]), tip);
    assert_eq!(fixture.store.list().unwrap(), [] as [String; 0]);
}

#[test]
fn worktree_killed_in_its_removal_is_only_removed() {
    let fixture = StoreFixture::new();
    let mut worktree = fixture.open();
    worktree.record.is_done = true;
    worktree.record.write(&worktree.folder().unwrap()).unwrap();
    std::fs::remove_file(worktree.cwd().join("hello.txt")).unwrap();
    drop(worktree);
    let again = fixture.store.take_over(ID).unwrap().unwrap();
    assert_eq!(again.close().unwrap(), None);
    assert_eq!(fixture.branches(), "", "the removal is not a change");
    assert!(!fixture.path("trees").join(ID).exists());
    assert_eq!(fixture.store.list().unwrap(), [] as [String; 0]);
}

#[test]
fn attributes_of_worktree_do_not_hide_its_changes() {
    let fixture = StoreFixture::new();
    let worktree = fixture.open();
    let tree = worktree.cwd().to_owned();
    std::fs::write(tree.join("made.txt"), "evil\n").unwrap();
    std::fs::create_dir_all(tree.join(".git/info")).unwrap();
    for file in [".git/info/attributes", ".gitattributes"] {
        std::fs::write(tree.join(file), "* -diff\n").unwrap();
    }
    // The same in git's own diff, so it is an attack.
    run_git(&tree, &["add", "made.txt"]);
    assert!(run_git(&tree, &["diff", "--cached"]).contains("Binary files"));
    let report = worktree.close().unwrap().unwrap();
    assert!(report.diff.contains("+evil"), "{}", report.diff);
    assert_eq!(report.files, 2);
}

#[test]
fn object_with_false_content_is_neither_shown_nor_taken() {
    let fixture = StoreFixture::new();
    let worktree = fixture.open();
    let tree = worktree.cwd().to_owned();
    let object = |text: &str| {
        std::fs::write(tree.join("made.txt"), text).unwrap();
        let id = run_git(&tree, &["hash-object", "-w", "made.txt"]);
        tree.join(".git/objects").join(&id[..2]).join(&id[2..])
    };
    let good = std::fs::read(object("good\n")).unwrap();
    let evil = object("evil\n");
    run_git(&tree, &["add", "made.txt"]);
    run_git(&tree, &["commit", "-q", "-m", "made"]);
    std::fs::remove_file(&evil).unwrap();
    std::fs::write(&evil, good).unwrap();
    // git shows what the object contains.
    assert!(run_git(&tree, &["show", "HEAD"]).contains("+good"));
    let error = worktree.close().unwrap_err();
    assert!(matches!(error, WorktreeError::Kept { .. }), "{error}");
    assert_eq!(fixture.branches(), "");
}

#[test]
fn report_names_files_of_the_branch_that_run_code() {
    let fixture = StoreFixture::new();
    let worktree = fixture.open();
    let tree = worktree.cwd().to_owned();
    // Never in the working folder, so that no command is stopped from writing it.
    std::fs::write(tree.join("made.txt"), "touch /tmp/owned\n").unwrap();
    let blob = run_git(&tree, &["hash-object", "-w", "made.txt"]);
    let entry = format!("100644,{blob},sub/.envrc");
    run_git(&tree, &["update-index", "--add", "--cacheinfo", &entry]);
    // Otherwise its absence would be committed as well.
    run_git(&tree, &["update-index", "--skip-worktree", "sub/.envrc"]);
    run_git(&tree, &["commit", "-q", "-m", "made"]);
    let report = worktree.close().unwrap().unwrap();
    let expected = "the branch changes files that can run code: `sub/.envrc` (a file that a shell runs when it starts); inspect them before you check it out or merge it";
    assert!(report.notes.iter().any(|note| note == expected), "{:?}", report.notes);
}

#[test]
fn linked_folder_is_not_a_workspace() {
    let fixture = StoreFixture::new();
    std::fs::create_dir(fixture.path("outside")).unwrap();
    std::fs::remove_dir_all(fixture.path("repo/sub")).unwrap();
    std::os::unix::fs::symlink(fixture.path("outside"), fixture.path("repo/sub")).unwrap();
    fixture.commit();
    std::fs::remove_file(fixture.path("repo/sub")).unwrap();
    std::fs::create_dir_all(fixture.path("repo/sub/deep")).unwrap();
    std::fs::create_dir(fixture.path("outside/deep")).unwrap();
    for folder in ["repo/sub", "repo/sub/deep"] {
        let error = fixture.store.open(ID, "task", &fixture.path(folder)).unwrap_err();
        assert!(matches!(error, WorktreeError::NotCommitted { .. }), "{folder}: {error}");
    }
    assert_eq!(fixture.store.list().unwrap(), [] as [String; 0]);
}

#[test]
fn git_folder_that_is_a_link_is_not_touched() {
    let fixture = StoreFixture::new();
    let worktree = fixture.open();
    let (tree, own) = (worktree.cwd().to_owned(), fixture.path("repo/.git"));
    std::fs::rename(tree.join(".git"), tree.join("away")).unwrap();
    std::os::unix::fs::symlink(&own, tree.join(".git")).unwrap();
    let before = std::fs::read(own.join("config")).unwrap();
    let error = make_harmless(&tree, "[core]\n").unwrap_err();
    assert!(matches!(error, WorktreeError::Damaged), "{error}");
    assert_eq!(std::fs::read(own.join("config")).unwrap(), before);
    // The same for a folder further inside.
    std::fs::remove_file(tree.join(".git")).unwrap();
    std::fs::rename(tree.join("away"), tree.join(".git")).unwrap();
    std::fs::write(own.join("objects/info/alternates"), "").unwrap();
    std::fs::remove_dir_all(tree.join(".git/objects/info")).unwrap();
    std::os::unix::fs::symlink(own.join("objects/info"), tree.join(".git/objects/info")).unwrap();
    let error = make_harmless(&tree, "[core]\n").unwrap_err();
    assert!(matches!(error, WorktreeError::Damaged), "{error}");
    assert!(own.join("objects/info/alternates").exists());
}

#[test]
fn work_in_submodule_keeps_the_worktree() {
    let fixture = StoreFixture::new();
    let head = fixture.git(&["rev-parse", "HEAD"]);
    fixture.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},lib")]);
    fixture.git(&["commit", "-q", "-m", "lib"]);
    let untouched = fixture.open();
    assert_eq!(untouched.close().unwrap(), None);
    assert_eq!(fixture.store.list().unwrap(), [] as [String; 0]);
    // Files of a submodule without a repository, and a repository with another commit.
    for makes_commit in [false, true] {
        let worktree = fixture.open();
        let lib = worktree.cwd().join("lib");
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(lib.join("work.txt"), "work\n").unwrap();
        if makes_commit {
            run_git(&lib, &["init", "-q"]);
            run_git(&lib, &["add", "--all"]);
            run_git(&lib, &["commit", "-q", "-m", "work"]);
        }
        let report = worktree.close().unwrap().unwrap();
        assert!(report.notes.iter().any(|note| note.contains("submodules: lib")), "{report:?}");
        assert!(lib.join("work.txt").exists());
        let kept = fixture.store.take_over(ID).unwrap().unwrap();
        assert!(kept.kept_for().is_some());
        kept.discard();
    }
}
