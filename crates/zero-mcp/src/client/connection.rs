//! [`McpConnection`], one live connection to a server: opening it, listing its tools, following
//! changes, closing it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{
    ClientRequest, ErrorCode, ListToolsRequest, ListToolsResult, PaginatedRequestParams,
    ServerPeerInfo, ServerResult, SubscriptionFilter,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, serve_directly_with_ct};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client_handler::McpClientHandler;
use super::client_transport::{ServerChannel, ServerConnector, ServerMonitor};
use super::error::ServerUnavailableError;
use super::handshake::{self, HandshakeStrategy};
use super::sanitize;
use super::server_cache::ProtocolEra;
use super::tool_listing::{ListingDemand, ToolListing, ToolListingBuilder};
use crate::server_definition::{McpServerDefinition, ServerTransport};
use crate::wire;

/// Maximum number of pages of a tool list.
const PAGES_MAX: usize = 100;
/// Maximum length of a pagination cursor, in bytes.
const CURSOR_BYTES_MAX: usize = 64 * 1024;
/// Time limit for fetching a tool list again.
const RELIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a server to accept a subscription to list changes.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of attempts to subscribe after the subscription ended.
const SUBSCRIBE_ATTEMPTS_MAX: u32 = 5;
/// How long to wait for the exit of a process, in order to report it.
const EXIT_REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// One live connection to a server. Dropping it ends the server's process.
pub(crate) struct McpConnection {
    pub(crate) handler: Arc<McpClientHandler>,
    pub(crate) protocol_era: ProtocolEra,
    pub(crate) info: ServerPeerInfo,
    /// When it was opened.
    pub(crate) opened: std::time::Instant,
    pub(crate) monitor: Arc<dyn ServerMonitor>,
    pub(super) peer: Peer<RoleClient>,
    stop: CancellationToken,
    ended_token: CancellationToken,
    is_closing: AtomicBool,
    last_used: Mutex<Instant>,
    /// Number of calls in a row without an answer in time.
    pub(super) silences: AtomicU32,
}

/// Servers that failed to open and are being shut down. Dropping it kills them.
#[derive(Default)]
pub(crate) struct ClosingServers(Mutex<JoinSet<()>>);

impl ClosingServers {
    /// Shuts a server down gracefully in the background.
    fn add(&self, monitor: Arc<dyn ServerMonitor>) {
        let mut endings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while endings.try_join_next().is_some() {}
        endings.spawn(async move { monitor.shut_down().await });
    }

    /// Kills all of them now.
    pub(crate) async fn end_now(&self) {
        let mut endings =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        endings.shutdown().await;
    }
}

impl Drop for McpConnection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl McpConnection {
    /// Opens a connection and lists the tools, all within the startup timeout.
    pub(crate) async fn open(
        connector: &dyn ServerConnector,
        definition: &McpServerDefinition,
        known: Option<ProtocolEra>,
        elicits: bool,
        endings: &ClosingServers,
    ) -> Result<(Arc<Self>, ToolListing), ServerUnavailableError> {
        let deadline = Instant::now() + definition.startup_timeout;
        let on_pipes = matches!(definition.transport, ServerTransport::Command(_));
        let late = || {
            let advice = match on_pipes {
                true => {
                    "if it downloads itself (npx, uvx), allow its registry in `network`, otherwise raise `startupTimeout`"
                }
                false => "raise `startupTimeout`",
            };
            ServerUnavailableError::new(format!(
                "it did not start within {} s; {advice} ({})",
                definition.startup_timeout.as_secs(),
                definition.written_at
            ))
        };
        let asking = match known {
            Some(ProtocolEra::Legacy) => HandshakeStrategy::Legacy,
            _ => HandshakeStrategy::Either { overlap: on_pipes },
        };
        let agree =
            |asking| Self::negotiate(connector, definition, asking, elicits, deadline, endings);
        let opening = agree(asking);
        let connection = match opening.await {
            // A server over HTTP that knows only the older protocol may refuse `server/discover`
            // with any error, which ends the transport. A second attempt starts no second process.
            Err(first)
                if !on_pipes
                    && asking != HandshakeStrategy::Legacy
                    && Instant::now() < deadline =>
            {
                // An error that does not depend on the protocol, such as a missing login, is the
                // one to report.
                let older = agree(HandshakeStrategy::Legacy).await;
                older.map_err(|second| if first.is_conclusive() { first } else { second })
            }
            opened => opened,
        };
        let connection = Arc::new(connection.map_err(|error| match error {
            ConnectAttemptError::TimedOut(facts) => {
                let message = join_parts([late().message, facts.message]);
                ServerUnavailableError { message, ..facts }
            }
            ConnectAttemptError::Failed(error) => error,
        })?);
        tokio::spawn(Arc::clone(&connection).watch_changes());
        match tokio::time::timeout_at(deadline, connection.list_tools()).await {
            Ok(Ok(listing)) => Ok((connection, listing)),
            Ok(Err(error)) => Err(connection.abandon(error, endings).await),
            Err(_) => Err(connection.abandon(late(), endings).await),
        }
    }

    async fn negotiate(
        connector: &dyn ServerConnector,
        definition: &McpServerDefinition,
        asking: HandshakeStrategy,
        elicits: bool,
        deadline: Instant,
        endings: &ClosingServers,
    ) -> Result<Self, ConnectAttemptError> {
        let Ok(way) = tokio::time::timeout_at(deadline, connector.connect(definition)).await else {
            return Err(ConnectAttemptError::TimedOut(ServerUnavailableError::default()));
        };
        let ServerChannel { mut link, monitor: witness } =
            way.map_err(ConnectAttemptError::Failed)?;
        let handler = Arc::new(McpClientHandler::new(elicits));
        let client_params = handler.client_config();
        let handshake = handshake::negotiate(&mut link, &client_params, asking);
        let agreed = match tokio::time::timeout_at(deadline, handshake).await {
            Ok(Ok(agreed)) => agreed,
            Ok(Err(error)) => {
                let error = add_failure_details(error, &*witness).await;
                endings.add(witness);
                return Err(ConnectAttemptError::Failed(error));
            }
            Err(_) => {
                let error = add_failure_details(ServerUnavailableError::default(), &*witness).await;
                endings.add(witness);
                return Err(ConnectAttemptError::TimedOut(error));
            }
        };
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let running = serve_directly_with_ct::<RoleClient, _, _, _, _>(
            Arc::clone(&handler),
            link,
            Some(agreed.info.clone()),
            stop.clone(),
        );
        let peer = running.peer().clone();
        let has_ended = ended.clone().drop_guard();
        tokio::spawn(async move {
            let _has_ended = has_ended;
            let _ = running.waiting().await;
        });
        Ok(Self {
            handler,
            protocol_era: agreed.protocol_era,
            info: agreed.info,
            opened: std::time::Instant::now(),
            monitor: witness,
            peer,
            stop,
            ended_token: ended,
            is_closing: AtomicBool::new(false),
            last_used: Mutex::new(Instant::now()),
            silences: AtomicU32::new(0),
        })
    }

    /// Whether requests can be sent on it.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closing.load(Ordering::Acquire)
            && !self.ended_token.is_cancelled()
            && !self.peer.is_transport_closed()
            && self.monitor.exit_status().is_none()
    }

    /// Waits until it has ended, for whatever reason.
    pub(crate) async fn wait_for_end(&self) {
        self.ended_token.cancelled().await;
    }

    /// Whether zero is closing it.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Returns how long it has not been used; zero while calls run.
    pub(crate) fn idle_time(&self) -> Duration {
        match self.handler.running_calls() {
            0 => self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Resets the idle time.
    pub(crate) fn mark_used(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Marks it as closing if no call is running. Returns whether it did.
    pub(crate) fn close_if_idle(&self) -> bool {
        // A call registers itself before it checks whether the connection is open.
        self.handler.run_if_idle(|| self.is_closing.store(true, Ordering::Release))
    }

    /// Closes it gracefully. The server's process has ended when this returns.
    pub(crate) async fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.stop.cancel();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.ended_token.cancelled()).await;
        self.monitor.shut_down().await;
    }

    /// Returns why it ended by itself, with all known details.
    pub(crate) async fn end_reason(&self) -> ServerUnavailableError {
        let mut error = add_exit_details(ServerUnavailableError::default(), &*self.monitor).await;
        if error.message.is_empty() {
            error.message = "its connection ended".to_owned();
        }
        error
    }

    async fn abandon(
        &self,
        error: ServerUnavailableError,
        endings: &ClosingServers,
    ) -> ServerUnavailableError {
        let error = add_failure_details(error, &*self.monitor).await;
        self.is_closing.store(true, Ordering::Release);
        self.stop.cancel();
        endings.add(Arc::clone(&self.monitor));
        error
    }

    /// Fetches all tools again, never from a cache.
    pub(crate) async fn relist(&self) -> Result<ToolListing, ServerUnavailableError> {
        match tokio::time::timeout(RELIST_TIMEOUT, self.list_tools()).await {
            Ok(listing) => listing,
            Err(_) => Err(ServerUnavailableError::new(format!(
                "it did not list its tools within {} s",
                RELIST_TIMEOUT.as_secs()
            ))),
        }
    }

    async fn list_tools(&self) -> Result<ToolListing, ServerUnavailableError> {
        let mut builder = ToolListingBuilder::default();
        let mut cursor: Option<String> = None;
        let mut visited = HashSet::new();
        for page in 1.. {
            let result = match self.list_page(cursor.take()).await {
                Ok(result) => result,
                // The server did not declare that it has tools.
                Err(ServiceError::McpError(error))
                    if self.info.capabilities.tools.is_none()
                        && error.code == ErrorCode::METHOD_NOT_FOUND =>
                {
                    break;
                }
                Err(error) => return Err(listing_error(&error)),
            };
            if builder.add_page(result.tools) == ListingDemand::NoMore {
                break;
            }
            // An empty string is a valid cursor, too.
            let Some(next) = result.next_cursor else { break };
            if page == PAGES_MAX {
                builder.note_cut(&format!(
                    "its list has more than {PAGES_MAX} pages; the rest is left out"
                ));
                break;
            }
            if next.len() > CURSOR_BYTES_MAX || !visited.insert(next.clone()) {
                builder.note_cut("its list repeats a page; only the tools before that are used");
                break;
            }
            cursor = Some(next);
        }
        Ok(builder.finish(self.monitor.take_malformed_tools()))
    }

    async fn list_page(&self, cursor: Option<String>) -> Result<ListToolsResult, ServiceError> {
        let request = match cursor {
            None => ListToolsRequest::default(),
            cursor => {
                ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor))
            }
        };
        let request = ClientRequest::ListToolsRequest(request);
        let options = PeerRequestOptions::with_timeout(RELIST_TIMEOUT);
        let handle = self.peer.send_cancellable_request(request, options).await?;
        match handle.await_response().await? {
            ServerResult::ListToolsResult(result) => Ok(result),
            // A result without `tools` is parsed as an empty result.
            ServerResult::EmptyResult(_) => Ok(ListToolsResult::default()),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Subscribes to changes of the tool list. A server of the newer protocol sends them only to
    /// subscribers; one of the older protocol sends them without a subscription.
    async fn watch_changes(self: Arc<Self>) {
        if self.protocol_era != ProtocolEra::Modern {
            return;
        }
        let (peer, handler, ended) =
            (self.peer.clone(), Arc::clone(&self.handler), self.ended_token.clone());
        // This task must not keep the connection alive.
        drop(self);
        let following = async {
            for attempt in 0..SUBSCRIBE_ATTEMPTS_MAX {
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                let subscribed = tokio::time::timeout(SUBSCRIBE_TIMEOUT, peer.listen(filter)).await;
                let Ok(Ok(mut subscription)) = subscribed else { return };
                if attempt > 0 {
                    // The list may have changed while there was no subscription.
                    handler.announce_list_change();
                }
                while let Ok(Some(_)) = subscription.next().await {
                    handler.announce_list_change();
                }
                tokio::time::sleep(Duration::from_secs(1 << attempt)).await;
            }
        };
        tokio::select! {
            () = ended.cancelled() => {}
            () = following => {}
        }
    }
}

/// Why a connection could not be opened.
enum ConnectAttemptError {
    TimedOut(ServerUnavailableError),
    Failed(ServerUnavailableError),
}

impl ConnectAttemptError {
    /// Whether an attempt with the other protocol would fail for the same reason.
    fn is_conclusive(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_settled)
    }
}

fn listing_error(error: &ServiceError) -> ServerUnavailableError {
    ServerUnavailableError::new(match error {
        ServiceError::McpError(error) => match wire::find_refusal(error) {
            Some(why) => format!("its list of tools cannot be used: {}", sanitize::to_line(why)),
            None => {
                let text = sanitize::to_line(&error.message);
                format!("it refused to list its tools: {text} ({})", error.code.0)
            }
        },
        ServiceError::TransportClosed => "it ended before it had listed its tools".to_owned(),
        other => {
            format!("its tools could not be listed: {}", sanitize::to_line(&other.to_string()))
        }
    })
}

/// Adds all known details of a server that failed to open, before it is shut down.
async fn add_failure_details(
    error: ServerUnavailableError,
    monitor: &dyn ServerMonitor,
) -> ServerUnavailableError {
    let mut error = add_exit_details(error, monitor).await;
    // The output of a server that did not answer usually explains the failure.
    error.message = join_parts([error.message].into_iter().chain(monitor.notes()));
    error
}

fn join_parts(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Adds how the process ended and its error output. If the connection was closed, waits a moment
/// for the process to exit.
async fn add_exit_details(
    mut error: ServerUnavailableError,
    monitor: &dyn ServerMonitor,
) -> ServerUnavailableError {
    let pause = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    let is_over = || monitor.exit_status().is_some() && monitor.is_drained();
    while monitor.close_cause().is_some() && !is_over() && waited < EXIT_REPORT_TIMEOUT {
        tokio::time::sleep(pause).await;
        waited += pause;
    }
    (error.exit_code, error.signal) = monitor.exit_status().unwrap_or_default();
    let how = match (error.exit_code, error.signal) {
        (_, Some(signal)) => Some(format!("its process was ended by signal {signal}")),
        (Some(code), None) => Some(format!("its process ended with exit code {code}")),
        (None, None) => monitor.close_cause(),
    };
    error.message = join_parts([error.message].into_iter().chain(how));
    error.stderr_tail = monitor.stderr_tail();
    error.notes = monitor.refusals();
    error
}
