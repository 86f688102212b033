//! How servers are reached, whatever lies between: one type of transport for pipes, HTTP and tests.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use zero_runtime::tool::BoxFuture;

use super::error::ServerUnavailableError;
use super::http::find_http_error;
use super::status::QuarantinedTool;
use crate::server_definition::McpServerDefinition;

/// Opens ways to servers.
pub(crate) trait ServerConnector: Send + Sync {
    /// Opens a new way to a server: starts its process, or gets ready to talk HTTP.
    fn connect<'a>(
        &'a self,
        definition: &'a McpServerDefinition,
    ) -> BoxFuture<'a, Result<ServerChannel, ServerUnavailableError>>;
}

/// A way to a server, with somebody who sees what becomes of it. Dropping the witness ends it.
pub(crate) struct ServerChannel {
    pub(crate) link: ClientTransport,
    pub(crate) witness: Arc<dyn ServerMonitor>,
}

/// Sees what becomes of a server beside what it says.
pub(crate) trait ServerMonitor: Send + Sync {
    /// How its process ended: exit code and signal; `None` while it runs, and where there is none.
    fn exit_status(&self) -> Option<(Option<i32>, Option<i32>)> {
        None
    }

    /// The end of its error output.
    fn stderr_tail(&self) -> String {
        String::new()
    }

    /// Whether all of its error output is known.
    fn is_drained(&self) -> bool {
        true
    }

    /// Why there is nothing more to be said to it or heard of it, where that is known.
    fn close_cause(&self) -> Option<String> {
        None
    }

    /// What else a person should know, such as hosts that it was refused and noise in its output.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it was refused that may be why it failed, and the settings that would allow it.
    fn refusals(&self) -> Vec<String> {
        Vec::new()
    }

    /// Tools that were too malformed to be read, since the last time this was asked.
    fn take_malformed_tools(&self) -> Vec<QuarantinedTool> {
        Vec::new()
    }

    /// Whether it can see what may not be read, because that came after it.
    fn is_outdated(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Ends it in an orderly way.
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Any transport of a client.
pub(crate) struct ClientTransport(Box<dyn DynTransport>);

/// What a transport failed with.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct ClientTransportError {
    pub(crate) words: String,
    /// Whether asking in another way would change nothing.
    pub(crate) is_settled: bool,
}

impl ClientTransportError {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), is_settled: false }
    }
}

impl ClientTransport {
    pub(crate) fn new(transport: impl Transport<RoleClient> + 'static) -> Self {
        Self(Box::new(transport))
    }
}

impl Transport<RoleClient> for ClientTransport {
    type Error = ClientTransportError;

    fn name() -> Cow<'static, str> {
        "link".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), ClientTransportError>> + Send + 'static {
        self.0.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.0.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), ClientTransportError>> + Send {
        self.0.close()
    }
}

trait DynTransport: Send {
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> BoxFuture<'static, Result<(), ClientTransportError>>;
    fn receive(&mut self) -> BoxFuture<'_, Option<RxJsonRpcMessage<RoleClient>>>;
    fn close(&mut self) -> BoxFuture<'_, Result<(), ClientTransportError>>;
}

impl<T: Transport<RoleClient>> DynTransport for T {
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> BoxFuture<'static, Result<(), ClientTransportError>> {
        let sending = Transport::send(self, item);
        Box::pin(async move { sending.await.map_err(|error| to_transport_error(&error)) })
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<RxJsonRpcMessage<RoleClient>>> {
        Box::pin(Transport::receive(self))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), ClientTransportError>> {
        Box::pin(
            async move { Transport::close(self).await.map_err(|error| to_transport_error(&error)) },
        )
    }
}

/// An error with what caused it, once each.
fn to_transport_error(error: &(dyn std::error::Error + 'static)) -> ClientTransportError {
    // What we know of it says more than what the SDK makes of that.
    if let Some(known) = find_http_error(error) {
        return ClientTransportError {
            words: known.to_string(),
            is_settled: known.is_conclusive(),
        };
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..8 {
        let Some(inner) = cause else { break };
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    ClientTransportError::new(text)
}
