//! How many files this process may have open: raised for one that serves many, and for it alone.
//!
//! Systems give every process a low limit that it may raise itself up to a hard one: old programs
//! cannot cope with high numbers. So whoever raises it must not pass it on. What zero starts comes
//! from the [spawner](crate::spawner), which is given the limit from before.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than anything here needs; some systems have no other bound.
const RAISED_MAX: u64 = 1024 * 1024;

/// The limit from before it was raised.
static LIMIT_BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Lets this process have as many files open as it may at all. Gives how many that are.
pub fn raise() -> u64 {
    let before = *LIMIT_BEFORE.get_or_init(|| getrlimit(Resource::Nofile));
    let raised = Rlimit { current: Some(max_open_files()), maximum: before.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => max_open_files(),
        // What was allowed before still is.
        Err(_) => current_limit(),
    }
}

/// How many files this process may have open once it [raised](raise) that.
#[must_use]
pub fn max_open_files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current.unwrap_or(u64::MAX);
    maximum.unwrap_or(u64::MAX).min(RAISED_MAX).max(current)
}

fn current_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Gives a child the limit from before it was raised here.
#[cfg(target_os = "linux")]
pub(crate) fn restore_for_child(child: u32) -> std::io::Result<()> {
    let (Some(before), Ok(child)) = (LIMIT_BEFORE.get(), i32::try_from(child)) else {
        return Ok(());
    };
    rustix::process::prlimit(rustix::process::Pid::from_raw(child), Resource::Nofile, *before)?;
    Ok(())
}
