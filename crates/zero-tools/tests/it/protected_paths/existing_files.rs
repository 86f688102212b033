//! Protected files that exist stay unchanged, wherever the workspace is and whatever links lead to
//! them.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::{ProtectedPathSetup, create_repository};

#[tokio::test]
async fn existing_protected_files_are_read_only() {
    let before = |base: &Path| {
        for name in [".vscode/tasks.json", ".npmrc", ".zero/settings.json"] {
            let path = base.join("work").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "mine").unwrap();
        }
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    let attacks = [
        "echo x > .vscode/tasks.json",
        "touch .vscode/new",
        "mv .vscode moved",
        "rm -rf .vscode",
        "echo x > .npmrc",
        "echo x > y && mv y .npmrc",
        "ln .npmrc hard && echo x > hard",
        "ln -sf /etc/passwd .npmrc",
        "touch .zero/x",
        "mv .zero x",
        "mount -o remount,rw .zero",
    ];
    for attack in attacks {
        let facts = place.run_structured(attack).await;
        assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
        assert_eq!(std::fs::read_to_string(place.path("work/.vscode/tasks.json")).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(place.path("work/.npmrc")).unwrap(), "mine");
        assert_eq!(place.file_names("work/.vscode"), ["tasks.json"]);
    }
}

#[tokio::test]
async fn link_replacing_settings_is_restored() {
    let before = |base: &Path| {
        std::fs::create_dir_all(base.join("work/shared")).unwrap();
        std::fs::write(base.join("work/shared/tasks.json"), "mine").unwrap();
        symlink("shared", base.join("work/.vscode")).unwrap();
    };
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    assert_eq!(place.expect_success("cat .vscode/tasks.json").await, "mine");
    assert_ne!(place.run_structured("echo x > .vscode/tasks.json").await["exit_code"], 0);
    assert_ne!(place.run_structured("mv shared away").await["exit_code"], 0);
    let facts =
        place.run_structured("rm .vscode && mkdir .vscode && echo x > .vscode/tasks.json").await;
    assert_eq!(facts["quarantined"][0]["path"], ".vscode");
    let target = std::fs::read_link(place.path("work/.vscode")).unwrap();
    assert_eq!(target, Path::new("shared"));
    assert_eq!(std::fs::read_to_string(place.path("work/.vscode/tasks.json")).unwrap(), "mine");
}

#[tokio::test]
async fn link_at_protected_mount_is_refused() {
    let own = |base: &Path| symlink("shared", base.join("work/.zero")).unwrap();
    let hooks = |base: &Path| {
        create_repository(&base.join("work"));
        std::fs::remove_dir_all(base.join("work/.git/hooks")).unwrap();
        symlink("../common", base.join("work/.git/hooks")).unwrap();
    };
    for before in [&own as &dyn Fn(&Path), &hooks] {
        let place = ProtectedPathSetup { before, ..ProtectedPathSetup::default() }.open();
        let error = place.call("Bash", json!({"command": "true"})).await.unwrap_err();
        assert!(error.message.contains("is a link, and could be replaced"), "{error}");
    }
}

#[tokio::test]
async fn writable_folders_are_protected_inside() {
    let before = |base: &Path| {
        for repository in ["other", "shelf/inner"] {
            create_repository(&base.join(repository));
            for name in [".vscode/tasks.json", "sub/.envrc"] {
                let path = base.join(repository).join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "mine").unwrap();
            }
        }
    };
    let writable = &["other", "shelf"];
    let place =
        ProtectedPathSetup { before: &before, writable, ..ProtectedPathSetup::default() }.open();
    for repository in ["other", "shelf/inner"] {
        let at = place.path(repository).display().to_string();
        let work = format!("(cd {at} && echo x > new && git add new && git commit -qm x)");
        place.expect_success(&work).await;
        for attack in [
            "echo evil > .git/hooks/pre-commit",
            "git config core.fsmonitor ./evil",
            "echo x > .vscode/tasks.json",
            "echo x > sub/.envrc",
        ] {
            let facts = place.run_structured(&format!("(cd {at} && {attack})")).await;
            assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
        }
        for made in [".zero", "sub/.zero"] {
            let made = format!("{at}/{made}");
            let facts = place
                .run_structured(&format!("mkdir {made} && echo x > {made}/settings.json"))
                .await;
            assert_eq!(facts["quarantined"][0]["path"], made, "{facts}");
            assert!(!Path::new(&made).exists());
        }
    }
    // Third-party files in a cache are not settings of the user.
    let cache = place.path("shelf/cache/pkg").display().to_string();
    place.expect_success(&format!("mkdir -p {cache} && echo x > {cache}/.npmrc")).await;
}

#[tokio::test]
async fn workspace_in_tmp_is_usable() {
    let setups = [("work", "state"), ("a/b/work", "state"), (".local/work", ".local/state/zero")];
    for (root, state) in setups {
        let place = ProtectedPathSetup {
            parent: "/tmp",
            roots: &[root],
            state,
            ..ProtectedPathSetup::default()
        }
        .open();
        place
            .expect_success("echo x > file && mkdir d && mv file d/ && echo y > $TMPDIR/mine")
            .await;
        assert_eq!(place.expect_success("cat d/file $TMPDIR/mine").await, "x\ny\n");
        let base = place.path("");
        let state_shown = base.join(state);
        let listed = place.run_structured(&format!("ls -A {}", state_shown.display())).await;
        // At most the caches of package managers are there, although zero's files are.
        assert!(place.file_names(state).len() > 1, "{:?}", place.file_names(state));
        assert_eq!(listed["exit_code"], 0, "{listed}");
        assert!(["", "packages\n"].iter().any(|names| listed["stdout"] == *names), "{listed}");
        let tmp = format!("{state}/tmp/session-test");
        assert_eq!(place.file_names(&tmp), ["mine"], "no mount point is left");
        // Two concurrent commands share the files, and the end of one takes nothing from the other.
        let wait = |name: &str| format!("until test -e {name}; do sleep 0.02; done");
        let other = async {
            let line = format!("{}; cat d/file", wait("begun"));
            let facts = place.run_structured(&line).await;
            std::fs::write(place.path(root).join("over"), "").unwrap();
            facts
        };
        let line = format!("touch begun; {}; cat d/file $TMPDIR/mine", wait("over"));
        let (one, two) = tokio::join!(place.run_structured(&line), other);
        assert_eq!((&one["stdout"], &two["stdout"]), (&json!("x\ny\n"), &json!("x\n")));
        assert_eq!(place.file_names(&tmp), ["mine"]);
    }
}

#[tokio::test]
async fn nested_folders_are_usable() {
    let before = |base: &Path| {
        std::fs::create_dir_all(base.join("real")).unwrap();
        symlink("real", base.join("link")).unwrap();
    };
    let roots = ["work", "work/inner"];
    let place =
        ProtectedPathSetup { roots: &roots, before: &before, ..ProtectedPathSetup::default() }
            .open();
    place.expect_success("echo x > a && echo y > inner/b && mv a inner/").await;
    assert_ne!(place.run_structured("touch inner/.zero/x").await["exit_code"], 0);
    let place =
        ProtectedPathSetup { roots: &["link"], before: &before, ..ProtectedPathSetup::default() };
    let place = ProtectedPathSetup {
        before: &|base: &Path| {
            std::fs::remove_dir(base.join("link")).unwrap();
            before(base);
        },
        ..place
    }
    .open();
    place.expect_success("echo x > a").await;
    assert_eq!(place.file_names("real"), ["a"]);
    assert_ne!(place.run_structured("touch .zero/x").await["exit_code"], 0);
}

#[tokio::test]
async fn home_folder_can_be_workspace() {
    let before = |base: &Path| {
        for name in [".ssh/id_rsa", ".bashrc", ".config/gh/hosts.yml", "notes/a"] {
            std::fs::create_dir_all(base.join("home").join(name).parent().unwrap()).unwrap();
            std::fs::write(base.join("home").join(name), "mine").unwrap();
        }
    };
    let place = ProtectedPathSetup {
        roots: &["home"],
        state: "home/.local/state/zero",
        home: Some("home"),
        before: &before,
        ..ProtectedPathSetup::default()
    }
    .open();
    place.expect_success("echo x > project && cat notes/a").await;
    let attacks = [
        "cat .ssh/id_rsa",
        "mv .ssh x",
        "echo x >> .bashrc",
        "cat .config/gh/hosts.yml",
        "mv .config x",
        "ls .local/state/zero | grep -vx packages",
        "touch .local/state/zero/x",
    ];
    for attack in attacks {
        assert_ne!(place.run_structured(attack).await["exit_code"], 0, "{attack}");
    }
}

#[tokio::test]
async fn denied_files_are_masked_everywhere() {
    let before = |base: &Path| {
        for name in ["home/notes/a", "home/other/b", "work/.env", "work/deep/.env", "out/key"] {
            std::fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            std::fs::write(base.join(name), "secret").unwrap();
        }
    };
    let denied = &["home/notes", "work/.env", "work/deep/.env"];
    let place =
        ProtectedPathSetup { denied, before: &before, ..ProtectedPathSetup::default() }.open();
    let home = place.path("home").display().to_string();
    for name in [&*format!("{home}/notes/a"), ".env", "deep/.env"] {
        let facts = place.run_structured(&format!("cat {name}")).await;
        assert_ne!(facts["exit_code"], 0, "{name}: {facts}");
    }
    assert_eq!(place.expect_success(&format!("cat {home}/other/b")).await, "secret");
}
