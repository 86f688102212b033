//! The seccomp filter: the system calls that a command may not make.
//!
//! Everything is allowed but a list: calls that affect other processes, that change the kernel, or
//! that expose large and rarely used parts of it which were exploited before. Builds, tests and
//! version control work. A refused call returns `EPERM`, as in a container, so that programs use
//! their fallback.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use serde::{Deserialize, Serialize};

/// Which sockets a command may open. Unix sockets, which can be the host's, are allowed only in
/// namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SocketAccess {
    /// Only socket pairs that stay connected.
    Pairs,
    /// Unix sockets.
    Unix,
    /// Internet sockets.
    Internet,
    /// Unix and internet sockets.
    UnixAndInternet,
}

/// The filter cannot be built for this processor.
#[derive(Debug, thiserror::Error)]
#[error("no system call filter can be built for this processor")]
pub(crate) struct SyscallFilterError(#[source] pub(super) Option<seccompiler::BackendError>);

impl From<seccompiler::BackendError> for SyscallFilterError {
    fn from(error: seccompiler::BackendError) -> Self {
        Self(Some(error))
    }
}

/// Calls that are refused with any arguments.
const REFUSED_CALLS: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Interfaces that program the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    // Keys of the user, which are not stored in files.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Mounts and roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];

/// System-wide shared memory, semaphores and messages, refused without an IPC namespace. Not only
/// the calls that look them up: their numbers can be guessed.
const HOST_IPC_CALLS: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Calls that slow down, pin or limit the process that their first argument names.
///
/// Without a PID namespace they are refused for all processes but the caller, since zero is among
/// the others. In a PID namespace they are refused only for the first process, which is our init
/// process and enforces limits; threads have numbers too, and libraries use them to pin threads.
const PROCESS_CALLS_BY_FIRST_ARG: &[libc::c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The same for their second argument, with the value of the first argument that means all
/// processes of a user.
const PROCESS_CALLS_BY_SECOND_ARG: &[(libc::c_long, u64)] =
    &[(libc::SYS_setpriority, libc::PRIO_USER as u64), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)];

const IOPRIO_WHO_USER: u64 = 3;

/// The first process of a PID namespace.
const FIRST_PROCESS: u64 = 1;

/// Makes a program run as its owner, regardless of the user who starts it. A file with it outlives
/// the sandbox.
const SET_USER_ID: u64 = 0o4000;
/// The same for its group. Folders need it, and calls that change a mode do not say of what; see
/// [`super::capture_filter`].
pub(super) const SET_GROUP_ID: u64 = 0o2000;

/// Calls that set the mode of an existing file or folder, with the number of that argument.
pub(super) const MODE_CALLS: &[(libc::c_long, u8)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
];
/// Calls that create a file with a mode.
const NODE_CALLS: &[(libc::c_long, u8)] = &[
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
];
/// Calls that create a file if their flags say so, with the number of the flags; the mode follows.
const OPEN_CALLS: &[(libc::c_long, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];
/// Flags with which a file is created; otherwise the mode has no meaning. The second is the part of
/// `O_TMPFILE` that it does not share with `O_DIRECTORY`.
const CREATE_FLAGS: [u64; 2] =
    [libc::O_CREAT as u64, (libc::O_TMPFILE & !libc::O_DIRECTORY) as u64];

/// Mask for the type of a socket, without its flags.
const SOCKET_KIND: u64 = 0xf;

/// Flags of `clone` and `unshare` that create a namespace.
const NEW_NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Creates a time namespace; in `clone` this bit belongs to the exit signal.
const CLONE_NEWTIME: libc::c_int = 0x80;

/// Requests that insert input into a terminal as if the user had typed it.
const TERMINAL_INPUT_IOCTLS: &[u64] = &[libc::TIOCSTI, libc::TIOCLINUX];

/// All filters, compiled once and inherited by forked processes.
static COMPILED_FILTERS: [OnceLock<BpfProgram>; 4] = [const { OnceLock::new() }; 4];

/// Returns the compiled filter.
pub(crate) fn filter_program(sockets: SocketAccess) -> Result<BpfProgram, SyscallFilterError> {
    let Some(made) = COMPILED_FILTERS.get(sockets as usize) else { return compile(sockets) };
    if let Some(program) = made.get() {
        return Ok(program.clone());
    }
    let program = compile(sockets)?;
    Ok(made.get_or_init(|| program).clone())
}

/// Compiles every filter ahead of its use, so that no command waits for it.
pub(crate) fn compile_all() {
    for sockets in [
        SocketAccess::Pairs,
        SocketAccess::Unix,
        SocketAccess::Internet,
        SocketAccess::UnixAndInternet,
    ] {
        // A failure is reported to the command that needs the filter.
        let made = filter_program(sockets);
        drop(made);
    }
}

/// Encodes a filter as numbers, to send it to another process.
pub(crate) fn to_numbers(program: &BpfProgram) -> Vec<u64> {
    let number = |step: &sock_filter| {
        let [a, b] = step.code.to_ne_bytes();
        let [c, d, e, f] = step.k.to_ne_bytes();
        u64::from_ne_bytes([a, b, step.jt, step.jf, c, d, e, f])
    };
    program.iter().map(number).collect()
}

/// Decodes a filter from its numbers.
pub(crate) fn from_numbers(numbers: &[u64]) -> BpfProgram {
    let step = |number: &u64| {
        let [a, b, jt, jf, c, d, e, f] = number.to_ne_bytes();
        let (code, k) = (u16::from_ne_bytes([a, b]), u32::from_ne_bytes([c, d, e, f]));
        sock_filter { code, jt, jf, k }
    };
    numbers.iter().map(step).collect()
}

fn compile(sockets: SocketAccess) -> Result<BpfProgram, SyscallFilterError> {
    let rules = argument_rules(sockets)?;
    let others = compile_permissions(rules.keys().copied())?;
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        target_arch()?,
    )?;
    let body: BpfProgram = filter.try_into()?;
    let refusals = compile_refusals(sockets)?;
    Ok(build_preamble().into_iter().chain(refusals).chain(others).chain(body).collect())
}

/// Allows every call but these, whose arguments are checked behind it.
fn compile_permissions(
    checked: impl Iterator<Item = i64>,
) -> Result<BpfProgram, SyscallFilterError> {
    let calls = checked.map(u32::try_from).collect::<Result<Vec<u32>, _>>();
    let calls = calls.map_err(|_| SyscallFilterError(None))?;
    let mut steps = build_call_search(&calls, 0).ok_or(SyscallFilterError(None))?;
    // A call that was found continues behind the permission.
    steps.push(build_instruction(JUMP_EQUAL, 1, 1, 0));
    steps.push(build_instruction(RETURN, 0, 0, ALLOW));
    Ok(steps)
}

/// Refuses the calls that are refused with any arguments; other calls continue behind it.
///
/// A binary search instead of a list: when a filter is installed, the kernel runs it once for every
/// call number, and a command waits for that.
fn compile_refusals(sockets: SocketAccess) -> Result<BpfProgram, SyscallFilterError> {
    let shared = match sockets {
        SocketAccess::Pairs | SocketAccess::Internet => HOST_IPC_CALLS,
        SocketAccess::Unix | SocketAccess::UnixAndInternet => &[],
    };
    let calls = REFUSED_CALLS.iter().chain(shared).map(|call| u32::try_from(*call));
    let mut calls = calls.collect::<Result<Vec<u32>, _>>().map_err(|_| SyscallFilterError(None))?;
    calls.sort_unstable();
    calls.dedup();
    let mut steps = build_call_search(&calls, 0).ok_or(SyscallFilterError(None))?;
    steps.push(build_instruction(RETURN, 0, 0, ERRNO | libc::EPERM.unsigned_abs()));
    Ok(steps)
}

/// Jumps over `after` steps if the loaded number is among `calls`, which are sorted, and over one
/// more if it is not. `None` if the jump is too far.
pub(super) fn build_call_search(calls: &[u32], after: usize) -> Option<Vec<sock_filter>> {
    if let [call] = calls {
        let (found, not) = (u8::try_from(after).ok()?, u8::try_from(after + 1).ok()?);
        return Some(vec![build_instruction(JUMP_EQUAL, found, not, *call)]);
    }
    let (low, high) = calls.split_at(calls.len() / 2);
    let first = *high.first()?;
    let high = build_call_search(high, after)?;
    let low = build_call_search(low, after + high.len())?;
    let over = u8::try_from(low.len()).ok()?;
    Some([vec![build_instruction(JUMP_AT_LEAST, over, 0, first)], low, high].concat())
}

fn target_arch() -> Result<TargetArch, SyscallFilterError> {
    std::env::consts::ARCH.try_into().map_err(|_| SyscallFilterError(None))
}

/// Calls that are refused with certain arguments.
fn argument_rules(
    sockets: SocketAccess,
) -> Result<BTreeMap<i64, Vec<SeccompRule>>, SyscallFilterError> {
    let mut rules = BTreeMap::new();
    let mut namespaces = Vec::new();
    for bit in NEW_NAMESPACES {
        namespaces.push(bit_set_rule(0, bit.unsigned_abs())?);
    }
    rules.insert(libc::SYS_clone, namespaces.clone());
    namespaces.push(bit_set_rule(0, CLONE_NEWTIME.unsigned_abs())?);
    rules.insert(libc::SYS_unshare, namespaces);
    let mut typing = Vec::new();
    for request in TERMINAL_INPUT_IOCTLS {
        // The kernel evaluates only the low half of the number, and so do we.
        typing.push(SeccompRule::new(vec![argument_condition(1, SeccompCmpOp::Eq, *request)?])?);
    }
    rules.insert(libc::SYS_ioctl, typing);
    rules.insert(libc::SYS_socket, refused_socket_rules(sockets)?);
    let pairs = families_rule(&[libc::AF_UNIX])?;
    rules.insert(libc::SYS_socketpair, vec![pairs]);
    let others = match sockets {
        SocketAccess::Pairs | SocketAccess::Internet => {
            restrict_socket_pairs(&mut rules)?;
            (SeccompCmpOp::Ne, 0)
        }
        SocketAccess::Unix | SocketAccess::UnixAndInternet => (SeccompCmpOp::Eq, FIRST_PROCESS),
    };
    refuse_process_control(&mut rules, others)?;
    refuse_set_id(&mut rules)?;
    Ok(rules)
}

/// Refuses to make files that run as their owner or group.
fn refuse_set_id(rules: &mut BTreeMap<i64, Vec<SeccompRule>>) -> Result<(), SyscallFilterError> {
    let has = |at: u8, bit: u64| argument_condition(at, SeccompCmpOp::MaskedEq(bit), bit);
    for (call, mode) in MODE_CALLS {
        rules.insert(*call, vec![SeccompRule::new(vec![has(*mode, SET_USER_ID)?])?]);
    }
    for bit in [SET_USER_ID, SET_GROUP_ID] {
        for (call, mode) in NODE_CALLS {
            let refused = SeccompRule::new(vec![has(*mode, bit)?])?;
            rules.entry(*call).or_default().push(refused);
        }
        for (call, flags) in OPEN_CALLS {
            for flag in CREATE_FLAGS {
                let refused = SeccompRule::new(vec![has(*flags, flag)?, has(flags + 1, bit)?])?;
                rules.entry(*call).or_default().push(refused);
            }
        }
    }
    Ok(())
}

/// Refuses calls that slow down or limit processes whose numbers compare like this.
fn refuse_process_control(
    rules: &mut BTreeMap<i64, Vec<SeccompRule>>,
    (compares, number): (SeccompCmpOp, u64),
) -> Result<(), SyscallFilterError> {
    let named = |at: u8| -> Result<SeccompRule, SyscallFilterError> {
        Ok(SeccompRule::new(vec![argument_condition(at, compares.clone(), number)?])?)
    };
    for call in PROCESS_CALLS_BY_FIRST_ARG {
        rules.insert(*call, vec![named(0)?]);
    }
    for (call, everybody) in PROCESS_CALLS_BY_SECOND_ARG {
        let all = SeccompRule::new(vec![argument_condition(0, SeccompCmpOp::Eq, *everybody)?])?;
        rules.insert(*call, vec![named(1)?, all]);
    }
    Ok(())
}

/// Without a network namespace, restricts socket pairs so that they cannot reach services of the
/// host.
fn restrict_socket_pairs(
    rules: &mut BTreeMap<i64, Vec<SeccompRule>>,
) -> Result<(), SyscallFilterError> {
    // A datagram socket of a pair can send to any address.
    let pairs = rules.entry(libc::SYS_socketpair).or_default();
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        let is_kind = SeccompCmpOp::MaskedEq(SOCKET_KIND);
        pairs.push(SeccompRule::new(vec![argument_condition(
            1,
            is_kind,
            u64::from(kind.unsigned_abs()),
        )?])?);
    }
    Ok(())
}

fn refused_socket_rules(sockets: SocketAccess) -> Result<Vec<SeccompRule>, SyscallFilterError> {
    let internet = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let both = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let families: &[libc::c_int] = match sockets {
        SocketAccess::Pairs => return Ok(Vec::new()),
        SocketAccess::Unix => &[libc::AF_UNIX],
        SocketAccess::Internet => &internet,
        SocketAccess::UnixAndInternet => &both,
    };
    // Resolvers query the machine's addresses over netlink; its other services are for root.
    let other_netlink = SeccompRule::new(vec![
        argument_condition(0, SeccompCmpOp::Eq, u64::from(libc::AF_NETLINK.unsigned_abs()))?,
        argument_condition(2, SeccompCmpOp::Ne, u64::from(libc::NETLINK_ROUTE.unsigned_abs()))?,
    ])?;
    Ok(vec![families_rule(families)?, other_netlink])
}

fn families_rule(families: &[libc::c_int]) -> Result<SeccompRule, SyscallFilterError> {
    let mut conditions = Vec::new();
    for family in families {
        conditions.push(argument_condition(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()))?);
    }
    Ok(SeccompRule::new(conditions)?)
}

fn bit_set_rule(at: u8, bit: u32) -> Result<SeccompRule, SyscallFilterError> {
    let bit = u64::from(bit);
    Ok(SeccompRule::new(vec![argument_condition(at, SeccompCmpOp::MaskedEq(bit), bit)?])?)
}

fn argument_condition(
    at: u8,
    op: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, SyscallFilterError> {
    Ok(SeccompCondition::new(at, SeccompCmpArgLen::Dword, op, value)?)
}

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const AUDIT_ARCH: u32 = 0;

/// Numbers from here on are calls of the x32 interface. They count as x86-64 but have their own
/// numbers, so a list of numbers does not match them.
const X32_CALLS: u32 = 0x4000_0000;

// Opcodes and return values of filters.
pub(super) const LOAD: u16 = 0x20;
pub(super) const JUMP_EQUAL: u16 = 0x15;
const JUMP_AT_LEAST: u16 = 0x35;
pub(super) const RETURN: u16 = 0x06;
const KILL_PROCESS: u32 = 0x8000_0000;
pub(super) const ALLOW: u32 = 0x7fff_0000;
pub(super) const ERRNO: u32 = 0x0005_0000;

pub(super) fn build_instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// What the rules cannot express: calls of other architectures kill the process, and `clone3` and
/// `openat2`, whose flags are in memory where a filter cannot see them, return `ENOSYS`; libraries
/// then use `clone` and `openat`.
fn build_preamble() -> Vec<sock_filter> {
    let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or(u32::MAX);
    let openat2 = u32::try_from(libc::SYS_openat2).unwrap_or(u32::MAX);
    vec![
        build_instruction(LOAD, 0, 0, 4),
        build_instruction(JUMP_EQUAL, 1, 0, AUDIT_ARCH),
        build_instruction(RETURN, 0, 0, KILL_PROCESS),
        build_instruction(LOAD, 0, 0, 0),
        build_instruction(JUMP_AT_LEAST, 0, 1, X32_CALLS),
        build_instruction(RETURN, 0, 0, KILL_PROCESS),
        build_instruction(JUMP_EQUAL, 1, 0, openat2),
        build_instruction(JUMP_EQUAL, 0, 1, clone3),
        build_instruction(RETURN, 0, 0, ERRNO | libc::ENOSYS.unsigned_abs()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_survives_round_trip_as_numbers() {
        let filter = filter_program(SocketAccess::Unix).unwrap();
        assert_eq!(from_numbers(&to_numbers(&filter)), filter);
    }

    /// Returns the result of a filter for a call with these arguments, and the number of steps.
    fn evaluate(filter: &[sock_filter], call: u32, args: [u32; 6]) -> (u32, usize) {
        let (mut at, mut value, mut count) = (0, 0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = filter[at];
            count += 1;
            at += 1;
            let jump = |holds: bool| usize::from(if holds { jt } else { jf });
            match code {
                LOAD => {
                    value = match k {
                        0 => call,
                        4 => AUDIT_ARCH,
                        // The low halves of the arguments, on a little-endian machine.
                        k => args[usize::try_from((k - 16) / 8).unwrap()],
                    }
                }
                0x54 => value &= k,
                0x05 => at += usize::try_from(k).unwrap(),
                JUMP_EQUAL => at += jump(value == k),
                JUMP_AT_LEAST => at += jump(value >= k),
                0x25 => at += jump(value > k),
                RETURN => return (k, count),
                code => panic!("no such step: {code:#x}"),
            }
        }
    }

    #[test]
    fn exactly_listed_calls_are_refused_in_few_steps() {
        let refused = ERRNO | libc::EPERM.unsigned_abs();
        for sockets in [SocketAccess::Unix, SocketAccess::Pairs] {
            let filter = filter_program(sockets).unwrap();
            let checked = argument_rules(sockets).unwrap();
            for call in 0..1024_u32 {
                let number = libc::c_long::from(call);
                // With these arguments, sockets and socket pairs are Unix ones.
                let (result, steps) = evaluate(&filter, call, [1, 0, 0, 0, 0, 0]);
                let is_listed = REFUSED_CALLS.contains(&number)
                    || PROCESS_CALLS_BY_FIRST_ARG.contains(&number)
                    || sockets == SocketAccess::Pairs
                        && (HOST_IPC_CALLS.contains(&number) || number == libc::SYS_socket);
                let expected = match number {
                    libc::SYS_clone3 | libc::SYS_openat2 => ERRNO | libc::ENOSYS.unsigned_abs(),
                    _ if is_listed => refused,
                    _ => ALLOW,
                };
                assert_eq!(result, expected, "{call} with {sockets:?}");
                let most = if checked.contains_key(&number) { 160 } else { 32 };
                assert!(steps < most, "{call}: {steps} steps");
            }
            let new_user = [libc::CLONE_NEWUSER.unsigned_abs(), 0, 0, 0, 0, 0];
            let unshare = u32::try_from(libc::SYS_unshare).unwrap();
            assert_eq!(evaluate(&filter, unshare, new_user).0, refused);
        }
    }

    #[test]
    fn files_cannot_be_created_with_set_id() {
        let filter = filter_program(SocketAccess::Unix).unwrap();
        let check = |call: libc::c_long, args: [i32; 6], is_refused: bool| {
            let call = u32::try_from(call).unwrap();
            let expected = if is_refused { ERRNO | libc::EPERM.unsigned_abs() } else { ALLOW };
            assert_eq!(
                evaluate(&filter, call, args.map(i32::cast_unsigned)).0,
                expected,
                "{args:?}"
            );
        };
        for (mode, is_refused) in [(0o777, false), (0o1777, false), (0o4755, true)] {
            check(libc::SYS_fchmod, [3, mode, 0, 0, 0, 0], is_refused);
            check(libc::SYS_fchmodat, [3, 0, mode, 0, 0, 0], is_refused);
            check(libc::SYS_openat, [3, 0, libc::O_CREAT, mode, 0, 0], is_refused);
            check(libc::SYS_openat, [3, 0, libc::O_TMPFILE, mode, 0, 0], is_refused);
            // The mode of a file that is only opened is whatever was in the register.
            check(libc::SYS_openat, [3, 0, libc::O_RDWR | libc::O_DIRECTORY, mode, 0, 0], false);
        }
        check(libc::SYS_openat, [3, 0, libc::O_CREAT, 0o2755, 0, 0], true);
        check(libc::SYS_fchmod, [3, 0o2755, 0, 0, 0, 0], false);
    }

    #[test]
    fn every_filter_fits_kernel_limit() {
        for sockets in [
            SocketAccess::Pairs,
            SocketAccess::Unix,
            SocketAccess::Internet,
            SocketAccess::UnixAndInternet,
        ] {
            let length = filter_program(sockets).unwrap().len();
            assert!((100..4096).contains(&length), "{sockets:?}: {length}");
        }
    }
}
