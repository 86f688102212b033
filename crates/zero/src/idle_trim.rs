//! Returns unused memory to the system while a server is idle.

use std::time::Duration;

use zero_sandbox::process_memory;

/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time between two checks. While little happens, each waits twice as long as the one
/// before: the memory that a timer maps again is not worth a trim every second.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(16);
/// Largest CPU time per interval that still counts as idle: timers and the check itself.
const IDLE_CPU_MAX: Duration = Duration::from_millis(5);
/// Growth since the last trim that is worth another one.
const GROWTH_BYTES_MIN: usize = 2 * 1024 * 1024;

/// Trims the heap when the process has been idle for an interval, and has worked or grown since the
/// last time. Runs until the runtime ends.
pub(crate) async fn trim_when_idle() {
    let (mut before, mut pause) = (process_memory::cpu_time(), CHECK_INTERVAL);
    let (mut has_worked, mut held) = (true, 0_usize);
    loop {
        tokio::time::sleep(pause).await;
        let worked = process_memory::cpu_time().saturating_sub(before);
        if worked > IDLE_CPU_MAX {
            (pause, has_worked) = (CHECK_INTERVAL, true);
        } else {
            pause = (pause * 2).min(CHECK_INTERVAL_MAX);
            let resident = process_memory::resident_bytes();
            held = held.min(resident);
            // A timer that works little may map all of the program again.
            let has_grown = resident > held.saturating_add(GROWTH_BYTES_MIN);
            if std::mem::take(&mut has_worked) || has_grown {
                // A trim takes a millisecond or two, which must not delay clients.
                let _ = tokio::task::spawn_blocking(process_memory::trim).await;
                held = process_memory::resident_bytes();
            }
        }
        before = process_memory::cpu_time();
    }
}
