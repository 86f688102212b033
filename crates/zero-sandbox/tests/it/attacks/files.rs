//! Attacks on files: those outside of the workspace, masked ones and protected ones.

use super::{UNCLAIMED, check, check_allowed};
use crate::attack_lab::{AttackLab, Attacker, SandboxSetup, is_root};

#[test]
fn nothing_outside_can_be_written() {
    check(&[
        ("append $/outside/file", "ok", "EROFS", "EACCES"),
        ("write $/outside/file", "ok", "EROFS", "EACCES"),
        ("write $/outside/new", "ok", "EROFS", "EACCES"),
        ("truncate $/outside/file", "ok", "EROFS", "EACCES"),
        ("open-trunc $/outside/file", "ok", "EROFS", "EACCES"),
        ("mkdir $/outside/folder", "ok", "EROFS", "EACCES"),
        ("rmdir $/outside/empty", "ok", "EROFS", "EACCES"),
        ("symlink $/outside/link", "ok", "EROFS", "EACCES"),
        ("mknod $/outside/node", "ok", "EROFS", "EACCES"),
        ("mkfifo $/outside/fifo", "ok", "EROFS", "EACCES"),
        ("own-unix $/outside/socket", "ok", "EROFS", "EPERM"),
        ("hardlink $/ws/file $/outside/alias", "ok", "EROFS", "EACCES"),
        ("write /proc/self/root$/outside/file", "ok", "EROFS", "EACCES"),
        ("write /proc/self/cwd/../outside/file", "ok", "EROFS", "EACCES"),
        ("write-through-link $/outside/file $/ws/link", "ok", "EROFS", "EACCES"),
        ("write-through-hardlink $/outside/file $/ws/hardlink", "ok", "EXDEV", "EXDEV"),
        ("write-through-handle $/outside/file", "ok", "EROFS", "EACCES"),
        ("swap $/ws/sub $/outside/empty2", "ok", "EXDEV", "EACCES"),
        ("rename $/ws/file $/outside/file", "ok", "EXDEV", "EACCES"),
        ("remove $/outside/file", "ok", "EROFS", "EACCES"),
    ]);
    let answers = ["EROFS", "EACCES"];
    for (setup, expected) in [SandboxSetup::Full, SandboxSetup::Direct].into_iter().zip(answers) {
        let answer = AttackLab::new(Attacker::Me)
            .attempt(setup, &["write", "/var/tmp/zero-attack-made-this"]);
        assert_eq!(answer, expected, "where everyone may write, under {setup:?}");
    }
}

#[test]
fn metadata_outside_cannot_be_changed() {
    check(&[
        ("chmod $/outside/file", "ok", "EROFS", UNCLAIMED),
        ("fchmod $/outside/file", "ok", "EROFS", UNCLAIMED),
        ("chown $/outside/file", "ok", "EROFS", UNCLAIMED),
        ("touch $/outside/file", "ok", "EROFS", UNCLAIMED),
        ("setxattr $/outside/file", "ok", "EROFS", UNCLAIMED),
    ]);
}

/// Such a file would outlive the sandbox, and let other users of the machine run as this one.
#[test]
fn files_with_set_id_cannot_be_left() {
    check(&[
        ("set-id chmod $/ws/by-chmod", "ok", "EPERM", "EPERM"),
        ("set-id fchmodat $/ws/by-fchmodat", "ok", "EPERM", "EPERM"),
        ("set-id fchmod $/ws/by-fchmod", "ok", "EPERM", "EPERM"),
        ("set-id open $/ws/by-open", "ok", "EPERM", "EPERM"),
        ("set-id creat $/ws/by-creat", "ok", "EPERM", "EPERM"),
        ("set-id mknod $/ws/by-mknod", "ok", "EPERM", "EPERM"),
        ("set-id openat2 $/ws/by-openat2", "ok", "ENOSYS", "ENOSYS"),
    ]);
}

#[test]
fn workspace_can_be_written() {
    check_allowed(&[
        ("write $/ws/file", "ok", "ok", "ok"),
        ("chmod $/ws/file", "ok", "ok", "ok"),
        ("touch $/ws/file", "ok", "ok", "ok"),
        ("mkfifo $/ws/fifo", "ok", "ok", "ok"),
        ("symlink $/ws/link", "ok", "ok", "ok"),
        ("hardlink $/ws/file $/ws/hardlink", "ok", "ok", "ok"),
        ("rename $/ws/file $/ws/sub/file", "ok", "ok", "ok"),
        ("read $/outside/file", "ok", "ok", "ok"),
        ("write /tmp/zero-attack-made-this", UNCLAIMED, "ok", "EACCES"),
        ("write /dev/shm/zero-attack-made-this", UNCLAIMED, "ok", "EACCES"),
        ("write /dev/null", "ok", "ok", "ok"),
        ("threads", "ok", "ok", "ok"),
        // Without a namespace the terminals are the host's.
        ("append /dev/ptmx", "ok", "ok", "EACCES"),
    ]);
}

#[test]
fn masked_paths_cannot_be_read() {
    check(&[
        ("read $/secret/key", "ok", "ENOENT", "EACCES"),
        ("read /proc/self/root$/secret/key", "ok", "ENOENT", "EACCES"),
        ("read /proc/thread-self/root$/secret/key", "ok", "ENOENT", "EACCES"),
        ("read /proc/self/cwd/../secret/key", "ok", "ENOENT", "EACCES"),
        ("read $/ws/sub/../../secret/key", "ok", "ENOENT", "EACCES"),
        ("read-through-link $/secret/key $/ws/link", "ok", "ENOENT", "EACCES"),
        ("read-through-hardlink $/secret/key $/ws/hardlink", "ok", "ENOENT", "EXDEV"),
        ("read-through-handle $/secret/key", "ok", "ENOENT", "EACCES"),
        ("read-through-folder-handle $/secret key", "ok", "ENOENT", "EACCES"),
        ("rename $/secret/key $/ws/taken", "ok", "EXDEV", "EACCES"),
        ("rename $/secret $/ws/taken-whole", "ok", "EXDEV", "EACCES"),
    ]);
    check(&[
        ("read $/ws/.env", "ok", "EACCES", UNCLAIMED),
        ("read-through-handle $/ws/.env", "ok", "EACCES", UNCLAIMED),
        ("read-through-hardlink $/ws/.env $/ws/hardlink", "ok", "EXDEV", UNCLAIMED),
        ("read $/ws/keys/key", "ok", "ENOENT", UNCLAIMED),
        ("list $/ws/keys", "ok", "empty", UNCLAIMED),
        ("chmod $/ws/keys", "ok", "EROFS", UNCLAIMED),
        ("chmod $/ws/.env", "ok", "EROFS", UNCLAIMED),
        ("swap $/ws/file $/ws/.env", "ok", "EBUSY", UNCLAIMED),
        ("rename $/ws/keys $/ws/sub/keys", "ok", "EBUSY", UNCLAIMED),
        ("remove $/ws/.env", "ok", "EBUSY", UNCLAIMED),
    ]);
}

#[test]
fn protected_paths_cannot_be_changed() {
    check(&[
        ("write $/ws/.git/hooks/pre-commit", "ok", "EROFS", UNCLAIMED),
        ("write $/ws/.git/config", "ok", "EROFS", UNCLAIMED),
        ("truncate $/ws/.git/config", "ok", "EROFS", UNCLAIMED),
        ("chmod $/ws/.git/config", "ok", "EROFS", UNCLAIMED),
        ("touch $/ws/.git/config", "ok", "EROFS", UNCLAIMED),
        ("write-through-link $/ws/.git/config $/ws/link", "ok", "EROFS", UNCLAIMED),
        ("write-through-hardlink $/ws/.git/config $/ws/alias", "ok", "EXDEV", UNCLAIMED),
        ("write-through-handle $/ws/.git/config", "ok", "EROFS", UNCLAIMED),
        ("swap $/ws/file $/ws/.git/config", "ok", "EXDEV", UNCLAIMED),
        ("rename $/ws/file $/ws/.git/config", "ok", "EXDEV", UNCLAIMED),
        ("rename $/ws/.git/config $/ws/taken", "ok", "EXDEV", UNCLAIMED),
        ("rename $/ws/.git/hooks $/ws/.git/moved", "ok", "EBUSY", UNCLAIMED),
        ("rename $/ws/.git/info $/ws/.git/moved-too", "ok", "EBUSY", UNCLAIMED),
        ("rename $/ws/.git $/ws/moved", "ok", "EBUSY", UNCLAIMED),
    ]);
    check(&[("remove $/ws/.git/config", "ok", "EBUSY", UNCLAIMED)]);
    check(&[("rename $/ws $/moved", "ok", "EROFS", UNCLAIMED)]);
}

#[test]
fn missing_protected_paths_cannot_be_created() {
    check(&[
        ("mkdir $/ws/.vscode/inside", "ENOENT", "EROFS", UNCLAIMED),
        ("write $/ws/.npmrc", "ok", "EISDIR", UNCLAIMED),
        ("write $/ws/.git/config.worktree", "ok", "EISDIR", UNCLAIMED),
        ("write $/ws/.git/info/attributes", "ok", "EISDIR", UNCLAIMED),
        ("mkdir $/ws/.vscode", "ok", "EEXIST", UNCLAIMED),
    ]);
    check(&[("rename $/ws/sub $/ws/.vscode", "ok", "EBUSY", UNCLAIMED)]);
    check(&[("rename $/ws/.git/info $/ws/.vscode", "ok", "EXDEV", UNCLAIMED)]);
    check(&[("symlink $/ws/.vscode", "ok", "EEXIST", UNCLAIMED)]);
}

/// Only opened, never written to: if this fails, the machine that runs the tests should survive.
#[test]
fn kernel_settings_cannot_be_opened_for_writing() {
    check(&[("append /proc/self/oom_score_adj", "ok", "EROFS", "EACCES")]);
    // For users other than root, the modes of these files deny access before the sandbox does.
    let (bare, mounts) = if is_root() { ("ok", "EROFS") } else { ("EACCES", "EACCES") };
    // They include the command's control groups: a process that can write there can leave them.
    let groups = ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs"];
    let groups = groups.into_iter().find(|path| std::path::Path::new(path).exists());
    for path in ["/proc/sys/kernel/core_pattern"].into_iter().chain(groups) {
        let answers = [
            (SandboxSetup::Bare, bare),
            (SandboxSetup::Mounts, mounts),
            (SandboxSetup::Full, mounts),
            (SandboxSetup::Direct, "EACCES"),
        ];
        for (setup, expected) in answers {
            let answer = AttackLab::new(Attacker::Me).attempt(setup, &["append", path]);
            assert_eq!(answer, expected, "{path} under {setup:?}");
        }
    }
}
