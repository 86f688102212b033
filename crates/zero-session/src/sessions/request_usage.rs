//! [`RequestUsage`]: what a request that is not a step of the conversation used, however it ends.
//!
//! A reply that is complete says itself what it used. Before that, attempts fail and are repeated, and a
//! reply may break off or be dropped, which providers bill all the same.

use std::sync::Arc;

use crate::event::TokenUsage;
use crate::model::cost::with_cost;
use crate::model::{ModelEvent, ModelRequest, TokenPrices};
use crate::sessions::call_updates::CallUpdateBuffer;
use crate::turn::context_meter::{message_tokens, text_tokens};

/// Counts a request while its reply arrives, and reports what its complete reply does not say when it is
/// dropped.
pub(super) struct RequestUsage {
    call_updates: Arc<CallUpdateBuffer>,
    /// Attempts that failed and were repeated.
    pub(super) failed_attempts: u64,
    /// Estimates.
    sent_tokens: u64,
    received_tokens: u64,
    /// Prices of the model that answers; those of the run's model if absent.
    prices: Option<TokenPrices>,
}

impl RequestUsage {
    /// Begins to count a request.
    pub(super) fn new(request: &ModelRequest, call_updates: &Arc<CallUpdateBuffer>) -> Self {
        let messages = request.messages.iter().map(|message| message_tokens(message));
        Self {
            call_updates: Arc::clone(call_updates),
            failed_attempts: 0,
            sent_tokens: text_tokens(&request.system).saturating_add(messages.sum()),
            received_tokens: 0,
            prices: None,
        }
    }

    /// Counts what arrives.
    pub(super) fn observe(&mut self, event: &ModelEvent) {
        let received = match event {
            ModelEvent::Text(text) | ModelEvent::Thought(text) => text_tokens(text),
            ModelEvent::ToolUse { name, .. } => text_tokens(name),
            ModelEvent::Retrying { .. } => {
                self.failed_attempts = self.failed_attempts.saturating_add(1);
                0
            }
            ModelEvent::FellBack(fallback) => {
                self.failed_attempts = self.failed_attempts.saturating_add(1);
                self.prices = fallback.to.prices;
                0
            }
            // It says itself what it used.
            ModelEvent::Done(_) => {
                self.received_tokens = 0;
                return;
            }
        };
        self.received_tokens = self.received_tokens.saturating_add(received);
    }
}

impl Drop for RequestUsage {
    fn drop(&mut self) {
        let failed = TokenUsage { requests: self.failed_attempts, ..TokenUsage::default() };
        if failed.requests > 0 {
            self.call_updates.add_usage(failed);
        }
        // As in a turn, a request that brought nothing costs nothing.
        if self.received_tokens > 0 {
            let broken_off = TokenUsage {
                requests: 1,
                input_tokens: self.sent_tokens,
                output_tokens: self.received_tokens,
                ..TokenUsage::default()
            };
            self.call_updates.add_usage(with_cost(broken_off, self.prices.as_ref()));
        }
    }
}
