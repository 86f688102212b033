//! Returns unused memory to the system while a server is idle.

use std::time::Duration;

use zero_sandbox::process_memory;

/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time between two checks. After a trim there is nothing to return until work is done, so
/// that each check waits twice as long as the one before.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(16);
/// Largest CPU time per interval that still counts as idle: timers and the check itself.
const IDLE_CPU_MAX: Duration = Duration::from_millis(5);

/// Trims the heap whenever the process has been idle for an interval. Runs until the runtime ends.
pub(crate) async fn trim_when_idle() {
    let (mut before, mut pause) = (process_memory::cpu_time(), CHECK_INTERVAL);
    let mut has_worked = true;
    loop {
        tokio::time::sleep(pause).await;
        let worked = process_memory::cpu_time().saturating_sub(before);
        if worked > IDLE_CPU_MAX {
            (pause, has_worked) = (CHECK_INTERVAL, true);
        } else if std::mem::take(&mut has_worked) {
            // A trim takes a millisecond or two, which must not delay clients.
            let _ = tokio::task::spawn_blocking(process_memory::trim).await;
        } else {
            pause = (pause * 2).min(CHECK_INTERVAL_MAX);
        }
        before = process_memory::cpu_time();
    }
}
