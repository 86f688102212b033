//! Git changes the settings that were judged, and no others.

use std::process::Command;

use serde_json::{Value, json};

use super::{deceived_fixture, run, usual_fixture};
use crate::fixture::{ToolFixture, result_text};

const ADD_REMOTE: &str = "git remote add origin https://host.test/p";

fn run_git(f: &ToolFixture, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=me", "-c", "user.email=me@b"]).args(args);
    let output = git.current_dir(f.path("")).env("HOME", f.path("")).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn create_repository(f: &ToolFixture) -> String {
    run_git(f, &["init", "-q", "-b", "main"]);
    run_git(f, &["commit", "-q", "--allow-empty", "-m", "first"]);
    f.read_text(".git/config")
}

fn exit_code(answer: &Value) -> &Value {
    &answer["structured"]["exit_code"]
}

#[tokio::test]
async fn judged_settings_are_changed() {
    let f = usual_fixture();
    create_repository(&f);
    let inode = |f: &ToolFixture| {
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(f.path(".git/config")).unwrap())
    };
    let before = inode(&f);
    for (command, key, value) in [
        ("git config user.name Me", "user.name", "Me"),
        ("git config --local user.name You", "user.name", "You"),
        (ADD_REMOTE, "remote.origin.url", "https://host.test/p"),
        ("git remote set-url origin git@host.test:q", "remote.origin.url", "git@host.test:q"),
        ("cd sub && git config user.email a@b", "user.email", ""),
        ("git config user.email a@b", "user.email", "a@b"),
        ("git config --unset user.email", "user.email", ""),
        ("git config user.name A && git config user.email c@d; git remote -v", "user.email", "c@d"),
        ("git config pull.rebase true; git config user.name B", "user.name", "B"),
    ] {
        std::fs::create_dir_all(f.path("sub")).unwrap();
        let answer = run(&f, command).await;
        let list = run_git(&f, &["config", "--local", "--list"]);
        let found = list.lines().find_map(|line| line.strip_prefix(&format!("{key}=")));
        assert_eq!(found.unwrap_or_default(), value, "{command}: {answer}");
    }
    let fetch = run_git(&f, &["config", "remote.origin.fetch"]);
    assert_eq!(fetch.trim(), "+refs/heads/*:refs/remotes/origin/*");
    assert_eq!(run_git(&f, &["config", "pull.rebase"]).trim(), "true");
    // Other sandboxes have a mount on the file, which ends if the file is replaced.
    assert_eq!(inode(&f), before);
    assert!(!f.path(".git/config.lock").exists());
}

#[tokio::test]
async fn branch_and_push_set_what_a_branch_follows() {
    let f = usual_fixture();
    create_repository(&f);
    run_git(&f, &["init", "-q", "--bare", "up.git"]);
    run_git(&f, &["remote", "add", "origin", "./up.git"]);
    let answer = run(&f, "git push -u origin main").await;
    assert_eq!(exit_code(&answer), 0, "{answer}");
    assert_eq!(run_git(&f, &["config", "branch.main.merge"]).trim(), "refs/heads/main", "{answer}");
    run_git(&f, &["branch", "--unset-upstream"]);
    let answer = run(&f, "git branch -u origin/main main").await;
    assert_eq!(run_git(&f, &["config", "branch.main.remote"]).trim(), "origin", "{answer}");
    assert!(answer.to_string().contains("zero changed `.git/config`"), "{answer}");
}

#[tokio::test]
async fn current_branch_follows_what_is_named() {
    let f = usual_fixture();
    create_repository(&f);
    run_git(&f, &["init", "-q", "--bare", "up.git"]);
    run_git(&f, &["remote", "add", "origin", "./up.git"]);
    run_git(&f, &["branch", "fix/it"]);
    for (command, remote, merge) in [
        ("git push -u origin HEAD", "origin", "refs/heads/main"),
        ("git branch -u fix/it", ".", "refs/heads/fix/it"),
        ("git branch --set-upstream-to=origin/main", "origin", "refs/heads/main"),
    ] {
        let answer = run(&f, command).await;
        assert_eq!(exit_code(&answer), 0, "{command}: {answer}");
        let found = ["remote", "merge"]
            .map(|key| run_git(&f, &["config", &format!("branch.main.{key}")]).trim().to_owned());
        assert_eq!(found, [remote, merge], "{command}: {answer}");
    }
}

#[tokio::test]
async fn settings_that_run_code_stay_refused() {
    let f = usual_fixture();
    let before = create_repository(&f);
    for command in [
        "git config core.pager ./evil",
        "git config core.fsmonitor ./evil",
        "git config core.hooksPath evil",
        "git config core.sshCommand ./evil",
        "git config alias.st '!evil'",
        "git config filter.x.clean evil",
        "git config diff.x.textconv evil",
        "git config credential.helper evil",
        "git config include.path ../evil",
        "git config protocol.ext.allow always",
        "git config url.ext::evil.insteadOf https://",
        "git remote add x 'ext::sh -c evil'",
        "git config user.name X && git config core.pager evil",
        "GIT_CONFIG_COUNT=1 git config user.name X",
    ] {
        run(&f, command).await;
        assert_eq!(f.read_text(".git/config"), before, "{command}");
    }
}

#[tokio::test]
async fn command_cannot_change_more_than_was_judged() {
    let f = deceived_fixture(ADD_REMOTE);
    let before = create_repository(&f);
    let judged = "git remote add origin https://host.test/p";
    let copy = "\"$GIT_COMMON_DIR/config\"";
    for attack in [
        format!("{judged}; git config core.pager ./evil"),
        format!("{judged}; git config core.fsmonitor ./evil"),
        format!("{judged}; git config user.name evil"),
        format!("{judged}; printf '[include]\\n\\tpath = ../evil\\n' >> {copy}"),
        format!("{judged}; printf '[core] pager = evil\\n' >> {copy}"),
        format!("{judged}; printf '[core \\n' >> {copy}"),
        format!("{judged}; rm {copy}; ln -s /etc/passwd {copy}"),
        format!("{judged}; rm {copy}; mkfifo {copy}"),
        format!("{judged}; rm -r \"$GIT_COMMON_DIR\""),
        format!("{judged}; head -c 2000000 /dev/zero >> {copy}"),
        format!("{judged}; git remote set-url origin https://evil.test/p"),
        format!("{judged}; git remote set-url --add origin https://evil.test/p"),
        "git remote add other https://host.test/p".to_owned(),
        "git remote add origin 'ext::sh -c evil'".to_owned(),
        "echo '[core]' >> .git/config".to_owned(),
        format!("{judged}; printf '[core]\\n\\tpager = x\\n' >> .git/config"),
        format!("{judged}; exit 3"),
    ] {
        let answer = run(&f, &attack).await;
        assert_eq!(f.read_text(".git/config"), before, "{attack}: {answer}");
    }
    // The same fixture makes the judged change.
    let answer = run(&f, judged).await;
    assert!(f.read_text(".git/config").contains("url = https://host.test/p"), "{answer}");
}

#[tokio::test]
async fn other_kinds_of_repositories_are_left_alone() {
    let f = usual_fixture();
    create_repository(&f);
    run_git(&f, &["worktree", "add", "-q", "tree"]);
    let before = f.read_text(".git/config");
    run(&f, "git -C tree config user.name X").await;
    assert_eq!(f.read_text(".git/config"), before);
    std::fs::write(f.path(".git/config.worktree"), "[user]\n").unwrap();
    let answer = run(&f, "git config user.name X").await;
    assert_eq!(f.read_text(".git/config"), before, "{answer}");
    assert_ne!(exit_code(&answer), 0, "{answer}");
}

#[tokio::test]
async fn judged_settings_of_a_job_are_changed_when_it_ends() {
    let f = usual_fixture();
    create_repository(&f);
    let input = json!({"command": ADD_REMOTE, "run_in_background": true});
    f.call("Bash", input).await.unwrap();
    let wait = json!({"job_id": "job_1", "wait_ms": 20_000});
    let mut text = String::new();
    while !text.contains("exited") {
        text.push_str(&result_text(&f.call("BashOutput", wait.clone()).await.unwrap()));
    }
    assert_eq!(run_git(&f, &["config", "remote.origin.url"]).trim(), "https://host.test/p");
    assert!(text.contains("zero changed `.git/config`"), "{text}");
}

#[tokio::test]
async fn setting_with_several_values_is_left_alone_with_a_reason() {
    let f = deceived_fixture(ADD_REMOTE);
    let before = create_repository(&f);
    let attack = format!("{ADD_REMOTE}; git remote set-url --add origin https://host.test/q");
    let answer = run(&f, &attack).await;
    assert_eq!(f.read_text(".git/config"), before, "{answer}");
    let reason = "`remote.origin.url` has several values; zero does not change such a setting";
    assert!(answer.to_string().contains(reason), "{answer}");
}

#[tokio::test]
async fn hook_runs_without_the_copy_of_the_settings() {
    for folder in [".git/hooks", "tools/hooks"] {
        let f = usual_fixture();
        create_repository(&f);
        run_git(&f, &["init", "-q", "--bare", "up.git"]);
        run_git(&f, &["remote", "add", "origin", "./up.git"]);
        if folder != ".git/hooks" {
            run_git(&f, &["config", "core.hooksPath", folder]);
        }
        let hook = format!("{folder}/pre-push");
        let script = "#!/bin/sh\nenv | grep -c -e ^GIT_COMMON_DIR= -e ^GIT_CONFIG_COUNT= >hook.out\n\
                      echo \"$1 $(git rev-parse --git-common-dir)\" >>hook.out\n";
        f.write_file(&hook, script);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(f.path(&hook), mode).unwrap();
        let answer = run(&f, "git push -u origin main").await;
        assert_eq!(exit_code(&answer), 0, "{folder}: {answer}");
        assert_eq!(f.read_text("hook.out"), "0\norigin .git\n", "{folder}: {answer}");
        let merge = run_git(&f, &["config", "branch.main.merge"]);
        assert_eq!(merge.trim(), "refs/heads/main", "{folder}: {answer}");
    }
}
