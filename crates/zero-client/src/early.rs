//! What is asked of the tools of a session before it is known that they are hosted.
//!
//! The gateway asks from the moment on in which it answers `tools/attach`; here that answer is read
//! a little later, and terms have to be agreed upon before the first call. What finds no room is not
//! taken, so that whoever waits for it can be told.

use std::collections::HashMap;

use zero_wire::EventFrame;
use zero_wire::tools::{TOOLS_CANCEL, TOOLS_TERMS, TOOLS_USE};

use crate::tool_service::CALLS_MAX;

/// Bytes of what calls bring that wait.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// What waits.
#[derive(Default)]
pub(crate) struct Early {
    events: Vec<EventFrame>,
    /// The calls among them, and whether they were taken back.
    calls: HashMap<String, bool>,
    bytes: usize,
    /// Others are said to host the tools. It may have been so before, and not be so now.
    is_doubtful: bool,
}

impl Early {
    /// Keeps an event; false for a call that finds no room.
    pub(crate) fn keep(&mut self, event: &EventFrame) -> bool {
        match event.event.as_str() {
            TOOLS_USE => {
                let bytes = event.payload.as_ref().map_or(0, |payload| payload.to_string().len());
                let sum = self.bytes.saturating_add(bytes);
                if self.calls.len() >= CALLS_MAX || sum > BYTES_MAX {
                    return false;
                }
                self.bytes = sum;
                self.calls.insert(call_of(event), false);
            }
            // One that did not wait was refused, and is over.
            TOOLS_CANCEL => match self.calls.get_mut(&call_of(event)) {
                Some(is_cancelled @ false) => *is_cancelled = true,
                _ => return true,
            },
            TOOLS_TERMS => self.events.retain(|known| known.event != TOOLS_TERMS),
            _ => return true,
        }
        self.events.push(event.clone());
        true
    }

    /// Others are said to host the tools.
    pub(crate) fn doubt(&mut self) {
        self.is_doubtful = true;
    }

    /// Whether that was said since this was last asked.
    pub(crate) fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.is_doubtful)
    }

    /// What was kept, in order.
    pub(crate) fn into_events(self) -> Vec<EventFrame> {
        self.events
    }
}

fn call_of(event: &EventFrame) -> String {
    let call = event.payload.as_ref().and_then(|payload| payload.get("toolCallId")?.as_str());
    call.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(name: &str, call: &str) -> EventFrame {
        with(name, json!({"toolCallId": call}))
    }

    fn with(name: &str, payload: Value) -> EventFrame {
        let (event, payload) = (name.to_owned(), Some(payload));
        EventFrame { event, payload, seq: None, state_version: None }
    }

    fn kept(early: Early) -> Vec<(String, String)> {
        early.into_events().iter().map(|event| (event.event.clone(), call_of(event))).collect()
    }

    #[test]
    fn a_call_without_room_is_not_taken_and_all_else_is_kept() {
        let mut early = Early::default();
        for number in 0..CALLS_MAX {
            assert!(early.keep(&event(TOOLS_USE, &number.to_string())));
        }
        assert!(!early.keep(&event(TOOLS_USE, "more")), "whoever waits for it has to be told");
        for _ in 0..1_000 {
            assert!(early.keep(&event(TOOLS_CANCEL, "0")));
            assert!(early.keep(&event(TOOLS_CANCEL, "more")));
            assert!(early.keep(&event(TOOLS_TERMS, "")));
        }
        let kept = kept(early);
        let [.., cancel, terms] = kept.as_slice() else { panic!("{kept:?}") };
        assert_eq!((cancel.0.as_str(), cancel.1.as_str()), (TOOLS_CANCEL, "0"));
        assert_eq!((terms.0.as_str(), kept.len()), (TOOLS_TERMS, CALLS_MAX + 2));
    }

    #[test]
    fn what_calls_bring_is_bounded() {
        let mut early = Early::default();
        let large = "x".repeat(BYTES_MAX / 2);
        let large = |call: &str| with(TOOLS_USE, json!({"toolCallId": call, "input": large}));
        assert!(early.keep(&large("1")));
        assert!(!early.keep(&large("2")));
        assert!(early.keep(&event(TOOLS_USE, "3")));
        let calls: Vec<String> = kept(early).into_iter().map(|(_, call)| call).collect();
        assert_eq!(calls, ["1", "3"]);
    }
}
