//! What the gateway says over HTTP: how it is, what it did, and yes or no to a WebSocket.
//!
//! Nothing is ever read from the query of a request: what is in a URL ends up in logs.

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
use zero_wire::method::Scope;

use crate::auth::AuthConfig;
use crate::gateway::GatewayInner;
use crate::limiter::{Denied, Limiter};
use crate::metrics;
use crate::slots::Place;
use crate::socket::Socket;
use crate::upgrade::{self, NoUpgrade};

/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long the store may take to say that it is there.
const STORE_TIME: Duration = Duration::from_secs(5);

/// What carries a connection.
pub(crate) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Somebody who asked for a WebSocket and got it.
pub(crate) struct Upgraded {
    pub(crate) socket: Socket<Stream>,
    pub(crate) place: Place,
}

type Reply = Response<Full<Bytes>>;
/// What a request left behind that became a WebSocket.
type Promised = Mutex<Option<(OnUpgrade, Place)>>;

/// Answers the one request of a connection; gives what became of it when it was for a WebSocket.
pub(crate) async fn answer(
    gateway: &Arc<GatewayInner>,
    stream: Stream,
    at: IpAddr,
    from: IpAddr,
) -> Option<Upgraded> {
    let promised = Arc::new(Promised::default());
    let service = service_fn(|request| {
        let (gateway, promised) = (Arc::clone(gateway), Arc::clone(&promised));
        async move { Ok::<_, Infallible>(reply(&gateway, request, at, from, &promised).await) }
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
    let (upgrade, place) = promised.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let parts = upgrade.await.ok()?.downcast::<TokioIo<Stream>>().ok()?;
    let limits = &gateway.limits;
    let (stranger, known) = (limits.stranger_bytes_max, limits.payload_bytes_max);
    Some(Upgraded {
        socket: Socket::new(parts.io.into_inner(), &parts.read_buf, stranger, known),
        place,
    })
}

async fn reply(
    gateway: &GatewayInner,
    request: Request<Incoming>,
    at: IpAddr,
    from: IpAddr,
    promised: &Promised,
) -> Reply {
    if let Err(refusal) = gateway.guard.check(at, request.uri(), request.headers()) {
        tracing::warn!(?refusal, "refused a request");
        return plain(StatusCode::FORBIDDEN, refusal.message());
    }
    let looks = [Method::GET, Method::HEAD].contains(request.method());
    match request.uri().path() {
        "/" => connect(gateway, request, from, promised),
        "/healthz" if looks => plain(StatusCode::OK, "ok\n"),
        "/readyz" if looks => readiness(gateway).await,
        "/metrics" if looks => measured(gateway, request.headers(), from).await,
        "/healthz" | "/readyz" | "/metrics" => {
            plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed: use GET\n")
        }
        _ => plain(
            StatusCode::NOT_FOUND,
            "not found: there are /healthz, /readyz, /metrics, and a WebSocket at /\n",
        ),
    }
}

fn connect(
    gateway: &GatewayInner,
    mut request: Request<Incoming>,
    from: IpAddr,
    promised: &Promised,
) -> Reply {
    let key = match upgrade::accept(request.method(), request.headers()) {
        Ok(key) => key,
        Err(NoUpgrade::NotAsked) => {
            let message = "upgrade required: this is a gateway; connect by WebSocket\n";
            let reply = plain(StatusCode::UPGRADE_REQUIRED, message);
            return with(reply, UPGRADE, HeaderValue::from_static("websocket"));
        }
        Err(NoUpgrade::Version) => {
            let reply =
                plain(StatusCode::UPGRADE_REQUIRED, "upgrade required: WebSocket version 13\n");
            return with(reply, SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        Err(NoUpgrade::Key) => {
            return plain(
                StatusCode::BAD_REQUEST,
                "bad request: `Sec-WebSocket-Key` is not a key\n",
            );
        }
    };
    let Some(place) = gateway.slots.connection(from) else {
        let reply = plain(StatusCode::SERVICE_UNAVAILABLE, "there are too many connections\n");
        return with(reply, RETRY_AFTER, HeaderValue::from_static("10"));
    };
    let Ok(key) = HeaderValue::try_from(key) else {
        return plain(StatusCode::BAD_REQUEST, "bad request\n");
    };
    let upgrade = hyper::upgrade::on(&mut request);
    *promised.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgrade, place));
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let reply = with(reply, CONNECTION, HeaderValue::from_static("Upgrade"));
    let reply = with(reply, UPGRADE, HeaderValue::from_static("websocket"));
    with(reply, SEC_WEBSOCKET_ACCEPT, key)
}

/// Whether somebody who connects now can work.
async fn readiness(gateway: &GatewayInner) -> Reply {
    if gateway.closing.is_cancelled() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "not ready: shutting down\n");
    }
    match timeout(STORE_TIME, gateway.sessions.store().ready()).await {
        Ok(Ok(())) => plain(StatusCode::OK, "ready\n"),
        other => {
            tracing::warn!(?other, "the session store is not ready");
            plain(StatusCode::SERVICE_UNAVAILABLE, "not ready: the session store does not answer\n")
        }
    }
}

/// What the gateway did.
async fn measured(gateway: &GatewayInner, headers: &HeaderMap, from: IpAddr) -> Reply {
    match may_look(&gateway.auth, &gateway.limiter, headers, from) {
        Ok(()) => {}
        Err(NoLook::Scope) => {
            return plain(StatusCode::FORBIDDEN, "forbidden: this token may not look\n");
        }
        Err(NoLook::Denied(Denied::Wrong(_, delay))) => {
            sleep(delay).await;
            let message =
                "unauthorized: send a token of this gateway as `Authorization: Bearer TOKEN`\n";
            let challenge = HeaderValue::from_static("Bearer realm=\"zero\"");
            return with(plain(StatusCode::UNAUTHORIZED, message), WWW_AUTHENTICATE, challenge);
        }
        Err(NoLook::Denied(Denied::Locked { retry_after })) => {
            let reply = plain(StatusCode::TOO_MANY_REQUESTS, "too many failed attempts\n");
            return with(reply, RETRY_AFTER, retry_after.as_secs().saturating_add(1).into());
        }
    }
    let reply = Response::new(Full::from(metrics::render(gateway)));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    last(with(reply, CONTENT_TYPE, kind))
}

/// Why somebody may not look at what the gateway did.
#[derive(Debug, PartialEq)]
enum NoLook {
    Denied(Denied),
    Scope,
}

/// Who asks from another machine has to show a token for it.
fn may_look(
    auth: &AuthConfig,
    limiter: &Limiter,
    headers: &HeaderMap,
    from: IpAddr,
) -> Result<(), NoLook> {
    if from.to_canonical().is_loopback() {
        return Ok(());
    }
    let shown = upgrade::only(headers, &AUTHORIZATION).ok().flatten().and_then(bearer);
    let principal = limiter
        .attempt(from, Instant::now(), || auth.check_bearer(shown))
        .map_err(NoLook::Denied)?;
    let looks = principal.scopes.iter().any(|scope| scope.covers(Scope::Read));
    if looks { Ok(()) } else { Err(NoLook::Scope) }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn plain(status: StatusCode, message: &'static str) -> Reply {
    let mut reply = Response::new(Full::from(message));
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    let reply = with(reply, CONTENT_TYPE, kind);
    last(with(reply, CACHE_CONTROL, HeaderValue::from_static("no-store")))
}

/// A reply after which nothing more is taken: a stranger gets one request.
fn last(reply: Reply) -> Reply {
    with(reply, CONNECTION, HeaderValue::from_static("close"))
}

fn with(mut reply: Reply, name: HeaderName, value: HeaderValue) -> Reply {
    reply.headers_mut().insert(name, value);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthProblem, Principal};
    use crate::limiter::TryLimits;

    #[track_caller]
    fn check(from: &str, shown: Option<&'static str>, expected: Result<(), NoLook>) {
        let holder = |scope| Principal::new("x", vec![scope]);
        let auth = AuthConfig::nobody()
            .with_token("looks-0123456789abcdef", holder(Scope::Read))
            .and_then(|auth| auth.with_token("answers-0123456789abcdef", holder(Scope::Approvals)))
            .unwrap();
        let limiter = Limiter::new(TryLimits::default());
        let shown = shown.map(|shown| (AUTHORIZATION, HeaderValue::from_static(shown)));
        let headers = HeaderMap::from_iter(shown);
        assert_eq!(may_look(&auth, &limiter, &headers, from.parse().unwrap()), expected);
    }

    #[test]
    fn metrics_are_for_this_machine_and_for_who_may_look() {
        let wrong = |problem, delay| {
            Err(NoLook::Denied(Denied::Wrong(problem, Duration::from_millis(delay))))
        };
        check("127.0.0.1", None, Ok(()));
        check("192.0.2.1", None, wrong(AuthProblem::TokenMissing, 0));
        check("192.0.2.1", Some("Bearer looks-0123456789abcdef"), Ok(()));
        check("192.0.2.1", Some("bearer looks-0123456789abcdef"), Ok(()));
        check(
            "192.0.2.1",
            Some("Basic looks-0123456789abcdef"),
            wrong(AuthProblem::TokenMissing, 0),
        );
        check("192.0.2.1", Some("Bearer looks"), wrong(AuthProblem::TokenMismatch, 250));
        check("192.0.2.1", Some("Bearer answers-0123456789abcdef"), Err(NoLook::Scope));
    }
}
