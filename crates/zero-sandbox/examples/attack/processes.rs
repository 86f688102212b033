//! Attacks on other processes.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use crate::{check_syscall, errno_name};

/// The result of an attempt of this module; `None` for other attempts.
pub(crate) fn attempt(name: &str, args: &[&str]) -> Option<io::Result<String>> {
    Some(match (name, args) {
        ("above", [what]) => Ok(attack_ancestors(what)),
        ("pidfd-signal", [pid]) => with_pid(pid, |pid| {
            let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
            if handle < 0 {
                return handle;
            }
            let none = std::ptr::null::<libc::siginfo_t>();
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, handle, libc::SIGCONT, none, 0) }
        }),
        ("tgkill", [pid]) => {
            with_pid(pid, |pid| unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGCONT) })
        }
        ("kill-group", [pid]) => with_pid(pid, |pid| match unsafe { libc::getpgid(pid) } {
            -1 => -1,
            group => unsafe { libc::kill(-group, libc::SIGCONT).into() },
        }),
        // Its first page is not mapped: the kernel reports that if it checks the address.
        ("read-memory", [pid]) => with_pid(pid, |pid| {
            let mut byte = 0_u8;
            let mine = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
            let other = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
            unsafe { libc::process_vm_readv(pid, &raw const mine, 1, &raw const other, 1, 0) as _ }
        }),
        ("limit", [pid]) => with_pid(pid, |pid| {
            let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            unsafe {
                libc::getrlimit(libc::RLIMIT_CORE, &raw mut now);
                libc::prlimit(pid, libc::RLIMIT_CORE, &raw const now, std::ptr::null_mut()).into()
            }
        }),
        ("slow-down", [pid]) => with_pid(pid, |pid| unsafe {
            libc::setpriority(libc::PRIO_PROCESS, pid.unsigned_abs(), 1).into()
        }),
        ("slow-down-everybody", []) => {
            // The current value, for all processes of this user.
            check_syscall(unsafe { libc::setpriority(libc::PRIO_USER, 0, 0).into() })
        }
        ("pin", [pid]) => with_pid(pid, |pid| unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(pid, size_of_val(&set), &raw mut set);
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(pid, size_of_val(&set), &raw const set).into()
        }),
        ("idle", [pid]) => with_pid(pid, |pid| {
            let priority = libc::sched_param { sched_priority: 0 };
            unsafe { libc::sched_setscheduler(pid, libc::SCHED_BATCH, &raw const priority).into() }
        }),
        ("slow-disk", [pid]) => with_pid(pid, |pid| {
            const PROCESS: i32 = 1;
            const BEST_EFFORT_LAST: i32 = 2 << 13 | 7;
            unsafe { libc::syscall(libc::SYS_ioprio_set, PROCESS, pid, BEST_EFFORT_LAST) }
        }),
        _ => return None,
    })
}

/// Tries the same with the supervisor, the spawner and zero: sends a `signal`, or opens a file of
/// theirs in `/proc`. In a namespace there is only the first process.
fn attack_ancestors(what: &str) -> String {
    let mut answers = Vec::new();
    let mut pid = unsafe { libc::getppid() };
    while pid > 0 && answers.len() < 3 {
        let answer = match what {
            "signal" => check_syscall(unsafe { libc::kill(pid, libc::SIGCONT) }.into()),
            "fdinfo" => fs::read_dir(format!("/proc/{pid}/{what}")).map(|_| "ok".into()),
            "cwd" | "root" | "exe" | "fd/0" => {
                fs::read_link(format!("/proc/{pid}/{what}")).map(|_| "ok".into())
            }
            what => {
                let mut file = fs::OpenOptions::new();
                let file = file.read(true).custom_flags(libc::O_NONBLOCK);
                file.open(format!("/proc/{pid}/{what}")).map(|_| "ok".into())
            }
        };
        answers.push(answer.unwrap_or_else(|error| errno_name(&error)));
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let above = stat.rsplit(')').next().and_then(|rest| rest.split(' ').nth(2));
        pid = above.and_then(|pid| pid.parse().ok()).unwrap_or(0);
    }
    answers.join(" ")
}

fn with_pid(pid: &str, call: impl FnOnce(libc::pid_t) -> libc::c_long) -> io::Result<String> {
    check_syscall(call(pid.parse().map_err(io::Error::other)?))
}
