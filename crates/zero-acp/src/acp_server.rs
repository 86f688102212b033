//! Serves one client on a pair of streams, whatever it is served with.

use std::future::Future;
use std::sync::Arc;

use agent_client_protocol::v1::{ConnectionTo, Dispatch, Responder};
use agent_client_protocol::{Client, Error, UntypedMessage, on_receive_dispatch};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::line_transport::{WriteBacklog, bounded_lines};

/// Why serving ended before the client went away.
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

/// Whoever serves a client. Must not wait where it is told something: whatever comes next waits for it.
pub(crate) trait ConnectionHandler: Send + Sync + 'static {
    /// The client speaks: by this it is spoken to. Said with every message.
    fn set_connection(&self, connection: ConnectionTo<Client>);

    /// The client asks.
    fn handle_request(self: &Arc<Self>, method: &str, params: Value, responder: Responder<Value>);

    /// The client says something.
    fn handle_notification(self: &Arc<Self>, method: &str, params: Value);
}

/// Serves a client until it goes away; after that, waits for `end`.
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
        // The client went away, by whichever end we noticed it.
        return Ok(());
    }
    served.map_err(AcpServeError::from)
}
