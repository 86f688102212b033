//! Reads the events of the gateway and dispatches each to its sessions.

use std::sync::{Arc, Weak};

use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zero_wire::EventFrame;
use zero_wire::client::GatewayEvents;
use zero_wire::tools::{
    TOOLS_CANCEL, TOOLS_DISPLACED, TOOLS_TERMS, TOOLS_USE, ToolsDisplacedEvent, ToolsResult,
};
use zero_wire::zero_sessions::{RUN_UNRECORDED, RunUnrecorded, SESSION_EVENT, SessionEvent};

use super::shared_link::SharedLink;
use crate::call_rejection::CallRejection;
use crate::gateway_update::GatewayUpdate;
use crate::session_slot::SessionSlot;

/// Reads events until the connection ends or is no longer needed.
pub(super) fn listen(
    shared: Weak<SharedLink>,
    number: u64,
    over: CancellationToken,
    mut events: GatewayEvents,
) {
    tokio::spawn(async move {
        while let Some(Some(event)) = over.run_until_cancelled(events.next()).await {
            let Some(shared) = shared.upgrade() else { return };
            shared.dispatch_event(event).await;
        }
        over.cancel();
        if let Some(shared) = shared.upgrade() {
            shared.handle_connection_loss(number);
        }
    });
}

/// The session that a tool event concerns.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventTarget {
    #[serde(default)]
    session_key: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
}

impl SharedLink {
    async fn dispatch_event(self: &Arc<Self>, event: EventFrame) {
        match event.event.as_str() {
            SESSION_EVENT => self.dispatch_entry(event),
            RUN_UNRECORDED => self.dispatch_unrecorded(event),
            TOOLS_USE | TOOLS_CANCEL | TOOLS_TERMS => self.dispatch_tool_event(&event),
            TOOLS_DISPLACED => self.dispatch_displacement(event),
            _ => {
                for slot in self.slots() {
                    if let Some(openclaw) = &slot.openclaw {
                        openclaw.handle_event(&slot, &event).await;
                    }
                }
            }
        }
    }

    fn dispatch_entry(&self, event: EventFrame) {
        let read = serde_json::from_value(event.payload.unwrap_or(Value::Null));
        let SessionEvent { session_key, event } = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "a ledger entry is invalid");
                return;
            }
        };
        let mut slots = self.slots();
        slots.retain(|slot| slot.has_key(&session_key));
        match slots.split_last() {
            Some((last, others)) => {
                others.iter().for_each(|slot| slot.inbox.offer(event.clone()));
                last.inbox.offer(event);
            }
            // The session may be about to be opened.
            None => self.count_stray(),
        }
    }

    fn dispatch_unrecorded(&self, event: EventFrame) {
        let read = serde_json::from_value(event.payload.unwrap_or(Value::Null));
        let run: RunUnrecorded = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "a report of an unrecorded run is invalid");
                return;
            }
        };
        let slots = self.slots();
        let concerned = slots.iter().filter(|slot| slot.has_key(&run.session_key));
        concerned.for_each(|slot| {
            slot.inbox.push_status(GatewayUpdate::Unrecorded(run.clone()));
        });
    }

    fn dispatch_tool_event(self: &Arc<Self>, event: &EventFrame) {
        let Some(Ok(concerned)) = event.payload.as_ref().map(EventTarget::deserialize) else {
            return;
        };
        let fits = |slot: &Arc<SessionSlot>| {
            concerned.session_id.as_ref().is_some_and(|id| slot.has_id(id))
                || concerned.session_key.as_ref().is_some_and(|key| slot.has_key(key))
        };
        let slots = self.slots().into_iter().filter(fits);
        // The gateway sends calls to the session that attached last.
        let host = slots
            .filter(|slot| slot.attachment_number().is_some())
            .max_by_key(|slot| slot.attachment_number());
        let handled =
            host.map_or(Err(CallRejection::NotHosted), |host| host.handle_tool_event(event));
        if let (Err(why), TOOLS_USE) = (handled, event.event.as_str()) {
            self.reject_call(event, why);
        }
    }

    /// Handles the event that another host took over the tools of a session: its slots here stop
    /// hosting.
    fn dispatch_displacement(&self, event: EventFrame) {
        let read = serde_json::from_value(event.payload.unwrap_or(Value::Null));
        let ToolsDisplacedEvent { session_key, session_id, host } = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "a `tools/displaced` event is invalid");
                return;
            }
        };
        let fits = |slot: &Arc<SessionSlot>| slot.has_id(&session_id) || slot.has_key(&session_key);
        self.slots()
            .iter()
            .filter(|slot| fits(slot))
            .for_each(|slot| slot.handle_displacement(&host));
    }

    /// Rejects a call, so that the run does not wait forever.
    fn reject_call(self: &Arc<Self>, event: &EventFrame, why: CallRejection) {
        let (Some(result), Some(up)) = (why.to_result(event), self.current_connection()) else {
            return;
        };
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = shared.request_on::<ToolsResult>(&up, result).await {
                tracing::warn!(%error, "a call could not be refused");
            }
        });
    }
}
