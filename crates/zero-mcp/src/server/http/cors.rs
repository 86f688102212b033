//! What a browser wants to hear before a page may use us.
//!
//! Only pages of origins that somebody named are told anything. To all others, those of this
//! machine among them, a browser does not show what we say.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderValue, Method, Request, StatusCode};

use super::{McpHttpReply, PATH, plain_reply};

/// What a page may do.
const METHODS: &str = "GET, POST, DELETE";
/// What a page may send along.
const HEADERS: &str = "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, \
    mcp-protocol-version, mcp-session-id";
/// What a page may read besides the body.
const EXPOSED: &str = "mcp-session-id, www-authenticate";
/// How long a browser may remember it, in seconds.
const MAX_AGE: &str = "600";

/// Whether a browser asks if a page may send a request.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.uri().path() == PATH
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Says what a page may send.
pub(super) fn preflight_reply() -> McpHttpReply {
    let mut reply = plain_reply(StatusCode::NO_CONTENT, "");
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ] {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Lets a page of this origin read a reply.
pub(super) fn allow_origin(reply: &mut McpHttpReply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
