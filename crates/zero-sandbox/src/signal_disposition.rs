//! What this process does with a signal.

#![expect(unsafe_code, reason = "no safe function asks for the action of a signal")]

/// Whether the signal was ignored when this is called, as `nohup` arranges it for SIGHUP.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all bits zero are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action, the call only writes the current one to `action`.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    status == 0 && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_known() {
        // Rust programs start with SIGPIPE ignored.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGTERM));
    }
}
