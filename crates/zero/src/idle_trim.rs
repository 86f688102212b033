//! Returns unused memory to the system while a server is idle.

use std::time::Duration;

use zero_sandbox::process_memory;

/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two checks after a trim, when there is nothing more to return until work is done.
const CHECK_INTERVAL_AFTER_TRIM: Duration = Duration::from_secs(15);
/// Largest CPU time per interval that still counts as idle: timers and the check itself.
const IDLE_CPU_MAX: Duration = Duration::from_millis(5);

/// Trims the heap whenever the process has been idle for an interval. Runs until the runtime ends.
pub(crate) async fn trim_when_idle() {
    let (mut before, mut pause) = (process_memory::cpu_time(), CHECK_INTERVAL);
    loop {
        tokio::time::sleep(pause).await;
        let worked = process_memory::cpu_time().saturating_sub(before);
        if worked > IDLE_CPU_MAX {
            pause = CHECK_INTERVAL;
        } else if pause == CHECK_INTERVAL {
            // A trim takes a millisecond or two, which must not delay clients.
            let _ = tokio::task::spawn_blocking(process_memory::trim).await;
            pause = CHECK_INTERVAL_AFTER_TRIM;
        }
        before = process_memory::cpu_time();
    }
}
