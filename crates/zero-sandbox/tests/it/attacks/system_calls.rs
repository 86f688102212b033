//! System calls that attack the kernel.

use super::{AttackRow, OTHER, check, check_allowed, check_privileged};

#[test]
fn kernel_refuses_listed_calls() {
    check(&refused_rows(&[
        "call add_key",
        "call io_uring_enter",
        "call io_uring_register",
        "call io_uring_setup",
        "call kcmp",
        "call keyctl",
        "call move_pages",
        "call migrate_pages",
        "call perf_event_open",
        "call pidfd_getfd",
        "call process_madvise",
        "call process_vm_writev",
        "call ptrace",
        "call request_key",
        "call setns",
        "call userfaultfd",
        "type-into-terminal TIOCSTI",
        "type-into-terminal TIOCLINUX",
        #[cfg(target_arch = "x86_64")]
        "call modify_ldt",
    ]));
}

/// Root has the capabilities for these without a sandbox, and not inside; the filter refuses them
/// as well.
#[test]
fn root_privileges_are_gone_in_sandbox() {
    check_privileged(&refused_rows(&[
        "call acct",
        "call adjtimex",
        "call bpf",
        "call chroot",
        "call clock_adjtime",
        "call clock_settime",
        "call delete_module",
        "call fanotify_init",
        "call finit_module",
        "call fsconfig",
        "call fsmount",
        "call fsopen",
        "call fspick",
        "call init_module",
        "call kexec_load",
        "call mount",
        "call mount_setattr",
        "call move_mount",
        "call open_by_handle_at",
        "call open_tree",
        "call pivot_root",
        "call quotactl",
        "call quotactl_fd",
        "call reboot",
        "call setdomainname",
        "call sethostname",
        "call settimeofday",
        "call swapoff",
        "call swapon",
        "call syslog",
        "call umount",
        #[cfg(target_arch = "x86_64")]
        "call ioperm",
        #[cfg(target_arch = "x86_64")]
        "call iopl",
        #[cfg(target_arch = "x86_64")]
        "call kexec_file_load",
    ]));
}

#[test]
fn namespaces_cannot_be_created() {
    let kinds = ["user", "mount", "net", "pid", "ipc", "uts", "cgroup"];
    let words = kinds.map(|kind| [format!("unshare {kind}"), format!("clone {kind}")]).concat();
    let rows: Vec<AttackRow<'_>> =
        words.iter().map(|words| (words.as_str(), "ok", "EPERM", "EPERM")).collect();
    check(&rows);
    // Its flags are in memory, where the filter does not see them.
    check(&[("call clone3", "EINVAL", "ENOSYS", "ENOSYS")]);
}

#[test]
fn system_v_memory_is_shared_only_in_namespace() {
    check_allowed(&[
        ("call shmget", "ENOENT", "ENOENT", "EPERM"),
        ("call shmctl", "EINVAL", "EINVAL", "EPERM"),
        ("call semop", "EFAULT", "EFAULT", "EPERM"),
        ("call semctl", "EINVAL", "EINVAL", "EPERM"),
        ("call msgrcv", "EINVAL", "EINVAL", "EPERM"),
        ("call msgsnd", "EFAULT", "EFAULT", "EPERM"),
        ("call msgctl", "EINVAL", "EINVAL", "EPERM"),
        ("call mq_unlink", "EFAULT", "EFAULT", "EPERM"),
    ]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn calls_of_other_abi_end_the_process() {
    check(&[("x32", "ENOSYS", "exit 159", "exit 159"), ("int80", "ok", "exit 159", "exit 159")]);
}

fn refused_rows<'a>(words: &[&'a str]) -> Vec<AttackRow<'a>> {
    words.iter().map(|words| (*words, OTHER, "EPERM", "EPERM")).collect()
}
