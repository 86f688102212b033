//! A disk that is full, and a folder that cannot be written.
//!
//! Each runs in a mount namespace of its own, made with `unshare`, with a tiny or read-only file
//! system over the workspace; what was there before must still be there.

use std::process::Command;

/// Runs a script as root of a fresh mount namespace and returns what it printed.
#[track_caller]
fn in_own_mounts(script: &str) -> String {
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-euc", script])
        .env("WRITER", std::env::current_exe().unwrap())
        .output()
        .expect("`unshare` from the package util-linux is needed to test full and read-only disks");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "a mount namespace of our own is needed (user namespaces may be off): {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}
