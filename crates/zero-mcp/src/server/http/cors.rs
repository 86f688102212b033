//! CORS headers, which let browsers allow web pages to use the server.
//!
//! Only pages of configured origins get them. For all other pages, including those of this machine,
//! the browser hides the responses.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, VARY,
};
use http::{HeaderValue, Method, Request, StatusCode};

use super::{McpHttpReply, PATH, plain_reply};

/// Methods that a page may use.
const METHODS: &str = "GET, POST, DELETE";
/// Headers that a page may send.
const HEADERS: &str = "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, \
    mcp-protocol-version, mcp-session-id";
/// Headers that a page may read.
const EXPOSED: &str = "mcp-session-id, www-authenticate";
/// How long a browser may cache this, in seconds.
const MAX_AGE: &str = "600";

/// Whether a request is a CORS preflight.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.uri().path() == PATH
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Answers a preflight with what a page may send.
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

/// Lets a page of this origin read a response.
pub(super) fn allow_origin(reply: &mut McpHttpReply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
