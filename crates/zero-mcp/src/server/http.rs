//! The MCP server over HTTP, for many clients.
//!
//! Every program on this machine can reach a port on it and so can, through a browser, every web
//! page that the user visits. Each request is therefore checked before the protocol sees it: its
//! `Host` must be one of this server, its `Origin` must be allowed if it has one, and it must have
//! the token. See [`request_guard`]. Connections, bytes and times are limited.
//!
//! A client with a handshake has a session of its own as long as its protocol session lasts.
//! Stateless requests share one: see [`super::client_sessions`].

mod cors;
pub(super) mod request_guard;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::request_guard::{HttpRefusal, RequestGuard};
use super::service_handler::McpServiceHandler;
use super::{McpServiceConfig, McpServiceError, McpServiceState, client_sessions};
use crate::wire::{self, json_scan};

/// Path of the endpoint.
pub const PATH: &str = "/mcp";
/// Delay after a failed accept, for example without free file descriptors.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to end when the server stops.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(500);

/// Where a server listens, and who may use it.
pub struct McpHttpConfig {
    /// The bound socket.
    pub listener: TcpListener,
    /// Who may use it.
    pub access: McpHttpAccess,
    /// Whether it may be reached from other machines.
    pub reachable: NetworkExposure,
    /// Allowed names in `Host` besides loopback, without a port.
    pub hosts: Vec<String>,
    /// Allowed origins of web pages besides those of this machine, such as
    /// `https://app.example:8443`.
    pub origins: Vec<String>,
    /// Limits of connections and requests.
    pub limits: McpHttpServerLimits,
    /// Cancelling it stops the server.
    pub stop: CancellationToken,
}

impl McpHttpConfig {
    /// Creates the configuration of a server on this machine that requires the token.
    pub fn new(listener: TcpListener, token: impl Into<String>) -> Self {
        Self {
            listener,
            access: McpHttpAccess::Token(token.into()),
            reachable: NetworkExposure::ThisMachine,
            hosts: Vec::new(),
            origins: Vec::new(),
            limits: McpHttpServerLimits::default(),
            stop: CancellationToken::new(),
        }
    }
}

/// Who may use a server.
pub enum McpHttpAccess {
    /// Requests with `Authorization: Bearer` and this token.
    Token(String),
    /// Every program on this machine. For servers that cannot do harm, such as those in tests.
    Anybody,
}

/// From where a server can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkExposure {
    /// Only from this machine; binding any other address is an error.
    ThisMachine,
    /// From other machines, too.
    OtherMachines,
}

/// Limits of an HTTP server.
#[derive(Clone, Copy, Debug)]
pub struct McpHttpServerLimits {
    /// Maximum number of connections; further ones wait. Each call occupies one while it runs or
    /// waits for the user, and the user's answers need others, so it must be greater than the
    /// number of calls.
    pub connections_max: usize,
    /// Maximum size of a request body, in bytes.
    pub body_bytes_max: usize,
    /// Time limit for the head of a request, and for an idle connection.
    pub head_time: Duration,
    /// Time limit for a request body.
    pub body_time: Duration,
    /// Time limit for an idle protocol session. A running call and a pending question send no
    /// messages, so it must be longer than both may take.
    pub session_idle: Duration,
}

impl Default for McpHttpServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            body_bytes_max: 8 * 1024 * 1024,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            session_idle: Duration::from_secs(60 * 60),
        }
    }
}

/// Serves the tools of a host until one of the two configurations is stopped.
pub async fn serve_http(
    config: McpServiceConfig,
    mut http: McpHttpConfig,
) -> Result<(), McpServiceError> {
    let server = McpServiceState::start(config);
    let stop = http.stop.child_token();
    http.stop = stop.clone();
    let shared = Arc::clone(&server);
    let deleted = Arc::clone(&server);
    let served = serve_sessions(
        http,
        move || McpServiceHandler::new(Arc::clone(&shared)),
        move |session| deleted.http_sessions.end_session(session),
    );
    let outcome = tokio::select! {
        outcome = served => outcome,
        () = async {
            // Calls end first, because connections wait for their requests.
            tokio::select! {
                () = stop.cancelled() => server.stop.cancel(),
                () = server.stop.cancelled() => stop.cancel(),
            }
            std::future::pending().await
        } => Ok(()),
    };
    server.end().await;
    outcome
}

/// Serves any handler, with one instance per client. A handler is also created for each stateless
/// request, so creating one must be cheap.
pub async fn serve_handler_http<H: ServerHandler>(
    config: McpHttpConfig,
    handler: impl Fn() -> H + Send + Sync + 'static,
) -> Result<(), McpServiceError> {
    serve_sessions(config, handler, |_| {}).await
}

/// Like [`serve_handler_http`]; `ended_session` is called when a client ends its protocol session.
/// The SDK would let its calls continue for seconds.
async fn serve_sessions<H: ServerHandler>(
    config: McpHttpConfig,
    handler: impl Fn() -> H + Send + Sync + 'static,
    ended_session: impl Fn(&str) + Send + Sync + 'static,
) -> Result<(), McpServiceError> {
    let McpHttpConfig { listener, access, reachable, hosts, origins, limits, stop } = config;
    let address = listener.local_addr().map_err(McpServiceError::Socket)?;
    if reachable == NetworkExposure::ThisMachine && !address.ip().is_loopback() {
        return Err(McpServiceError::OpenAddress(address));
    }
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(limits.session_idle);
    let ended_token = stop.child_token();
    let service = StreamableHttpService::new(
        move || Ok(handler()),
        Arc::new(sessions),
        // `RequestGuard` has checked `Host` and `Origin` already.
        StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(limits.body_bytes_max)
            .with_cancellation_token(ended_token.clone()),
    );
    let shared = Arc::new(HttpServiceState {
        guard: RequestGuard::new(access, address.ip(), &hosts, &origins),
        service,
        limits,
        ended_session: Box::new(ended_session),
        ended_token,
    });
    accept_connections(&shared, listener).await;
    Ok(())
}

struct HttpServiceState<H> {
    guard: RequestGuard,
    service: StreamableHttpService<H, LocalSessionManager>,
    limits: McpHttpServerLimits,
    ended_session: Box<dyn Fn(&str) + Send + Sync>,
    ended_token: CancellationToken,
}

/// Accepts connections until the server stops, then waits a moment for open ones to end.
async fn accept_connections<H: ServerHandler>(
    shared: &Arc<HttpServiceState<H>>,
    listener: TcpListener,
) {
    let permits = Arc::new(Semaphore::new(shared.limits.connections_max));
    let mut connections = JoinSet::new();
    let take = async {
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let shared = Arc::clone(shared);
                    connections.spawn(async move {
                        serve_connection(shared, stream, from).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = take => {}
        () = shared.ended_token.cancelled() => {}
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(SHUTDOWN_GRACE, all_ended).await;
}

async fn serve_connection<H: ServerHandler>(
    shared: Arc<HttpServiceState<H>>,
    stream: TcpStream,
    from: SocketAddr,
) {
    // A failure only makes small messages slower.
    let _ = stream.set_nodelay(true);
    let answering = Arc::clone(&shared);
    let service = service_fn(move |request| {
        let shared = Arc::clone(&answering);
        async move { Ok::<_, Infallible>(shared.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(shared.limits.head_time)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = shared.ended_token.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, %from, "a connection failed");
    }
}

type McpHttpReply = Response<BoxBody<Bytes, Infallible>>;

impl<H: ServerHandler> HttpServiceState<H> {
    async fn answer(&self, request: Request<Incoming>) -> McpHttpReply {
        if let Err(refusal) = self.guard.check_address(request.uri(), request.headers()) {
            return refusal_reply(refusal);
        }
        let page = self.guard.allowed_origin(request.headers());
        let mut reply = match page.is_some() && cors::is_preflight(&request) {
            // A browser sends a preflight request without the token.
            true => cors::preflight_reply(),
            false => self.answer_checked(request).await,
        };
        if let Some(origin) = page {
            cors::allow_origin(&mut reply, origin);
        }
        reply
    }

    /// Answers a request whose `Host` and `Origin` are allowed.
    async fn answer_checked(&self, request: Request<Incoming>) -> McpHttpReply {
        if let Err(refusal) = self.guard.check_token(request.headers()) {
            return refusal_reply(refusal);
        }
        if request.uri().path() != PATH {
            return plain_reply(StatusCode::NOT_FOUND, "not found: the server is at /mcp");
        }
        let (head, body) = request.into_parts();
        let body = match head.method {
            Method::POST => match self.read_body(body).await {
                Ok(body) => body,
                Err(reply) => return *reply,
            },
            // Other methods have no body.
            _ => Bytes::new(),
        };
        let ends = match head.method {
            Method::DELETE => client_sessions::session_id(&head.headers).map(str::to_owned),
            _ => None,
        };
        let reply = self.service.handle(Request::from_parts(head, Full::new(body))).await;
        if let Some(session) = ends.filter(|_| reply.status().is_success()) {
            (self.ended_session)(&session);
        }
        reply
    }

    /// Reads the body within the limits.
    async fn read_body(&self, body: Incoming) -> Result<Bytes, Box<McpHttpReply>> {
        let body = Limited::new(body, self.limits.body_bytes_max).collect();
        let refuse = |status, message: &str| Err(Box::new(plain_reply(status, message)));
        match timeout(self.limits.body_time, body).await {
            Ok(Ok(body)) => {
                let body = body.to_bytes();
                let (weight, most) = (json_scan::weigh(&body), wire::McpMessageLimits::default());
                match weight.depth > most.depth_max || weight.nodes > most.nodes_max {
                    true => refuse(
                        StatusCode::BAD_REQUEST,
                        "the request nests too deeply, or has too many values",
                    ),
                    false => Ok(body),
                }
            }
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large; send less at once")
            }
            Ok(Err(_)) => refuse(StatusCode::BAD_REQUEST, "the request ended early"),
            Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive"),
        }
    }
}

fn refusal_reply(refusal: HttpRefusal) -> McpHttpReply {
    tracing::warn!(reason = refusal.reason(), "refused a request");
    refusal.reply()
}

fn plain_reply(status: StatusCode, message: &str) -> McpHttpReply {
    let mut reply = Response::new(Full::new(Bytes::from(message.to_owned())).boxed());
    *reply.status_mut() = status;
    reply
}
