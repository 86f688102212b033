//! Disks that are full, read-only or owned by another user: a clear error, no loss, and recovery
//! with the disk.
//!
//! Each case runs in its own mount namespace with a tiny file system mounted on `disk`. The test
//! binary runs again in there, once for each step.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{LedgerReadLimit, Store, StoreError};

use crate::store::{session, text_event};

/// The step to perform; set within the namespace.
const STEP_ENV: &str = "ZERO_TEST_STEP";

/// Runs a script in which `step NAME` performs a step of the test with that name.
#[track_caller]
fn run(test: &str, script: &str) {
    let temp = tempfile::tempdir().unwrap();
    let script = format!(
        "step() {{ {STEP_ENV}=$1 \"$TEST\" --exact store_disk::{test} --nocapture; }}
        mkdir disk; mount -t tmpfs -o size=8m,mode=700 none disk; {script}"
    );
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let own_mounts: &[&str] =
        if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let output = Command::new("unshare")
        .args(own_mounts)
        .args(["sh", "-euc", &script])
        .current_dir(temp.path())
        .env("TEST", std::env::current_exe().unwrap())
        .output()
        .expect("`unshare` is needed to test hostile disks; install the package util-linux");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn step() -> Option<String> {
    std::env::var(STEP_ENV).ok()
}

fn file() -> PathBuf {
    Path::new("disk").canonicalize().unwrap().join("sessions.db")
}

#[tokio::test]
async fn full_disk_is_reported_and_recovered_from() {
    if step().is_none() {
        let test = "full_disk_is_reported_and_recovered_from";
        return run(test, "step fill");
    }
    let store = SqliteStore::open(&file()).unwrap();
    let id = session(&store).await.id;
    store.append(&id, None, vec![text_event("before")]).await.unwrap();
    for round in 1..=3_u64 {
        let filler = Path::new("disk/filler");
        std::fs::write(filler, vec![1; 16 * 1024 * 1024]).expect_err("it does not fit");
        let large = || vec![text_event("small"), text_event("x".repeat(300_000))];
        let error = store.append(&id, None, large()).await.unwrap_err();
        let StoreError::NoSpace { verb: "write the ledger", why } = error else {
            panic!("{error}")
        };
        assert!(why.contains("there is no room for `"), "{why}");
        assert_eq!(
            store.events(&id, 0, LedgerReadLimit::with_entries(99)).await.unwrap().len() as u64,
            round,
            "all or none"
        );
        std::fs::remove_file(filler).unwrap();
        let events = store.append(&id, None, vec![text_event("after")]).await.unwrap();
        assert_eq!(events[0].seq, round + 1);
    }
}

#[tokio::test]
async fn unusable_disk_or_file_is_named() {
    let script = "
        step make
        mount -o remount,ro disk; step refused; mount -o remount,rw disk; step works
        chmod 000 disk/sessions.db; unshare --user sh -euc \"$STEP_ALONE\"
        chmod 600 disk/sessions.db; step works";
    let test = "unusable_disk_or_file_is_named";
    match step().as_deref() {
        None => {
            // Without capabilities over files of other users.
            let alone =
                format!("{STEP_ENV}=refused exec \"$TEST\" --exact store_disk::{test} --nocapture");
            run(test, &format!("STEP_ALONE='{alone}'; {script}"));
        }
        Some("make") => {
            let store = SqliteStore::open(&file()).unwrap();
            let id = session(&store).await.id;
            store.append(&id, None, vec![text_event("before")]).await.unwrap();
        }
        Some("refused") => {
            let error = SqliteStore::open(&file()).map(drop).unwrap_err();
            assert!(matches!(error, StoreError::Broken { verb: "open", .. }), "{error}");
            assert!(error.to_string().contains(&file().display().to_string()), "{error}");
            println!("{error}");
        }
        Some("works") => {
            let store = SqliteStore::open(&file()).unwrap();
            let id = session(&store).await.id;
            assert!(!store.append(&id, None, vec![text_event("after")]).await.unwrap().is_empty());
        }
        Some(other) => panic!("no step: {other}"),
    }
}
