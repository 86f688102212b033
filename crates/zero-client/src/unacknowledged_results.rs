//! Results of calls that no gateway has acknowledged.
//!
//! A gateway may die while a call runs here. Its outcome is kept, and reported to the gateway that continues
//! the run, which would otherwise have to tell the model that the outcome is unknown.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zero_wire::tools::ToolsResultParams;

/// Maximum number of results of a session. The oldest ones are dropped.
const RESULTS_MAX: usize = 64;

/// Keeps the results of one session across connections.
#[derive(Default)]
pub(crate) struct UnacknowledgedResults(Mutex<VecDeque<ToolsResultParams>>);

impl UnacknowledgedResults {
    /// Keeps a result.
    pub(crate) fn keep(&self, result: ToolsResultParams) {
        let mut kept = self.lock();
        kept.retain(|known| known.tool_call_id != result.tool_call_id);
        if kept.len() >= RESULTS_MAX {
            kept.pop_front();
        }
        kept.push_back(result);
    }

    /// The results, oldest first.
    pub(crate) fn list(&self) -> Vec<ToolsResultParams> {
        self.lock().iter().cloned().collect()
    }

    /// Forgets the result of a call.
    pub(crate) fn acknowledge(&self, call: &str) {
        self.lock().retain(|known| known.tool_call_id != call);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ToolsResultParams>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_rejection::to_result_params;
    use zero_core::ToolResult;
    use zero_wire::tools::ToolsUseEvent;

    fn result(call: usize) -> ToolsResultParams {
        let call = ToolsUseEvent {
            session_id: "s".to_owned(),
            tool_call_id: call.to_string(),
            tool_name: "Read".to_owned(),
            input: serde_json::Value::Null,
            timeout_ms: None,
            subagent: None,
        };
        to_result_params(&call, ToolResult::text("done").into())
    }

    #[test]
    fn results_are_kept_until_acknowledged_within_bounds() {
        let kept = UnacknowledgedResults::default();
        for call in 0..=RESULTS_MAX {
            kept.keep(result(call));
        }
        kept.keep(result(RESULTS_MAX));
        kept.acknowledge("1");
        let calls: Vec<String> = kept.list().into_iter().map(|kept| kept.tool_call_id).collect();
        let expected: Vec<String> = (2..=RESULTS_MAX).map(|call| call.to_string()).collect();
        assert_eq!(calls, expected);
    }
}
