//! Files that commands create but may not create are moved to the quarantine and reported.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_core::SessionId;

use super::{LONG_TIMEOUT, ProtectedPathFixture, ProtectedPathSetup, create_repository};
use crate::fixture::result_text;

#[tokio::test]
async fn mount_placeholders_are_not_visible() {
    let place = ProtectedPathSetup::default().open();
    assert_eq!(place.expect_success("ls -A; test -d .vscode || echo none").await, ".zero\nnone\n");
    assert_eq!(place.file_names("work"), Vec::<String>::new());
    let left = place.file_names("state/tmp");
    assert_eq!(left, ["session-test"], "no record is left");
}

#[tokio::test]
async fn forbidden_files_are_quarantined() {
    let place = ProtectedPathSetup::default().open();
    let names = [".vscode/tasks.json", ".npmrc", ".github/workflows/ci.yml", ".envrc", ".mcp.json"];
    for name in names {
        let line = format!("mkdir -p $(dirname {name}); echo made > {name}");
        let facts = place.run_structured(&line).await;
        assert_eq!(facts["exit_code"], 0, "{facts}");
        let [taken] = &facts["quarantined"].as_array().unwrap()[..] else { panic!("{facts}") };
        let path = taken["path"].as_str().unwrap();
        assert!(name.starts_with(path), "{taken}");
        let kept = Path::new(taken["kept_at"].as_str().unwrap());
        assert!(kept.starts_with(place.path("state/kept")), "{taken}");
        let rest = Path::new(name).strip_prefix(path).unwrap();
        let kept = if rest == Path::new("") { kept.to_owned() } else { kept.join(rest) };
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "made\n");
        assert!(!place.path("work").join(path).exists());
        let note = facts["notes"][0].as_str().unwrap();
        assert!(note.contains("commands may not create") && note.contains("Write"), "{note}");
    }
    for name in ["my.code-workspace", "mise.toml", "sub/your.code-workspace", "sub/.roo"] {
        let facts = place.run_structured(&format!("mkdir -p sub; echo x > {name}")).await;
        assert_eq!(facts["quarantined"][0]["path"], name, "{facts}");
        assert!(!place.path("work").join(name).exists());
    }
    let text = place.run_bash("mkdir .idea").await;
    assert!(
        text.starts_with("(`.idea` was moved to quarantine: it is an editor setting"),
        "{text}"
    );
    assert_eq!(
        place.run_bash("mkdir -p .github; touch .github/dependabot.yml").await,
        "(no output)"
    );
}

#[tokio::test]
async fn errors_and_jobs_report_quarantine() {
    let place = ProtectedPathSetup::default().open();
    // A busy machine may need more time to get that far.
    let mut why = String::new();
    for timeout in [500, 10_000, 40_000] {
        let input = json!({"command": "mkdir .vscode; sleep 600", "timeout": timeout});
        let error = place.call("Bash", input).await.unwrap_err();
        assert!(!place.path("work/.vscode").exists());
        why = error.details["quarantined"][0]["why"].as_str().unwrap_or_default().to_owned();
        if !why.is_empty() {
            assert!(
                error.message.contains(".vscode` was moved to quarantine: it is"),
                "{}",
                error.message
            );
            break;
        }
    }
    assert!(why.starts_with("an editor setting"), "{why}");
    let input = json!({"command": "mkdir .idea; read x", "run_in_background": true});
    place.call("Bash", input).await.unwrap();
    wait_for_quarantine(&place, ".idea").await;
    let text = result_text(&place.call("BashKill", json!({"job_id": "job_1"})).await.unwrap());
    assert!(text.contains("`.idea` was moved to quarantine"), "{text}");
    let job = place.call("BashOutput", json!({"job_id": "job_1"})).await.unwrap();
    assert_eq!(job.result.structured["jobs"][0]["quarantined"][0]["path"], ".idea");
    assert!(!place.path("work/.idea").exists());
}

/// Waits until a job that goes on has lost a file, and says so.
async fn wait_for_quarantine(place: &ProtectedPathFixture, path: &str) {
    let deadline = Instant::now() + LONG_TIMEOUT;
    loop {
        assert!(Instant::now() < deadline, "`{path}` stays while the job runs");
        let output = place.call("BashOutput", json!({"job_id": "job_1"})).await.unwrap();
        let job = &output.result.structured["jobs"][0];
        assert_eq!(job["status"], "running", "{job}");
        if job["quarantined"][0]["path"] == path {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!place.path("work").join(path).exists());
}

#[tokio::test]
async fn settings_that_a_job_makes_are_taken_while_it_runs() {
    let before = |base: &Path| std::fs::create_dir_all(base.join("work/sub")).unwrap();
    for path in [".envrc", ".vscode", "sub/.envrc", "sub/.idea"] {
        let place = ProtectedPathSetup { before: &before, ..Default::default() }.open();
        // From a file, so that policy does not see what it does.
        let make = if path.ends_with("rc") { "touch" } else { "mkdir" };
        std::fs::write(place.path("work/script"), format!("{make} {path}; read x")).unwrap();
        let input = json!({"command": "bash script", "run_in_background": true});
        place.call("Bash", input).await.unwrap();
        wait_for_quarantine(&place, path).await;
    }
}

#[tokio::test]
async fn new_settings_beside_a_job_are_taken_at_once() {
    let place = ProtectedPathSetup::default().open();
    let input = json!({"command": "read x", "run_in_background": true});
    place.call("Bash", input).await.unwrap();
    // By then everything is looked at every 4 s, which is by chance in time for one of these files.
    tokio::time::sleep(Duration::from_secs(4)).await;
    for number in 0..8 {
        let folder = place.path("work").join(number.to_string());
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(".envrc"), "x").unwrap();
        let created_at = Instant::now();
        while folder.join(".envrc").exists() {
            assert!(created_at.elapsed() < Duration::from_secs(2), "{number} stays");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test]
async fn job_that_makes_settings_again_and_again_is_killed() {
    let place = ProtectedPathSetup::default().open();
    let names: Vec<String> = (0..30).map(|n| format!("sub{n}/.envrc")).collect();
    let script =
        format!("for f in {}; do mkdir ${{f%/*}}; echo x > $f; done; read x", names.join(" "));
    std::fs::write(place.path("work/script"), script).unwrap();
    let input = json!({"command": "bash script", "run_in_background": true});
    place.call("Bash", input).await.unwrap();
    let output =
        place.call("BashOutput", json!({"job_id": "job_1", "wait_ms": 60_000})).await.unwrap();
    let job = &output.result.structured["jobs"][0];
    assert_eq!(job["status"], "exited", "{job}");
    assert!(job["notes"].to_string().contains("too many files that jobs may not create"), "{job}");
}

#[tokio::test]
async fn job_ended_with_session_is_quarantined() {
    let place = ProtectedPathSetup::default().open();
    let script = "mkdir .idea; touch made; sleep 600";
    let input = json!({"command": script, "run_in_background": true});
    place.call("Bash", input).await.unwrap();
    let deadline = Instant::now() + LONG_TIMEOUT;
    while !place.path("work/made").exists() {
        assert!(Instant::now() < deadline, "the job does nothing");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let ProtectedPathFixture { temp, session, .. } = place;
    drop(session);
    assert!(!temp.path().join("work/.idea").exists());
    assert_eq!(std::fs::read_dir(temp.path().join("state/kept")).unwrap().count(), 1);
}

#[tokio::test]
async fn job_that_makes_git_run_code_is_killed_during_the_session() {
    for (trap, path) in [
        ("git init -q v; git -C v config core.fsmonitor 'touch x'", "v/.git/config"),
        (
            "git init -q v; echo '#!/bin/sh' > v/.git/hooks/post-checkout",
            "v/.git/hooks/post-checkout",
        ),
        (
            "mkdir -p v/objects v/refs; echo 'ref: refs/heads/a' > v/HEAD; printf '[core]\nfsmonitor=x' > v/config",
            "v/config",
        ),
    ] {
        let place = ProtectedPathSetup::default().open();
        // From a file, so that policy does not see what it does.
        std::fs::write(place.path("work/script"), format!("{trap}; sleep 600")).unwrap();
        let input = json!({"command": "bash script", "run_in_background": true});
        place.call("Bash", input).await.unwrap();
        let deadline = Instant::now() + LONG_TIMEOUT;
        let job = loop {
            assert!(Instant::now() < deadline, "{trap}: the job goes on");
            let output = place.call("BashOutput", json!({"job_id": "job_1"})).await.unwrap();
            let job = output.result.structured["jobs"][0].clone();
            if !job["quarantined"].is_null() {
                break job;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(job["quarantined"][0]["path"], path, "{job}");
        let notes = job["notes"].to_string();
        assert!(notes.contains("the job was killed because"), "{trap}: {job}");
        assert!(!place.path("work").join(path).exists(), "{trap}");
    }
}

#[tokio::test]
async fn job_that_makes_ordinary_repositories_continues() {
    let place = ProtectedPathSetup::default().open();
    let script = "git init -q v; git -C v -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; \
        git clone -q v c; echo made; read x";
    std::fs::write(place.path("work/script"), script).unwrap();
    let input = json!({"command": "bash script", "run_in_background": true});
    place.call("Bash", input).await.unwrap();
    let deadline = Instant::now() + LONG_TIMEOUT;
    while !place.path("work/c/.git/HEAD").exists() {
        assert!(Instant::now() < deadline, "the job does nothing");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let text = result_text(&place.call("BashKill", json!({"job_id": "job_1"})).await.unwrap());
    assert!(!text.contains("because") && !text.contains("quarantine"), "{text}");
    assert!(place.path("work/c/.git/config").exists());
}

#[tokio::test]
async fn concurrent_jobs_cannot_hide_forbidden_files() {
    let place = ProtectedPathSetup::default().open();
    let wait = "until test -e go$N; do sleep 0.02; done";
    let job = |script: String, n: usize| json!({"command": script, "run_in_background": true, "env": {"N": n.to_string()}});
    let first = format!("mkdir .idea; touch first; {wait}");
    place.call("Bash", job(first, 1)).await.unwrap();
    let until = async |what: &dyn Fn() -> bool| {
        let deadline = Instant::now() + LONG_TIMEOUT;
        while !what() {
            assert!(Instant::now() < deadline, "it does not happen");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let made = place.path("work/.idea");
    until(&|| place.path("work/first").exists()).await;
    // The folder may be taken at any moment. If it is not yet, it looks to the second command as if it
    // had always been there.
    let again = format!("touch begun; {wait}; mkdir .idea; touch .idea/x; touch again");
    place.call("Bash", job(again, 2)).await.unwrap();
    until(&|| place.path("work/begun").exists()).await;
    std::fs::write(place.path("work/go1"), "").unwrap();
    until(&|| !made.exists()).await;
    std::fs::write(place.path("work/go2"), "").unwrap();
    until(&|| place.path("work/again").exists()).await;
    until(&|| !made.exists()).await;
    assert!(place.file_names("state/kept").len() >= 2, "all are kept");
}

#[tokio::test]
async fn own_settings_cannot_be_created() {
    let place =
        ProtectedPathSetup { opened: &["work/.zero"], ..ProtectedPathSetup::default() }.open();
    for attack in ["mkdir .zero/x", "touch .zero/settings.json", "rmdir .zero", "mv .zero x"] {
        assert_ne!(place.run_structured(attack).await["exit_code"], 0, "{attack}");
    }
    assert_eq!(place.file_names("work"), Vec::<String>::new());
}

#[tokio::test]
async fn allow_rule_permits_creation() {
    let before = |base: &Path| std::fs::create_dir(base.join("work/.vscode")).unwrap();
    let opened = &["work/.vscode", "work/.envrc"];
    let place =
        ProtectedPathSetup { opened, before: &before, ..ProtectedPathSetup::default() }.open();
    place.expect_success("echo x > .vscode/tasks.json; echo y > .envrc").await;
    assert_eq!(place.file_names("work"), [".envrc", ".vscode"]);
    assert_ne!(place.run_structured("touch .npmrc").await["quarantined"], Value::Null);
}

#[tokio::test]
async fn settings_are_protected_at_every_depth() {
    let before = |base: &Path| {
        for name in ["sub/.vscode/tasks.json", "a/b/c/.envrc", "sub/.zero/settings.json"] {
            let path = base.join("work").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "mine").unwrap();
        }
        std::fs::create_dir_all(base.join("work/open")).unwrap();
    };
    let place = ProtectedPathSetup {
        before: &before,
        opened: &["work/open/.npmrc"],
        ..ProtectedPathSetup::default()
    }
    .open();
    let attacks = [
        "echo x > sub/.vscode/tasks.json",
        "touch sub/.vscode/new",
        "mv sub/.vscode x",
        "mv sub x",
        "rm a/b/c/.envrc",
        "echo x > y && mv y a/b/c/.envrc",
        "echo x > sub/.zero/settings.json",
    ];
    for attack in attacks {
        assert_ne!(place.run_structured(attack).await["exit_code"], 0, "{attack}");
    }
    let made = [
        (".zero/settings.json", ".zero"),
        (".envrc", ".envrc"),
        (".vscode/tasks.json", ".vscode"),
        (".github/workflows/ci.yml", ".github/workflows"),
    ];
    for folder in ["new", "a/b", "a/b/c/d"] {
        for (file, taken) in made {
            let file = format!("{folder}/{file}");
            let facts = place
                .run_structured(&format!("mkdir -p $(dirname {file}) && echo x > {file}"))
                .await;
            assert_eq!(facts["quarantined"][0]["path"], format!("{folder}/{taken}"), "{facts}");
            assert!(!place.path("work").join(&file).exists());
        }
    }
    let facts = place.run_structured("mkdir -p new && ln -s /etc new/.vscode").await;
    assert_eq!(facts["quarantined"][0]["path"], "new/.vscode");
    assert!(Path::new("/etc").exists());
    place.expect_success("echo x > open/.npmrc").await;
    place.expect_success("mkdir -p node_modules/x && echo x > node_modules/x/.npmrc").await;
    assert!(place.path("work/open/.npmrc").exists());
}

#[tokio::test]
async fn concurrent_commands_cannot_create_nested_settings() {
    let place = ProtectedPathSetup::default().open();
    place.expect_success("mkdir sub").await;
    // The second command starts after the first has created the file, and creates it again when the
    // first is over.
    let first = async {
        let facts =
            place.run_structured("echo x > sub/.envrc; until test -e begun; do sleep 0.02; done");
        let facts = facts.await;
        std::fs::write(place.path("work/over"), "").unwrap();
        facts
    };
    let second = async {
        let until = Instant::now() + LONG_TIMEOUT;
        while !place.path("work/sub/.envrc").exists() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let wait = "touch begun; until test -e over; do sleep 0.02; done";
        place.run_structured(&format!("{wait}; echo again > sub/.envrc")).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first["quarantined"][0]["path"], "sub/.envrc", "{first}");
    assert!(!place.path("work/sub/.envrc").exists(), "{second}");
}

#[tokio::test]
async fn early_removed_placeholder_grants_nothing() {
    let before = |base: &Path| create_repository(&base.join("work"));
    let place = ProtectedPathSetup { before: &before, ..ProtectedPathSetup::default() }.open();
    std::fs::remove_dir_all(place.path("work/.git/hooks")).unwrap();
    let stand_ins = ["work/.zero", "work/.git/hooks"].map(|name| place.path(name));
    let attack = "touch begun; for folder in .zero .git/hooks; do for try in $(seq 1200); do \
         mkdir $folder 2>/dev/null && break; sleep 0.05; done; echo x > $folder/made || exit 1; done";
    let meddle = async {
        let until = Instant::now() + LONG_TIMEOUT;
        while !place.path("work/begun").exists() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for stand_in in &stand_ins {
            std::fs::remove_dir(stand_in).unwrap();
        }
    };
    let (facts, ()) = tokio::join!(place.run_structured(attack), meddle);
    assert_eq!(facts["exit_code"], 0, "it was meant to come through: {facts}");
    let taken: Vec<&str> = facts["quarantined"].as_array().map_or(Vec::new(), |taken| {
        taken.iter().filter_map(|taken| taken["path"].as_str()).collect()
    });
    assert_eq!(taken, [".zero", ".git/hooks"], "{facts}");
    assert!(stand_ins.iter().all(|path| !path.exists()));
}

#[tokio::test]
async fn crash_leftovers_are_swept_at_session_start() {
    let place = ProtectedPathSetup::default().open();
    let ghost = place.path("work/.zero");
    std::fs::create_dir(&ghost).unwrap();
    let tmp = place.path("state/tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    let record = tmp.join("session-gone.1-0.placeholders");
    let line = json!({"path": ghost.to_str().unwrap(), "inode": null});
    std::fs::write(&record, format!("{line}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&record, mode).unwrap();
    let _other = place.host.open_session(SessionId::new("next").unwrap()).unwrap();
    assert!(!ghost.exists() && !record.exists());
}
