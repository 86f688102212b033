//! HTTP endpoints: the web console, health, readiness, metrics and the WebSocket upgrade.
//!
//! The query of a request is never read, since URLs end up in logs.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_VERSION, UPGRADE, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use zero_wire::method::TokenScope;

use crate::auth::AuthConfig;
use crate::auth_limiter::{AuthDenial, AuthLimiter};
use crate::connection_limiter::ConnectionPermit;
use crate::console_page;
use crate::gateway_inner::GatewayInner;
use crate::prometheus_page;
use crate::request_filter::{self, UpgradeError};
use crate::websocket_transport::WebSocketTransport;

/// Maximum size of a request head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time limit for the store's readiness check.
const STORE_TIME: Duration = Duration::from_secs(5);

/// Stream of a connection, with or without TLS.
pub(crate) type NetworkStream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A connection that was upgraded to a WebSocket.
pub(crate) struct UpgradedConnection {
    pub(crate) socket: WebSocketTransport<NetworkStream>,
    pub(crate) permit: ConnectionPermit,
}

pub(crate) type HttpReply = Response<Full<Bytes>>;
/// State passed from the upgrade request to the WebSocket.
type PendingUpgrade = Mutex<Option<(OnUpgrade, ConnectionPermit)>>;

/// Answers the only request of a connection; returns the WebSocket if it was an upgrade.
pub(crate) async fn serve_request(
    gateway: &Arc<GatewayInner>,
    stream: NetworkStream,
    at: IpAddr,
    from: IpAddr,
) -> Option<UpgradedConnection> {
    let promised = Arc::new(PendingUpgrade::default());
    let scheme = match &stream {
        Either::Left(_) => "http",
        Either::Right(_) => "https",
    };
    let service = service_fn(|request| {
        let (gateway, promised) = (Arc::clone(gateway), Arc::clone(&promised));
        async move {
            Ok::<_, Infallible>(route_request(&gateway, request, scheme, at, from, &promised).await)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(gateway.limits.head_time)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a request broke off");
        return None;
    }
    let (upgrade, permit) = promised.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let parts = upgrade.await.ok()?.downcast::<TokioIo<NetworkStream>>().ok()?;
    let limits = &gateway.limits;
    Some(UpgradedConnection {
        socket: WebSocketTransport::new(
            parts.io.into_inner(),
            &parts.read_buf,
            limits.unauthenticated_bytes_max,
            limits.payload_bytes_max,
        ),
        permit,
    })
}

async fn route_request(
    gateway: &GatewayInner,
    request: Request<Incoming>,
    scheme: &str,
    at: IpAddr,
    from: IpAddr,
    promised: &PendingUpgrade,
) -> HttpReply {
    if let Err(refusal) = gateway.guard.check(at, scheme, request.uri(), request.headers()) {
        tracing::warn!(?refusal, "refused a request");
        return text_reply(StatusCode::FORBIDDEN, refusal.message());
    }
    let reads_only = [Method::GET, Method::HEAD].contains(request.method());
    if reads_only
        && !request.headers().contains_key(UPGRADE)
        && let Some(reply) = console_page::find_reply(request.uri().path(), request.headers())
    {
        return close_after(reply);
    }
    match request.uri().path() {
        "/" => accept_upgrade(gateway, request, from, promised),
        "/healthz" if reads_only => text_reply(StatusCode::OK, "ok\n"),
        "/readyz" if reads_only => readiness_reply(gateway).await,
        "/metrics" if reads_only => metrics_reply(gateway, request.headers(), from).await,
        "/healthz" | "/readyz" | "/metrics" => {
            text_reply(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n")
        }
        _ => text_reply(
            StatusCode::NOT_FOUND,
            "not found: there are the console and a WebSocket at /, /healthz, /readyz, and /metrics\n",
        ),
    }
}

fn accept_upgrade(
    gateway: &GatewayInner,
    mut request: Request<Incoming>,
    from: IpAddr,
    promised: &PendingUpgrade,
) -> HttpReply {
    let key = match request_filter::accept_key(request.method(), request.headers()) {
        Ok(key) => key,
        Err(UpgradeError::NotRequested) => {
            let message = "upgrade required: this is a gateway; connect by WebSocket\n";
            let reply = text_reply(StatusCode::UPGRADE_REQUIRED, message);
            return with_header(reply, UPGRADE, HeaderValue::from_static("websocket"));
        }
        Err(UpgradeError::Version) => {
            let reply = text_reply(
                StatusCode::UPGRADE_REQUIRED,
                "upgrade required: WebSocket version 13\n",
            );
            return with_header(reply, SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        Err(UpgradeError::Key) => {
            return text_reply(
                StatusCode::BAD_REQUEST,
                "bad request: `Sec-WebSocket-Key` is not a key\n",
            );
        }
    };
    let Some(permit) = gateway.slots.admit_connection(from) else {
        let reply = text_reply(StatusCode::SERVICE_UNAVAILABLE, "there are too many connections\n");
        return with_header(reply, RETRY_AFTER, HeaderValue::from_static("10"));
    };
    let Ok(key) = HeaderValue::try_from(key) else {
        return text_reply(StatusCode::BAD_REQUEST, "bad request\n");
    };
    let upgrade = hyper::upgrade::on(&mut request);
    *promised.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, permit));
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let reply = with_header(reply, CONNECTION, HeaderValue::from_static("Upgrade"));
    let reply = with_header(reply, UPGRADE, HeaderValue::from_static("websocket"));
    with_header(reply, SEC_WEBSOCKET_ACCEPT, key)
}

/// Whether a new client could work now: the gateway is not closing and the store responds.
async fn readiness_reply(gateway: &GatewayInner) -> HttpReply {
    if gateway.closing.is_cancelled() {
        return text_reply(StatusCode::SERVICE_UNAVAILABLE, "not ready: shutting down\n");
    }
    match timeout(STORE_TIME, gateway.sessions.store().check_ready()).await {
        Ok(Ok(())) => match gateway.sessions.stats().problem() {
            None => text_reply(StatusCode::OK, "ready\n"),
            Some(problem) => {
                text_reply(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {problem}\n"))
            }
        },
        other => {
            tracing::warn!(?other, "the session store is not ready");
            text_reply(
                StatusCode::SERVICE_UNAVAILABLE,
                "not ready: the session store does not answer\n",
            )
        }
    }
}

/// Metrics in the Prometheus format.
async fn metrics_reply(gateway: &GatewayInner, headers: &HeaderMap, from: IpAddr) -> HttpReply {
    match authorize_metrics(&gateway.auth, &gateway.limiter, headers, from) {
        Ok(()) => {}
        Err(MetricsDenial::Scope) => {
            return text_reply(
                StatusCode::FORBIDDEN,
                "forbidden: this token lacks the read scope\n",
            );
        }
        Err(MetricsDenial::Denied(AuthDenial::BadCredentials(_, delay))) => {
            sleep(delay).await;
            let message =
                "unauthorized: send a token of this gateway as `Authorization: Bearer TOKEN`\n";
            let challenge = HeaderValue::from_static("Bearer realm=\"zero\"");
            return with_header(
                text_reply(StatusCode::UNAUTHORIZED, message),
                WWW_AUTHENTICATE,
                challenge,
            );
        }
        Err(MetricsDenial::Denied(AuthDenial::Locked { retry_after })) => {
            let reply = text_reply(StatusCode::TOO_MANY_REQUESTS, "too many failed attempts\n");
            return with_header(reply, RETRY_AFTER, retry_after.as_secs().saturating_add(1).into());
        }
    }
    let reply = Response::new(Full::from(prometheus_page::render(gateway)));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    close_after(with_header(reply, CONTENT_TYPE, kind))
}

/// Reason for denying access to the metrics.
#[derive(Debug, PartialEq)]
enum MetricsDenial {
    Denied(AuthDenial),
    Scope,
}

/// Requires a token for requests from other machines.
fn authorize_metrics(
    auth: &AuthConfig,
    limiter: &AuthLimiter,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<(), MetricsDenial> {
    if from.to_canonical().is_loopback() {
        return Ok(());
    }
    let shown = request_filter::single_header(headers, &AUTHORIZATION)
        .ok()
        .flatten()
        .and_then(parse_bearer);
    let principal = limiter
        .attempt(from, Instant::now(), || auth.authenticate_bearer(shown))
        .map_err(MetricsDenial::Denied)?;
    let can_read = principal.scopes.iter().any(|scope| scope.covers(TokenScope::Read));
    if can_read { Ok(()) } else { Err(MetricsDenial::Scope) }
}

fn parse_bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn text_reply(status: StatusCode, message: impl Into<Bytes>) -> HttpReply {
    let mut reply = Response::new(Full::new(message.into()));
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    let reply = with_header(reply, CONTENT_TYPE, kind);
    close_after(with_header(reply, CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

/// Adds `connection: close`, since an unauthenticated peer gets one request per connection.
fn close_after(reply: HttpReply) -> HttpReply {
    with_header(reply, CONNECTION, HeaderValue::from_static("close"))
}

pub(crate) fn with_header(mut reply: HttpReply, name: HeaderName, value: HeaderValue) -> HttpReply {
    reply.headers_mut().insert(name, value);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthError, Principal};
    use crate::auth_limiter::AuthAttemptLimits;

    #[track_caller]
    fn check(from: &str, shown: Option<&'static str>, expected: Result<(), MetricsDenial>) {
        let holder = |scope| Principal::new("x", vec![scope]);
        let auth = AuthConfig::deny_all()
            .with_token("looks-0123456789abcdef", holder(TokenScope::Read))
            .and_then(|auth| {
                auth.with_token("answers-0123456789abcdef", holder(TokenScope::Approvals))
            })
            .unwrap();
        let limiter = AuthLimiter::new(AuthAttemptLimits::default());
        let shown = shown.map(|shown| (AUTHORIZATION, HeaderValue::from_static(shown)));
        let headers = HeaderMap::from_iter(shown);
        assert_eq!(authorize_metrics(&auth, &limiter, &headers, from.parse().unwrap()), expected);
    }

    #[test]
    fn metrics_need_loopback_or_read_scope() {
        let wrong = |problem, delay| {
            Err(MetricsDenial::Denied(AuthDenial::BadCredentials(
                problem,
                Duration::from_millis(delay),
            )))
        };
        check("127.0.0.1", None, Ok(()));
        check("192.0.2.1", None, wrong(AuthError::TokenMissing, 0));
        check("192.0.2.1", Some("Bearer looks-0123456789abcdef"), Ok(()));
        check("192.0.2.1", Some("bearer looks-0123456789abcdef"), Ok(()));
        check("192.0.2.1", Some("Basic looks-0123456789abcdef"), wrong(AuthError::TokenMissing, 0));
        check("192.0.2.1", Some("Bearer looks"), wrong(AuthError::TokenMismatch, 250));
        check("192.0.2.1", Some("Bearer answers-0123456789abcdef"), Err(MetricsDenial::Scope));
    }
}
