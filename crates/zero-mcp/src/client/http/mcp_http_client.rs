//! [`McpHttpClient`], the HTTP side of the SDK's transport: sends one message, and reads the
//! response.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use zero_runtime::web::{
    self, BodyLimits, NetworkGuard, OutgoingRequest, RedirectPolicy, WebClient, shorten_untrusted,
};

use super::McpHttpClientLimits;
use super::error::McpHttpError;
use super::event_stream::read_events;
use super::message_reader::McpMessageReader;
use super::token_provider::{ScopeCoverage, TokenProvider};
use crate::client::credentials::LoginStore;
use crate::server_definition::{HttpEndpoint, ServerAlias};
use crate::wire::ConnectionDiagnostics;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");

/// Maximum length of a session id, in bytes.
const SESSION_ID_BYTES_MAX: usize = 1024;
/// Maximum length of a `WWW-Authenticate` header, in bytes.
const CHALLENGE_BYTES_MAX: usize = 8 * 1024;
/// How much of an error body is read, in bytes.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// Headers that the protocol or the HTTP connection sets.
const RESERVED_HEADERS: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
];

type StreamableError = StreamableHttpError<McpHttpError>;

/// Exchanges messages with one server. Cheap to clone.
#[derive(Clone)]
pub(super) struct McpHttpClient(Arc<HttpClientState>);

struct HttpClientState {
    alias: ServerAlias,
    url: url::Url,
    /// Headers from settings, for every request.
    headers: HeaderMap,
    client: WebClient,
    /// The login; `None` if settings contain an `Authorization` header.
    tokens: Option<TokenProvider>,
    reading: Arc<McpMessageReader>,
    limits: McpHttpClientLimits,
}

impl McpHttpClient {
    pub(super) fn new(
        limits: McpHttpClientLimits,
        alias: &ServerAlias,
        endpoint: &HttpEndpoint,
        guard: &NetworkGuard,
        credentials: Arc<dyn LoginStore>,
        diagnostics: ConnectionDiagnostics,
    ) -> Result<Self, McpHttpError> {
        let headers = parse_headers(&endpoint.headers)?;
        let client = WebClient::new(guard.gate_for_endpoint(&endpoint.url)?, limits.connect_time)?;
        let tokens = match headers.contains_key(AUTHORIZATION) {
            true => None,
            false => Some(TokenProvider::new(endpoint, guard, credentials)),
        };
        Ok(Self(Arc::new(HttpClientState {
            alias: alias.clone(),
            url: endpoint.url.clone(),
            headers,
            client,
            tokens,
            reading: Arc::new(McpMessageReader::new(limits.message_bytes_max, diagnostics)),
            limits,
        })))
    }
}

/// Checks the headers from settings.
fn parse_headers(headers: &[(String, String)]) -> Result<HeaderMap, McpHttpError> {
    let mut checked = HeaderMap::new();
    for (name, value) in headers {
        let wrong = |why| {
            let name = name.escape_debug();
            Err(McpHttpError::Settings(format!("header `{name}` in settings {why}")))
        };
        let Ok(header) = HeaderName::try_from(name.as_str()) else {
            return wrong("is not the name of a header");
        };
        if RESERVED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with("mcp-param-")
        {
            return wrong("is set by the protocol; remove it");
        }
        let Ok(mut value) = HeaderValue::try_from(value.as_str()) else {
            // The value may be a secret, so it is not shown.
            return wrong("has an invalid value, for example one with a line break");
        };
        value.set_sensitive(true);
        checked.append(header, value);
    }
    Ok(checked)
}

impl HttpClientState {
    /// Sends a request with credentials. If the token is refused, renews it and sends the request
    /// again.
    async fn send(&self, mut outgoing: OutgoingRequest) -> Result<reqwest::Response, McpHttpError> {
        for (name, value) in &self.headers {
            outgoing.headers.append(name, value.clone());
        }
        let Some(tokens) = &self.tokens else {
            let response = self.client.send(outgoing).await?;
            return match response.status() {
                StatusCode::UNAUTHORIZED => Err(McpHttpError::HeaderRefused),
                _ => Ok(response),
            };
        };
        let alias = || self.alias.clone();
        let Some(token) = tokens.current_token().await? else {
            let response = self.client.send(outgoing).await?;
            return match response.status() {
                StatusCode::UNAUTHORIZED => Err(McpHttpError::LoginNeeded { alias: alias() }),
                _ => Ok(response),
            };
        };
        let response = self.client.send(with_token(&outgoing, token.secret())?).await?;
        let response = match response.status() {
            StatusCode::UNAUTHORIZED => {
                let fresh = tokens.renew_refused(&token).await?;
                let fresh = fresh.ok_or_else(|| McpHttpError::LoginEnded { alias: alias() })?;
                self.client.send(with_token(&outgoing, fresh.secret())?).await?
            }
            _ => response,
        };
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(McpHttpError::LoginEnded { alias: alias() }),
            StatusCode::FORBIDDEN => match read_wanted_scope(&response) {
                None => Ok(response),
                Some(scope) => Err(match tokens.request_scope(&scope).await? {
                    ScopeCoverage::Yes => McpHttpError::ScopeUseless { scope },
                    ScopeCoverage::No => McpHttpError::ScopeNeeded { alias: alias(), scope },
                }),
            },
            _ => Ok(response),
        }
    }

    fn new_request(
        &self,
        method: Method,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> OutgoingRequest {
        OutgoingRequest {
            method,
            url: self.url.clone(),
            headers: headers.into_iter().collect(),
            body: Bytes::new(),
            redirects: RedirectPolicy::SameOrigin,
            head_time: self.limits.head_time,
        }
    }

    fn body_limits(&self, bytes_max: usize) -> BodyLimits {
        let McpHttpClientLimits { idle_time: idle, body_time: whole, .. } = self.limits;
        BodyLimits { bytes_max, idle, whole }
    }

    /// Reads the start of an error body.
    async fn read_error_body(&self, response: reqwest::Response) -> Vec<u8> {
        let limits = self.body_limits(ERROR_BYTES_MAX);
        web::read_start(response, limits).await.map(|(body, _)| body).unwrap_or_default()
    }
}

impl StreamableHttpClient for McpHttpClient {
    type Error = McpHttpError;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableError> {
        let shared = &self.0;
        let mut outgoing = shared.new_request(Method::POST, headers);
        outgoing.headers.insert(ACCEPT, ACCEPT_BOTH);
        outgoing.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        attach_session(&mut outgoing, session_id.as_deref())?;
        outgoing.body = serde_json::to_vec(&message)?.into();
        if is_call(&message) {
            outgoing.head_time = shared.limits.call_head_time;
        }
        shared.reading.record_sent(&message);
        let response = shared.send(outgoing).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(StreamableError::SessionExpired);
        }
        if !status.is_success() {
            return self.handle_post_error(&message, session_id.is_some(), response).await;
        }
        let wants_reply = request_id(&message).is_some();
        if !wants_reply && response.content_length() == Some(0) {
            // Some servers send an empty 200 instead of 202.
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session_id = read_session_id(&response)?;
        match content_kind(&response) {
            ContentKind::Events => {
                let (id, reading) = (request_id(&message), shared.reading.clone());
                let stream = read_events(response, shared.limits.message_bytes_max, id, reading);
                Ok(StreamableHttpPostResponse::Sse(stream, session_id))
            }
            ContentKind::Json => {
                let limits = shared.body_limits(shared.limits.message_bytes_max);
                let body = web::read(response, limits).await.map_err(McpHttpError::from);
                let reply = body.and_then(|body| shared.reading.read_answer(body));
                match reply {
                    Ok(reply) => Ok(StreamableHttpPostResponse::Json(reply, session_id)),
                    // A notification has no answer, so an invalid body does not matter.
                    Err(_) if !wants_reply => Ok(StreamableHttpPostResponse::Accepted),
                    Err(error) => {
                        shared.reading.record_refusal(&error);
                        Err(error.into())
                    }
                }
            }
            ContentKind::Other(_) if !wants_reply => Ok(StreamableHttpPostResponse::Accepted),
            ContentKind::Other(kind) => Err(content_kind_error(kind).into()),
        }
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableError> {
        let mut outgoing = self.0.new_request(Method::DELETE, headers);
        attach_session(&mut outgoing, Some(&session_id))?;
        let response = self.0.send(outgoing).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => {
                Err(StreamableError::ServerDoesNotSupportDeleteSession)
            }
            // The session has ended already.
            StatusCode::NOT_FOUND => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(McpHttpError::Status { status: status.as_u16(), detail: None }.into()),
        }
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableError> {
        let shared = &self.0;
        let mut outgoing = shared.new_request(Method::GET, headers);
        outgoing.headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        attach_session(&mut outgoing, session_id.as_deref())?;
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::try_from(id).ok()) {
            outgoing.headers.insert(LAST_EVENT_ID, id);
        }
        let response = shared.send(outgoing).await?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableError::ServerDoesNotSupportSse);
        }
        if !status.is_success() {
            let detail = shorten_untrusted(&shared.read_error_body(response).await);
            return Err(McpHttpError::Status { status: status.as_u16(), detail }.into());
        }
        match content_kind(&response) {
            ContentKind::Events => {
                let reading = shared.reading.clone();
                Ok(read_events(response, shared.limits.message_bytes_max, None, reading))
            }
            ContentKind::Json => Err(content_kind_error(Some(JSON.to_owned())).into()),
            ContentKind::Other(kind) => Err(content_kind_error(kind).into()),
        }
    }
}

impl McpHttpClient {
    /// Handles an HTTP error in response to a message.
    async fn handle_post_error(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        response: reqwest::Response,
    ) -> Result<StreamableHttpPostResponse, StreamableError> {
        let status = response.status();
        let is_json = matches!(content_kind(&response), ContentKind::Json);
        let retry_after = response.headers().get(RETRY_AFTER).cloned();
        let session_id = read_session_id(&response)?;
        let body = self.0.read_error_body(response).await;
        let detail = shorten_untrusted(&body);
        let is_refusal = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let error = match serde_json::from_slice(&body) {
            Ok(ServerJsonRpcMessage::Error(error)) if is_json && !is_refusal => Some(error.error),
            _ => None,
        };
        let Some(id) = request_id(message) else {
            return Err(McpHttpError::Status { status: status.as_u16(), detail }.into());
        };
        // An older server does not know this request, and may answer with an HTTP error only. It
        // becomes a JSON-RPC error, so that the handshake falls back to the older protocol.
        if let ClientJsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && !in_session
            && status.is_client_error()
            && !is_refusal
        {
            let error = error.unwrap_or_else(|| {
                let error = McpHttpError::Status { status: status.as_u16(), detail };
                ErrorData::invalid_request(error.to_string(), None)
            });
            let reply = ServerJsonRpcMessage::error(error, Some(id));
            return Ok(StreamableHttpPostResponse::Json(reply, None));
        }
        if let Some(error) = error {
            // Whatever id it has, it answers this request.
            let reply = ServerJsonRpcMessage::error(error, Some(id));
            return Ok(StreamableHttpPostResponse::Json(reply, session_id));
        }
        let wait = retry_after.and_then(|after| shorten_untrusted(after.as_bytes()));
        let detail = match (detail, wait) {
            (detail, Some(wait)) if status == StatusCode::TOO_MANY_REQUESTS => {
                Some(format!("{} (try again after {wait})", detail.unwrap_or_default()))
            }
            (detail, _) => detail,
        };
        Err(McpHttpError::Status { status: status.as_u16(), detail }.into())
    }
}

/// Content type of a response.
enum ContentKind {
    Json,
    Events,
    Other(Option<String>),
}

fn content_kind(response: &reqwest::Response) -> ContentKind {
    let Some(value) = response.headers().get(CONTENT_TYPE) else { return ContentKind::Other(None) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        JSON => ContentKind::Json,
        EVENT_STREAM => ContentKind::Events,
        _ => ContentKind::Other(shorten_untrusted(essence.as_bytes())),
    }
}

fn content_kind_error(kind: Option<String>) -> McpHttpError {
    let kind = kind.map_or(Cow::Borrowed("no content type"), |kind| format!("`{kind}`").into());
    McpHttpError::unusable(format!(
        "it has {kind}, but `{JSON}` or `{EVENT_STREAM}` is expected; check that `url` is the address of an MCP server"
    ))
}

fn with_token(outgoing: &OutgoingRequest, token: &str) -> Result<OutgoingRequest, McpHttpError> {
    let mut outgoing = outgoing.clone();
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
        McpHttpError::Renewal { why: "the token is not valid in a header".to_owned() }
    })?;
    value.set_sensitive(true);
    outgoing.headers.insert(AUTHORIZATION, value);
    Ok(outgoing)
}

fn attach_session(
    outgoing: &mut OutgoingRequest,
    session_id: Option<&str>,
) -> Result<(), McpHttpError> {
    if let Some(id) = session_id {
        let id = HeaderValue::try_from(id)
            .map_err(|_| McpHttpError::unusable("its session id is not text"))?;
        outgoing.headers.insert(SESSION_ID, id);
    }
    Ok(())
}

/// Returns the session id of a response.
fn read_session_id(response: &reqwest::Response) -> Result<Option<String>, McpHttpError> {
    let Some(id) = response.headers().get(SESSION_ID) else { return Ok(None) };
    match id.to_str() {
        Ok(id) if id.len() <= SESSION_ID_BYTES_MAX => Ok(Some(id.to_owned())),
        _ => Err(McpHttpError::unusable("its session id is too long, or not text")),
    }
}

/// Returns the scope that a refusal asks for.
fn read_wanted_scope(response: &reqwest::Response) -> Option<String> {
    let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
    challenges
        .filter_map(|challenge| challenge.to_str().ok())
        .filter(|challenge| challenge.len() <= CHALLENGE_BYTES_MAX)
        .map(|challenge| WWWAuthenticateParams::parse(challenge, response.url()))
        .find(WWWAuthenticateParams::is_insufficient_scope)
        .map(|params| params.scope.unwrap_or_default())
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Whether the message is a tool call, which may take long.
fn is_call(message: &ClientJsonRpcMessage) -> bool {
    matches!(
        message,
        ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::CallToolRequest(_))
    )
}
