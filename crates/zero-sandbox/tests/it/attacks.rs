//! One row per attack: the kernel's answers without a sandbox, with every layer, and without
//! bubblewrap.
//!
//! The first column makes the others meaningful: it shows that the attack works if nothing prevents
//! it, so that its row would fail without the sandbox. Attacks that would do harm there have
//! arguments that make them fail, in another way than the sandbox does.

mod files;
mod processes;
mod sockets;
mod system_calls;

use crate::attack_lab::{AttackLab, Attacker, SandboxSetup, is_root};

/// Not promised without bubblewrap, so not checked.
const UNCLAIMED: &str = "-";
/// Depends on the machine, but differs from the sandbox's answer.
const OTHER: &str = "*";

/// How often to try to get a prewarmed sandbox.
const READY_TRIES_MAX: u32 = 200;

/// An attack, and the answers to it without a sandbox, with every layer, and without bubblewrap.
type AttackRow<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Runs all attacks as every attacker.
#[track_caller]
fn check(rows: &[AttackRow<'_>]) {
    for who in Attacker::available() {
        check_unconfined(*who, rows);
        check_sandboxed(*who, rows);
    }
}

/// Attacks that need privileges without a sandbox, and fail for everyone inside.
#[track_caller]
fn check_privileged(rows: &[AttackRow<'_>]) {
    if is_root() && has_full_root_capabilities() {
        check_unconfined(Attacker::Me, rows);
    }
    for who in Attacker::available() {
        check_sandboxed(*who, rows);
    }
}

/// Calls that the sandbox must allow: the answer inside is the same as outside.
#[track_caller]
fn check_allowed(rows: &[AttackRow<'_>]) {
    for who in Attacker::available() {
        check_answers(*who, SandboxSetup::Bare, rows, |row| row.1);
        check_sandboxed(*who, rows);
    }
}

#[track_caller]
fn check_unconfined(who: Attacker, rows: &[AttackRow<'_>]) {
    for (row, answer) in check_answers(who, SandboxSetup::Bare, rows, |row| row.1) {
        let (words, _, full, direct) = row;
        assert!(
            answer != full && answer != direct,
            "{words}: {answer} without a sandbox, by {who:?}"
        );
    }
}

#[track_caller]
fn check_sandboxed(who: Attacker, rows: &[AttackRow<'_>]) {
    check_answers(who, SandboxSetup::Full, rows, |row| row.2);
    check_answers(who, SandboxSetup::Prewarmed, rows, |row| row.2);
    check_answers(who, SandboxSetup::Direct, rows, |row| row.3);
}

/// Runs the rows that apply here, in a new lab: attacks that work leave a mess.
#[track_caller]
fn check_answers<'a>(
    who: Attacker,
    setup: SandboxSetup,
    rows: &[AttackRow<'a>],
    expected: impl Fn(&AttackRow<'a>) -> &'a str,
) -> Vec<(AttackRow<'a>, String)> {
    let rows: Vec<AttackRow<'a>> =
        rows.iter().copied().filter(|row| expected(row) != UNCLAIMED).collect();
    let words: Vec<&str> = rows.iter().map(|row| row.0).collect();
    let answers = collect_answers(who, setup, &words);
    assert_eq!(answers.len(), rows.len(), "answers by {who:?} under {setup:?}: {answers:?}");
    let wrong: Vec<String> = rows
        .iter()
        .zip(&answers)
        .filter(|(row, answer)| expected(row) != OTHER && expected(row) != *answer)
        .map(|(row, answer)| format!("{}: {answer}, not {}", row.0, expected(row)))
        .collect();
    assert!(wrong.is_empty(), "by {who:?} under {setup:?}:\n{}", wrong.join("\n"));
    rows.into_iter().zip(answers).collect()
}

/// The kernel's answer to each attack. A prewarmed sandbox may not be used if the host changes, and
/// other tests change it all the time.
#[track_caller]
fn collect_answers(who: Attacker, setup: SandboxSetup, words: &[&str]) -> Vec<String> {
    for _ in 0..READY_TRIES_MAX {
        let lab = AttackLab::new(who);
        let answers = lab.attempt_all(setup, words);
        if setup != SandboxSetup::Prewarmed || lab.last_sandbox_reuse() == "Prewarmed" {
            return answers;
        }
    }
    panic!("no sandbox was ready in {READY_TRIES_MAX} tries");
}

/// Whether root has all capabilities that these calls need. In a container it may have fewer.
fn has_full_root_capabilities() -> bool {
    /// The capabilities to read any file, load modules, use ports, change the root, keep accounts,
    /// mount, restart, set the clock, and read the kernel's log.
    const NEEDED: [u32; 9] = [2, 16, 17, 18, 20, 21, 22, 25, 34];
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    let held = u64::from_str_radix(held.trim(), 16).unwrap();
    NEEDED.iter().all(|bit| held & 1 << bit != 0)
}

#[test]
fn limits_hold_against_attacks() {
    check(&[
        ("sparse $/ws/big 1048577", "ok", "EFBIG", "EFBIG"),
        ("sparse $/ws/bigger 100000000000", "ok", "EFBIG", "EFBIG"),
        ("open-many 200", "ok", "EMFILE", "EMFILE"),
        ("core", OTHER, "0", "0"),
    ]);
    check_allowed(&[
        ("sparse $/ws/big 1048576", "ok", "ok", "ok"),
        ("open-many 50", "ok", "ok", "ok"),
    ]);
}

/// Also where no control group can be created, as for a user without privileges.
#[test]
fn memory_cannot_be_flooded() {
    const IN_HANDLES: &str = "python3 -c \"import os, time\n\
        fds = [os.memfd_create('x') for _ in range(12)]\n\
        for fd in fds: os.write(fd, bytes(10 << 20))\ntime.sleep(600)\"; sleep 600; echo survived";
    const IN_FOLDER: &str = "for i in 1 2 3 4 5 6; do head -c 15M /dev/zero > /dev/shm/$i; done; sleep 600; echo survived";
    let rows = [
        (SandboxSetup::Full, IN_HANDLES, "exit Some(137)"),
        (SandboxSetup::Direct, IN_HANDLES, "exit Some(137)"),
        (SandboxSetup::Full, IN_FOLDER, "exit Some(137)"),
    ];
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        for (setup, script, expected) in rows {
            let mut profile = lab.profile(setup);
            profile.limits.memory_bytes = 64 << 20;
            profile.limits.file_bytes = 1 << 30;
            let output = lab.run(setup, &profile, "sh", &["-c", script]);
            let last = output.lines().last().unwrap_or_default();
            assert_eq!(last, expected, "{script} by {who:?} under {setup:?}: {output}");
        }
    }
}

/// The mounts are sufficient on a kernel without Landlock.
#[test]
fn mounts_hold_without_landlock() {
    let rows = [
        ("write $/outside/file", "EROFS"),
        ("chmod $/outside/file", "EROFS"),
        ("read $/secret/key", "ENOENT"),
        ("write $/ws/.git/hooks/x", "EROFS"),
        ("kill %", "ESRCH"),
        ("unix $/door", "EACCES"),
        ("abstract $", "ECONNREFUSED"),
    ];
    for who in Attacker::available() {
        let answers =
            AttackLab::new(*who).attempt_all(SandboxSetup::Mounts, &rows.map(|row| row.0));
        assert_eq!(answers, rows.map(|row| row.1), "by {who:?}");
    }
}
