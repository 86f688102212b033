//! Tests of the private temporary folder of commands, with nobody who could answer a question.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use zero_policy::{PermissionMode, PolicyEngine, PolicyEngineConfig};
use zero_runtime::{RulePolicy, ToolHostConfig};

use crate::fixture::{ToolFixture, result_text};

fn fixture(mode: PermissionMode) -> ToolFixture {
    ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        let roots = config.workspace.roots().map(Path::to_owned).collect();
        let engine = PolicyEngineConfig { roots, mode, ..PolicyEngineConfig::default() };
        let search_path = vec!["/usr/bin".into(), "/bin".into()];
        config.policy = Arc::new(RulePolicy::new(PolicyEngine::new(engine), search_path));
        config.approver = None;
    })
}

async fn run(f: &ToolFixture, command: &str) -> String {
    let outcome = f.call("Bash", json!({ "command": command })).await;
    let seen =
        outcome.map_or_else(|error| format!("error: {}", error.message), |it| result_text(&it));
    seen.trim_end().to_owned()
}

#[tokio::test]
async fn commands_share_their_temporary_files_without_a_question() {
    let f = fixture(PermissionMode::Ask);
    assert_eq!(run(&f, "echo one > /tmp/zero-test; cat $TMPDIR/zero-test").await, "one");
    assert_eq!(run(&f, "cp /tmp/zero-test /tmp/copy && cat /tmp/c*y").await, "one");
    let made = "mkdir /tmp/d && echo two > /tmp/d/a && cat /tmp/d/a && rm -r /tmp/d && ls /tmp";
    assert_eq!(run(&f, made).await, "two\ncopy\nzero-test");
    assert!(!Path::new("/tmp/zero-test").exists(), "it is not the folder of the machine");
    let outside = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    let named = run(&f, &format!("cat {}", outside.path().display())).await;
    assert!(named.contains("it is outside the workspace"), "{named}");
}

#[tokio::test]
async fn link_in_the_temporary_folder_leads_nowhere_unasked() {
    let f = fixture(PermissionMode::Auto);
    f.write_file("a", "kept").write_file(".envrc", "kept");
    let other = tempfile::tempdir_in("/var/tmp").unwrap();
    let (work, other) = (f.path(""), other.path().display().to_string());
    let links = format!(
        "ln -s {0} /tmp/work; ln -s {other} /tmp/other; ln -s /etc /tmp/etc",
        work.display()
    );
    let made = run(&f, &format!("python3 -c 'import os; os.system(\"{links}\")'")).await;
    assert!(!made.starts_with("error"), "{made}");
    for command in ["cat /tmp/other/x", "cat /tmp/etc/passwd", "echo x > /tmp/work/.envrc"] {
        let refused = run(&f, command).await;
        assert!(refused.contains("no user can approve it"), "{command}: {refused}");
    }
    let refused = run(&f, "echo x > /tmp/other/x").await;
    assert!(refused.contains("which is outside the workspace"), "{refused}");
    f.open_session().set_mode(Some(PermissionMode::Ask));
    let refused = run(&f, "echo x > /tmp/work/a").await;
    assert!(refused.contains("no rule allows changing it"), "{refused}");
    assert_eq!(f.read_text("a"), "kept");
}

#[tokio::test]
async fn repository_of_a_worktree_is_not_private() {
    let f = fixture(PermissionMode::Ask);
    let repository = tempfile::tempdir_in("/tmp").unwrap();
    let git = repository.path().join(".git");
    let own = git.join("worktrees/work");
    fs::create_dir_all(&own).unwrap();
    fs::create_dir(git.join("objects")).unwrap();
    fs::create_dir(git.join("refs")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(own.join("HEAD"), "ref: refs/heads/work\n").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    fs::write(own.join("gitdir"), format!("{}\n", f.path(".git").display())).unwrap();
    f.write_file(".git", format!("gitdir: {}\n", own.display()));
    let refused = run(&f, &format!("rm -r {}", git.join("objects").display())).await;
    assert!(refused.contains("no user can approve it"), "{refused}");
    assert!(git.join("objects").exists());
}
