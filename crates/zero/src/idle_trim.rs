//! What a server does when it has nothing to do: it gives back the memory that it does not need.

use std::time::Duration;

use zero_sandbox::process_memory;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// The same once it was given back: there is nothing to win until something has happened.
const LOOK_AFTER: Duration = Duration::from_secs(15);
/// Work within that time that is next to nothing: timers, and the look itself.
const NEXT_TO_NOTHING: Duration = Duration::from_millis(5);

/// Gives memory back whenever the process has been idle for a while. Ends with the runtime.
pub(crate) async fn give_back() {
    let (mut before, mut pause) = (process_memory::worked(), LOOK);
    loop {
        tokio::time::sleep(pause).await;
        let worked = process_memory::worked().saturating_sub(before);
        if worked > NEXT_TO_NOTHING {
            pause = LOOK;
        } else if pause == LOOK {
            // It takes a millisecond or two, in which no client should wait.
            let _ = tokio::task::spawn_blocking(process_memory::give_back).await;
            pause = LOOK_AFTER;
        }
        before = process_memory::worked();
    }
}
