//! A disk that is full and a folder that cannot be written: a clear error, and nothing is lost.
//!
//! Each case runs in a mount namespace of its own, where a tiny or read-only file system lies over
//! the workspace or over zero's own state.

use std::process::Command;

use serde_json::Value;

use crate::program::Program;

/// Runs `prepare` in a fresh mount namespace, then a Write of 1 MB over `work/a.txt`, which holds
/// `old`. Returns the answer, and what the workspace holds afterwards.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the test starts the program it tests")]
fn write_on(prepare: &str) -> (Value, String) {
    let program = Program::new();
    let input = serde_json::json!({"file_path": "a.txt", "content": "new ".repeat(250_000)});
    std::fs::write(program.folder().join("input.json"), input.to_string()).unwrap();
    let script = format!(
        "mkdir work state\n{prepare}\n\
         printf old > work/a.txt\n\
         $HARDEN\n\
         \"$ZERO\" tools call Write - --yes --json --workspace work < input.json > answer.json || true\n\
         printf '%s|%s' \"$(ls -A work)\" \"$(cat work/a.txt)\""
    );
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    let own_mounts: &[&str] =
        if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let (prepare_only, harden) = prepare.split_once("---").unwrap_or((prepare, ""));
    let script = script.replace(prepare, prepare_only).replace("$HARDEN", harden);
    let output = Command::new("unshare")
        .args(own_mounts)
        .args(["sh", "-euc", &script])
        .current_dir(program.folder())
        .env("ZERO", env!("CARGO_BIN_EXE_zero"))
        .env("XDG_STATE_HOME", program.folder().join("state"))
        .output()
        .expect(
            "`unshare` is needed to test full and read-only disks; install the package util-linux",
        );
    assert!(
        output.status.success(),
        "mounting in a namespace of our own is needed to test full and read-only disks \
         (as root, or with user namespaces enabled): {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answer = std::fs::read_to_string(program.folder().join("answer.json")).unwrap();
    (serde_json::from_str(&answer).unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[track_caller]
fn check(prepare: &str, reason: &str, message: &str) {
    let (answer, left) = write_on(prepare);
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(answer["error"]["details"]["reason"], reason, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains(message), "{answer}");
    assert_eq!(left, "a.txt|old", "the file is as it was, and nothing lies beside it");
}

#[test]
fn a_full_disk_keeps_the_original() {
    check(
        "mount -t tmpfs -o size=300k none work",
        "disk_full",
        "could not write `a.txt`: no space left on device; nothing was changed",
    );
}

#[test]
fn a_full_state_folder_keeps_the_original() {
    // Without room for the way back there is no change.
    check(
        "mount -t tmpfs -o size=64k none state --- yes | head -c 1000000 > state/filler 2>/dev/null || true; rm state/filler; \
         head -c 50000 /dev/zero > state/filler; head -c 200000 /dev/zero > work/a.txt; printf old > work/a.txt; \
         head -c 14000 /dev/zero >> state/filler 2>/dev/null || true",
        "disk_full",
        "no space left on device",
    );
}

#[test]
fn a_read_only_folder_keeps_the_original() {
    check(
        "mount --bind work work --- mount -o remount,ro,bind work",
        "read_only",
        "could not write `a.txt`: read-only file system; nothing was changed",
    );
}
