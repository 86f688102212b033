//! One row per attack: what the kernel answers bare, behind every layer, and without bubblewrap.
//!
//! The first column is what makes the others worth something: it shows that the attack works when
//! nothing stands in its way, so that its row would be red without the walls. What would do harm
//! there has arguments that make it fail, in another way than the walls do.

mod files;
mod processes;
mod sockets;
mod system_calls;

use crate::attack_lab::{AttackLab, Attacker, SandboxSetup, is_root};

/// Not promised without bubblewrap, so not looked at.
const UNCLAIMED: &str = "-";
/// Depends on the machine, but is something else than the walls answer.
const OTHER: &str = "*";

/// How often walls that stand ready are tried for.
const READY_TRIES_MAX: u32 = 200;

/// An attack, and the answers to it bare, behind every layer, and without bubblewrap.
type AttackRow<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Everybody tries everything.
#[track_caller]
fn check(rows: &[AttackRow<'_>]) {
    for who in Attacker::available() {
        check_unconfined(*who, rows);
        check_sandboxed(*who, rows);
    }
}

/// Only somebody who holds privileges can do these bare; nobody can behind walls.
#[track_caller]
fn check_privileged(rows: &[AttackRow<'_>]) {
    if is_root() && has_full_root_capabilities() {
        check_unconfined(Attacker::Me, rows);
    }
    for who in Attacker::available() {
        check_sandboxed(*who, rows);
    }
}

/// What the walls are to let through, so that they do not answer otherwise than nothing does.
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
        assert!(answer != full && answer != direct, "{words}: {answer} without walls, by {who:?}");
    }
}

#[track_caller]
fn check_sandboxed(who: Attacker, rows: &[AttackRow<'_>]) {
    check_answers(who, SandboxSetup::Full, rows, |row| row.2);
    check_answers(who, SandboxSetup::Prewarmed, rows, |row| row.2);
    check_answers(who, SandboxSetup::Direct, rows, |row| row.3);
}

/// Runs the rows that say something here, in a new lab: attacks that work leave a mess.
#[track_caller]
fn check_answers<'a>(
    who: Attacker,
    walls: SandboxSetup,
    rows: &[AttackRow<'a>],
    expected: impl Fn(&AttackRow<'a>) -> &'a str,
) -> Vec<(AttackRow<'a>, String)> {
    let rows: Vec<AttackRow<'a>> =
        rows.iter().copied().filter(|row| expected(row) != UNCLAIMED).collect();
    let words: Vec<&str> = rows.iter().map(|row| row.0).collect();
    let answers = collect_answers(who, walls, &words);
    assert_eq!(answers.len(), rows.len(), "answers by {who:?} behind {walls:?}: {answers:?}");
    let wrong: Vec<String> = rows
        .iter()
        .zip(&answers)
        .filter(|(row, answer)| expected(row) != OTHER && expected(row) != *answer)
        .map(|(row, answer)| format!("{}: {answer}, not {}", row.0, expected(row)))
        .collect();
    assert!(wrong.is_empty(), "by {who:?} behind {walls:?}:\n{}", wrong.join("\n"));
    rows.into_iter().zip(answers).collect()
}

/// What the kernel answers to each. Walls that are to stand ready may not when the host changes,
/// and other tests change it all the time.
#[track_caller]
fn collect_answers(who: Attacker, walls: SandboxSetup, words: &[&str]) -> Vec<String> {
    for _ in 0..READY_TRIES_MAX {
        let lab = AttackLab::new(who);
        let answers = lab.attempt_all(walls, words);
        if walls != SandboxSetup::Prewarmed || lab.last_sandbox_reuse() == "Ready" {
            return answers;
        }
    }
    panic!("no walls stood ready in {READY_TRIES_MAX} tries");
}

/// Whether root has here what the calls of the machine take. In a container it may have less.
fn has_full_root_capabilities() -> bool {
    /// The rights to read any file, load modules, use ports, change the root, keep accounts, mount,
    /// restart, set the clock, and read the kernel's log.
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

/// Also where no control group can be made, as for somebody without rights.
#[test]
fn memory_cannot_be_flooded() {
    const IN_HANDLES: &str = "python3 -c \"import os, time\n\
        fds = [os.memfd_create('x') for _ in range(12)]\n\
        for fd in fds: os.write(fd, bytes(10 << 20))\ntime.sleep(600)\"; sleep 600; echo survived";
    const IN_FOLDER: &str = "for i in 1 2 3 4 5 6; do head -c 15M /dev/zero > /dev/shm/$i; done; sleep 600; echo survived";
    const WITHIN: &str = "head -c 15M /dev/zero > /dev/shm/x; sleep 0.3; echo survived";
    let rows = [
        (SandboxSetup::Full, IN_HANDLES, "exit Some(137)"),
        (SandboxSetup::Direct, IN_HANDLES, "exit Some(137)"),
        (SandboxSetup::Full, IN_FOLDER, "exit Some(137)"),
        (SandboxSetup::Full, WITHIN, "survived"),
    ];
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        for (walls, script, expected) in rows {
            let mut profile = lab.profile(walls);
            profile.limits.memory_bytes = 64 << 20;
            profile.limits.file_bytes = 1 << 30;
            let said = lab.run(walls, &profile, "sh", &["-c", script]);
            let last = said.lines().last().unwrap_or_default();
            assert_eq!(last, expected, "{script} by {who:?} behind {walls:?}: {said}");
        }
    }
}

/// The mounts hold by themselves, where the kernel has no Landlock.
#[test]
fn mounts_hold_without_landlock() {
    let rows = [
        ("write $/outside/file", "EROFS"),
        ("chmod $/outside/file", "EROFS"),
        ("read $/secret/key", "EACCES"),
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
