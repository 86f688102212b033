//! One client on stdin and stdout, and the end of both.
//!
//! A client that goes away closes our stdin. Nothing it asked for is of use to anybody then: what
//! still runs after a moment is ended, its commands are killed, and we are gone before the client
//! wonders whether it has to kill us.

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

/// How often it is looked whether all is answered when the client is gone: a script that pipes its
/// requests in and closes the pipe wants to read the results. Looks are counted instead of time: on a
/// busy machine calls get no further either.
const DRAIN_CHECKS_MAX: u32 = 150;
/// Time between two looks.
const DRAIN_CHECK_PAUSE: Duration = Duration::from_millis(2);
/// How long calls that were stopped may take to say so.
const STOP_GRACE: Duration = Duration::from_millis(50);
/// How long the last results may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may not read what it is sent. A client whose person is away, or that is looked
/// at in a debugger, is no broken one.
const UNREAD_MAX: Duration = Duration::from_secs(5 * 60);

/// Serves one client on stdin and stdout until stdin ends or the server is stopped. Nothing else
/// may be written to stdout.
pub async fn serve_stdio(config: McpServiceConfig) -> Result<(), McpServiceError> {
    let (input, output) = zero_runtime::stdio::open_stdio().map_err(McpServiceError::Socket)?;
    let limits = McpMessageLimits { write_timeout: UNREAD_MAX, ..McpMessageLimits::default() };
    serve_lines(config, LineTransport::new(input, output, limits, ConnectionDiagnostics::default()))
        .await
}

/// Serves one client on a pair of streams. When it returns, what the client is told is written. A
/// client that does not read what it is told is an error.
pub async fn serve_lines(
    config: McpServiceConfig,
    lines: LineTransport<RoleServer>,
) -> Result<(), McpServiceError> {
    let (closing, written) = (lines.close_token(), lines.flushed_token());
    let troubles = lines.diagnostics().clone();
    let outcome = serve_transport(config, lines).await;
    closing.cancel();
    let _ = tokio::time::timeout(FLUSH_TIMEOUT, written.cancelled()).await;
    match troubles.close_cause() {
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
    let gone = CancellationToken::new();
    let open = Arc::new(AtomicUsize::new(0));
    let watched = MonitoredTransport {
        inner: transport.into_transport(),
        gone: gone.clone(),
        open: Arc::clone(&open),
        begun: ClientActivity::NotYet,
    };
    let stop = server.stop.child_token();
    let served = async {
        match serve_server_with_ct(McpServiceHandler::new(Arc::clone(&server)), watched, stop).await
        {
            Ok(running) => {
                // However it ended, it did.
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
        () = wait_for_drain(&server, &gone, &open) => Ok(()),
    };
    server.end().await;
    outcome
}

/// Returns when a client that is gone, or a server that is stopped, had its time.
async fn wait_for_drain(server: &McpServiceState, gone: &CancellationToken, open: &AtomicUsize) {
    let answered = async {
        gone.cancelled().await;
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

/// A transport that tells when the client is gone. The SDK would let calls run on for seconds.
struct MonitoredTransport<T> {
    inner: T,
    gone: CancellationToken,
    /// Requests without an answer.
    open: Arc<AtomicUsize>,
    begun: ClientActivity,
}

/// Whether the client has asked for anything.
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
                self.gone.cancel();
                return None;
            };
            match (&message, &self.begun) {
                (JsonRpcMessage::Request(_), _) => {
                    self.begun = ClientActivity::Yes;
                    self.open.fetch_add(1, Ordering::Relaxed);
                }
                // The SDK takes anything but a request at the beginning for the end of it.
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
