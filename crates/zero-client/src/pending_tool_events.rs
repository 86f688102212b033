//! Tool events of a session that arrive before its tools are ready.
//!
//! The gateway sends calls as soon as it has answered `tools/attach`. The client reads that answer
//! a little later and has to agree on terms before the first call. A call that does not fit into
//! the queue is not accepted, so that the caller can reject it.

use std::collections::HashMap;

use serde_json::json;
use zero_wire::EventFrame;
use zero_wire::tools::{TOOLS_CANCEL, TOOLS_TERMS, TOOLS_USE};

use crate::tool_service::CALLS_MAX;

/// Most bytes of pending calls.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most bytes of terms: a key, an id and two words.
const TERMS_BYTES_MAX: usize = 8 * 1024;

/// Events of tools that no service has taken up yet, within bounds.
#[derive(Default)]
pub(crate) struct PendingToolEvents {
    /// Calls and terms, in order.
    events: Vec<EventFrame>,
    /// The calls among them, and whether each was cancelled.
    calls: HashMap<String, bool>,
    bytes: usize,
    /// Whether another host was reported. The report may be outdated.
    is_doubtful: bool,
}

impl PendingToolEvents {
    /// Queues an event; returns false for a call that does not fit.
    pub(crate) fn push(&mut self, event: &EventFrame) -> bool {
        match event.event.as_str() {
            TOOLS_USE => {
                // A call without an id cannot be answered, and a queued one is answered once.
                let new = call_id(event).filter(|call| !self.calls.contains_key(call));
                let Some(call) = new else { return true };
                let sum = self.bytes.saturating_add(event_bytes(event));
                if self.calls.len() >= CALLS_MAX || sum > BYTES_MAX {
                    return false;
                }
                self.bytes = sum;
                self.calls.insert(call, false);
            }
            TOOLS_CANCEL => {
                // A call that is not queued was rejected and has ended.
                let call = call_id(event).and_then(|call| self.calls.get_mut(&call));
                if let Some(is_cancelled) = call {
                    *is_cancelled = true;
                }
                return true;
            }
            TOOLS_TERMS if event_bytes(event) > TERMS_BYTES_MAX => {
                tracing::warn!("ignored tool terms that are too long");
                return true;
            }
            TOOLS_TERMS => self.events.retain(|known| known.event != TOOLS_TERMS),
            _ => return true,
        }
        self.events.push(event.clone());
        true
    }

    /// Records that another host was reported.
    pub(crate) fn mark_doubtful(&mut self) {
        self.is_doubtful = true;
    }

    /// Whether that was recorded since the last call of this method.
    pub(crate) fn take_doubtful(&mut self) -> bool {
        std::mem::take(&mut self.is_doubtful)
    }

    /// The queued events, in order; a cancelled call is followed by its cancellation.
    pub(crate) fn into_events(self) -> Vec<EventFrame> {
        let Self { events, calls, .. } = self;
        let mut all = Vec::with_capacity(events.len());
        for event in events {
            let cancel = call_id(&event).filter(|call| calls.get(call) == Some(&true));
            let cancel = cancel.map(|call| {
                let session = event.payload.as_ref().and_then(|payload| payload.get("sessionId"));
                let payload = json!({"sessionId": session, "toolCallId": call});
                let (event, payload) = (TOOLS_CANCEL.to_owned(), Some(payload));
                EventFrame { event, payload, seq: None, state_version: None }
            });
            all.push(event);
            all.extend(cancel);
        }
        all
    }

    /// The queued calls.
    pub(crate) fn into_calls(mut self) -> Vec<EventFrame> {
        self.events.retain(|event| event.event == TOOLS_USE);
        self.events
    }
}

fn event_bytes(event: &EventFrame) -> usize {
    event.payload.as_ref().map_or(0, |payload| payload.to_string().len())
}

fn call_id(event: &EventFrame) -> Option<String> {
    Some(event.payload.as_ref()?.get("toolCallId")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn event(name: &str, call: &str) -> EventFrame {
        event_with(name, json!({"sessionId": "s", "toolCallId": call}))
    }

    fn event_with(name: &str, payload: Value) -> EventFrame {
        let (event, payload) = (name.to_owned(), Some(payload));
        EventFrame { event, payload, seq: None, state_version: None }
    }

    fn kept_events(early: PendingToolEvents) -> Vec<(String, String)> {
        let named = |event: &EventFrame| (event.event.clone(), call_id(event).unwrap_or_default());
        early.into_events().iter().map(named).collect()
    }

    #[test]
    fn call_over_limit_is_rejected_and_other_events_are_kept() {
        let mut early = PendingToolEvents::default();
        for number in 0..CALLS_MAX {
            assert!(early.push(&event(TOOLS_USE, &number.to_string())));
        }
        assert!(!early.push(&event(TOOLS_USE, "more")), "whoever waits for it has to be told");
        for _ in 0..1_000 {
            assert!(early.push(&event(TOOLS_CANCEL, "0")));
            assert!(early.push(&event(TOOLS_CANCEL, "more")));
            assert!(early.push(&event(TOOLS_TERMS, "")));
        }
        let kept = kept_events(early);
        let [_, cancel, .., terms] = kept.as_slice() else { panic!("{kept:?}") };
        assert_eq!((cancel.0.as_str(), cancel.1.as_str()), (TOOLS_CANCEL, "0"));
        assert_eq!((terms.0.as_str(), kept.len()), (TOOLS_TERMS, CALLS_MAX + 2));
    }

    #[test]
    fn limits_cannot_be_bypassed() {
        let mut early = PendingToolEvents::default();
        let large = |size: usize| "x".repeat(size);
        for _ in 0..1_000 {
            assert!(early.push(&event_with(TOOLS_USE, json!({"input": large(9_000)}))));
            assert!(early.push(&event(TOOLS_USE, "1")));
            let more = json!({"toolCallId": "1", "more": large(9_000)});
            assert!(early.push(&event_with(TOOLS_CANCEL, more)));
        }
        let terms = |size| event_with(TOOLS_TERMS, json!({"dialect": large(size)}));
        assert!(early.push(&terms(9)) && early.push(&terms(TERMS_BYTES_MAX)));
        let kept = early.into_events();
        let cancel = event_with(TOOLS_CANCEL, json!({"sessionId": "s", "toolCallId": "1"}));
        assert_eq!(kept, [event(TOOLS_USE, "1"), cancel, terms(9)]);
    }

    #[test]
    fn buffered_call_bytes_are_bounded() {
        let mut early = PendingToolEvents::default();
        let large = "x".repeat(BYTES_MAX / 2);
        let large = |call: &str| event_with(TOOLS_USE, json!({"toolCallId": call, "input": large}));
        assert!(early.push(&large("1")));
        assert!(!early.push(&large("2")));
        assert!(early.push(&event(TOOLS_USE, "3")));
        let calls: Vec<String> = kept_events(early).into_iter().map(|(_, call)| call).collect();
        assert_eq!(calls, ["1", "3"]);
    }
}
