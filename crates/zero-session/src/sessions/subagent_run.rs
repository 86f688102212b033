//! What the run of a sub-agent has from the run that started it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zero_core::event::SubagentStep;
use zero_core::text_shortening::one_line;
use zero_core::{Budget, CallProgress};
use zero_runtime::DialectName;
use zero_runtime::tool_backend::CallObserver;

use crate::agent::AgentProfile;
use crate::approvals::InteractionBroker;
use crate::event::{EventKind, ParentRun};

/// Maximum length of a title in the progress of a sub-agent, in characters.
const TITLE_LEN_MAX: usize = 200;

/// What the run of a sub-agent has from the run that started it.
pub(crate) struct SubagentRun {
    /// Its name, as shown to users.
    pub(crate) name: String,
    /// Its configuration.
    pub(crate) profile: AgentProfile,
    /// The run that started it.
    pub(crate) parent: ParentRun,
    /// The sub-agents from the one that the user's run started to this one.
    pub(crate) path: Vec<SubagentStep>,
    /// How many runs are above it.
    pub(crate) depth: u32,
    /// The tools that the agents above it may use, each as in their profiles.
    pub(crate) tool_filters: Vec<Vec<String>>,
    /// The dialect of its parent.
    pub(crate) dialect: DialectName,
    /// The budget of the user's prompt.
    pub(crate) budget: Budget,
    /// The calls that are left for all runs of the user's prompt.
    pub(crate) calls: Arc<CallAllowance>,
    /// Asks the users of the parent's session.
    pub(crate) asker: Arc<InteractionBroker>,
    /// Shows what it does as the progress of the parent's call.
    pub(crate) progress: SubagentProgress,
}

/// How many calls a run and its sub-agents may still make together.
pub(crate) struct CallAllowance {
    /// `None` is no limit.
    left: Option<AtomicU64>,
}

impl CallAllowance {
    pub(crate) fn new(calls_max: Option<u64>) -> Self {
        Self { left: calls_max.map(AtomicU64::new) }
    }

    /// Takes calls that were made before the run was parked, as far as any are left.
    pub(crate) fn take_many(&self, calls: u64) {
        if let Some(left) = &self.left {
            let less = |left: u64| Some(left.saturating_sub(calls));
            let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Takes one call; returns false if none is left.
    pub(crate) fn take(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.left.as_ref().is_none_or(|left| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
        })
    }
}

/// Shows what a sub-agent does as the progress of the call that started it.
pub(crate) struct SubagentProgress {
    watch: Arc<dyn CallObserver>,
    /// Number of calls so far.
    calls: Mutex<u64>,
}

impl SubagentProgress {
    pub(crate) fn new(watch: Arc<dyn CallObserver>) -> Self {
        Self { watch, calls: Mutex::default() }
    }

    /// Reports the key of the sub-agent's session, so that it can be watched.
    pub(crate) fn start(&self, session_key: String) {
        self.watch.on_subagent(session_key);
    }

    /// Observes an event of the sub-agent's session.
    pub(crate) fn observe(&self, event: &EventKind) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let title = match event {
            EventKind::ToolStarted { title, .. } => {
                *calls = calls.saturating_add(1);
                title
            }
            EventKind::ToolUpdated { title: Some(title), .. } => title,
            EventKind::Notice { text, .. } => text,
            _ => return,
        };
        let message = format!("call {calls}: {}", one_line(title, TITLE_LEN_MAX));
        self.watch.on_progress(CallProgress::new(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_is_shared_and_ends() {
        let calls = CallAllowance::new(Some(2));
        assert_eq!([calls.take(), calls.take(), calls.take()], [true, true, false]);
        assert!(CallAllowance::new(None).take());
    }
}
