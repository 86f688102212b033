//! Tests of what the judge knows of files whose names are not protected.

#![expect(clippy::disallowed_methods, reason = "tests set up real files")]
use super::*;
use std::fs;
use std::os::unix::fs::symlink;

/// A workspace `w` and a home folder `home`.
struct TargetFixture {
    temp: tempfile::TempDir,
    scanner: FolderScanner,
}

impl TargetFixture {
    fn new() -> Self {
        let fixture =
            Self { temp: tempfile::tempdir().unwrap(), scanner: FolderScanner::default() };
        fs::create_dir(fixture.path("home")).unwrap();
        for folder in ["objects", "refs"] {
            fs::create_dir_all(fixture.path("w/.git").join(folder)).unwrap();
        }
        fixture.write("w/.git/HEAD", "ref: refs/heads/main\n");
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Creates a link in the workspace with a relative target.
    fn link(&self, name: &str, target: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        symlink(target, self.path(name)).unwrap();
    }

    fn check(&self, name: &str) -> TargetProtection {
        let scope = WritableRoots {
            roots: vec![self.path("w")],
            home: Some(self.path("home")),
            ..WritableRoots::default()
        };
        ProtectedTargets::find(&self.scanner, scope).check(&self.scanner, &self.path(name))
    }

    #[track_caller]
    fn check_protected(&self, name: &str, why: &str) {
        match self.check(name) {
            TargetProtection::Protected(reason) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn targets_of_protected_names_are_protected() {
    let fixture = TargetFixture::new();
    fixture.write("w/conf/tasks.json", "");
    fixture.link("w/.envrc", "conf/envrc");
    fixture.link("w/.vscode", "conf/vscode");
    fixture.link("w/pkg/a/.npmrc", "conf/npmrc");
    fixture.link("w/.git/hooks/pre-commit", "../../scripts/check");
    fixture.link("w/.husky/deep/pre-push", "../../scripts/push");
    fixture.link("w/conf/vscode/tasks.json", "../tasks.json");
    fixture.link("w/harmless", "docs");
    fixture.check_protected("w/conf/envrc", ".envrc` leads to it");
    fixture.check_protected("w/conf/vscode/new.json", ".vscode` leads to it");
    fixture.check_protected("w/conf/tasks.json", "leads to it");
    fixture.check_protected("w/pkg/a/conf/npmrc", ".npmrc` leads to it");
    fixture.check_protected("w/scripts/check", "pre-commit` leads to it");
    fixture.check_protected("w/scripts/push", "pre-push` leads to it");
    fixture.check_protected("w/scripts", "leads to it");
    for name in ["w/src/a.rs", "w/docs/a", "w/conf/other", "w/scripts/x", "w/pkg/a/conf/x"] {
        assert_eq!(fixture.check(name), TargetProtection::Unprotected, "{name}");
    }
}

#[test]
fn links_in_sibling_folders_and_home_are_found() {
    let fixture = TargetFixture::new();
    fixture.link("w/app/.envrc", "../lib/env");
    fixture.write("w/shell/bashrc", "");
    symlink(fixture.path("w/shell/bashrc"), fixture.path("home/.bashrc")).unwrap();
    fixture.check_protected("w/lib/env", "app/.envrc` leads to it");
    fixture.check_protected("w/shell/bashrc", "home/.bashrc` leads to it");
}

#[test]
fn programs_and_files_of_git_settings_are_protected() {
    let fixture = TargetFixture::new();
    let config = "[core]\nhooksPath = tools/hooks\nfsmonitor = timeout 5 ./tools/fsm.sh\n[include]\npath = ../team.ini\n[alias]\nx = !make -f build.mk\n";
    fixture.write("w/.git/config", config);
    fixture.write("w/build.mk", "");
    fixture.check_protected("w/tools/hooks/pre-commit", "it is a setting or hook of git");
    fixture.check_protected("w/tools/fsm.sh", "a program that a setting of git names");
    fixture.check_protected("w/team.ini", "a file with settings of git");
    fixture.check_protected("w/build.mk", "a program that a setting of git names");
    assert_eq!(fixture.check("w/src/a.rs"), TargetProtection::Unprotected);
}

#[test]
fn folder_with_many_files_and_closed_home_raise_no_doubt() {
    let fixture = TargetFixture::new();
    fs::create_dir(fixture.path("w/many")).unwrap();
    for number in 0..10_001 {
        fs::write(fixture.path(&format!("w/many/{number}")), "").unwrap();
    }
    fs::remove_dir(fixture.path("home")).unwrap();
    assert_eq!(fixture.check("w/many/1"), TargetProtection::Unprotected);
}

#[test]
fn unfinished_scan_still_checks_the_folders_above() {
    let fixture = TargetFixture::new();
    fixture.link("w/a/.envrc", "conf/envrc");
    let targets = ProtectedTargets {
        scope: WritableRoots { roots: vec![fixture.path("w")], ..WritableRoots::default() },
        targets: Vec::new(),
        is_partial: true,
        limit: None,
    };
    let check = |name: &str| targets.check(&fixture.scanner, &fixture.path(name));
    assert!(matches!(check("w/a/conf/envrc"), TargetProtection::Protected(_)));
    assert_eq!(check("w/a/src/b.rs"), TargetProtection::Unprotected);
}

#[test]
fn settings_that_cannot_be_checked_are_named() {
    let fixture = TargetFixture::new();
    fixture.write("w/.git/config", &"[a]\n".repeat(300_000));
    match fixture.check("w/src/a.rs") {
        TargetProtection::Unknown(why) => {
            assert!(why.contains("too many settings of git"), "{why}")
        }
        other => panic!("{other:?}"),
    }
}
