//! What a command was judged to do is what the kernel lets it do.
//!
//! The tables of programs are never complete. So these tests judge by empty ones: the policy takes
//! every command for a harmless one, and the command is an attack.

mod git_settings;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use zero_core::{CommandExecution, Effect};
use zero_policy::rule::RuleOwner;
use zero_policy::{
    CommandAccess, HostPattern, NetworkScope, PermissionMode, PolicyEngine, PolicyEngineConfig,
    PolicyRule, RuleSource, Verdict, WriteScope,
};
use zero_runtime::{
    CommandNetwork, CommandPolicy, CommandSettings, Policy, PolicyDecision, PolicyRequest,
    RulePolicy, ToolHostConfig,
};
use zero_sandbox::Workspace;

use crate::fixture::{ToolFixture, command_facts, result_text};

/// Judges every command as if it were another one with the same requests for access.
struct DeceivedPolicy {
    judged_as: &'static str,
}

impl Policy for DeceivedPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        let requested = request.effects.iter().find_map(Effect::execution).unwrap();
        let effects = vec![Effect::Exec(CommandExecution {
            write_access: requested.write_access,
            network_access: requested.network_access,
            ..CommandExecution::from_shell(self.judged_as)
        })];
        rule_policy(request.workspace).decide(PolicyRequest { effects: &effects, ..request })
    }
}

impl CommandPolicy for DeceivedPolicy {}

fn rule_policy(workspace: &Workspace) -> RulePolicy {
    let roots = workspace.roots().map(Path::to_owned).collect();
    let config = PolicyEngineConfig { roots, ..PolicyEngineConfig::default() };
    RulePolicy::new(PolicyEngine::new(config), vec![PathBuf::from("/usr/bin")])
}

/// A workspace with a few files, whose policy takes every command for `judged_as`.
fn deceived_fixture(judged_as: &'static str) -> ToolFixture {
    let f = ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        config.policy = Arc::new(DeceivedPolicy { judged_as });
        config.commands = CommandSettings::default();
    });
    f.write_file("src/main.rs", "fn main() {}\n").write_file("docs/a.md", "a\n");
    f.write_file("Makefile", "all:\n\ttouch made\n");
    f
}

/// A workspace in the mode `auto` with these deny rules.
fn denying_fixture(rules: &[&str]) -> ToolFixture {
    let deny = |text: &&str| {
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        PolicyRule::parse(text, Verdict::Deny, source).unwrap()
    };
    let rules = rules.iter().map(deny).collect();
    ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        let roots = config.workspace.roots().map(Path::to_owned).collect();
        let mode = PermissionMode::Auto;
        let engine = PolicyEngineConfig { rules, roots, mode, ..PolicyEngineConfig::default() };
        config.policy = Arc::new(RulePolicy::new(PolicyEngine::new(engine), Vec::new()));
    })
}

/// A workspace whose policy has no rules, in the mode `ask`; every question is answered with yes.
fn usual_fixture() -> ToolFixture {
    ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        config.policy = Arc::new(rule_policy(&config.workspace));
    })
}

async fn run(f: &ToolFixture, command: &str) -> Value {
    let outcome = f.call("Bash", json!({ "command": command })).await.unwrap();
    json!({"text": result_text(&outcome), "structured": command_facts(outcome)})
}

/// Every file of the workspace with its content.
fn list_files(f: &ToolFixture) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![f.path("")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() && !path.is_symlink() {
                true => folders.push(path),
                false => files.push((path.clone(), std::fs::read(&path).unwrap_or_default())),
            }
        }
    }
    files.sort();
    files
}

const WRITES: &[&str] = &[
    "echo x > src/main.rs",
    "echo x >> new",
    "touch new",
    "mkdir new",
    "rm src/main.rs",
    "mv docs other",
    "ln -s src link",
    "ln src/main.rs link",
    "chmod 777 src/main.rs",
    "truncate -s 0 src/main.rs",
    "sed -i s/main/x/ src/main.rs",
    "tee new </dev/null",
    "cp src/main.rs new",
    "dd if=/dev/zero of=new count=1",
    "make",
    "git init",
    "tar -cf new.tar src",
    "gzip -k src/main.rs",
    "python3 -c 'open(\"src/main.rs\", \"w\").write(\"x\")'",
    "python3 -c 'import os; os.truncate(\"src/main.rs\", 0)'",
    "perl -e 'unlink \"src/main.rs\"'",
    "sh -c 'cd docs && echo x > a.md'",
    "(echo x > new) & wait",
    "setsid sh -c 'echo x > new'",
    "trap 'echo x > src/main.rs' EXIT",
    "_zero_note=src/main.rs",
    "TMPDIR=src; cd docs",
    "ln -sf \"$PWD/src/main.rs\" \"$(trap -p EXIT | grep -o '/[^ ]*folder-[0-9a-f]*')\"",
    "exec 9<>src/main.rs; echo x >&9",
    "mount --bind /tmp src; echo x > src/main.rs",
    "unshare -rm sh -c 'mount -o remount,rw . ; echo x > src/main.rs'",
];

#[tokio::test]
async fn file_tool_asks_about_program_that_a_git_setting_names() {
    let f = ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        let roots = config.workspace.roots().map(Path::to_owned).collect();
        let engine = PolicyEngineConfig {
            roots,
            mode: PermissionMode::Auto,
            ..PolicyEngineConfig::default()
        };
        config.policy = Arc::new(RulePolicy::new(PolicyEngine::new(engine), Vec::new()));
        config.approver = None;
    });
    f.write_file(".git/HEAD", "ref: refs/heads/main\n").write_file(".git/objects/x", "");
    f.write_file(".git/refs/x", "");
    f.write_file(".git/config", "[core]\nfsmonitor = timeout 5 ./tools/fsm.sh\n");
    let write = |path: &str| json!({"file_path": path, "content": "x"});
    let error = f.call("Write", write("tools/fsm.sh")).await.unwrap_err();
    assert!(error.message.contains("a program that a setting of git names"), "{error}");
    f.call("Write", write("tools/other.sh")).await.unwrap();
}

#[tokio::test]
async fn command_judged_as_reading_changes_nothing() {
    let f = deceived_fixture("ls");
    let before = list_files(&f);
    for command in WRITES {
        run(&f, command).await;
        assert_eq!(list_files(&f), before, "{command}");
    }
}

#[tokio::test]
async fn command_judged_as_reading_has_private_tmp() {
    let f = deceived_fixture("ls");
    let answer = run(&f, "echo x > $TMPDIR/a && cat /tmp/a <<<y").await;
    assert_eq!(answer["text"], "x\n");
}

#[tokio::test]
async fn command_judged_as_reading_has_no_network() {
    for (judged_as, connects) in [("ls", false), ("make", true)] {
        let f = ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
            config.policy = Arc::new(DeceivedPolicy { judged_as });
            let network = CommandNetwork::default();
            config.commands = CommandSettings { network, ..CommandSettings::default() };
        });
        let answer =
            run(&f, "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'").await;
        assert_eq!(answer["structured"]["exit_code"] == 0, connects, "{judged_as}: {answer}");
    }
}

#[tokio::test]
async fn refused_connection_is_explained_and_can_be_requested() {
    let line = "exec 3<>/dev/tcp/127.0.0.1/9";
    let judged = "network: judged as needing no network; request it with network access (`\"network_access\": true`)";
    let neither = "network: judged as needing no network, and no host is allowed to commands; to allow a host: zero config add sandbox.network HOST, then request it with network access (`\"network_access\": true`)";
    for (hosts, note) in [(&["a.test"][..], judged), (&[], neither)] {
        let f = ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
            config.policy = Arc::new(DeceivedPolicy { judged_as: "ls" });
            let hosts = hosts.iter().map(|host| HostPattern::parse(host).unwrap()).collect();
            let network = CommandNetwork { hosts };
            config.commands = CommandSettings { network, ..CommandSettings::default() };
        });
        let answer = run(&f, line).await;
        assert_eq!(answer["structured"]["notes"], json!([note]), "{answer}");
        let input = json!({"command": line, "network_access": true});
        let answer = f.call("Bash", input).await.unwrap().result.structured;
        let said = answer["stderr"].as_str().unwrap();
        assert!(said.contains("Connection refused"), "{answer}");
    }
}

#[tokio::test]
async fn refused_write_is_explained_and_can_be_requested() {
    let f = deceived_fixture("ls");
    let answer = run(&f, "touch new").await;
    let note = "judged as read-only, tried to write `new`; request it with write access (`\"write_access\": true`)";
    assert_eq!(answer["structured"]["notes"], json!([note]), "{answer}");
    // The same request with the real policy, which asks.
    let f = usual_fixture();
    let input = json!({"command": "true; echo x > \"$(echo new)\"", "write_access": true});
    f.call("Bash", input).await.unwrap();
    assert_eq!(f.read_text("new"), "x\n");
}

#[tokio::test]
async fn command_changes_only_folders_of_files_it_names() {
    let f = deceived_fixture("touch docs/new");
    let before = list_files(&f);
    let answer = run(&f, "echo x > src/main.rs; touch new src/new; rm -r src").await;
    assert_eq!(list_files(&f), before, "{answer}");
    run(&f, "touch docs/new docs/other").await;
    assert!(f.path("docs/new").exists() && f.path("docs/other").exists());
}

#[tokio::test]
async fn known_commands_still_change_what_they_name() {
    let f = usual_fixture();
    f.write_file("src/a", "a").write_file("b", "b");
    for (command, made) in [
        ("touch src/new", "src/new"),
        ("mkdir -p deep/er/still && touch deep/er/still/x", "deep/er/still/x"),
        ("cp -r src copy", "copy/a"),
        ("mv b c", "c"),
        ("echo x > out.txt", "out.txt"),
        ("tar -cf all.tar src", "all.tar"),
        ("rm c; touch removed", "removed"),
        ("cd src && touch here", "src/here"),
    ] {
        let answer = run(&f, command).await;
        assert!(f.path(made).exists(), "{command}: {answer}");
    }
    assert!(!f.path("c").exists());
}

#[tokio::test]
async fn plan_mode_leaves_nothing_writable() {
    let f = ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        let roots = config.workspace.roots().map(Path::to_owned).collect();
        let engine = PolicyEngineConfig {
            roots,
            mode: PermissionMode::Plan,
            ..PolicyEngineConfig::default()
        };
        config.policy = Arc::new(RulePolicy::new(PolicyEngine::new(engine), Vec::new()));
    });
    f.write_file("src/main.rs", "fn main() {}\n");
    let before = list_files(&f);
    for command in WRITES {
        let outcome = f.call("Bash", json!({ "command": command })).await;
        drop(outcome);
        assert_eq!(list_files(&f), before, "{command}");
    }
    let input = json!({"command": "ls", "write_access": true});
    assert!(f.call_error("Bash", input).await.contains("plan mode"), "nothing may be requested");
}

#[tokio::test]
async fn deny_rule_for_changes_is_held_by_kernel() {
    let f =
        denying_fixture(&["Edit(/src/**)", "Edit(*.lock)", "Write(/docs/a.md)", "Edit(/new/**)"]);
    for name in ["src/main.rs", "src/deep/b", "a.lock", "lib/b.lock", "docs/a.md", "docs/b.md"] {
        f.write_file(name, "before");
    }
    let before = list_files(&f);
    // The names are in a script, which nobody reads before it runs.
    for script in [
        "echo x > src/main.rs",
        "echo x > src/other",
        "rm -rf src",
        "mv src elsewhere",
        "rm src/deep/b",
        "echo x > a.lock",
        "echo x > .tmp && mv .tmp lib/b.lock; rm -f .tmp",
        "rm lib/b.lock",
        "mv lib elsewhere",
        "echo x > docs/a.md",
        "ln -sf b.md docs/a.md",
        "ln src/main.rs link && echo x > link; rm -f link",
        "echo x > c.lock",
        "mkdir -p lib/deeper && echo x > lib/deeper/d.lock; rmdir lib/deeper 2>/dev/null",
        "mkdir new && echo x > new/a",
    ] {
        f.write_file("script", script);
        let answer = run(&f, "sh script").await;
        std::fs::remove_file(f.path("script")).unwrap();
        let _ = std::fs::remove_dir(f.path("lib/deeper"));
        assert_eq!(list_files(&f), before, "{script}: {answer}");
    }
    f.write_file("script", "echo x > docs/b.md; echo x > free");
    run(&f, "sh script").await;
    assert_eq!((f.read_text("docs/b.md"), f.read_text("free")), ("x\n".into(), "x\n".into()));
}

#[tokio::test]
async fn project_does_not_choose_the_shell() {
    let f = usual_fixture();
    f.write_file("venv/bin/bash", "#!/bin/sh\necho trapped\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(f.path("venv/bin/bash"), mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", f.path("venv/bin").display());
    let input = json!({"command": "echo plain", "env": {"PATH": path}});
    let outcome = f.call("Bash", input).await.unwrap();
    assert_eq!(result_text(&outcome), "plain\n");
}

#[tokio::test]
async fn links_and_nested_folders_change_as_named() {
    let f = usual_fixture();
    f.write_file("src/a", "a").write_file("docs/b", "b").write_file("build/x", "x");
    symlink("src", f.path("current")).unwrap();
    let answer = run(&f, "ln -sfn docs current").await;
    assert_eq!(std::fs::read_link(f.path("current")).unwrap(), Path::new("docs"), "{answer}");
    let answer = run(&f, "rm current").await;
    assert!(!f.path("current").is_symlink() && f.path("docs/b").exists(), "{answer}");
    let answer = run(&f, "touch build/y && rm -r build").await;
    assert!(!f.path("build").exists(), "{answer}");
    std::fs::create_dir_all(f.path("a/b/c")).unwrap();
    let answer = run(&f, "rmdir -p a/b/c").await;
    assert!(!f.path("a").exists(), "{answer}");
}

#[tokio::test]
async fn named_file_opens_no_masked_folder() {
    let f = ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        config.policy = Arc::new(DeceivedPolicy { judged_as: "touch private/keys/new" });
        let masked = vec![config.workspace.cwd().join("private")];
        config.commands = CommandSettings { masked, ..CommandSettings::default() };
    });
    f.write_file("private/keys/id", "the secret");
    let answer = run(&f, "cat private/keys/id; cat private/keys/*").await;
    assert!(!answer.to_string().contains("the secret"), "{answer}");
}

/// Remembers what a command was judged to change when the folders were still other ones.
struct StalePolicy {
    judged_path: PathBuf,
}

impl Policy for StalePolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        let writes = WriteScope::Paths([self.judged_path.clone()].into());
        let network = NetworkScope::Nothing;
        let access = Some(CommandAccess { writes, network, ..CommandAccess::default() });
        PolicyDecision { access, ..rule_policy(request.workspace).decide(request) }
    }
}

impl CommandPolicy for StalePolicy {}

#[tokio::test]
async fn link_made_meanwhile_opens_nothing_elsewhere() {
    let f = ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        let judged_path = config.workspace.cwd().join("docs/sub/new");
        config.policy = Arc::new(StalePolicy { judged_path });
    });
    f.write_file("docs/sub/a", "a");
    f.call("Bash", json!({"command": "touch docs/sub/new"})).await.unwrap();
    assert!(f.path("docs/sub/new").exists());
    let elsewhere = f.outside().join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("sub")).unwrap();
    std::fs::rename(f.path("docs"), f.path("docs2")).unwrap();
    symlink(&elsewhere, f.path("docs")).unwrap();
    let outcome = f.call("Bash", json!({"command": "touch docs/sub/new"})).await;
    assert!(!elsewhere.join("sub/new").exists(), "{outcome:?}");
}

#[tokio::test]
async fn denied_names_are_quarantined_and_nothing_else() {
    let f = denying_fixture(&["Edit(*.lock)", "Edit(/src/**)"]);
    f.write_file("src/a", "a").write_file("lib/b", "b");
    let before = list_files(&f);
    for script in [
        "ln -s lib x.lock",
        "ln -s /etc/hostname x.lock",
        "ln -s nothing x.lock",
        "for i in $(seq 450); do : > $i.lock; done",
        "mkdir -p d.lock/deep && : > d.lock/deep/x",
    ] {
        f.write_file("script", script);
        let answer = run(&f, "sh script").await;
        std::fs::remove_file(f.path("script")).unwrap();
        assert_eq!(list_files(&f), before, "{script}: {answer}");
    }
    // A link to a denied file is not denied itself.
    f.write_file("script", "ln -s ../src/a lib/link");
    run(&f, "sh script").await;
    assert!(f.path("lib/link").is_symlink());
}

#[tokio::test]
async fn tools_know_denied_file_by_another_name() {
    let f = denying_fixture(&["Read(.env)"]);
    f.write_file(".env", "the secret").write_file("plain", "plain");
    for (of, name) in [(".env", "copy"), ("plain", "other")] {
        std::fs::hard_link(f.path(of), f.path(name)).unwrap();
    }
    let error = f.call_error("Read", json!({"file_path": "copy"})).await;
    assert!(error.contains("is another name (a hard link) of"), "{error}");
    f.call("Read", json!({"file_path": "other"})).await.unwrap();
    // Searches leave it out.
    for (tool, input) in [
        ("Grep", json!({"pattern": "secret|plain", "output_mode": "content"})),
        ("ReadMany", json!({"paths": ["*"]})),
        ("Glob", json!({"pattern": "*"})),
    ] {
        let found = f.call(tool, input).await.unwrap().result.structured.to_string();
        assert!(found.contains("other") && !found.contains("copy"), "{tool}: {found}");
    }
}
