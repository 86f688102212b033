//! The limit of open files: raised for a process that serves many clients, and for it alone.
//!
//! Systems give every process a low limit that it may raise itself up to a hard limit, because old
//! programs cannot cope with high descriptor numbers. So a raised limit must not be inherited. zero
//! starts programs through the [spawner](crate::spawner), which gets the original limit.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than zero needs; some systems have no other bound.
const RAISED_MAX: u64 = 1024 * 1024;

/// The limit before it was raised.
static LIMIT_BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit as far as permitted. Returns the new limit.
pub fn raise() -> u64 {
    let before = *LIMIT_BEFORE.get_or_init(|| getrlimit(Resource::Nofile));
    let raised = Rlimit { current: Some(max_open_files()), maximum: before.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => max_open_files(),
        // The limit from before still applies.
        Err(_) => current_limit(),
    }
}

/// The limit of open files after [`raise`].
#[must_use]
pub fn max_open_files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(u64::MAX);
    maximum.unwrap_or(u64::MAX).min(RAISED_MAX).max(current)
}

fn current_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sets the limit of a child to the one before it was raised here.
#[cfg(target_os = "linux")]
pub(crate) fn restore_for_child(child: u32) -> std::io::Result<()> {
    let (Some(before), Ok(child)) = (LIMIT_BEFORE.get(), i32::try_from(child)) else {
        return Ok(());
    };
    rustix::process::prlimit(rustix::process::Pid::from_raw(child), Resource::Nofile, *before)?;
    Ok(())
}
