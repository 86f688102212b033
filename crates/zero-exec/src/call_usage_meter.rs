//! Adds up the resources that the commands of a call use.

use std::sync::{Arc, Mutex, PoisonError};

use zero_core::CallUsage;
use zero_sandbox::running_command::CommandExit;

/// Adds up the resources of a call while it runs. Clones share one sum.
#[derive(Clone, Debug, Default)]
pub struct CallUsageMeter(Arc<Mutex<CallUsage>>);

impl CallUsageMeter {
    /// Adds a command that ended.
    pub(crate) fn add_exit(&self, exit: &CommandExit) {
        let used = CallUsage {
            commands: 1,
            cpu_us: u64::try_from(exit.cpu_time.as_micros()).unwrap_or(u64::MAX),
            memory_bytes: exit.max_memory_bytes,
            read_bytes: exit.read_bytes,
            written_bytes: exit.written_bytes,
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(&used);
    }

    /// The sum; `None` if no command has ended.
    pub fn usage(&self) -> Option<CallUsage> {
        let usage = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (usage.commands > 0).then_some(usage)
    }
}
