//! CPU time of a thread, for tests of performance limits. Unlike wall time it does not depend on
//! the load of the machine.

use std::time::Duration;

/// Clock ticks per second (`USER_HZ`), the same on every Linux machine.
const TICKS_PER_SECOND: u64 = 100;

/// The CPU time of this thread.
#[expect(clippy::disallowed_methods, reason = "/proc is not a user file")]
pub(crate) fn thread_cpu_time() -> Duration {
    let account = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The process name can contain any character, so the fields start after the last parenthesis.
    let (_, fields) = account.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS_PER_SECOND)
}
