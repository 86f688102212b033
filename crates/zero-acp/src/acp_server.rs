//! Serves one client on a pair of streams, with any [`ConnectionHandler`].

use std::future::Future;
use std::sync::Arc;

use agent_client_protocol::v1::{ConnectionTo, Dispatch, Responder};
use agent_client_protocol::{Client, Error, UntypedMessage, on_receive_dispatch};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::line_transport::{WriteBacklog, bounded_lines};

/// Why serving ended before the client disconnected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection to the client broke ({code}): {message}")]
pub struct AcpServeError {
    code: i32,
    message: String,
}

impl From<Error> for AcpServeError {
    fn from(error: Error) -> Self {
        Self { code: error.code.value(), message: error.message }
    }
}

/// Handles the messages of one client. The methods must not block: the next message waits for them.
pub(crate) trait ConnectionHandler: Send + Sync + 'static {
    /// Sets the connection for messages to the client. Called with every message.
    fn set_connection(&self, connection: ConnectionTo<Client>);

    /// Handles a request of the client.
    fn handle_request(self: &Arc<Self>, method: &str, params: Value, responder: Responder<Value>);

    /// Handles a notification of the client.
    fn handle_notification(self: &Arc<Self>, method: &str, params: Value);
}

/// Serves a client until it disconnects, then waits for `end`.
pub(crate) async fn serve_until_closed(
    name: &str,
    gauge: WriteBacklog,
    server: Arc<impl ConnectionHandler>,
    end: impl Future<Output = ()>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), AcpServeError> {
    let served = agent_client_protocol::Agent
        .v1()
        .name(name)
        .on_receive_dispatch(
            async move |message: Dispatch<UntypedMessage, UntypedMessage>,
                        connection: ConnectionTo<Client>| {
                server.set_connection(connection);
                match message {
                    Dispatch::Request(request, responder) => {
                        let (method, params) = request.into_parts();
                        server.handle_request(&method, params, responder);
                        Ok(())
                    }
                    Dispatch::Notification(notification) => {
                        let (method, params) = notification.into_parts();
                        server.handle_notification(&method, params);
                        Ok(())
                    }
                    Dispatch::Response(result, router) => router.route_with_result(result),
                }
            },
            on_receive_dispatch!(),
        )
        .connect_to(bounded_lines(input, output, gauge.clone()))
        .await;
    end.await;
    if gauge.is_closed() {
        // The client disconnected; either stream may have reported it.
        return Ok(());
    }
    served.map_err(AcpServeError::from)
}
