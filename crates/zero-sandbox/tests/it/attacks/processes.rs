//! Attacks on other processes: an unrelated one of the same user, the supervisor, the spawner,
//! zero.

use super::{OTHER, UNCLAIMED, check, check_allowed};
use crate::attack_lab::{AttackLab, Attacker, SandboxSetup, copy, is_root};

#[test]
fn outside_processes_cannot_be_touched() {
    check(&[
        ("kill %", "ok", "ESRCH", "EPERM"),
        ("kill-group %", "ok", "ESRCH", "EPERM"),
        ("tgkill %", "ok", "ESRCH", "EPERM"),
        ("pidfd-signal %", "ok", "ESRCH", "EPERM"),
        ("environ-of %", "ok", "ENOENT", "EACCES"),
        ("read /proc/%/maps", "ok", "ENOENT", "EACCES"),
        ("append /proc/%/mem", "ok", "ENOENT", "EACCES"),
        ("read /proc/%/fd/7", "ok", "ENOENT", "EACCES"),
        ("list /proc/%/cwd/", "ok", "ENOENT", "EACCES"),
        ("read /proc/%/root$/outside/file", "ok", "ENOENT", "EACCES"),
        ("read-memory %", "EFAULT", "EPERM", "EPERM"),
        ("limit %", "ok", "ESRCH", "EPERM"),
        ("pin %", "ok", "ESRCH", "EPERM"),
        ("idle %", "ok", "ESRCH", "EPERM"),
        ("slow-disk %", "ok", "ESRCH", "EPERM"),
        ("slow-down %", "ok", "ESRCH", "EPERM"),
        ("processes", "ok", "few", UNCLAIMED),
        ("read /proc/1/root$/secret/key", UNCLAIMED, "EACCES", "EACCES"),
    ]);
}

/// Run by the command itself, because it asks for its parent.
#[test]
fn ancestor_processes_cannot_be_touched() {
    // In a PID namespace, the only process above is the init process, which is in the same sandbox
    // and ignores signals.
    let rows = [
        ("signal", "ok ok", "ok", "EPERM EPERM EPERM"),
        ("environ", "ok ok", "EACCES", "EACCES EACCES EACCES"),
        ("maps", "ok ok", "EACCES", "EACCES EACCES EACCES"),
        ("mem", "ok ok", "EACCES", "EACCES EACCES EACCES"),
        ("fd/0", "ok ok", "EACCES", "EACCES EACCES EACCES"),
        ("fdinfo", "ok ok", "EACCES", "EACCES EACCES EACCES"),
        ("cwd", "ok ok", "EACCES", "EACCES EACCES EACCES"),
        ("root", "ok ok", "EACCES", "EACCES EACCES EACCES"),
        ("exe", "ok ok", "EACCES", "EACCES EACCES EACCES"),
    ];
    let bare = AttackLab::new(Attacker::Me);
    for (what, expected, ..) in rows {
        let answer = bare.attempt(SandboxSetup::Bare, &["above", what]);
        assert!(answer.starts_with(expected), "{what}: {answer}");
    }
    for who in Attacker::available() {
        let lab = AttackLab::new(*who);
        for (what, _, full, direct) in rows {
            for (setup, expected) in [(SandboxSetup::Full, full), (SandboxSetup::Direct, direct)] {
                let answer = lab.attempt(setup, &["above", what]);
                assert_eq!(answer, expected, "{what} by {who:?} under {setup:?}");
            }
        }
    }
}

/// The first process of the namespace is our init process; without a namespace it is the machine's.
/// The attack is not tried without a sandbox.
#[test]
fn first_process_cannot_be_touched() {
    let words = ["limit 1", "pin 1", "idle 1", "slow-disk 1", "slow-down 1", "slow-down-everybody"];
    check(&words.map(|words| (words, UNCLAIMED, "EPERM", "EPERM")));
    // It gets no signal that it does not handle, and the command goes on.
    for who in Attacker::available() {
        let script =
            "for s in KILL STOP TERM INT HUP USR1; do kill -$s 1; done; sleep 0.1; echo on";
        let lab = AttackLab::new(*who);
        assert_eq!(lab.run_shell(&lab.profile(SandboxSetup::Full), script), "on");
    }
}

/// Libraries pin threads by their IDs, and users lower the priority of programs.
#[test]
fn own_threads_and_programs_can_be_pinned_and_slowed() {
    let lab = AttackLab::new(Attacker::Me);
    let own = "nice -n 5 taskset -c 0 true && ionice -c 3 true && ulimit -n 64 && echo ok";
    for setup in [SandboxSetup::Full, SandboxSetup::Direct] {
        assert_eq!(lab.run(setup, &lab.profile(setup), "bash", &["-c", own]), "ok", "{setup:?}");
    }
    let children = "sleep 600 & renice -n 5 $! >/dev/null && taskset -pc 0 $! >/dev/null && echo ok; \
        kill $!";
    assert_eq!(lab.run_shell(&lab.profile(SandboxSetup::Full), children), "ok");
}

#[test]
fn command_can_control_own_processes() {
    check_allowed(&[
        ("limit 0", "ok", "ok", "ok"),
        ("pin 0", "ok", "ok", "ok"),
        ("idle 0", "ok", "ok", "ok"),
        ("slow-disk 0", "ok", "ok", "ok"),
        ("slow-down 0", "ok", "ok", "ok"),
    ]);
}

#[test]
fn handles_are_not_inherited() {
    check(&[("handles", OTHER, "0,1,2", "0,1,2")]);
}

#[test]
fn privileges_are_neither_held_nor_gained() {
    check(&[("capabilities", OTHER, "none1", "none1")]);
}

/// Only root can create a program that runs as root for other users. A user other than root has no
/// privileges without a sandbox either, so there is nothing more to show.
#[test]
fn setuid_program_gives_no_root() {
    if !is_root() {
        let lab = AttackLab::new(Attacker::Me);
        assert!(lab.attempt(SandboxSetup::Bare, &["capabilities"]).starts_with("none"));
        assert_ne!(lab.attempt(SandboxSetup::Full, &["euid-of", "$/attack"]), "0");
        return;
    }
    let held = AttackLab::new(Attacker::Me).attempt(SandboxSetup::Bare, &["capabilities"]);
    assert_eq!(held, "some");
    for (setup, expected) in
        [(SandboxSetup::Bare, "0"), (SandboxSetup::Full, "65534"), (SandboxSetup::Direct, "65534")]
    {
        let lab = AttackLab::new(Attacker::Nobody);
        let program = lab.path("as-root");
        copy(&lab.path("attack"), &program);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
        std::fs::set_permissions(&program, mode).unwrap();
        assert_eq!(lab.attempt(setup, &["euid-of", "$/as-root"]), expected, "{setup:?}");
    }
}
