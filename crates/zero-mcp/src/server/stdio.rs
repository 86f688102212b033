//! The MCP server for one client on stdin and stdout.
//!
//! A client that ends closes the server's stdin. Its pending calls are then useless: calls that
//! still run after a moment are stopped, their commands are killed, and the server exits before the
//! client decides to kill it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::JsonRpcMessage;
use rmcp::service::{
    RoleServer, RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage, serve_server_with_ct,
};
use rmcp::transport::{IntoTransport, Transport};
use tokio_util::sync::CancellationToken;

use super::service_handler::McpServiceHandler;
use super::{McpServiceConfig, McpServiceError, McpServiceState};
use crate::wire::{ConnectionDiagnostics, DisconnectCause, LineTransport, McpMessageLimits};

/// How often to check whether all requests are answered after the client has closed stdin: a script
/// that pipes its requests in and closes the pipe wants to read the results. Checks are counted
/// rather than time, because calls are slower on a busy machine, too.
const DRAIN_CHECKS_MAX: u32 = 150;
/// Time between two checks.
const DRAIN_CHECK_PAUSE: Duration = Duration::from_millis(2);
/// How long stopped calls may take to send their results.
const STOP_GRACE: Duration = Duration::from_millis(50);
/// Time limit for writing the last results.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may not read. A client whose user is away, or that is stopped in a debugger,
/// is not broken.
const UNREAD_MAX: Duration = Duration::from_secs(5 * 60);

/// Serves one client on stdin and stdout until stdin ends or the server is stopped. Nothing else
/// may write to stdout.
pub async fn serve_stdio(config: McpServiceConfig) -> Result<(), McpServiceError> {
    let (input, output) = zero_runtime::stdio::open_stdio().map_err(McpServiceError::Socket)?;
    let limits = McpMessageLimits { write_timeout: UNREAD_MAX, ..McpMessageLimits::default() };
    serve_lines(config, LineTransport::new(input, output, limits, ConnectionDiagnostics::default()))
        .await
}

/// Serves one client on a pair of streams. When it returns, all output is written. A client that
/// does not read is an error.
pub async fn serve_lines(
    config: McpServiceConfig,
    lines: LineTransport<RoleServer>,
) -> Result<(), McpServiceError> {
    let (closing, written) = (lines.close_token(), lines.flushed_token());
    let diagnostics = lines.diagnostics().clone();
    let outcome = serve_transport(config, lines).await;
    closing.cancel();
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, written.cancelled()).await;
    match diagnostics.close_cause() {
        Some(DisconnectCause::WriteTimedOut { after }) => Err(McpServiceError::UnreadOutput(after)),
        _ => outcome,
    }
}

/// Serves one client on any transport.
pub async fn serve_transport<T, E, A>(
    config: McpServiceConfig,
    transport: T,
) -> Result<(), McpServiceError>
where
    T: IntoTransport<RoleServer, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let server = McpServiceState::start(config);
    let disconnected = CancellationToken::new();
    let open = Arc::new(AtomicUsize::new(0));
    let watched = MonitoredTransport {
        inner: transport.into_transport(),
        disconnected: disconnected.clone(),
        open: Arc::clone(&open),
        activity: ClientActivity::NotYet,
    };
    let stop = server.stop.child_token();
    let served = async {
        match serve_server_with_ct(McpServiceHandler::new(Arc::clone(&server)), watched, stop).await
        {
            Ok(running) => {
                // The client is gone in any case, so the outcome does not matter.
                let _ = running.waiting().await;
                Ok(())
            }
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                Ok(())
            }
            Err(error) => Err(McpServiceError::Handshake(error.to_string())),
        }
    };
    let outcome = tokio::select! {
        outcome = served => outcome,
        () = wait_for_drain(&server, &disconnected, &open) => Ok(()),
    };
    server.end().await;
    outcome
}

/// Waits until the client is gone or the server is stopped, and pending requests had time to
/// finish.
async fn wait_for_drain(
    server: &McpServiceState,
    disconnected: &CancellationToken,
    open: &AtomicUsize,
) {
    let answered = async {
        disconnected.cancelled().await;
        for _ in 0..DRAIN_CHECKS_MAX {
            if open.load(Ordering::Relaxed) == 0 {
                break;
            }
            tokio::time::sleep(DRAIN_CHECK_PAUSE).await;
        }
    };
    tokio::select! {
        () = answered => {}
        () = server.stop.cancelled() => {}
    }
    server.stop.cancel();
    tokio::time::sleep(STOP_GRACE).await;
}

/// A transport that reports when the client is gone. The SDK would let calls continue for seconds.
struct MonitoredTransport<T> {
    inner: T,
    disconnected: CancellationToken,
    /// Number of requests without an answer.
    open: Arc<AtomicUsize>,
    activity: ClientActivity,
}

/// Whether the client has sent a request.
#[derive(PartialEq)]
enum ClientActivity {
    NotYet,
    Yes,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for MonitoredTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let answered = is_answer.then(|| Arc::clone(&self.open));
        let sending = self.inner.send(message);
        async move {
            let sent = sending.await;
            if let Some(open) = answered {
                let one_less = |open: usize| Some(open.saturating_sub(1));
                let _ = open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.disconnected.cancel();
                return None;
            };
            match (&message, &self.activity) {
                (JsonRpcMessage::Request(_), _) => {
                    self.activity = ClientActivity::Yes;
                    self.open.fetch_add(1, Ordering::Relaxed);
                }
                // The SDK would end the connection if the first message is not a request.
                (_, ClientActivity::NotYet) => continue,
                (_, ClientActivity::Yes) => {}
            }
            return Some(message);
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
