//! System calls with meaningless arguments: if a call is allowed, the kernel rejects the arguments,
//! and nothing happens, whoever makes it.

use std::io;

/// An invalid address.
const BAD_POINTER: i64 = -1;

/// Every call that the filter refuses, except for `vhangup`: it has no arguments that could be
/// wrong, and it would hang up the terminal of the user who runs the tests.
const CALLS: &[(&str, libc::c_long, [i64; 4])] = &[
    ("acct", libc::SYS_acct, [BAD_POINTER, 0, 0, 0]),
    ("add_key", libc::SYS_add_key, [BAD_POINTER, 0, 0, 0]),
    ("adjtimex", libc::SYS_adjtimex, [BAD_POINTER, 0, 0, 0]),
    ("bpf", libc::SYS_bpf, [BAD_POINTER, 0, 0, 0]),
    ("chroot", libc::SYS_chroot, [BAD_POINTER, 0, 0, 0]),
    ("clock_adjtime", libc::SYS_clock_adjtime, [0, BAD_POINTER, 0, 0]),
    ("clock_settime", libc::SYS_clock_settime, [0, BAD_POINTER, 0, 0]),
    ("clone3", libc::SYS_clone3, [BAD_POINTER, 0, 0, 0]),
    ("delete_module", libc::SYS_delete_module, [BAD_POINTER, 0, 0, 0]),
    ("fanotify_init", libc::SYS_fanotify_init, [BAD_POINTER, 0, 0, 0]),
    ("finit_module", libc::SYS_finit_module, [-1, 0, 0, 0]),
    ("fsconfig", libc::SYS_fsconfig, [-1, 0, 0, 0]),
    ("fsmount", libc::SYS_fsmount, [-1, 0, 0, 0]),
    ("fsopen", libc::SYS_fsopen, [BAD_POINTER, 0, 0, 0]),
    ("fspick", libc::SYS_fspick, [-1, BAD_POINTER, 0, 0]),
    ("init_module", libc::SYS_init_module, [BAD_POINTER, 0, 0, 0]),
    ("io_uring_enter", libc::SYS_io_uring_enter, [-1, 0, 0, 0]),
    ("io_uring_register", libc::SYS_io_uring_register, [-1, 0, 0, 0]),
    ("io_uring_setup", libc::SYS_io_uring_setup, [1, BAD_POINTER, 0, 0]),
    ("kcmp", libc::SYS_kcmp, [-1, -1, 0, 0]),
    // Without segments it would unload the kernel that is ready to boot.
    ("kexec_load", libc::SYS_kexec_load, [0, -1, BAD_POINTER, 0]),
    ("keyctl", libc::SYS_keyctl, [-1, 0, 0, 0]),
    ("migrate_pages", libc::SYS_migrate_pages, [-1, 0, 0, 0]),
    ("mount", libc::SYS_mount, [BAD_POINTER, BAD_POINTER, BAD_POINTER, 0]),
    ("mount_setattr", libc::SYS_mount_setattr, [-1, BAD_POINTER, -1, BAD_POINTER]),
    ("mq_unlink", libc::SYS_mq_unlink, [BAD_POINTER, 0, 0, 0]),
    ("msgctl", libc::SYS_msgctl, [-1, 0, 0, 0]),
    ("msgrcv", libc::SYS_msgrcv, [-1, BAD_POINTER, 1, 0]),
    ("msgsnd", libc::SYS_msgsnd, [-1, BAD_POINTER, 1, 0]),
    ("move_mount", libc::SYS_move_mount, [-1, BAD_POINTER, -1, BAD_POINTER]),
    ("move_pages", libc::SYS_move_pages, [-1, 0, 0, 0]),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, [-1, BAD_POINTER, 0, 0]),
    ("open_tree", libc::SYS_open_tree, [-1, BAD_POINTER, 0, 0]),
    ("perf_event_open", libc::SYS_perf_event_open, [BAD_POINTER, 0, 0, 0]),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, [-1, 0, 0, 0]),
    ("pivot_root", libc::SYS_pivot_root, [BAD_POINTER, BAD_POINTER, 0, 0]),
    ("process_madvise", libc::SYS_process_madvise, [-1, 0, 0, 0]),
    ("process_vm_writev", libc::SYS_process_vm_writev, [-1, BAD_POINTER, 1, BAD_POINTER]),
    ("ptrace", libc::SYS_ptrace, [-1, -1, 0, 0]),
    ("quotactl", libc::SYS_quotactl, [-1, BAD_POINTER, 0, 0]),
    ("quotactl_fd", libc::SYS_quotactl_fd, [-1, -1, 0, 0]),
    // The kernel expects two magic numbers first.
    ("reboot", libc::SYS_reboot, [0, 0, 0, 0]),
    ("request_key", libc::SYS_request_key, [BAD_POINTER, 0, 0, 0]),
    // A name of length zero would be accepted; one of this length is not.
    ("semctl", libc::SYS_semctl, [-1, 0, 0, 0]),
    ("semop", libc::SYS_semop, [-1, BAD_POINTER, 1, 0]),
    ("setdomainname", libc::SYS_setdomainname, [BAD_POINTER, -1, 0, 0]),
    ("sethostname", libc::SYS_sethostname, [BAD_POINTER, -1, 0, 0]),
    ("setns", libc::SYS_setns, [-1, 0, 0, 0]),
    ("settimeofday", libc::SYS_settimeofday, [BAD_POINTER, 0, 0, 0]),
    ("shmctl", libc::SYS_shmctl, [-1, 0, 0, 0]),
    ("shmget", libc::SYS_shmget, [1, 0, 0, 0]),
    ("swapoff", libc::SYS_swapoff, [BAD_POINTER, 0, 0, 0]),
    ("swapon", libc::SYS_swapon, [BAD_POINTER, 0, 0, 0]),
    ("syslog", libc::SYS_syslog, [-1, 0, 0, 0]),
    ("umount", libc::SYS_umount2, [BAD_POINTER, 0, 0, 0]),
    ("userfaultfd", libc::SYS_userfaultfd, [0xffff, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    ("ioperm", libc::SYS_ioperm, [-1, -1, 1, 0]),
    #[cfg(target_arch = "x86_64")]
    ("iopl", libc::SYS_iopl, [99, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    ("kexec_file_load", libc::SYS_kexec_file_load, [-1, -1, 0, BAD_POINTER]),
    #[cfg(target_arch = "x86_64")]
    ("modify_ldt", libc::SYS_modify_ldt, [-1, 0, 0, 0]),
];

/// The result of a call of this module; `None` for other attempts.
pub(crate) fn attempt(name: &str, args: &[&str]) -> Option<io::Result<String>> {
    Some(match (name, args) {
        ("call", [call]) => match CALLS.iter().find(|(name, ..)| name == call) {
            Some((_, number, [a, b, c, d])) => {
                crate::check_syscall(unsafe { libc::syscall(*number, *a, *b, *c, *d, 0, 0) })
            }
            None => Ok(format!("no such call: {call}")),
        },
        ("unshare", [flag]) => match parse_namespace_flag(flag) {
            Some(flag) => crate::check_syscall(unsafe { libc::syscall(libc::SYS_unshare, flag) }),
            None => Ok(format!("no such namespace: {flag}")),
        },
        ("clone", [flag]) => match parse_namespace_flag(flag) {
            Some(flag) => {
                match unsafe { libc::syscall(libc::SYS_clone, flag | libc::SIGCHLD, 0, 0, 0, 0) } {
                    0 => unsafe { libc::_exit(0) },
                    answer => crate::check_syscall(answer),
                }
            }
            None => Ok(format!("no such namespace: {flag}")),
        },
        // High bits do not circumvent the filter: the kernel ignores them.
        ("type-into-terminal", [request]) => {
            let request = if *request == "TIOCSTI" { libc::TIOCSTI } else { libc::TIOCLINUX };
            let key = b"x";
            crate::check_syscall(unsafe {
                libc::syscall(libc::SYS_ioctl, 0, request | 1 << 40, key.as_ptr())
            })
        }
        #[cfg(target_arch = "x86_64")]
        ("x32", []) => {
            crate::check_syscall(unsafe { libc::syscall(0x4000_0000 + libc::SYS_getpid) })
        }
        #[cfg(target_arch = "x86_64")]
        ("int80", []) => Ok(if getpid_32_bit() > 0 { "ok" } else { "nothing" }.to_owned()),
        _ => return None,
    })
}

fn parse_namespace_flag(flag: &str) -> Option<libc::c_int> {
    Some(match flag {
        "user" => libc::CLONE_NEWUSER,
        // A process in its own user namespace may create the others.
        "mount" => libc::CLONE_NEWUSER | libc::CLONE_NEWNS,
        "net" => libc::CLONE_NEWUSER | libc::CLONE_NEWNET,
        "pid" => libc::CLONE_NEWUSER | libc::CLONE_NEWPID,
        "ipc" => libc::CLONE_NEWUSER | libc::CLONE_NEWIPC,
        "uts" => libc::CLONE_NEWUSER | libc::CLONE_NEWUTS,
        "cgroup" => libc::CLONE_NEWUSER | libc::CLONE_NEWCGROUP,
        _ => return None,
    })
}

/// The entry for 32-bit programs, whose calls have other numbers.
#[cfg(target_arch = "x86_64")]
fn getpid_32_bit() -> i32 {
    let mut answer = 20_i32;
    unsafe {
        std::arch::asm!("int 0x80", inout("eax") answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _)
    };
    answer
}
