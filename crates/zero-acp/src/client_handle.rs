//! Sends notifications and requests to the client.

use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{Meta, SessionId, SessionNotification, SessionUpdate};
use agent_client_protocol::{Client, Error, JsonRpcRequest, UntypedMessage};
use serde_json::{Value, json};
use tokio::time::timeout;
use zero_core::RunId;

use crate::line_transport::WriteBacklog;
use crate::rpc_error;

/// The connection to the client. Clones share it.
#[derive(Clone)]
pub(crate) struct ClientHandle {
    connection: ConnectionTo<Client>,
    gauge: WriteBacklog,
}

impl ClientHandle {
    pub(crate) fn new(connection: ConnectionTo<Client>, gauge: WriteBacklog) -> Self {
        Self { connection, gauge }
    }

    /// Sends a session update; waits while the client does not read. A disconnect is detected
    /// elsewhere.
    pub(crate) async fn send_update(&self, session: &SessionId, update: SessionUpdate) {
        self.notify(SessionNotification::new(session.clone(), update)).await;
    }

    async fn notify(&self, notification: SessionNotification) {
        self.gauge.admit_update().await;
        if let Ok(message) = to_message(&notification) {
            let _ = self.connection.send_notification(message);
        }
    }

    /// Sends several updates, in order.
    pub(crate) async fn send_updates(&self, session: &SessionId, updates: Vec<SessionUpdate>) {
        for update in updates {
            self.send_update(session, update).await;
        }
    }

    /// Sends updates about a run that another client started, in order. `_meta.zero.observedRun`
    /// tells them from those of the client's own turns.
    pub(crate) async fn send_observed_updates(
        &self,
        session: &SessionId,
        run: &RunId,
        updates: Vec<SessionUpdate>,
    ) {
        for update in updates {
            let observed = json!({"observedRun": run.as_str()});
            let meta = Meta::from_iter([("zero".to_owned(), observed)]);
            self.notify(SessionNotification::new(session.clone(), update).meta(meta)).await;
        }
    }

    /// Sends the progress of a call; waits while the client does not read.
    pub(crate) async fn send_progress(&self, progress: UntypedMessage) {
        self.gauge.admit_update().await;
        let _ = self.connection.send_notification(progress);
    }

    /// Sends a request and waits for the answer, for the given time at most. On timeout, or if the
    /// future is dropped, the request is cancelled with `$/cancel_request`.
    pub(crate) async fn request<R: JsonRpcRequest>(
        &self,
        request: R,
        at_most: Duration,
    ) -> Result<R::Response, Error> {
        let answer = self.connection.send_request(request).block_task();
        match timeout(at_most, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(rpc_error::operation_failed("timeout", "the client did not answer", true))
            }
        }
    }
}

/// Encodes an update. The schema omits the default status of a pending call; it is added here, so
/// that clients need not know the default.
fn to_message(notification: &SessionNotification) -> Result<UntypedMessage, Error> {
    let mut params = serde_json::to_value(notification).map_err(Error::into_internal_error)?;
    if let SessionUpdate::ToolCall(call) = &notification.update
        && let Some(update) = params.get_mut("update").and_then(Value::as_object_mut)
    {
        update.insert("status".to_owned(), json!(call.status));
    }
    UntypedMessage::new("session/update", params)
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::ToolCall;

    use super::*;

    #[test]
    fn announced_call_says_that_it_is_pending() {
        let update = SessionUpdate::ToolCall(ToolCall::new("c1", "Read"));
        let message = to_message(&SessionNotification::new("s1", update)).unwrap();
        assert_eq!(message.method, "session/update");
        assert_eq!(message.params["update"]["status"], "pending");
        assert_eq!(message.params["sessionId"], "s1");
    }
}
