//! Placeholders for missing files: where they are visible and when they are removed.

use zero_sandbox::{SandboxProfile, SandboxProperty};

use crate::attack_lab::{AttackLab, Attacker, SandboxSetup};

/// A profile that also protects files of the repository that do not exist.
fn profile_with_missing_files(lab: &AttackLab) -> SandboxProfile {
    let mut profile = lab.profile(SandboxSetup::Full);
    profile.protected = vec![lab.path("ws/.git/hooks"), lab.path("ws/.zero")];
    profile.protected_files = ["config", "config.worktree", "info/attributes"]
        .map(|n| lab.path("ws/.git").join(n))
        .into();
    profile
}

#[test]
fn empty_file_is_placeholder_for_missing_file() {
    let rows = [
        ("read $/ws/.git/config.worktree", "empty"),
        ("write $/ws/.git/config.worktree", "EROFS"),
        ("remove $/ws/.git/config.worktree", "EBUSY"),
        ("rename $/ws/file $/ws/.git/config.worktree", "EXDEV"),
        ("rename $/ws/.git/info $/ws/.git/x", "EBUSY"),
        ("rename $/ws/.git/info/attributes $/ws/x", "EXDEV"),
        ("hardlink $/ws/.git/config.worktree $/ws/x", "EXDEV"),
        ("chmod $/ws/.git/config.worktree", "EROFS"),
        ("write $/ws/.git/info/exclude", "ok"),
        ("mkdir $/ws/.zero/x", "EROFS"),
    ];
    for who in Attacker::available() {
        for setup in [SandboxSetup::Full, SandboxSetup::Mounts] {
            let lab = AttackLab::new(*who);
            let profile = profile_with_missing_files(&lab);
            let answers = lab.attempt_all_under(setup, &profile, &rows.map(|row| row.0));
            assert_eq!(answers, rows.map(|row| row.1), "{rows:?} by {who:?} under {setup:?}");
            for name in ["ws/.zero", "ws/.git/config.worktree", "ws/.git/info/attributes"] {
                assert!(!lab.path(name).exists(), "{name} is left");
            }
        }
    }
}

#[test]
fn folder_is_placeholder_for_deeper_missing_file() {
    let lab = AttackLab::new(Attacker::Me);
    std::fs::remove_dir(lab.path("ws/.git/info")).unwrap();
    let attempt = |words: &[&str]| {
        lab.attempt_under(SandboxSetup::Full, &profile_with_missing_files(&lab), words)
    };
    assert_eq!(attempt(&["write", "$/ws/.git/info/attributes"]), "EROFS");
    assert!(!lab.path("ws/.git/info").exists());
}

#[test]
fn placeholder_file_filled_meanwhile_is_kept() {
    let lab = AttackLab::new(Attacker::Me);
    let profile = profile_with_missing_files(&lab);
    let stood = lab.path("ws/.git/config.worktree");
    std::thread::scope(|scope| {
        let (lab, profile) = (&lab, &profile);
        let script = "while ! test -e go; do sleep 0.01; done";
        let running = scope.spawn(move || lab.run_shell(profile, script));
        while !stood.exists() {
            std::thread::yield_now();
        }
        // A second command relies on it too, and ends first.
        assert_eq!(lab.attempt_under(SandboxSetup::Full, profile, &["threads"]), "ok");
        assert!(stood.exists(), "another command still relies on it");
        std::fs::write(&stood, "[core]\n").unwrap();
        std::fs::write(lab.path("ws/go"), "").unwrap();
        assert_eq!(running.join().unwrap(), "");
    });
    assert_eq!(std::fs::read_to_string(&stood).unwrap(), "[core]\n");
}

#[test]
fn missing_file_without_mounts_is_reported_as_gap() {
    let lab = AttackLab::new(Attacker::Me);
    let mut profile = lab.profile(SandboxSetup::Direct);
    profile.protected_files = vec![lab.path("ws/.git/config.worktree")];
    let answer = lab.attempt_under(SandboxSetup::Direct, &profile, &["threads"]);
    assert!(answer.contains("`protected` cannot be enforced here"), "{answer}");
    assert!(
        answer.contains(".git/config.worktree` is in a folder that is writable as a whole"),
        "{answer}"
    );
    profile.weaknesses.push(SandboxProperty::Protected);
    assert_eq!(lab.attempt_under(SandboxSetup::Direct, &profile, &["threads"]), "ok");
    assert!(!lab.path("ws/.git/config.worktree").exists(), "no placeholder is left");
}

#[test]
fn outward_link_without_mounts_is_reported_as_gap() {
    let lab = AttackLab::new(Attacker::Me);
    std::os::unix::fs::symlink(lab.path("outside"), lab.path("ws/.zero")).unwrap();
    let mut profile = lab.profile(SandboxSetup::Direct);
    profile.protected = vec![lab.path("ws/.zero")];
    let answer = lab.attempt_under(SandboxSetup::Direct, &profile, &["threads"]);
    assert!(answer.contains("`protected` cannot be enforced here"), "{answer}");
}

#[test]
fn many_commands_share_one_private_tmp() {
    let lab = AttackLab::new(Attacker::Me);
    let profile = profile_with_missing_files(&lab);
    std::thread::scope(|scope| {
        let script = "sleep 0.$((RANDOM % 3)); mkdir .zero/x 2>/dev/null || echo held";
        let run = || lab.run(SandboxSetup::Full, &profile, "bash", &["-c", script]);
        let running: Vec<_> = (0..12).map(|_| scope.spawn(run)).collect();
        for answer in running {
            assert_eq!(answer.join().unwrap(), "held");
        }
    });
    zero_sandbox::confinement::sweep_placeholders(&profile.tmp);
    let left = list_records(&lab);
    assert!(left.is_empty() && !lab.path("ws/.zero").exists(), "{left:?}");
}

#[test]
fn commands_beside_a_job_leave_no_records() {
    let lab = AttackLab::new(Attacker::Me);
    let profile = profile_with_missing_files(&lab);
    std::thread::scope(|scope| {
        let (lab, profile) = (&lab, &profile);
        let script = "while ! test -e go; do sleep 0.01; done";
        let job = scope.spawn(move || lab.run_shell(profile, script));
        while !lab.path("ws/.git/config.worktree").exists() {
            std::thread::yield_now();
        }
        let made: Vec<usize> = (0..10)
            .map(|_| {
                assert_eq!(
                    lab.run_shell(profile, "mkdir .zero/x 2>/dev/null || echo held"),
                    "held"
                );
                list_records(lab).len()
            })
            .collect();
        std::fs::write(lab.path("ws/go"), "").unwrap();
        // One of the job, and at most one of the sandbox that is prewarmed for the next command.
        assert!(made.iter().all(|count| *count <= 2), "{made:?}");
        assert_eq!(job.join().unwrap(), "");
    });
    assert!(list_records(&lab).is_empty() && !lab.path("ws/.zero").exists());
}

/// The records of placeholders.
fn list_records(lab: &AttackLab) -> Vec<String> {
    let entries = std::fs::read_dir(lab.path("")).unwrap().flatten();
    entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name.ends_with("placeholders"))
        .collect()
}

#[test]
fn relative_protected_file_is_refused() {
    let lab = AttackLab::new(Attacker::Me);
    let mut profile = lab.profile(SandboxSetup::Full);
    profile.protected_files.push("config".into());
    let answer = lab.attempt_under(SandboxSetup::Full, &profile, &["threads"]);
    assert!(answer.contains("`config` is not an absolute path"), "{answer}");
}
