//! Ends a command from outside, also one that is only about to start.

use std::sync::{Arc, Mutex, PoisonError};

use zero_sandbox::running::{KillReason, Killer};

/// Pulled once, it ends the command it is armed with, now or as soon as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Switch {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    pulled: bool,
    killer: Option<Killer>,
}

impl Switch {
    /// Says what there is to end.
    pub(super) fn arm(&self, killer: Killer) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pulled {
            killer.kill(KillReason::Asked);
        }
        state.killer = Some(killer);
    }

    /// Ends it. Nothing happens when it has ended already.
    pub(super) fn pull(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.pulled = true;
        if let Some(killer) = &state.killer {
            killer.kill(KillReason::Asked);
        }
    }

    /// Pulls it when what is returned goes.
    pub(super) fn kill_on_drop(&self) -> impl Drop {
        PullOnDrop(self.clone())
    }
}

struct PullOnDrop(Switch);

impl Drop for PullOnDrop {
    fn drop(&mut self) {
        self.0.pull();
    }
}
