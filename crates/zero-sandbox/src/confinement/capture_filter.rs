//! The second seccomp filter of a command whose changes are recorded: the kernel asks zero before
//! each call that may change a file.
//!
//! The filter refuses nothing. Its listener is sent to zero, which records the state of the path and
//! lets the call continue; see [`crate::command_capture`]. When zero is gone, such calls fail with
//! `ENOSYS`, so that nothing changes unrecorded.
//!
//! A filter cannot see whether a set-group-ID bit is for a folder, which may need it, or for a program,
//! which would then run with the user's group for everyone. zero can: it sets such modes itself, on
//! folders only. Without a listener, a filter refuses them all ([`build_without_listener`]).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use seccompiler::sock_filter;

use super::restrictions::SeccompProgram;
use super::syscall_filter::{
    ALLOW, ERRNO, JUMP_EQUAL, LOAD, MODE_CALLS, RETURN, SET_GROUP_ID, SyscallFilterError,
    build_call_search, build_instruction,
};

const JUMP_ANY_BIT: u16 = 0x45;
/// Lets a listener answer.
pub(crate) const NOTIFY: u32 = 0x7fc0_0000;
/// Where the call number, and the low half of an argument, are.
const CALL_NUMBER: u32 = 0;
const fn argument(number: u32) -> u32 {
    16 + 8 * number
}

/// Only fatal signals interrupt a call while zero records it.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

/// Calls that change a path, whatever their arguments.
const CHANGING_CALLS: &[libc::c_long] = &[
    libc::SYS_truncate,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

/// Calls that change a path if their flags say so, with the number of the flags.
const OPENING_CALLS: &[(libc::c_long, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

/// Flags of an open that can change something.
const WRITE_FLAGS: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC).unsigned_abs();

/// Builds the filter.
pub(super) fn build() -> Result<Vec<sock_filter>, SyscallFilterError> {
    let number = |call: &libc::c_long| u32::try_from(*call).map_err(|_| SyscallFilterError(None));
    let mut calls = CHANGING_CALLS.iter().map(number).collect::<Result<Vec<u32>, _>>()?;
    calls.sort_unstable();
    let mut steps = vec![build_instruction(LOAD, 0, 0, CALL_NUMBER)];
    steps.extend(build_call_search(&calls, 0).ok_or(SyscallFilterError(None))?);
    steps.push(build_instruction(RETURN, 0, 0, NOTIFY));
    for (call, flags) in OPENING_CALLS {
        steps.extend([
            build_instruction(JUMP_EQUAL, 0, 4, number(call)?),
            build_instruction(LOAD, 0, 0, argument(*flags)),
            build_instruction(JUMP_ANY_BIT, 0, 1, WRITE_FLAGS),
            build_instruction(RETURN, 0, 0, NOTIFY),
            build_instruction(RETURN, 0, 0, ALLOW),
        ]);
    }
    steps.push(build_instruction(RETURN, 0, 0, ALLOW));
    Ok(steps)
}

/// Builds the filter of a command whose changes are not recorded: it sets no set-group-ID bit.
pub(super) fn build_without_listener() -> Result<Vec<sock_filter>, SyscallFilterError> {
    let too_large = |_| SyscallFilterError(None);
    let bit = u32::try_from(SET_GROUP_ID).map_err(too_large)?;
    let mut steps = vec![build_instruction(LOAD, 0, 0, CALL_NUMBER)];
    for (call, mode) in MODE_CALLS {
        steps.extend([
            build_instruction(JUMP_EQUAL, 0, 4, u32::try_from(*call).map_err(too_large)?),
            build_instruction(LOAD, 0, 0, argument(u32::from(*mode))),
            build_instruction(JUMP_ANY_BIT, 0, 1, bit),
            build_instruction(RETURN, 0, 0, ERRNO | libc::EPERM.unsigned_abs()),
            build_instruction(RETURN, 0, 0, ALLOW),
        ]);
    }
    steps.push(build_instruction(RETURN, 0, 0, ALLOW));
    Ok(steps)
}

/// Whether the command must not run unrecorded: then zero has sent something before. Sound between fork
/// and exec.
pub(super) fn is_required(channel: &OwnedFd) -> bool {
    let flags = rustix::net::RecvFlags::DONTWAIT | rustix::net::RecvFlags::PEEK;
    let mut byte = [0_u8];
    rustix::net::recv(channel, &mut byte, flags).is_ok_and(|(received, _)| received > 0)
}

/// In the child, right before exec: installs the filter and sends its listener. Returns whether the
/// kernel could do that; if not, zero is told at once, because the channel stays open for long.
pub(super) fn install(filter: &[sock_filter], channel: &OwnedFd) -> bool {
    let is_installed = !filter.is_empty() && try_install(filter, channel);
    if !is_installed {
        let _ = rustix::net::send(channel, &[1], rustix::net::SendFlags::NOSIGNAL);
    }
    is_installed
}

/// In the child, right before exec: installs the filter of a command without a listener. A kernel that
/// has no filters has none of the sandbox either, which the profile has accepted by then.
pub(super) fn install_without_listener(filter: &[sock_filter]) -> Result<(), i32> {
    if install_with_flags(filter, 0) >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOSYS | libc::EINVAL) if !filter.is_empty() => Ok(()),
        errno => Err(errno.unwrap_or(libc::EINVAL)),
    }
}

#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
fn install_with_flags(filter: &[sock_filter], flags: libc::c_ulong) -> libc::c_long {
    let Ok(len) = u16::try_from(filter.len()) else { return -1 };
    let program = SeccompProgram { len, filter: filter.as_ptr() };
    // SAFETY: `program` points at `len` live instructions, which the kernel copies and checks.
    unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            std::ptr::from_ref(&program),
        )
    }
}

#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
fn try_install(filter: &[sock_filter], channel: &OwnedFd) -> bool {
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let mut number = install_with_flags(filter, listener | WAIT_KILLABLE);
    if number < 0 {
        // The kernel is older than 5.19.
        number = install_with_flags(filter, listener);
    }
    let Ok(number @ 0..) = RawFd::try_from(number) else { return false };
    // SAFETY: the kernel has just opened it for this process.
    let listener = unsafe { OwnedFd::from_raw_fd(number) };
    send(&listener, channel);
    true
}

/// Sends a descriptor with one byte.
#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
fn send(listener: &OwnedFd, channel: &OwnedFd) {
    #[repr(C, align(8))]
    struct ControlBuffer([u8; 64]);
    let (mut byte, mut control) = ([1_u8], ControlBuffer([0; 64]));
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: all zeros is a valid message without parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    let bytes = u32::try_from(size_of::<RawFd>()).unwrap_or(4);
    // SAFETY: the buffer has space for one header and one descriptor, and is aligned for it.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(bytes) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() {
            return;
        }
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
        std::ptr::write_unaligned(libc::CMSG_DATA(header).cast::<RawFd>(), listener.as_raw_fd());
        libc::sendmsg(channel.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL);
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    use super::{build_instruction, install, is_required};
    use crate::spawner::message;

    #[test]
    fn unrecordable_command_names_the_reason() {
        let open =
            || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, given) = open().unwrap();
        assert!(!is_required(&given));
        send(&ours, &[1], SendFlags::empty()).unwrap();
        assert!(is_required(&given));
        assert!(is_required(&given), "it stays");
    }

    #[test]
    fn failed_installation_is_reported_while_channel_stays_open() {
        let open =
            || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, given) = open().unwrap();
        // The kernel takes neither.
        for filter in [&[][..], &[build_instruction(u16::MAX, 0, 0, 0)]] {
            assert!(!install(filter, &given));
            let told = message::receive_packet(&ours, rustix::net::RecvFlags::DONTWAIT).unwrap();
            assert!(told.is_some_and(|(bytes, fds)| bytes.len() == 1 && fds.is_empty()));
        }
    }
}
