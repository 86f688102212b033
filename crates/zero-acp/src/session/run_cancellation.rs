//! What ends together with a cancelled run: whatever belongs to it, and, with the last run,
//! whatever has no known run and would stay forever otherwise.

use std::sync::Arc;

use zero_core::RunId;

use crate::client_calls::CallTable;

/// A cancelled run.
pub(super) struct RunCancellation<'a> {
    pub(super) run: &'a str,
    /// Whether every pending prompt is cancelled.
    pub(super) is_last: bool,
    pub(super) session: Arc<str>,
    /// Calls that the client makes, and cancels, itself.
    pub(super) own_calls: Arc<CallTable>,
}

impl RunCancellation<'_> {
    /// Whether something ends with this run; `of` is the run it belongs to, if known.
    pub(super) fn covers_run(&self, of: Option<&RunId>) -> bool {
        of.map_or(self.is_last, |of| of.as_str() == self.run)
    }

    /// Whether a call ends with this run.
    pub(super) fn covers_call(&self, call: &str, of: Option<&RunId>) -> bool {
        self.covers_run(of) && (of.is_some() || !self.own_calls.contains(&self.session, call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unattributed_items_end_with_last_run() {
        let own_calls = Arc::new(CallTable::default());
        let _begun = own_calls.register("s", "own").unwrap();
        let (r1, r2) = (RunId::new("r1").unwrap(), RunId::new("r2").unwrap());
        for is_last in [false, true] {
            let own_calls = Arc::clone(&own_calls);
            let stopping = RunCancellation { run: "r1", is_last, session: "s".into(), own_calls };
            assert!(stopping.covers_run(Some(&r1)) && !stopping.covers_run(Some(&r2)));
            assert_eq!(stopping.covers_run(None), is_last);
            assert!(stopping.covers_call("c", Some(&r1)) && !stopping.covers_call("c", Some(&r2)));
            assert_eq!(stopping.covers_call("c", None), is_last);
            assert!(!stopping.covers_call("own", None), "the client stops it itself");
        }
    }
}
