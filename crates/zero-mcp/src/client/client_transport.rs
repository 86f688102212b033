//! [`ServerConnector`], which opens connections to servers, and [`ClientTransport`], one transport
//! type for pipes, HTTP and tests.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use zero_core::error_chain::describe_causes;
use zero_exec::services::CallRecording;
use zero_runtime::tool::BoxFuture;
use zero_sandbox::ChangeOrigin;

use super::error::ServerUnavailableError;
use super::http::find_http_error;
use super::status::QuarantinedTool;
use crate::server_definition::McpServerDefinition;

/// Opens connections to servers.
pub(crate) trait ServerConnector: Send + Sync {
    /// Opens a new connection to a server: starts its process, or prepares the HTTP client.
    fn connect<'a>(
        &'a self,
        definition: &'a McpServerDefinition,
    ) -> BoxFuture<'a, Result<ServerChannel, ServerUnavailableError>>;
}

/// A connection to a server, and the monitor of the server. Dropping the monitor ends the server.
pub(crate) struct ServerChannel {
    pub(crate) link: ClientTransport,
    pub(crate) monitor: Arc<dyn ServerMonitor>,
}

/// Reports the state of a server beyond its messages.
pub(crate) trait ServerMonitor: Send + Sync {
    /// Returns exit code and signal of its process; `None` while it runs or if there is no process.
    fn exit_status(&self) -> Option<(Option<i32>, Option<i32>)> {
        None
    }

    /// Returns the end of its error output.
    fn stderr_tail(&self) -> String {
        String::new()
    }

    /// Whether all of its error output has been read.
    fn is_drained(&self) -> bool {
        true
    }

    /// Returns why the connection ended, if that is known.
    fn close_cause(&self) -> Option<String> {
        None
    }

    /// Returns further notes for the user, such as blocked hosts and noise in its output.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what the sandbox blocked and may have caused a failure, and the settings that would
    /// allow it.
    fn refusals(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the tools that could not be parsed since the last call of this method.
    fn take_malformed_tools(&self) -> Vec<QuarantinedTool> {
        Vec::new()
    }

    /// Whether the server was started before a file was denied or replaced, so that it can still
    /// read that file.
    fn is_outdated(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Records what the server changes in the workspace from now on as changes of this call. `None` if
    /// that is not recorded.
    fn record_call(&self, _call: ChangeOrigin) -> Option<CallRecording> {
        None
    }

    /// Shuts the server down gracefully.
    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Any transport to a server.
pub(crate) struct ClientTransport(Box<dyn DynTransport>);

/// Why a transport failed.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct ClientTransportError {
    pub(crate) words: String,
    /// Whether another attempt with the other protocol would fail for the same reason.
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

/// Converts an error and its causes, each once.
fn to_transport_error(error: &(dyn std::error::Error + 'static)) -> ClientTransportError {
    // Our own error says more than the SDK error that wraps it.
    if let Some(known) = find_http_error(error) {
        return ClientTransportError {
            words: known.to_string(),
            is_settled: known.is_conclusive(),
        };
    }
    ClientTransportError::new(describe_causes(error))
}
