//! Calls of the client's tools that wait for `tools/result`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::oneshot;
use zero_core::{ErrorReason, ToolError};

/// Most calls that wait at a time.
const CALLS_MAX: usize = 64;

/// Session and call, as the client names them.
type CallKey = (String, String);

/// The calls that wait for their result. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct PendingToolCalls {
    calls: Arc<Mutex<HashMap<CallKey, oneshot::Sender<Value>>>>,
}

/// A call that waits; it is forgotten when this is dropped, so that a late result is ignored.
pub(super) struct PendingToolCall {
    table: PendingToolCalls,
    key: CallKey,
    result: oneshot::Receiver<Value>,
    /// Whether the table has forgotten it already, and the id may be in use again.
    is_answered: bool,
}

impl PendingToolCalls {
    pub(super) fn register(&self, session: &str, call: &str) -> Result<PendingToolCall, ToolError> {
        let key = (session.to_owned(), call.to_owned());
        let (sender, result) = oneshot::channel();
        let mut calls = self.lock();
        if calls.contains_key(&key) {
            let message = format!("the call `{call}` waits for the editor already");
            return Err(ToolError::failed(ErrorReason::Busy, message));
        }
        if calls.len() >= CALLS_MAX {
            let message = format!("{CALLS_MAX} calls wait for the editor already; try again later");
            return Err(ToolError::failed(ErrorReason::Busy, message));
        }
        calls.insert(key.clone(), sender);
        Ok(PendingToolCall { table: self.clone(), key, result, is_answered: false })
    }

    /// Delivers the result of a call. A result without a waiting caller is ignored: the call was
    /// cancelled, or has its result already.
    pub(crate) fn resolve(&self, result: Value) {
        let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
        let (Some(session), Some(call)) = (text("sessionId"), text("toolCallId")) else { return };
        if let Some(sender) = self.lock().remove(&(session, call)) {
            let _ = sender.send(result);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallKey, oneshot::Sender<Value>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingToolCall {
    /// Waits for the result. Its caller ends the wait when the connection ends.
    pub(super) async fn wait(&mut self) -> Option<Value> {
        let result = (&mut self.result).await.ok();
        self.is_answered = true;
        result
    }
}

impl Drop for PendingToolCall {
    fn drop(&mut self) {
        if !self.is_answered {
            self.table.lock().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn result_reaches_its_call_once() {
        let table = PendingToolCalls::default();
        let mut call = table.register("s", "c").unwrap();
        assert!(table.register("s", "c").is_err(), "the id is in use");
        table.resolve(json!({"sessionId": "other", "toolCallId": "c"}));
        table.resolve(json!({"toolCallId": "c"}));
        let result = |text: &str| json!({"sessionId": "s", "toolCallId": "c", "content": text});
        table.resolve(result("first"));
        table.resolve(result("second"));
        assert_eq!(call.wait().await, Some(result("first")));
        let again = table.register("s", "c").unwrap();
        drop(call);
        assert_eq!(table.lock().len(), 1, "the id belongs to another call");
        drop(again);
        assert!(table.lock().is_empty());
    }

    #[test]
    fn waiting_calls_are_bounded() {
        let table = PendingToolCalls::default();
        let calls: Vec<_> =
            (0..CALLS_MAX).map(|at| table.register("s", &at.to_string()).unwrap()).collect();
        assert!(table.register("s", "one more").is_err());
        drop(calls);
        assert!(table.register("s", "one more").is_ok());
    }
}
