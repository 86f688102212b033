//! One row per attack: what the kernel answers bare, behind every layer, and without bubblewrap.
//!
//! The first column is what makes the others worth something: it shows that the attack works when
//! nothing stands in its way.

use crate::lab::{Lab, Walls, Who, copy, is_root};

/// Not promised without bubblewrap, so not looked at.
const UNCLAIMED: &str = "-";

#[track_caller]
fn check(words: &[&str], [bare, full, direct]: [&str; 3]) {
    for who in Who::all() {
        for (walls, expected) in [(Walls::Bare, bare), (Walls::Full, full), (Walls::Direct, direct)]
        {
            if expected == UNCLAIMED {
                continue;
            }
            // A new one each time: an attack that works leaves a mess.
            let lab = Lab::new(*who);
            let answer = lab.attempt(walls, words);
            assert_eq!(answer, expected, "{words:?} by {who:?} behind {walls:?}");
        }
    }
}

#[test]
fn nothing_outside_is_written() {
    check(&["write", "$/outside/file"], ["ok", "EROFS", "EACCES"]);
    check(&["write", "$/outside/new"], ["ok", "EROFS", "EACCES"]);
    check(&["append", "$/outside/file"], ["ok", "EROFS", "EACCES"]);
    check(&["truncate", "$/outside/file"], ["ok", "EROFS", "EACCES"]);
    check(&["mkdir", "$/outside/new"], ["ok", "EROFS", "EACCES"]);
    check(&["remove", "$/outside/file"], ["ok", "EROFS", "EACCES"]);
    check(&["rename", "$/ws/file", "$/outside/file"], ["ok", "EXDEV", "EACCES"]);
    check(&["write", "/proc/self/root$/outside/file"], ["ok", "EROFS", "EACCES"]);
    check(&["write", "/var/tmp/zero-attack-made-this"], [UNCLAIMED, "EROFS", "EACCES"]);
}

#[test]
fn the_workspace_is_written() {
    check(&["write", "$/ws/file"], ["ok", "ok", "ok"]);
    check(&["rename", "$/ws/file", "$/ws/sub/file"], ["ok", "ok", "ok"]);
    check(&["read", "$/outside/file"], ["ok", "ok", "ok"]);
    check(&["write", "/tmp/zero-attack-made-this"], [UNCLAIMED, "ok", "EACCES"]);
    check(&["write", "/dev/null"], ["ok", "ok", "ok"]);
    check(&["threads"], ["ok", "ok", "ok"]);
    // Without a namespace the terminals are the host's.
    check(&["append", "/dev/ptmx"], ["ok", "ok", "EACCES"]);
    check(&["call", "shmget"], ["ENOENT", "ENOENT", "EPERM"]);
}

#[test]
fn what_is_masked_is_not_read() {
    check(&["read", "$/secret/key"], ["ok", "EACCES", "EACCES"]);
    check(&["read", "/proc/self/root$/secret/key"], ["ok", "EACCES", "EACCES"]);
    check(&["read-through-link", "$/secret/key", "$/ws/link"], ["ok", "EACCES", "EACCES"]);
    check(&["read-through-hardlink", "$/secret/key", "$/ws/link"], ["ok", "EACCES", "EXDEV"]);
    check(&["read", "$/ws/.env"], ["ok", "EACCES", UNCLAIMED]);
    check(&["read", "$/ws/keys/key"], ["ok", "EACCES", UNCLAIMED]);
    check(&["list", "$/ws/keys"], ["ok", "EACCES", UNCLAIMED]);
    check(&["chmod", "$/ws/keys"], ["ok", "EROFS", UNCLAIMED]);
    check(&["chmod", "$/ws/.env"], ["ok", "EROFS", UNCLAIMED]);
    check(&["rename", "$/ws/keys", "$/ws/sub/keys"], ["ok", "EBUSY", UNCLAIMED]);
    check(&["remove", "$/ws/.env"], ["ok", "EBUSY", UNCLAIMED]);
}

#[test]
fn what_is_protected_stays() {
    check(&["write", "$/ws/.git/hooks/pre-commit"], ["ok", "EROFS", UNCLAIMED]);
    check(&["write", "$/ws/.git/config"], ["ok", "EROFS", UNCLAIMED]);
    check(&["rename", "$/ws/file", "$/ws/.git/config"], ["ok", "EXDEV", UNCLAIMED]);
    check(&["rename", "$/ws/.git", "$/ws/moved"], ["ok", "EBUSY", UNCLAIMED]);
    check(&["rename", "$/ws/.git/info", "$/ws/.git/moved"], ["ok", "EBUSY", UNCLAIMED]);
    check(&["rename", "$/ws/.git/hooks", "$/ws/.git/moved"], ["ok", "EBUSY", UNCLAIMED]);
    check(&["rename", "$/ws", "$/moved"], ["ok", "EROFS", UNCLAIMED]);
}

#[test]
fn what_is_protected_is_not_made() {
    check(&["write", "$/ws/.npmrc"], ["ok", "EISDIR", UNCLAIMED]);
    check(&["write", "$/ws/.git/config.worktree"], ["ok", "EISDIR", UNCLAIMED]);
    check(&["write", "$/ws/.git/info/attributes"], ["ok", "EISDIR", UNCLAIMED]);
    check(&["mkdir", "$/ws/.vscode"], ["ok", "EEXIST", UNCLAIMED]);
    check(&["mkdir", "$/ws/.vscode/inside"], ["ENOENT", "EROFS", UNCLAIMED]);
    check(&["rename", "$/ws/sub", "$/ws/.vscode"], ["ok", "EBUSY", UNCLAIMED]);
    check(&["rename", "$/ws/.git/info", "$/ws/.vscode"], ["ok", "EXDEV", UNCLAIMED]);
}

#[test]
fn nobody_is_reached() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    check(&["tcp", &address], ["ok", "EPERM", "EPERM"]);
    check(&["udp", &address], ["ok", "EPERM", "EPERM"]);
    check(&["own-loopback"], ["ok", "EPERM", "EPERM"]);
    let [inet6, netlink, vsock, alg] =
        [libc::AF_INET6, libc::AF_NETLINK, libc::AF_VSOCK, libc::AF_ALG].map(|f| f.to_string());
    check(&["socket", &inet6, "2"], ["ok", "EPERM", "EPERM"]);
    check(&["socket", &netlink, "3"], ["ok", "EPERM", "EPERM"]);
    for family in [vsock, alg] {
        check(&["socket", &family, "5"], [UNCLAIMED, "EPERM", "EPERM"]);
    }
    check(&["unix", "$/door"], ["ok", "EACCES", "EPERM"]);
    check(&["abstract", "$"], ["ok", "ECONNREFUSED", "EPERM"]);
    check(&["pair"], ["ok", "ok", "ok"]);
    check(&["own-unix", "$/ws/s"], ["ok", "ok", "EPERM"]);
}

#[test]
fn raw_sockets_stay_closed() {
    let (inet, packet) = (libc::AF_INET.to_string(), libc::AF_PACKET.to_string());
    check(&["socket", &inet, "3"], [UNCLAIMED, "EPERM", "EPERM"]);
    check(&["socket", &packet, "3"], [UNCLAIMED, "EPERM", "EPERM"]);
    if is_root() {
        let lab = Lab::new(Who::Me);
        assert_eq!(lab.attempt(Walls::Bare, &["socket", &packet, "3"]), "ok");
    }
}

#[test]
fn processes_outside_are_left_alone() {
    check(&["kill", "%"], ["ok", "ESRCH", "EPERM"]);
    // Behind mounts there is nobody above but the first process of the namespace.
    check(&["kill-above"], [UNCLAIMED, "ok", "EPERM EPERM EPERM"]);
    let bare = Lab::new(Who::Me).attempt(Walls::Bare, &["kill-above"]);
    assert!(bare.starts_with("ok ok"), "{bare}");
    check(&["ptrace", "%"], [UNCLAIMED, "EPERM", "EPERM"]);
    check(&["environ-of", "%"], ["ok", "ENOENT", "EACCES"]);
    check(&["read", "/proc/%/root$/outside/file"], ["ok", "ENOENT", "EACCES"]);
    check(&["read", "/proc/1/root$/secret/key"], [UNCLAIMED, "EACCES", "EACCES"]);
    check(&["processes"], ["ok", "few", UNCLAIMED]);
}

#[test]
fn handles_are_not_inherited() {
    check(&["handles"], ["some", "none", "none"]);
}

#[test]
fn the_kernel_refuses_calls() {
    check(&["new-user-namespace"], ["ok", "EPERM", "EPERM"]);
    check(&["new-namespace-by-clone"], ["ok", "EPERM", "EPERM"]);
    check(&["call", "keyctl"], ["EOPNOTSUPP", "EPERM", "EPERM"]);
    check(&["call", "io_uring_setup"], ["EFAULT", "EPERM", "EPERM"]);
    check(&["call", "setns"], ["EBADF", "EPERM", "EPERM"]);
    check(&["call", "pidfd_getfd"], ["EBADF", "EPERM", "EPERM"]);
    check(&["call", "process_vm_readv"], [UNCLAIMED, "EPERM", "EPERM"]);
    check(&["call", "userfaultfd"], [UNCLAIMED, "EPERM", "EPERM"]);
    check(&["call", "perf_event_open"], ["EFAULT", "EPERM", "EPERM"]);
    check(&["call", "bpf"], [UNCLAIMED, "EPERM", "EPERM"]);
    check(&["call", "mount"], [UNCLAIMED, "EPERM", "EPERM"]);
    check(&["call", "open_tree"], [UNCLAIMED, "EPERM", "EPERM"]);
    check(&["call", "clone3"], ["EINVAL", "ENOSYS", "ENOSYS"]);
    check(&["type-into-terminal"], [UNCLAIMED, "EPERM", "EPERM"]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_another_interface_end_the_process() {
    let killed = "exit Some(159)";
    check(&["x32"], ["ENOSYS", killed, killed]);
}

#[test]
fn no_privilege_is_held_or_gained() {
    check(&["capabilities"], [UNCLAIMED, "none1", "none1"]);
    if !is_root() {
        return;
    }
    let held = Lab::new(Who::Me).attempt(Walls::Bare, &["capabilities"]);
    assert_eq!(held, "some");
    for (walls, expected) in [(Walls::Bare, "0"), (Walls::Full, "65534"), (Walls::Direct, "65534")]
    {
        let lab = Lab::new(Who::Nobody);
        let program = lab.path("as-root");
        copy(&lab.path("attack"), &program);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
        std::fs::set_permissions(&program, mode).unwrap();
        assert_eq!(lab.attempt(walls, &["euid-of", "$/as-root"]), expected, "{walls:?}");
    }
}

#[test]
fn limits_hold() {
    check(&["sparse", "$/ws/big", "1048577"], ["ok", "EFBIG", "EFBIG"]);
    check(&["sparse", "$/ws/big", "1048576"], ["ok", "ok", "ok"]);
    check(&["open-many", "200"], ["ok", "EMFILE", "EMFILE"]);
    check(&["open-many", "50"], ["ok", "ok", "ok"]);
    check(&["core"], [UNCLAIMED, "0", "0"]);
}

/// The mounts hold by themselves, where the kernel has no Landlock.
#[test]
fn mounts_need_no_second_wall() {
    let rows: &[(&[&str], &str)] = &[
        (&["write", "$/outside/file"], "EROFS"),
        (&["read", "$/secret/key"], "EACCES"),
        (&["write", "$/ws/.git/hooks/x"], "EROFS"),
        (&["kill", "%"], "ESRCH"),
        (&["unix", "$/door"], "EACCES"),
        (&["abstract", "$"], "ECONNREFUSED"),
    ];
    for who in Who::all() {
        for (words, expected) in rows {
            let lab = Lab::new(*who);
            assert_eq!(lab.attempt(Walls::Mounts, words), *expected, "{words:?} by {who:?}");
        }
    }
}

/// Only opened, never written to: if this fails, the machine that runs the tests should survive.
#[test]
fn the_settings_of_the_kernel_are_not_roots() {
    check(&["append", "/proc/self/oom_score_adj"], ["ok", "EROFS", "EACCES"]);
    if !is_root() {
        return;
    }
    let answers = [
        (Walls::Bare, "ok"),
        (Walls::Mounts, "EROFS"),
        (Walls::Full, "EROFS"),
        (Walls::Direct, "EACCES"),
    ];
    for (walls, expected) in answers {
        let answer = Lab::new(Who::Me).attempt(walls, &["append", "/proc/sys/kernel/core_pattern"]);
        assert_eq!(answer, expected, "behind {walls:?}");
    }
}
