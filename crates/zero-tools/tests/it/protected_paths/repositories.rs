//! Git works, and no part of a repository that runs code later can be changed.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use super::{ProtectedPathFixture, ProtectedPathSetup, create_repository, run_git};

#[tokio::test]
async fn bare_repository_workspace_is_protected() {
    let before = |base: &Path| run_git(base, &["init", "-q", "--bare", "work"]);
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let config = std::fs::read(place.path("work/config")).unwrap();
    for attack in
        ["echo x >> config", "echo x > hooks/pre-commit", "mv hooks h", "touch config.worktree"]
    {
        let made = place.run_structured(attack).await;
        assert!(made["exit_code"] != 0 || attack.starts_with("touch"), "{attack}: {made}");
    }
    assert_eq!(std::fs::read(place.path("work/config")).unwrap(), config);
    assert!(!place.path("work/hooks/pre-commit").exists() && !place.path("work/h").exists());
}

#[tokio::test]
async fn git_works_with_hooks_and_config_protected() {
    let before = |base: &Path| create_repository(&base.join("work"));
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    std::fs::remove_dir_all(place.path("work/.git/hooks")).unwrap();
    let everyday = "git status --short && echo two >> file && git add -A && git commit -qm two && \
         echo three >> file && git stash -q && git stash pop -q && git commit -qam three && \
         git checkout -qb other HEAD~1 && echo x > new && git add new && git commit -qm four && \
         git rebase -q main && git log --format=%s && git gc -q && git fsck --no-dangling 2>&1 && \
         git worktree add -q ../work/tree main && git worktree list >/dev/null && \
         git -C tree log -1 --format=%s && git status --short";
    let output = place.expect_success(everyday).await;
    assert_eq!(output, "four\nthree\ntwo\nfirst\nthree\n?? tree/\n");
    let attacks = [
        "git config core.fsmonitor ./evil",
        "git config --worktree core.fsmonitor ./evil",
        "echo evil > .git/hooks/pre-commit",
        "echo '[core]' >> .git/config",
        "echo '* filter=evil' > .git/info/attributes",
        "mv .git elsewhere",
        "mv .git/info .git/x",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "ln -f file .git/config",
        "echo /evil > .git/worktrees/tree/commondir",
        "mv .git/worktrees/tree .git/worktrees/moved",
        "echo 'gitdir: /evil' > tree/.git",
    ];
    for attack in attacks {
        let facts = place.run_structured(attack).await;
        assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
    }
    let facts = place.run_structured("echo /evil > .git/commondir").await;
    assert_eq!(facts["quarantined"][0]["path"], ".git/commondir");
    run_git(&place.path("work"), &["status", "-s"]);
    let left = ["hooks", "config.worktree", "info/attributes", "commondir"];
    let left: Vec<_> = left.iter().filter(|l| place.path("work/.git").join(l).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Runs a command that waits until it can append to the configuration, and replaces the
/// configuration meanwhile as git does. Returns the structured output.
async fn replace_config_meanwhile(
    place: &ProtectedPathFixture,
    appended: &str,
    setting: [&str; 2],
) -> Value {
    // For a moment, what is written goes to the old file.
    let attack = format!(
        "touch started; for i in $(seq 1000); do printf '{appended}' 2>/dev/null >> .git/config && \
         sleep 0.5 && grep -q evil .git/config && exit 0; sleep 0.02; done; exit 9"
    );
    let work = place.path("work");
    let replace = async {
        while !work.join("started").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        run_git(&work, &["config", setting[0], setting[1]]);
    };
    let (facts, ()) = tokio::join!(place.run_structured(&attack), replace);
    std::fs::remove_file(work.join("started")).unwrap();
    facts
}

#[tokio::test]
async fn config_replaced_from_outside_is_checked_afterwards() {
    let before = |base: &Path| create_repository(&base.join("work"));
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let config = place.path("work/.git/config");
    // The kernel took the mount away with the file, so that the command succeeds.
    let evil = "[core]\\n\\tfsmonitor = ./evil\\n";
    let facts = replace_config_meanwhile(&place, evil, ["user.name", "Me"]).await;
    assert_eq!(facts["exit_code"], 0, "{facts}");
    let text = std::fs::read_to_string(&config).unwrap_or_default();
    assert_eq!(facts["quarantined"][0]["path"], ".git/config", "{facts} {text}");
    assert!(facts["quarantined"][0]["why"].as_str().unwrap().contains("core.fsmonitor"), "{facts}");
    assert!(!config.exists());
    // What runs no code stays, and is reported.
    run_git(&place.path("work"), &["config", "core.bare", "false"]);
    let facts =
        replace_config_meanwhile(&place, "[evil]\\n\\ty = 1\\n", ["user.name", "You"]).await;
    assert_eq!(facts["exit_code"], 0, "{facts}");
    assert!(facts.get("quarantined").is_none_or(|list| list == &serde_json::json!([])), "{facts}");
    assert!(facts.to_string().contains("was replaced by another program"), "{facts}");
    assert!(config.exists());
    // A helper that was there before is the user's.
    run_git(&place.path("work"), &["config", "core.pager", "less"]);
    let facts =
        replace_config_meanwhile(&place, "[evil]\\n\\tz = 1\\n", ["user.name", "Them"]).await;
    assert_eq!(facts["exit_code"], 0, "{facts}");
    assert!(config.exists(), "{facts}");
}

#[tokio::test]
async fn command_alone_leaves_no_replacement_warning() {
    let before = |base: &Path| create_repository(&base.join("work"));
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let facts = place.run_structured("echo x > new && git add new && git commit -qm new").await;
    assert_eq!(facts["exit_code"], 0, "{facts}");
    assert!(!facts.to_string().contains("replaced by another program"), "{facts}");
}

#[tokio::test]
async fn worktree_is_usable_and_its_repository_protected() {
    let before = |base: &Path| {
        create_repository(&base.join("main"));
        std::fs::remove_dir(base.join("work")).unwrap();
        run_git(&base.join("main"), &["worktree", "add", "-q", "../work"]);
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    place
        .expect_success("echo x > new && git add -A && git commit -qm second && git status --short")
        .await;
    let common = place.path("main/.git");
    let common = common.display();
    let attacks = [
        format!("echo evil > {common}/hooks/post-commit"),
        format!("echo evil >> {common}/config"),
        "git config core.pager evil".to_owned(),
        format!("echo x > {common}/../file"),
        format!("echo {common} > {common}/worktrees/work/commondir"),
        "echo 'gitdir: /evil' > .git".to_owned(),
        "rm .git && git init".to_owned(),
    ];
    for attack in attacks {
        let facts = place.run_structured(&attack).await;
        assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
    }
}

#[tokio::test]
async fn forged_gitdir_pointer_grants_nothing() {
    let before = |base: &Path| {
        create_repository(&base.join("victim"));
        run_git(&base.join("victim"), &["worktree", "add", "-q", "../theirs"]);
        let git = base.join("victim/.git");
        std::fs::write(
            base.join("work/.git"),
            format!("gitdir: {}/worktrees/theirs", git.display()),
        )
        .unwrap();
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let victim = place.path("victim/.git");
    for name in ["HEAD", "new", "refs/heads/main", "worktrees/theirs/HEAD"] {
        let facts = place.run_structured(&format!("echo x > {}/{name}", victim.display())).await;
        assert_ne!(facts["exit_code"], 0, "{name}: {facts}");
    }
    run_git(&place.path("victim"), &["status", "-s"]);
    // The repository must refer back to this `.git`; a symlink to the file that it refers to does
    // not count.
    let place = ProtectedPathSetup {
        before: &|base: &Path| {
            before(base);
            std::fs::remove_file(base.join("work/.git")).unwrap();
            symlink(base.join("theirs/.git"), base.join("work/.git")).unwrap();
        },
        ..ProtectedPathSetup::default()
    }
    .open();
    let facts = place
        .run_structured(&format!("echo x > {}/new", place.path("victim/.git").display()))
        .await;
    assert_ne!(facts["exit_code"], 0, "{facts}");
}

#[tokio::test]
async fn submodule_is_usable() {
    let before = |base: &Path| {
        create_repository(&base.join("lib"));
        create_repository(&base.join("top"));
        let lib = base.join("lib");
        std::fs::remove_dir_all(base.join("top/sub")).unwrap();
        run_git(&base.join("top"), &["submodule", "--quiet", "add", lib.to_str().unwrap(), "sub"]);
    };
    let place = ProtectedPathSetup {
        roots: &["top/sub"],
        before: &before,
        ..ProtectedPathSetup::default()
    }
    .open();
    place
        .expect_success("echo x > new && git add -A && git commit -qm second && git status --short")
        .await;
    assert_ne!(place.run_structured("git config core.pager evil").await["exit_code"], 0);
    assert_ne!(place.run_structured("echo x > ../.git/HEAD").await["exit_code"], 0);
}

#[tokio::test]
async fn folder_inside_repository_does_not_expose_it() {
    let before = |base: &Path| create_repository(&base.join("top"));
    let place = ProtectedPathSetup {
        roots: &["top/inner"],
        before: &before,
        ..ProtectedPathSetup::default()
    }
    .open();
    assert_eq!(place.expect_success("git log --format=%s").await, "first\n");
    assert_ne!(place.run_structured("touch x; git add x").await["exit_code"], 0);
}

#[tokio::test]
async fn new_repository_is_created_and_inspected() {
    let place = ProtectedPathSetup::default().open();
    place.expect_success("git init -q . && echo x > a && git add a && git commit -qm one").await;
    place
        .expect_success("git init -q sub && cd sub && git commit -q --allow-empty -m one; cd ..")
        .await;
    assert_ne!(place.run_structured("echo evil > sub/.git/hooks/pre-commit").await["exit_code"], 0);
    let hostile = "git init -q evil && git -C evil config core.fsmonitor ./x && \
         printf '#!/bin/sh\n' > evil/.git/hooks/post-checkout && chmod +x evil/.git/hooks/post-checkout";
    let facts = place.run_structured(hostile).await;
    let note = facts["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("`evil/.git/hooks/post-checkout` was moved to quarantine"), "{facts}");
    assert_eq!(facts["quarantined"][0]["path"], "evil/.git/hooks/post-checkout");
    assert!(!place.path("work/evil/.git/hooks/post-checkout").exists());
    assert_eq!(facts["quarantined"][1]["path"], "evil/.git/config");
    let note = facts["notes"][1].as_str().unwrap_or_default();
    assert!(note.contains("settings of git that run code (core.fsmonitor)"), "{facts}");
    let begun = "mkdir -p begun/.git/hooks && echo evil > begun/.git/hooks/pre-commit";
    let facts = place.run_structured(begun).await;
    assert_eq!(facts["quarantined"][0]["path"], "begun/.git/hooks/pre-commit");
    let linked = "git init -q linked && cd linked/.git && rm -rf hooks && mkdir ../h && \
         echo evil > ../h/pre-commit && ln -s ../h hooks; cd ../..";
    let facts = place.run_structured(linked).await;
    assert_eq!(facts["quarantined"][0]["path"], "linked/.git/hooks");
    let disguised =
        "git init -q --bare x && git -C x config core.fsmonitor ./x && echo 'gitdir: ../x' > evil2";
    let facts = place.run_structured(disguised).await;
    assert_eq!(facts["quarantined"][0]["path"], "x/config", "{facts}");
}

/// Makes a command leave code in a repository that the user's git would run, in a sandbox and
/// without one. `user` is what the user types then, in `folder`.
async fn check_left_code(script: &str, folder: &str, user: &str) {
    let run_as_user = |work: &Path, line: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", line]).current_dir(work).env("HOME", work.parent().unwrap());
        shell.output().unwrap()
    };
    let before = |base: &Path| {
        for name in ["work", "control"] {
            create_repository(&base.join(name));
        }
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let marker = place.path("ran");
    let script = script.replace("MARKER", marker.to_str().unwrap());
    let done = run_as_user(&place.path("control"), &script);
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    run_as_user(&place.path("control").join(folder), user);
    assert!(marker.exists(), "without a sandbox, `{user}` runs what `{script}` left");
    std::fs::remove_file(&marker).unwrap();
    let facts = place.run_structured(&script).await;
    run_as_user(&place.path("work").join(folder), user);
    assert!(!marker.exists(), "`{user}` ran what `{script}` left: {facts}");
    assert!(facts["quarantined"][0]["path"].is_string(), "{script}: {facts}");
    assert!(
        facts["notes"][0].as_str().is_some_and(|note| note.contains("moved to quarantine")),
        "{facts}"
    );
}

#[tokio::test]
async fn user_git_runs_no_code_that_commands_left() {
    let config =
        r#"printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch MARKER; false"\n'"#;
    // A folder with the layout of a repository.
    let bare = format!(
        "mkdir -p docs/objects docs/refs && cp .git/HEAD docs && {config} > docs/config && \
         printf 'bare = false\nworktree = ..\n' >> docs/config"
    );
    check_left_code(&bare, "docs", "git status").await;
    // One whose objects are in another folder.
    let common = format!(
        "mkdir -p evil/c/objects evil/c/refs && cp .git/HEAD evil && echo c > evil/commondir && \
         printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n' > evil/c/config && \
         {config} > evil/config.worktree && printf 'bare = false\nworktree = ..\n' >> evil/config.worktree"
    );
    check_left_code(&common, "evil", "git status").await;
    // One that the repository of the workspace lists, also where folders are not scanned.
    for folder in ["vendored", "node_modules/x", "target/a/b"] {
        let listed = format!(
            "mkdir -p {folder}/.git/objects {folder}/.git/refs && cp .git/HEAD {folder}/.git && \
             {config} > {folder}/.git/config && \
             git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),{folder}"
        );
        check_left_code(&listed, ".", "git status").await;
    }
    // One in a folder of dependencies or build output.
    for folder in ["node_modules/x", "target/a/b", "src/.venv/src/p"] {
        let nested = format!(
            "mkdir -p {folder}/.git/objects {folder}/.git/refs && cp .git/HEAD {folder}/.git && \
             {config} > {folder}/.git/config"
        );
        check_left_code(&nested, folder, "git status").await;
    }
    // The repository of a submodule.
    let module = format!(
        "mkdir -p .git/modules/lib/objects .git/modules/lib/refs lib && \
         cp .git/HEAD .git/modules/lib && {config} > .git/modules/lib/config && \
         printf 'worktree = ../../../lib\n' >> .git/modules/lib/config && \
         echo 'gitdir: ../.git/modules/lib' > lib/.git && \
         git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib"
    );
    check_left_code(&module, ".", "git status").await;
}

#[tokio::test]
async fn user_git_runs_no_step_that_commands_left() {
    let rebase = "echo two >> file && git -c user.name=a -c user.email=a@b commit -qam two && \
         GIT_SEQUENCE_EDITOR='sed -i 1s/^pick/edit/' git -c user.name=a -c user.email=a@b rebase -qi HEAD~1 && \
         echo 'exec touch MARKER' >> .git/rebase-merge/git-rebase-todo";
    check_left_code(rebase, ".", "git rebase --continue").await;
}

#[tokio::test]
async fn ordinary_rebase_can_stop_and_continue() {
    let before = |base: &Path| create_repository(&base.join("work"));
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    place
        .expect_success("echo two >> file && git commit -qam two && git checkout -qb b HEAD~1")
        .await;
    let conflict = "echo other >> file && git commit -qam other && ! git rebase -q main 2>&1 && \
         test -e .git/rebase-merge/git-rebase-todo";
    place.expect_success(conflict).await;
    let on = "echo both > file && git add file && GIT_EDITOR=true git rebase --continue >&2 && \
         git log --format=%s";
    assert_eq!(place.expect_success(on).await, "other\ntwo\nfirst\n");
    let picked = "git checkout -qb c HEAD~2 && echo x > file && git commit -qam x && \
         ! git cherry-pick main >/dev/null 2>&1 && git checkout -q --theirs file && git add file && \
         git -c core.editor=true cherry-pick --continue >/dev/null && git log --format=%s";
    assert_eq!(place.expect_success(picked).await, "two\nx\nfirst\n");
}

#[tokio::test]
async fn submodules_and_clones_work() {
    let before = |base: &Path| {
        create_repository(&base.join("lib"));
        create_repository(&base.join("work"));
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let lib = place.path("lib");
    let lib = lib.display();
    place
        .expect_success(&format!("git clone -q {lib} clone && git clone -q --bare {lib} b.git"))
        .await;
    place.expect_success("cd clone && echo two >> file && git commit -qam two").await;
    let worktree =
        "git worktree add -q tree && cd tree && echo x > x && git add x && git commit -qm x";
    place.expect_success(worktree).await;
    let before = |base: &Path| {
        create_repository(&base.join("lib"));
        create_repository(&base.join("top"));
        let lib = base.join("lib");
        run_git(&base.join("top"), &["submodule", "--quiet", "add", lib.to_str().unwrap(), "sub"]);
        run_git(&base.join("top"), &["commit", "-qm", "sub"]);
        std::fs::remove_dir(base.join("work")).unwrap();
        run_git(base, &["clone", "-q", "top", "work"]);
        run_git(&base.join("work"), &["submodule", "--quiet", "init"]);
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    place.expect_success("git -c protocol.file.allow=always submodule --quiet update").await;
    assert_eq!(place.expect_success("cat sub/file && git status --short").await, "one\n");
}

/// Tries to plant a hook in each of these repositories.
async fn assert_no_hook_planted(place: &ProtectedPathFixture, repositories: &[&str]) {
    for repository in repositories {
        let hook = format!("{repository}/.git/hooks/pre-commit");
        let facts =
            place.run_structured(&format!("mkdir -p $(dirname {hook}); echo evil > {hook}")).await;
        assert_ne!(facts["exit_code"], 0, "{repository}: {facts}");
        assert!(!place.path("work").join(&hook).exists(), "{repository}");
    }
}

#[tokio::test]
async fn many_folders_do_not_hide_a_repository() {
    let known = ["sub", "1/2/3/4/5/6/7/8/deep"];
    let before = |base: &Path| {
        for repository in known {
            create_repository(&base.join("work").join(repository));
        }
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    place.expect_success("seq -f f%.0f 5100 | xargs touch").await;
    place.expect_success("for i in $(seq 70); do mkdir -p a$i/.git; done").await;
    assert_no_hook_planted(&place, &known).await;
    // More repositories than are handled at once.
    let many = "for i in $(seq 10 99); do mkdir -p b$i/.git/objects b$i/.git/refs; \
         echo 'ref: refs/heads/main' > b$i/.git/HEAD; done";
    place.expect_success(many).await;
    let facts = place.run_structured("true").await;
    let note = facts["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("too many repositories"), "{facts}");
    assert_no_hook_planted(&place, &["sub", "1/2/3/4/5/6/7/8/deep", "b10", "b99"]).await;
    let facts = place.run_structured("cd sub && echo two >> file && git commit -qam two").await;
    assert_eq!(facts["exit_code"], 0, "known repositories stay usable: {facts}");
}

#[tokio::test]
async fn reached_scan_limit_is_reported_and_known_stay_protected() {
    let before = |base: &Path| create_repository(&base.join("work/sub"));
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    place.expect_success("true").await;
    let told = |facts: &Value| facts["notes"].to_string().contains("not all repositories");
    let facts = place.run_structured("seq 20001 | xargs mkdir").await;
    assert!(told(&facts), "{facts}");
    let facts =
        place.run_structured("echo evil > sub/.git/hooks/pre-commit; echo x > 1/.envrc").await;
    assert!(told(&facts), "{facts}");
    assert!(!place.path("work/sub/.git/hooks/pre-commit").exists());
    assert!(!place.path("work/1/.envrc").exists());
}

#[tokio::test]
async fn included_git_config_is_protected() {
    let before = |base: &Path| {
        create_repository(&base.join("work"));
        let work = base.join("work");
        run_git(&work, &["config", "include.path", "../common.gitconfig"]);
        run_git(&work, &["config", "includeIf.onbranch:main.path", "../missing.gitconfig"]);
        std::fs::write(work.join("common.gitconfig"), "[include]\npath = deeper\n").unwrap();
        std::fs::write(work.join("deeper"), "").unwrap();
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    for file in ["common.gitconfig", "deeper"] {
        let facts =
            place.run_structured(&format!("git config -f {file} core.fsmonitor ./evil")).await;
        assert_ne!(facts["exit_code"], 0, "{file}: {facts}");
        assert_ne!(place.run_structured(&format!("echo '[core]' >> {file}")).await["exit_code"], 0);
    }
    let facts = place.run_structured("echo '[core] fsmonitor = ./evil' > missing.gitconfig").await;
    assert_eq!(facts["quarantined"][0]["path"], "missing.gitconfig");
}

/// What was reported about the contents of repositories.
fn content_notes(facts: &Value) -> Vec<String> {
    let notes = facts["notes"].as_array().cloned().unwrap_or_default();
    let notes = notes.into_iter().map(|note| note.as_str().unwrap().to_owned());
    notes.filter(|note| note.contains("which commands may not create")).collect()
}

#[tokio::test]
async fn settings_in_index_and_commits_are_reported() {
    let before = |base: &Path| create_repository(&base.join("work"));
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let blob = "blob=$(echo evil | git hash-object -w --stdin)";
    for (script, path, stored) in [
        ("git update-index --add --cacheinfo 100644,$blob,.envrc", ".envrc", "into the index of"),
        (
            "tree=$(printf '100644 blob %s\\ttasks.json\\n' $blob | git mktree); \
             tree=$(printf '040000 tree %s\\t.vscode\\n' $tree | git mktree); \
             git update-ref refs/heads/main $(git commit-tree -p HEAD -m x $tree)",
            ".vscode/tasks.json",
            "on `refs/heads/main` of",
        ),
        (
            "printf 'commit refs/heads/other\\ncommitter a <a@b> 0 +0000\\ndata 1\\nx\\nM 100644 inline sub/.github/workflows/x.yml\\ndata 4\\nevil\\n' | git fast-import --quiet",
            "sub/.github/workflows/x.yml",
            "on `refs/heads/other` of",
        ),
        (
            "git tag evil $(git commit-tree -m x $(printf '100644 blob %s\\t.npmrc\\n' $blob | git mktree))",
            ".npmrc",
            "on `refs/tags/evil` of",
        ),
    ] {
        let facts = place.run_structured(&format!("{blob}; {script}")).await;
        assert_eq!(facts["exit_code"], 0, "{facts}");
        let notes = content_notes(&facts);
        let [note] = &notes[..] else { panic!("{script}: {facts}") };
        assert!(note.contains(&format!("put `{path}` {stored}")), "{note}");
    }
    let facts = place.run_structured("git replace HEAD main~1 2>&1; git replace -l").await;
    assert!(facts.to_string().contains("git replace -d"), "{facts}");
}

#[tokio::test]
async fn concealed_changes_are_reported() {
    let place = ProtectedPathSetup {
        before: &|base| create_repository(&base.join("work")),
        ..ProtectedPathSetup::default()
    }
    .open();
    for (command, expected) in [
        ("git update-index --assume-unchanged file", "no longer shows changes of `file`"),
        ("git update-index --no-assume-unchanged file; git status --short", ""),
        ("git update-index --skip-worktree file", "no longer shows changes of `file`"),
        ("git update-index --no-skip-worktree file", ""),
        ("mkdir -p .git/info; echo x >> .git/info/exclude", "info/exclude` was changed"),
    ] {
        let facts = place.run_structured(command).await;
        let notes = facts["notes"].to_string();
        match expected {
            "" => assert_eq!(facts["notes"], Value::Null, "{command}: {facts}"),
            expected => assert!(notes.contains(expected), "{command}: {facts}"),
        }
    }
}

#[tokio::test]
async fn files_that_a_sparse_checkout_leaves_out_are_not_reported() {
    let before = |base: &Path| {
        let work = base.join("work");
        create_repository(&work);
        for name in ["a/x", "b/y"] {
            std::fs::create_dir(work.join(name).parent().unwrap()).unwrap();
            std::fs::write(work.join(name), "one\n").unwrap();
        }
        run_git(&work, &["add", "-A"]);
        run_git(&work, &["commit", "-qm", "folders"]);
        run_git(&work, &["sparse-checkout", "set", "a"]);
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let left_out = "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:file),b/z && git update-index --skip-worktree b/z";
    let facts = place.run_structured(left_out).await;
    assert_eq!(facts["notes"], Value::Null, "{facts}");
    let facts = place.run_structured("git update-index --skip-worktree a/x").await;
    assert!(facts["notes"].to_string().contains("no longer shows changes of `a/x`"), "{facts}");
}

/// Git below `/tmp`, where it does not see the settings of the test's home.
const GIT_AS_SOMEBODY: &str = "git -c user.name=a -c user.email=a@b";

#[tokio::test]
async fn commits_below_tmp_are_inspected() {
    let before = |base: &Path| {
        create_repository(&base.join("work"));
        run_git(&base.join("work"), &["worktree", "add", "-q", "../tree", "-b", "side"]);
    };
    let roots = &["work", "tree"];
    let place = ProtectedPathSetup {
        parent: "/tmp",
        before: &before,
        roots,
        ..ProtectedPathSetup::default()
    }
    .open();
    for folder in [".", "../tree"] {
        let commit =
            format!("cd {folder} && echo two >> file && {GIT_AS_SOMEBODY} commit -qam two");
        let facts = place.run_structured(&commit).await;
        assert_eq!((&facts["exit_code"], &facts["notes"]), (&0.into(), &Value::Null), "{facts}");
    }
    // What it finds is told.
    let hidden = "git update-index --add --cacheinfo 100644,$(echo x | git hash-object -w --stdin),.envrc \
         && ";
    let facts = place.run_structured(&format!("{hidden}{GIT_AS_SOMEBODY} commit -qm hidden")).await;
    let notes = content_notes(&facts);
    assert!(notes.iter().any(|note| note.contains("on `refs/heads/side`")), "{facts}");
}

#[tokio::test]
async fn everyday_git_is_not_reported() {
    let before = |base: &Path| {
        let work = base.join("work");
        create_repository(&work);
        std::fs::write(work.join(".envrc"), "mine\n").unwrap();
        std::fs::create_dir(work.join(".vscode")).unwrap();
        std::fs::write(work.join(".vscode/settings.json"), "{}\n").unwrap();
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    for command in [
        "echo two >> file && git add file && git commit -qm two",
        // What the user wrote may be committed.
        "git add -A && git commit -qm settings",
        "git checkout -qb other HEAD~1 -- 2>&1; git branch third; git tag v1",
        "git stash list; git log --oneline; git gc -q; git pack-refs --all",
        "echo three >> file && git commit -qam three",
    ] {
        let facts = place.run_structured(command).await;
        assert_eq!(content_notes(&facts), Vec::<String>::new(), "{command}: {facts}");
    }
}
