//! What is said to the client and asked of it.

use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{SessionId, SessionNotification, SessionUpdate};
use agent_client_protocol::{Client, Error, JsonRpcRequest, UntypedMessage};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::line_transport::WriteBacklog;
use crate::rpc_error;

/// The client, as we speak to it. Clones are the same.
#[derive(Clone)]
pub(crate) struct ClientHandle {
    connection: ConnectionTo<Client>,
    gauge: WriteBacklog,
}

impl ClientHandle {
    pub(crate) fn new(connection: ConnectionTo<Client>, gauge: WriteBacklog) -> Self {
        Self { connection, gauge }
    }

    /// Tells something of a session; waits while the client does not read. That it went away is
    /// noticed elsewhere.
    pub(crate) async fn send_update(&self, session: &SessionId, update: SessionUpdate) {
        self.gauge.admit_update().await;
        let notification = SessionNotification::new(session.clone(), update);
        if let Ok(message) = to_message(&notification) {
            let _ = self.connection.send_notification(message);
        }
    }

    /// Tells all of these, in order.
    pub(crate) async fn send_updates(&self, session: &SessionId, updates: Vec<SessionUpdate>) {
        for update in updates {
            self.send_update(session, update).await;
        }
    }

    /// Tells how a call is coming along; waits while the client does not read.
    pub(crate) async fn send_progress(&self, progress: UntypedMessage) {
        self.gauge.admit_update().await;
        let _ = self.connection.send_notification(progress);
    }

    /// Asks for something, and waits at most so long. Whoever stops waiting, or is dropped meanwhile,
    /// takes the question back (`$/cancel_request`).
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

/// An update as it is sent. The schema leaves out the status of a call that waits, which clients
/// should not have to know.
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
