//! Files that the user's git or editor runs because a link or a setting leads to them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{ProtectedPathSetup, create_repository, run_git};

/// A script that leaves a file behind, if the user's git runs it.
const EVIL: &str = "#!/bin/sh\\ntouch ran\\ncat\\n";

fn write_program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "#!/bin/sh\ncat\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn targets_of_links_in_protected_folders_cannot_be_changed() {
    let place = ProtectedPathSetup {
        before: &|base| {
            let work = base.join("work");
            create_repository(&work);
            for name in ["commit.sh", "push.sh", "husky.sh", "tasks.json"] {
                write_program(&work.join("scripts").join(name));
            }
            for folder in [".husky", ".vscode", "hooks"] {
                fs::create_dir_all(work.join(folder)).unwrap();
            }
            symlink("../../scripts/commit.sh", work.join(".git/hooks/pre-commit")).unwrap();
            symlink("../scripts/husky.sh", work.join(".husky/pre-commit")).unwrap();
            symlink("../scripts/tasks.json", work.join(".vscode/tasks.json")).unwrap();
            symlink("../scripts/none.json", work.join(".vscode/launch.json")).unwrap();
            symlink("scripts", work.join("alias")).unwrap();
            symlink("../alias/push.sh", work.join("hooks/pre-push")).unwrap();
            run_git(&work, &["config", "core.hooksPath", "hooks"]);
        },
        ..ProtectedPathSetup::default()
    }
    .open();
    let work = place.path("work");
    for name in ["commit.sh", "push.sh", "husky.sh", "tasks.json"] {
        let before = fs::read_to_string(work.join("scripts").join(name)).unwrap();
        for attempt in [
            format!("printf '{EVIL}' > scripts/{name}"),
            format!("rm -f scripts/{name}; printf '{EVIL}' > scripts/{name}"),
            format!("mv scripts s2; mkdir scripts; printf '{EVIL}' > scripts/{name}"),
        ] {
            let text = place.run_bash(&attempt).await;
            let after = fs::read_to_string(work.join("scripts").join(name)).unwrap();
            assert_eq!(after, before, "{attempt}: {text}");
        }
    }
    // A missing target, and a link on the way to a target.
    place.run_bash("echo x > scripts/none.json").await;
    assert!(!work.join("scripts/none.json").exists());
    place.run_bash(&format!("rm alias; mkdir alias; printf '{EVIL}' > alias/push.sh")).await;
    assert_eq!(fs::read_link(work.join("alias")).unwrap(), Path::new("scripts"));
    place.expect_success("echo x > scripts/other.sh; echo y >> file; git status --short").await;
}

#[tokio::test]
async fn programs_that_git_settings_name_cannot_be_changed() {
    let programs = [
        ("core.fsmonitor", "./tools/fsm.sh", "tools/fsm.sh"),
        ("filter.x.clean", "sh tools/clean.sh %f", "tools/clean.sh"),
        ("diff.x.textconv", "tools/text.sh", "tools/text.sh"),
        ("core.sshCommand", "env A=b ./tools/ssh.sh -v", "tools/ssh.sh"),
        ("alias.x", "!f() { ./tools/alias.sh; }; f", "tools/alias.sh"),
    ];
    let place = ProtectedPathSetup {
        before: &|base| {
            let work = base.join("work");
            create_repository(&work);
            for (name, value, file) in programs {
                write_program(&work.join(file));
                run_git(&work, &["config", name, value]);
            }
            run_git(&work, &["config", "core.editor", "./tools/none.sh"]);
        },
        ..ProtectedPathSetup::default()
    }
    .open();
    let work = place.path("work");
    for (_, _, file) in programs {
        let before = fs::read_to_string(work.join(file)).unwrap();
        for attempt in [
            format!("printf '{EVIL}' > {file}"),
            format!("mv tools t2; mkdir tools; printf '{EVIL}' > {file}"),
        ] {
            let text = place.run_bash(&attempt).await;
            let after = fs::read_to_string(work.join(file)).unwrap();
            assert_eq!(after, before, "{attempt}: {text}");
        }
    }
    place.run_bash("echo x > tools/none.sh").await;
    assert!(!work.join("tools/none.sh").exists());
    place.expect_success("echo x > tools/other.sh").await;
}

#[tokio::test]
async fn url_files_of_remotes_cannot_be_created() {
    let place = ProtectedPathSetup {
        before: &|base| {
            let work = base.join("work");
            create_repository(&work);
            let _ = fs::remove_dir(work.join(".git/branches"));
            fs::create_dir(work.join(".git/remotes")).unwrap();
        },
        ..ProtectedPathSetup::default()
    }
    .open();
    for folder in ["remotes", "branches"] {
        let attempt = format!("mkdir -p .git/{folder}; echo 'URL: ./x' > .git/{folder}/origin");
        let text = place.run_bash(&attempt).await;
        assert!(!place.path("work/.git").join(folder).join("origin").exists(), "{text}");
    }
    place.expect_success("git commit -q --allow-empty -m x && git branch y").await;
}
