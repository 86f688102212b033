//! What a server does when it has nothing to do: it gives back the memory that it does not need.

use std::time::Duration;

use zero_sandbox::process_memory;

/// Time between two looks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The same once it was given back: there is nothing to win until something has happened.
const CHECK_INTERVAL_AFTER_TRIM: Duration = Duration::from_secs(15);
/// Work within that time that is next to nothing: timers, and the look itself.
const IDLE_CPU_MAX: Duration = Duration::from_millis(5);

/// Gives memory back whenever the process has been idle for a while. Ends with the runtime.
pub(crate) async fn trim_when_idle() {
    let (mut before, mut pause) = (process_memory::cpu_time(), CHECK_INTERVAL);
    loop {
        tokio::time::sleep(pause).await;
        let worked = process_memory::cpu_time().saturating_sub(before);
        if worked > IDLE_CPU_MAX {
            pause = CHECK_INTERVAL;
        } else if pause == CHECK_INTERVAL {
            // It takes a millisecond or two, in which no client should wait.
            let _ = tokio::task::spawn_blocking(process_memory::trim).await;
            pause = CHECK_INTERVAL_AFTER_TRIM;
        }
        before = process_memory::cpu_time();
    }
}
