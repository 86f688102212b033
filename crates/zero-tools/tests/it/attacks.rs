//! Attempts to make a change lose, leak or misreport something.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::json;
use zero_sandbox::journal::UndoConflictPolicy;
use zero_sandbox::{ChangeOrigin, FileChange, FileSnapshot, FinalLinkMode, StateDir, Workspace};

use crate::fixture::{ToolFixture, host_in};

fn file_mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn concurrent_changes_undo_independently() {
    let f = Arc::new(ToolFixture::one_shot());
    let (writers, rounds) = (12, 10);
    let start = Arc::new(Barrier::new(writers));
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let (f, start) = (Arc::clone(&f), Arc::clone(&start));
            std::thread::spawn(move || {
                let workspace = Workspace::open(&[f.path("")], None).unwrap();
                let note = ChangeOrigin { tool: "t".into(), call: "c".into(), caller: None };
                start.wait();
                for round in 0..rounds {
                    let name = format!("{writer}-{round}");
                    let target = workspace.resolve(&name, FinalLinkMode::Follow).unwrap();
                    let put = |_: &_| Ok(FileChange::Replace(name.clone().into_bytes()));
                    f.journal().change(&target, &note, || Ok(()), put).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let entries = f.journal().list().unwrap();
    assert_eq!(entries.len(), writers * rounds, "every change is on record");
    for entry in entries {
        f.journal().undo(entry.id, UndoConflictPolicy::Refuse).unwrap();
    }
    assert_eq!(std::fs::read_dir(f.path("")).unwrap().count(), 0);
}

#[tokio::test]
async fn backup_keeps_file_permissions() {
    let f = ToolFixture::one_shot();
    f.write_file("secret", "s");
    std::fs::set_permissions(f.path("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    f.call("Write", json!({"file_path": "secret", "content": "t", "backup": true})).await.unwrap();
    assert_eq!(
        (f.read_text("secret.bak").as_str(), file_mode(&f.path("secret.bak"))),
        ("s", 0o600)
    );
    f.call("Delete", json!({"file_path": "secret"})).await.unwrap();
    let id = f.journal().newest_undoable().unwrap().unwrap().id;
    f.journal().undo(id, UndoConflictPolicy::Refuse).unwrap();
    assert_eq!(file_mode(&f.path("secret")), 0o600);
}

#[tokio::test]
async fn non_utf8_workspace_name_works() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join(std::ffi::OsStr::from_bytes(b"n\xFFm"));
    std::fs::create_dir_all(folder.join("work")).unwrap();
    let host = host_in(&folder);
    let session = host.open_one_shot_session().unwrap();
    let dialect = zero_runtime::Dialect::new(zero_runtime::DialectName::Canonical);
    for content in ["one", "two"] {
        let input = json!({"file_path": "a", "content": content, "backup": true});
        let call = zero_core::ToolCall {
            id: zero_runtime::tool_host::new_call_id(),
            session: None,
            tool: "Write".into(),
            input,
            timeout: None,
        };
        host.call(&session, &dialect, call, &Default::default()).await.outcome.unwrap();
    }
    assert_eq!(std::fs::read_to_string(folder.join("work/a.bak")).unwrap(), "one");
    let newest = host.journal().newest_undoable().unwrap().unwrap();
    host.journal().undo(newest.id, UndoConflictPolicy::Refuse).unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("work/a")).unwrap(), "one");
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1, "nothing was made beside it");
}

#[test]
fn recovery_ignores_change_in_progress() {
    let f = ToolFixture::one_shot();
    let workspace = Workspace::open(&[f.path("")], None).unwrap();
    let target = workspace.resolve("a", FinalLinkMode::Follow).unwrap();
    let note = ChangeOrigin { tool: "t".into(), call: "c".into(), caller: None };
    // Recovery runs at the last moment before the change becomes visible.
    let meanwhile = || {
        let state = StateDir::new(f.outside().join("state"));
        let other = zero_sandbox::Journal::new(
            &state,
            workspace.clone(),
            zero_core::ByteSize::megabytes(1),
        );
        assert_eq!(other.recover().unwrap(), 0);
        Ok(())
    };
    let put = |_: &_| Ok(FileChange::Replace(b"new".to_vec()));
    f.journal().change(&target, &note, meanwhile, put).unwrap();
    assert_eq!((f.read_text("a").as_str(), f.journal().list().unwrap().len()), ("new", 1));
}

/// Runs this test again as `nobody`, in a folder of that user. Only root can do that.
fn rerun_as_nobody(test: &str, folder: &Path) -> bool {
    let is_root =
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    if !is_root {
        return false;
    }
    // The temp folder belongs to root. The user gets access to it, and to the test program.
    let exe = folder.join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    for path in [folder, &exe] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let status = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&exe)
        .args(["--exact", test])
        .env("ZERO_TEST_AS_NOBODY", folder)
        .current_dir(folder)
        .stdout(std::process::Stdio::null())
        .status()
        .expect("`setpriv` is needed; install the package util-linux");
    assert!(status.success());
    true
}

/// Returns the folder to work in if this process is `nobody`, or was not root to begin with.
fn unprivileged_folder(test: &str) -> Option<(Option<tempfile::TempDir>, std::path::PathBuf)> {
    if let Some(folder) = std::env::var_os("ZERO_TEST_AS_NOBODY") {
        return Some((None, folder.into()));
    }
    let temp = tempfile::tempdir().unwrap();
    if rerun_as_nobody(test, temp.path()) {
        return None;
    }
    let folder = temp.path().to_owned();
    Some((Some(temp), folder))
}

#[test]
fn completed_change_is_reported_despite_sync_error() {
    let Some((_temp, folder)) =
        unprivileged_folder("attacks::completed_change_is_reported_despite_sync_error")
    else {
        return;
    };
    let work = folder.join("work");
    std::fs::create_dir_all(work.join("d")).unwrap();
    for name in ["f", "g"] {
        std::fs::write(work.join("d").join(name), name).unwrap();
    }
    // Such a folder can be changed but not listed, so it cannot be flushed, either.
    std::fs::set_permissions(work.join("d"), std::fs::Permissions::from_mode(0o300)).unwrap();
    let host = host_in(&folder);
    let workspace = Workspace::open(std::slice::from_ref(&work), None).unwrap();
    let note = ChangeOrigin { tool: "t".into(), call: "c".into(), caller: None };
    for (name, remove) in [("d/f", true), ("d/g", false)] {
        let target = workspace.resolve(name, FinalLinkMode::Follow).unwrap();
        let decide = |_: &_| {
            Ok(if remove { FileChange::Remove } else { FileChange::Replace(b"new".to_vec()) })
        };
        host.journal().change(&target, &note, || Ok(()), decide).unwrap();
    }
    let ids: Vec<u64> = host.journal().list().unwrap().iter().map(|entry| entry.id).collect();
    assert_eq!(ids.len(), 2, "both have a way back");
    for id in ids {
        host.journal().undo(id, UndoConflictPolicy::Refuse).unwrap();
    }
    for name in ["f", "g"] {
        assert_eq!(std::fs::read_to_string(work.join("d").join(name)).unwrap(), name);
    }
    std::fs::set_permissions(work.join("d"), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn read_only_file_is_not_replaced() {
    let Some((_temp, folder)) = unprivileged_folder("attacks::read_only_file_is_not_replaced")
    else {
        return;
    };
    let work = folder.join("work");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(work.join("f"), "old").unwrap();
    std::fs::set_permissions(work.join("f"), std::fs::Permissions::from_mode(0o444)).unwrap();
    let host = host_in(&folder);
    let workspace = Workspace::open(std::slice::from_ref(&work), None).unwrap();
    let target = workspace.resolve("f", FinalLinkMode::Follow).unwrap();
    let note = ChangeOrigin { tool: "t".into(), call: "c".into(), caller: None };
    let put = |_: &_| Ok(FileChange::Replace(b"new".to_vec()));
    let error = host.journal().change(&target, &note, || Ok(()), put).unwrap_err();
    assert_eq!(error.reason(), Some(zero_core::ErrorReason::AccessDenied), "{error}");
    assert_eq!(std::fs::read_to_string(work.join("f")).unwrap(), "old");
}

#[tokio::test]
async fn gitignore_stops_at_repository_boundary() {
    let f = ToolFixture::one_shot();
    f.write_file(".git/HEAD", "")
        .write_file(".gitignore", "*\n")
        .write_file("proj/.git/HEAD", "")
        .write_file("proj/src/main.rs", "hit\n");
    f.write_file("proj/.gitignore", "*.gen\n").write_file("proj/a.gen", "hit\n");
    let inner = f.call("Glob", json!({"pattern": "**/*", "path": "proj"})).await.unwrap();
    assert_eq!(inner.result.structured, json!({"files": ["proj/src/main.rs"], "count": 1}));
    let grep = json!({"pattern": "hit", "path": "proj", "output_mode": "count"});
    assert_eq!(f.call("Grep", grep).await.unwrap().result.structured["total_matches"], 1);
    let outer = f.call("Glob", json!({"pattern": "**/*"})).await.unwrap();
    assert_eq!(outer.result.structured["count"], 0);
}

/// To a concurrent recovery, a file that alternates between two states looks like one whose last
/// change did not happen.
#[test]
fn recovery_keeps_completed_changes() {
    let f = Arc::new(ToolFixture::one_shot());
    f.write_file("flip", "A");
    let (writers, rounds) = (3, 80);
    let is_over = Arc::new(AtomicBool::new(false));
    let cleaners: Vec<_> = (0..4)
        .map(|_| {
            let (f, is_over) = (Arc::clone(&f), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    f.journal().recover().unwrap();
                    // A process that waits for the lock must find it free now and then, however
                    // slow the disk is.
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        })
        .collect();
    let flip = |before: &FileSnapshot| match before {
        FileSnapshot::File { bytes, .. } if bytes == b"A" => Ok(FileChange::Replace(b"B".to_vec())),
        _ => Ok(FileChange::Replace(b"A".to_vec())),
    };
    let writers_at_work: Vec<_> = (0..writers)
        .map(|_| {
            let f = Arc::clone(&f);
            std::thread::spawn(move || {
                let workspace = Workspace::open(&[f.path("")], None).unwrap();
                let note = ChangeOrigin { tool: "t".into(), call: "c".into(), caller: None };
                for _ in 0..rounds {
                    let target = workspace.resolve("flip", FinalLinkMode::Follow).unwrap();
                    f.journal().change(&target, &note, || Ok(()), flip).unwrap();
                }
            })
        })
        .collect();
    writers_at_work.into_iter().for_each(|thread| thread.join().unwrap());
    is_over.store(true, Ordering::Relaxed);
    cleaners.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(f.journal().list().unwrap().len(), writers * rounds);
}

#[tokio::test]
async fn undo_keeps_tightened_permissions() {
    let f = ToolFixture::one_shot();
    f.write_file("s", "s");
    std::fs::set_permissions(f.path("s"), std::fs::Permissions::from_mode(0o644)).unwrap();
    f.call("Edit", json!({"file_path": "s", "old_string": "s", "new_string": "SECRET"}))
        .await
        .unwrap();
    std::fs::set_permissions(f.path("s"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let id = f.journal().newest_undoable().unwrap().unwrap().id;
    f.journal().undo(id, UndoConflictPolicy::Refuse).unwrap();
    assert_eq!((f.read_text("s").as_str(), file_mode(&f.path("s"))), ("s", 0o600));
}

#[tokio::test]
async fn undo_over_link_restores_recorded_mode() {
    let f = ToolFixture::one_shot();
    f.write_file("s", "secret");
    std::fs::set_permissions(f.path("s"), std::fs::Permissions::from_mode(0o600)).unwrap();
    f.call("Edit", json!({"file_path": "s", "old_string": "secret", "new_string": "SECRET"}))
        .await
        .unwrap();
    std::fs::remove_file(f.path("s")).unwrap();
    std::os::unix::fs::symlink("elsewhere", f.path("s")).unwrap();
    let id = f.journal().newest_undoable().unwrap().unwrap().id;
    f.journal().undo(id, UndoConflictPolicy::Overwrite).unwrap();
    assert_eq!((f.read_text("s").as_str(), file_mode(&f.path("s"))), ("secret", 0o600));
}
