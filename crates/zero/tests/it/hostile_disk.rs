//! A disk that is full and a folder that cannot be written: a clear error, and nothing is lost.
//!
//! Each case runs in a mount namespace of its own, where a tiny or read-only file system lies over
//! the workspace or over zero's own state.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use serde_json::Value;

use crate::test_program::TestProgram;

/// A hostile disk: what is mounted before `work/a.txt` is put there, and what is done after.
struct HostileDisk<'a> {
    before: &'a str,
    after: &'a str,
}

/// Writes 1 MB over `work/a.txt`, which holds `old`. Returns the answer, and what the workspace
/// holds afterwards.
#[expect(clippy::disallowed_methods, reason = "the test starts the program it tests")]
fn write_on_disk(disk: &HostileDisk<'_>) -> (Value, String) {
    let program = TestProgram::new();
    let input = serde_json::json!({"file_path": "a.txt", "content": "new ".repeat(250_000)});
    std::fs::write(program.folder().join("input.json"), input.to_string()).unwrap();
    let script = format!(
        "mkdir work state; {}; printf old > work/a.txt; {}
        \"$ZERO\" tools call Write - --yes --json --workspace work < input.json > answer.json || true
        printf '%s|%s' \"$(ls -A work)\" \"$(cat work/a.txt)\"",
        disk.before, disk.after
    );
    run_with_own_mounts(&program, &script)
}

/// Runs a script of the shell, which may mount. Returns `answer.json`, and what the script prints.
#[expect(clippy::disallowed_methods, reason = "the test starts the program it tests")]
fn run_with_own_mounts(program: &TestProgram, script: &str) -> (Value, String) {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let own_mounts: &[&str] =
        if is_root { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let output = Command::new("unshare")
        .args(own_mounts)
        .args(["sh", "-euc", script])
        .current_dir(program.folder())
        .env("ZERO", env!("CARGO_BIN_EXE_zero"))
        .env("XDG_STATE_HOME", program.folder().join("state"))
        .output()
        .expect("`unshare` is needed to test hostile disks; install the package util-linux");
    assert!(
        output.status.success(),
        "hostile disks are tested with mounts of our own, as root or with user namespaces: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answer = std::fs::read_to_string(program.folder().join("answer.json")).unwrap();
    (serde_json::from_str(&answer).unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[track_caller]
fn check_write_fails(disk: &HostileDisk<'_>, reason: &str, message: &str) {
    let (answer, left) = write_on_disk(disk);
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(answer["error"]["details"]["reason"], reason, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains(message), "{answer}");
    let file = &answer["error"]["details"]["file"];
    assert!(file == "a.txt" || file.is_null(), "the file of the call, not one of zero's: {answer}");
    assert_eq!(left, "a.txt|old", "the file is as it was, and nothing lies beside it");
}

#[test]
fn full_disk_keeps_original_file() {
    let disk = HostileDisk { before: "mount -t tmpfs -o size=300k none work", after: "" };
    check_write_fails(
        &disk,
        "disk_full",
        "could not write `a.txt`: no space left on device; nothing was changed",
    );
}

#[test]
fn no_change_without_room_for_audit_or_journal() {
    for (folder, message) in [
        ("state/zero/audit", "the audit log cannot be written"),
        ("state/zero/journal", "could not write the journal in"),
    ] {
        let before = format!("mkdir -p {folder}; mount -t tmpfs -o size=64k none {folder}");
        let after = format!("head -c 1000000 /dev/zero > {folder}/filler 2> /dev/null || true");
        check_write_fails(&HostileDisk { before: &before, after: &after }, "disk_full", message);
    }
}

#[test]
fn read_only_folder_keeps_original_file() {
    let disk =
        HostileDisk { before: "mount --bind work work", after: "mount -o remount,ro,bind work" };
    check_write_fails(
        &disk,
        "read_only",
        "could not write `a.txt`: read-only file system; nothing was changed",
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test stands outside zero and makes real files")]
fn copies_for_undo_do_not_stop_their_command() {
    let program = TestProgram::outside_tmp();
    let command = "rm -rf work; echo done > left.txt";
    std::fs::write(
        program.folder().join("input.json"),
        serde_json::json!({"command": command}).to_string(),
    )
    .unwrap();
    // Other disks: files are copied and not linked, and more of them than the disk of the state has room for.
    let script = "mkdir state tree; mount -t tmpfs -o size=60m none state; mkdir tree/work
        for n in 1 2 3 4 5; do head -c 8000000 /dev/urandom > tree/work/$n; done
        \"$ZERO\" tools call Bash - --yes --json --workspace tree < input.json > answer.json || true
        ls -A tree";
    let (answer, left) = run_with_own_mounts(&program, script);
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(left, "left.txt\n");
    let text = answer.to_string();
    assert!(text.contains("some of this command's changes cannot be undone"), "{text}");
    assert!(text.contains("more than the disk of zero's state has room for"), "{text}");
}
