//! How long the hooks of one call may take together: whoever waits for a call waits for all of them.

use std::time::Duration;

use super::hook::Hook;

/// What all hooks of a call may take together, waiting for their turn included.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);

/// The time that is left to the hooks of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookTimeBudget {
    left: Duration,
}

impl Default for HookTimeBudget {
    fn default() -> Self {
        Self { left: CALL_TIME_MAX }
    }
}

impl HookTimeBudget {
    /// What is left.
    pub(super) fn remaining(self) -> Duration {
        self.left
    }

    /// How long the next hook may take; the error says why it may not run.
    pub(super) fn time_for(self, hook: &Hook) -> Result<Duration, String> {
        match self.left.is_zero() {
            true => Err(Self::not_run_reason()),
            false => Ok(hook.timeout.min(self.left)),
        }
    }

    /// Why a hook did not run whose turn did not come in time.
    pub(super) fn not_run_reason() -> String {
        format!("it did not run: {}", budget_spent_reason())
    }

    /// Why a hook was stopped that took so long.
    pub(super) fn timeout_reason(self, hook: &Hook) -> String {
        match self.left < hook.timeout {
            true => format!("it was stopped: {}", budget_spent_reason()),
            false => format!(
                "it took longer than {} s and was stopped; make it quicker, or raise its `timeoutMs`",
                hook.timeout.as_secs_f32()
            ),
        }
    }

    /// Takes off what a hook took.
    pub(super) fn spend(&mut self, taken: Duration) {
        self.left = self.left.saturating_sub(taken);
    }
}

fn budget_spent_reason() -> String {
    format!(
        "the hooks of a call have {} s together, which were up; make them quicker, or fewer",
        CALL_TIME_MAX.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::super::hook::HookFailureAction;
    use super::super::tool_pattern::ToolPattern;
    use super::*;
    use zero_exec::LaunchAccess;

    #[test]
    fn time_budget_is_shared_between_hooks() {
        let hook = Hook {
            tools: vec![ToolPattern::All],
            words: vec!["x".to_owned()],
            timeout: Duration::from_secs(50),
            access: LaunchAccess::ReadOnly,
            on_failure: HookFailureAction::Deny,
            files: Vec::new(),
            written_at: String::new(),
        };
        let mut time = HookTimeBudget::default();
        for expected in [50, 50, 20] {
            assert_eq!(time.time_for(&hook), Ok(Duration::from_secs(expected)));
            let is_own = time.timeout_reason(&hook).contains("`timeoutMs`");
            assert_eq!(is_own, expected == 50, "{expected}");
            time.spend(Duration::from_secs(50));
        }
        assert!(time.time_for(&hook).unwrap_err().contains("120 s together"));
    }
}
