//! What tests measure that something takes little time: the processor's own account of it, which a
//! busy machine does not change.

use std::time::Duration;

/// Ticks of the account in a second, on every machine that Linux runs on.
const TICKS_PER_SECOND: u64 = 100;

/// The time that this thread has had of a processor.
#[expect(clippy::disallowed_methods, reason = "the kernel's account is no person's file")]
pub(crate) fn thread_cpu_time() -> Duration {
    let account = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The name may hold anything: what comes after the last parenthesis counts.
    let (_, fields) = account.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS_PER_SECOND)
}
