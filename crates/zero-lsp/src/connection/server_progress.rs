//! Tracks the `$/progress` notifications of a server ([`LanguageServerProgress`]), such as those
//! for indexing.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

/// Most progress tokens that are tracked for one server.
const TOKENS_MAX: usize = 100;

/// The work in progress that a server has reported.
#[derive(Debug)]
pub(super) struct LanguageServerProgress {
    tokens: Mutex<HashSet<String>>,
    count: watch::Sender<usize>,
}

impl Default for LanguageServerProgress {
    fn default() -> Self {
        Self { tokens: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl LanguageServerProgress {
    /// Records a notification. Returns false if it is malformed.
    pub(super) fn update(&self, params: &Value) -> bool {
        let token = params.get("token").map(Value::to_string).filter(|token| token.len() < 200);
        let kind = params.pointer("/value/kind").and_then(Value::as_str);
        let (Some(token), Some(kind)) = (token, kind) else { return false };
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            "begin" if tokens.len() < TOKENS_MAX => drop(tokens.insert(token)),
            "end" => drop(tokens.remove(&token)),
            _ => {}
        }
        self.count.send_replace(tokens.len());
        true
    }

    pub(super) fn is_busy(&self) -> bool {
        *self.count.borrow() > 0
    }

    pub(super) async fn wait_until_busy(&self) {
        let _ = self.count.subscribe().wait_for(|count| *count > 0).await;
    }

    pub(super) async fn wait_until_idle(&self) {
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn progress_tracks_begin_and_end() {
        let progress = LanguageServerProgress::default();
        let say = |token: Value, kind: &str| {
            progress.update(&json!({"token": token, "value": {"kind": kind}}))
        };
        assert!(!progress.is_busy());
        assert!(say(json!(1), "begin") && say(json!("a"), "begin") && say(json!(1), "report"));
        progress.wait_until_busy().await;
        assert!(say(json!(1), "end"));
        assert!(progress.is_busy());
        assert!(say(json!("a"), "end") && say(json!("b"), "end"));
        progress.wait_until_idle().await;
        assert!(!say(json!("x".repeat(300)), "begin"));
        for number in 0..3 * TOKENS_MAX {
            say(json!(number), "begin");
        }
        assert_eq!(*progress.count.borrow(), TOKENS_MAX);
    }
}
