//! One live connection to a server: opened, asked for its tools, listened to, closed.

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

/// Most pages of a list of tools.
const PAGES_MAX: usize = 100;
/// Longest place to go on at in a list, in bytes.
const CURSOR_BYTES_MAX: usize = 64 * 1024;
/// How long a list may take that is asked for again.
const RELIST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to agree that it will tell of changes.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often that is tried after it ended.
const SUBSCRIBE_ATTEMPTS_MAX: u32 = 5;
/// How long the end of a process is waited for, to tell how it ended.
const EXIT_REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection that is closed may take to say goodbye.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// One live connection to a server. Dropping it ends the server's process.
pub(crate) struct McpConnection {
    pub(crate) handler: Arc<McpClientHandler>,
    pub(crate) era: ProtocolEra,
    pub(crate) info: ServerPeerInfo,
    /// When it was opened, by the clock that files go by.
    pub(crate) opened: std::time::Instant,
    pub(crate) witness: Arc<dyn ServerMonitor>,
    pub(super) peer: Peer<RoleClient>,
    stop: CancellationToken,
    ended: CancellationToken,
    is_closing: AtomicBool,
    last_used: Mutex<Instant>,
    /// Calls in a row that got no answer in time.
    pub(super) silences: AtomicU32,
}

/// Servers that could not be opened, on their way out. Dropping it ends them at once.
#[derive(Default)]
pub(crate) struct ClosingServers(Mutex<JoinSet<()>>);

impl ClosingServers {
    /// Ends a server in an orderly way, without anybody waiting for it.
    fn add(&self, witness: Arc<dyn ServerMonitor>) {
        let mut endings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while endings.try_join_next().is_some() {}
        endings.spawn(async move { witness.shut_down().await });
    }

    /// Ends all of them at once.
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
    /// Opens a connection and asks for the tools, all within the time a server may take to start.
    pub(crate) async fn open(
        connector: &dyn ServerConnector,
        definition: &McpServerDefinition,
        known: Option<ProtocolEra>,
        elicits: bool,
        endings: &ClosingServers,
    ) -> Result<(Arc<Self>, ToolListing), ServerUnavailableError> {
        let deadline = Instant::now() + definition.startup_timeout;
        let late = || {
            ServerUnavailableError::new(format!(
                "it was not ready within {} s; give it more time by its startup timeout ({})",
                definition.startup_timeout.as_secs(),
                definition.written_at
            ))
        };
        let on_pipes = matches!(definition.reach, ServerTransport::Command(_));
        let asking = match known {
            Some(ProtocolEra::Legacy) => HandshakeStrategy::Legacy,
            _ => HandshakeStrategy::Either { overlap: on_pipes },
        };
        let agree =
            |asking| Self::negotiate(connector, definition, asking, elicits, deadline, endings);
        let opening = agree(asking);
        let connection = match opening.await {
            // A server behind HTTP that knows only the older way may refuse the first question in
            // any way it likes, and the transport ends with that. It has no process to start twice.
            Err(first)
                if !on_pipes
                    && asking != HandshakeStrategy::Legacy
                    && Instant::now() < deadline =>
            {
                // What has nothing to do with the question, such as a login that is wanted, is what
                // there is to tell.
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
        let ServerChannel { mut link, witness } = way.map_err(ConnectAttemptError::Failed)?;
        let handler = Arc::new(McpClientHandler::new(elicits));
        let ours = handler.client_config();
        let talk = handshake::negotiate(&mut link, &ours, asking);
        let agreed = match tokio::time::timeout_at(deadline, talk).await {
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
            era: agreed.era,
            info: agreed.info,
            opened: std::time::Instant::now(),
            witness,
            peer,
            stop,
            ended,
            is_closing: AtomicBool::new(false),
            last_used: Mutex::new(Instant::now()),
            silences: AtomicU32::new(0),
        })
    }

    /// Whether a request can be sent on it.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closing.load(Ordering::Acquire)
            && !self.ended.is_cancelled()
            && !self.peer.is_transport_closed()
            && self.witness.exit_status().is_none()
    }

    /// Completes when it has ended, for whatever reason.
    pub(crate) async fn wait_for_end(&self) {
        self.ended.cancelled().await;
    }

    /// Whether we are the ones who end it.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// For how long nobody has used it.
    pub(crate) fn idle_time(&self) -> Duration {
        match self.handler.running_calls() {
            0 => self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Notes that it was used just now.
    pub(crate) fn mark_used(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Has it take no more calls, if it has none at work; else it stays as it is.
    pub(crate) fn close_if_idle(&self) -> bool {
        // A call says that it is at work before it looks whether it may be sent.
        self.handler.run_if_idle(|| self.is_closing.store(true, Ordering::Release))
    }

    /// Closes it in an orderly way; the server's process is gone afterwards.
    pub(crate) async fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.stop.cancel();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.ended.cancelled()).await;
        self.witness.shut_down().await;
    }

    /// Why it ended by itself, with all that is known.
    pub(crate) async fn end_reason(&self) -> ServerUnavailableError {
        let mut error = add_exit_details(ServerUnavailableError::default(), &*self.witness).await;
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
        let error = add_failure_details(error, &*self.witness).await;
        self.is_closing.store(true, Ordering::Release);
        self.stop.cancel();
        endings.add(Arc::clone(&self.witness));
        error
    }

    /// Asks for all tools. The answers are never those of a cache.
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
                // It never said that it has tools.
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
            // An empty text is a place to go on at as well.
            let Some(next) = result.next_cursor else { break };
            if page == PAGES_MAX {
                builder.note_cut(&format!(
                    "its list has more than {PAGES_MAX} pages; the rest is left out"
                ));
                break;
            }
            if next.len() > CURSOR_BYTES_MAX || !visited.insert(next.clone()) {
                builder
                    .note_cut("its list goes round in circles; what was seen until then is used");
                break;
            }
            cursor = Some(next);
        }
        Ok(builder.finish(self.witness.take_malformed_tools()))
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
        let asked = self.peer.send_cancellable_request(request, options).await?;
        match asked.await_response().await? {
            ServerResult::ListToolsResult(result) => Ok(result),
            // What has no tools in it at all is read as something else.
            ServerResult::EmptyResult(_) => Ok(ListToolsResult::default()),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Has a server of the newer kind tell of changes, which it does only to who listens, declared
    /// or not. The older kind tells by itself.
    async fn watch_changes(self: Arc<Self>) {
        if self.era != ProtocolEra::Modern {
            return;
        }
        let (peer, handler, ended) =
            (self.peer.clone(), Arc::clone(&self.handler), self.ended.clone());
        // A connection that nobody else holds is not kept for the sake of its changes.
        drop(self);
        let following = async {
            for attempt in 0..SUBSCRIBE_ATTEMPTS_MAX {
                let filter = SubscriptionFilter::builder().tools_list_changed().build();
                let asked = tokio::time::timeout(SUBSCRIBE_TIMEOUT, peer.listen(filter)).await;
                let Ok(Ok(mut subscription)) = asked else { return };
                if attempt > 0 {
                    // What changed meanwhile was told to nobody.
                    handler.list_changed.notify_one();
                }
                while let Ok(Some(_)) = subscription.next().await {
                    handler.list_changed.notify_one();
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
    /// Whether it has nothing to do with how the server was asked.
    fn is_conclusive(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_settled)
    }
}

fn listing_error(error: &ServiceError) -> ServerUnavailableError {
    ServerUnavailableError::new(match error {
        ServiceError::McpError(error) => match wire::find_refusal(error) {
            Some(why) => format!("its list of tools cannot be used: {}", sanitize::to_line(why)),
            None => {
                let said = sanitize::to_line(&error.message);
                format!("it refused to list its tools: {said} ({})", error.code.0)
            }
        },
        ServiceError::TransportClosed => "it ended before it had listed its tools".to_owned(),
        other => {
            format!(
                "it could not be asked for its tools: {}",
                sanitize::to_line(&other.to_string())
            )
        }
    })
}

/// An error with all that is known of a server that could not be opened, before it is ended for it.
async fn add_failure_details(
    error: ServerUnavailableError,
    witness: &dyn ServerMonitor,
) -> ServerUnavailableError {
    let mut error = add_exit_details(error, witness).await;
    // What it said in place of an answer mostly says what is wrong.
    error.message = join_parts([error.message].into_iter().chain(witness.notes()));
    error
}

fn join_parts(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// An error with how the process ended and what it wrote. The end of one that has stopped to talk is
/// waited for a moment.
async fn add_exit_details(
    mut error: ServerUnavailableError,
    witness: &dyn ServerMonitor,
) -> ServerUnavailableError {
    let pause = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    let is_over = || witness.exit_status().is_some() && witness.is_drained();
    while witness.close_cause().is_some() && !is_over() && waited < EXIT_REPORT_TIMEOUT {
        tokio::time::sleep(pause).await;
        waited += pause;
    }
    (error.exit_code, error.signal) = witness.exit_status().unwrap_or_default();
    let how = match (error.exit_code, error.signal) {
        (_, Some(signal)) => Some(format!("its process was ended by signal {signal}")),
        (Some(code), None) => Some(format!("its process ended with exit code {code}")),
        (None, None) => witness.close_cause(),
    };
    error.message = join_parts([error.message].into_iter().chain(how));
    error.stderr_tail = witness.stderr_tail();
    error.notes = witness.refusals();
    error
}
