//! The time budget that the hooks of one call share, because the caller waits for all of them.

use std::time::Duration;

use super::hook::Hook;

/// Total time of all hooks of a call, including waiting time.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);

/// The remaining time of a call's hooks.
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
    /// The remaining time.
    pub(super) fn remaining(self) -> Duration {
        self.left
    }

    /// The time limit of the next hook; the error says why it may not run.
    pub(super) fn time_for(self, hook: &Hook) -> Result<Duration, String> {
        match self.left.is_zero() {
            true => Err(Self::not_run_reason()),
            false => Ok(hook.timeout.min(self.left)),
        }
    }

    /// Why a hook did not run because no slot became free in time.
    pub(super) fn not_run_reason() -> String {
        format!("it did not run: {}", budget_spent_reason())
    }

    /// Why a hook was stopped.
    pub(super) fn timeout_reason(self, hook: &Hook) -> String {
        match self.left < hook.timeout {
            true => format!("it was stopped: {}", budget_spent_reason()),
            false => format!(
                "it timed out after {} s; make it faster, or raise its `timeoutMs`",
                hook.timeout.as_secs_f32()
            ),
        }
    }

    /// Subtracts the time that a hook took.
    pub(super) fn spend(&mut self, taken: Duration) {
        self.left = self.left.saturating_sub(taken);
    }
}

fn budget_spent_reason() -> String {
    format!(
        "the hooks of this call used up their shared {} s; make them faster, or use fewer",
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
        assert!(time.time_for(&hook).unwrap_err().contains("their shared 120 s"));
    }
}
