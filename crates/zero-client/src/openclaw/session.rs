//! Handles the events of a gateway for one session and publishes the translated entries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use zero_core::event::Event;
use zero_runtime::clock::now_ms;
use zero_wire::EventFrame;
use zero_wire::client::GatewayClientError;
use zero_wire::events::{AGENT, APPROVAL_REQUESTED, APPROVAL_RESOLVED, CHAT};

use super::translator::{OpenClawTranslator, RunWaitOutcome};
use crate::gateway_link::{LinkConnection, RequestRetry, SharedLink};
use crate::gateway_update::GatewayUpdate;
use crate::link_error::GatewayLinkError;
use crate::session_slot::SessionSlot;

/// Longest wait for the final event of a run after its end was reported, before the gateway is
/// queried.
const FINAL_EVENT_WAIT: Duration = Duration::from_secs(5);
/// Largest assumed clock difference.
const CLOCK_SLACK_MS: i64 = 2_000;

/// Presents a session of a gateway without a ledger as if it had one.
pub(crate) struct OpenClawSession {
    shared: Weak<SharedLink>,
    translator: Mutex<OpenClawTranslator>,
    /// Held while entries are published, to keep them in order.
    turn: tokio::sync::Mutex<()>,
}

impl OpenClawSession {
    pub(crate) fn new(shared: &Arc<SharedLink>, translator: OpenClawTranslator) -> Self {
        let translator = Mutex::new(translator);
        Self { shared: Arc::downgrade(shared), translator, turn: tokio::sync::Mutex::default() }
    }

    /// Handles an event, which may belong to another session.
    pub(crate) async fn handle_event(&self, slot: &Arc<SessionSlot>, event: &EventFrame) {
        let Some(payload) = &event.payload else { return };
        match event.event.as_str() {
            CHAT | AGENT => {
                if !self.is_own_event(slot, payload) {
                    return;
                }
            }
            APPROVAL_REQUESTED => {
                let request = payload.get("request").unwrap_or(&Value::Null);
                if !self.is_own_event(slot, request) && !self.has_call(request) {
                    return;
                }
            }
            APPROVAL_RESOLVED => {}
            _ => return,
        }
        self.publish(slot, |translator, now_ms| match event.event.as_str() {
            CHAT => translator.handle_chat(payload, now_ms),
            AGENT => translator.handle_agent(payload, now_ms),
            APPROVAL_REQUESTED => translator.handle_approval_request(payload, now_ms),
            _ => translator.handle_approval_resolved(payload, now_ms),
        })
        .await;
        if event.event == AGENT && is_final_event(payload) {
            self.check_run_later(slot, payload, FINAL_EVENT_WAIT);
        }
    }

    /// Publishes entries in order; waits for room in the queue.
    pub(crate) async fn publish(
        &self,
        slot: &SessionSlot,
        words: impl FnOnce(&mut OpenClawTranslator, i64) -> Vec<Event>,
    ) {
        let _turn = self.turn.lock().await;
        let events = words(&mut self.lock_translator(), now_ms());
        for event in events {
            slot.inbox.push(event).await;
        }
    }

    /// Publishes entries without waiting for room, while a connection is being made.
    pub(crate) async fn publish_now<T>(
        &self,
        slot: &SessionSlot,
        words: impl FnOnce(&mut OpenClawTranslator, i64) -> (T, Vec<Event>),
    ) -> T {
        let _turn = self.turn.lock().await;
        let (result, events) = words(&mut self.lock_translator(), now_ms());
        events.into_iter().for_each(|event| slot.inbox.force_push(event));
        result
    }

    /// Queries the state of runs that may have ended while the connection was lost.
    pub(crate) async fn reopen(
        &self,
        shared: &Arc<SharedLink>,
        slot: &Arc<SessionSlot>,
        up: &Arc<LinkConnection>,
    ) -> Result<(), GatewayClientError> {
        let active = self.lock_translator().active_runs(now_ms());
        let uptime_ms = i64::try_from(up.client.hello().snapshot.uptime_ms).unwrap_or(i64::MAX);
        for (run, age_ms) in active {
            let params = json!({"runId": run, "timeoutMs": 0});
            let answer = shared.request_value_on(up, "agent.wait", params).await?;
            let resolution = self.publish_now(slot, |translator, now_ms| {
                translator.handle_wait_result(&run, &answer, now_ms)
            });
            let is_older = age_ms > uptime_ms.saturating_add(CLOCK_SLACK_MS);
            // A gateway that started after the run did cannot be executing it.
            if resolution.await == RunWaitOutcome::Unresolved
                && is_older
                && self.lock_translator().drop_run(&run)
            {
                slot.inbox.push_status(GatewayUpdate::Lost(GatewayLinkError::Lost {
                    what: "the run".to_owned(),
                }));
            }
        }
        Ok(())
    }

    /// Queries a run after a delay, in case its final event was missed.
    pub(crate) fn check_run_later(&self, slot: &Arc<SessionSlot>, payload: &Value, wait: Duration) {
        let Some(run) = payload.get("runId").and_then(Value::as_str).map(str::to_owned) else {
            return;
        };
        let (shared, slot) = (Weak::clone(&self.shared), Arc::clone(slot));
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let (Some(shared), Some(session)) = (shared.upgrade(), &slot.openclaw) else { return };
            if !session.lock_translator().is_tracking(&run) {
                return;
            }
            let params = json!({"runId": run, "timeoutMs": 0});
            match shared.request_value("agent.wait", params, RequestRetry::Once).await {
                Ok(answer) => {
                    let answer = answer.result;
                    session
                        .publish(&slot, |translator, now_ms| {
                            translator.handle_wait_result(&run, &answer, now_ms).1
                        })
                        .await;
                }
                Err(unanswered) => {
                    tracing::debug!(error = %unanswered.error, "a run could not be asked about");
                }
            }
        });
    }

    pub(crate) fn lock_translator(&self) -> MutexGuard<'_, OpenClawTranslator> {
        self.translator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an event belongs to this session. The run is compared first, because a gateway may
    /// answer with another spelling of the key, which is used from then on.
    fn is_own_event(&self, slot: &SessionSlot, payload: &Value) -> bool {
        let word = |key: &str| payload.get(key).and_then(Value::as_str);
        let key = word("sessionKey").filter(|key| !key.is_empty());
        let is_known = word("runId").is_some_and(|run| self.lock_translator().is_tracking(run));
        match key {
            Some(key) if slot.has_key(key) => true,
            Some(key) if is_known => {
                let mut info = slot.info();
                key.clone_into(&mut info.session_key);
                slot.update_info(info);
                true
            }
            _ => is_known,
        }
    }

    fn has_call(&self, request: &Value) -> bool {
        let call = request.get("toolCallId").and_then(Value::as_str);
        call.is_some_and(|call| self.lock_translator().has_call(call))
    }
}

fn is_final_event(payload: &Value) -> bool {
    let phase = payload.get("data").and_then(|data| data.get("phase")).and_then(Value::as_str);
    payload.get("stream").and_then(Value::as_str) == Some("lifecycle")
        && matches!(phase, Some("end" | "error"))
}
