//! [`RequestGuard`]: whether a request may use the server at all.
//!
//! `Host` is checked because a web page can make its own name point to this machine, `Origin`
//! because a page can send requests to other names, and the token because any program can do both.
//! A header that occurs twice is refused, because two readers might use different ones.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, CONNECTION, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use super::{McpHttpAccess, McpHttpReply, plain_reply};

/// Names of this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Checks requests.
pub(super) struct RequestGuard {
    access: McpHttpAccess,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpRefusal {
    Host,
    Origin,
    Token,
}

impl RequestGuard {
    pub(super) fn new(
        access: McpHttpAccess,
        own: IpAddr,
        hosts: &[String],
        origins: &[String],
    ) -> Self {
        let mut known: Vec<String> = LOOPBACK.iter().map(|name| (*name).to_owned()).collect();
        if !own.is_unspecified() {
            known.push(own.to_string());
        }
        known.extend(hosts.iter().map(|host| normalize_host(host)));
        let origins = origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        Self { access, hosts: known, origins }
    }

    /// Checks that a request is addressed to this server and that its origin, if any, is allowed.
    pub(super) fn check_address(
        &self,
        target: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), HttpRefusal> {
        let host = single_header(headers, &HOST).map_err(|_| HttpRefusal::Host)?;
        let Some(host) = host.filter(|host| self.is_own_host(host)) else {
            return Err(HttpRefusal::Host);
        };
        // The request target may contain a host, too, which proxies prefer.
        if target.authority().is_some_and(|named| !named.as_str().eq_ignore_ascii_case(host)) {
            return Err(HttpRefusal::Host);
        }
        let origin = single_header(headers, &ORIGIN).map_err(|_| HttpRefusal::Origin)?;
        if origin.is_some_and(|origin| !self.is_allowed_origin(origin)) {
            return Err(HttpRefusal::Origin);
        }
        Ok(())
    }

    /// Checks the token of a request.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), HttpRefusal> {
        let McpHttpAccess::Token(token) = &self.access else { return Ok(()) };
        let shown = single_header(headers, &AUTHORIZATION).ok().flatten().and_then(parse_bearer);
        match shown.is_some_and(|shown| is_same_token(shown.as_bytes(), token.as_bytes())) {
            true => Ok(()),
            false => Err(HttpRefusal::Token),
        }
    }

    /// Returns the origin of a request if it is a configured one.
    pub(super) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = single_header(headers, &ORIGIN).ok().flatten()?;
        let is_named = self.origins.contains(&origin.to_ascii_lowercase());
        headers.get(ORIGIN).filter(|_| is_named).cloned()
    }

    fn is_own_host(&self, host: &str) -> bool {
        let host = Authority::try_from(host).ok().filter(|host| !host.as_str().contains('@'));
        host.is_some_and(|host| self.hosts.contains(&normalize_host(host.host())))
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        if self.origins.contains(&origin) {
            return true;
        }
        // An origin is a scheme and a host, without a path.
        let host = origin.strip_prefix("http://").and_then(|host| Authority::try_from(host).ok());
        host.filter(|host| !host.as_str().contains('@'))
            .is_some_and(|host| LOOPBACK.contains(&normalize_host(host.host()).as_str()))
    }
}

impl HttpRefusal {
    /// Returns the reason for the log.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Host => "it is addressed to another host",
            Self::Origin => "it comes from a page of another origin",
            Self::Token => "it has no valid token",
        }
    }

    pub(super) fn reply(self) -> McpHttpReply {
        let (status, message) = match self {
            Self::Host => (
                StatusCode::FORBIDDEN,
                "forbidden: this server answers only requests that are addressed to it",
            ),
            Self::Origin => {
                (StatusCode::FORBIDDEN, "forbidden: pages of this origin may not use this server")
            }
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "unauthorized: send the token of this server as `Authorization: Bearer TOKEN`",
            ),
        };
        let mut reply = plain_reply(status, message);
        if self == Self::Token {
            let challenge = HeaderValue::from_static("Bearer realm=\"zero\"");
            reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        // The body was not read and must not be taken for the next request.
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        reply
    }
}

/// A header occurs twice or is not text.
struct AmbiguousHeaderError;

fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, AmbiguousHeaderError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| AmbiguousHeaderError),
        (Some(_), Some(_)) => Err(AmbiguousHeaderError),
    }
}

/// Removes the brackets of an IPv6 address and converts to lower case.
fn normalize_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

fn parse_bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares tokens in a time that does not depend on how much of them matches.
fn is_same_token(shown: &[u8], token: &[u8]) -> bool {
    let difference = (0..token.len()).fold(shown.len() ^ token.len(), |difference, at| {
        let (shown, token) = (shown.get(at).copied(), token.get(at).copied());
        difference | usize::from(shown.unwrap_or_default() ^ token.unwrap_or_default())
    });
    // An empty token must not match.
    std::hint::black_box(difference) == 0 && !token.is_empty()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn test_guard() -> RequestGuard {
        let own = Ipv4Addr::new(127, 0, 0, 1).into();
        let origins = ["https://App.example:8443".to_owned()];
        RequestGuard::new(
            McpHttpAccess::Token("s3cret".to_owned()),
            own,
            &["box.lan".to_owned()],
            &origins,
        )
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: Result<(), HttpRefusal>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let checked = test_guard().check_address(&Uri::from_static("/mcp"), &map);
        let checked = checked.and_then(|()| test_guard().check_token(&map));
        assert_eq!(checked, expected, "{headers:?}");
    }

    #[test]
    fn absolute_target_must_match_host_header() {
        #[track_caller]
        fn check(target: &'static str, expected: Result<(), HttpRefusal>) {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("localhost:1"))]);
            let checked = test_guard().check_address(&Uri::from_static(target), &headers);
            assert_eq!(checked, expected, "{target}");
        }
        check("http://LOCALHOST:1/mcp", Ok(()));
        check("http://localhost:2/mcp", Err(HttpRefusal::Host));
        check("http://127.0.0.1:1/mcp", Err(HttpRefusal::Host));
        check("http://evil.example/mcp", Err(HttpRefusal::Host));
    }

    #[test]
    fn only_configured_origin_is_allowed() {
        for (origin, named) in [("https://app.example:8443", true), ("http://localhost:1", false)] {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]);
            assert_eq!(test_guard().allowed_origin(&headers).is_some(), named, "{origin}");
        }
    }

    #[test]
    fn request_host_must_be_own() {
        let token = ("authorization", "Bearer s3cret");
        for host in
            ["localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1:9", "[::1]:9", "box.lan:9"]
        {
            check(&[("host", host), token], Ok(()));
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a@localhost",
            "0.0.0.0",
            "127.0.0.2",
            "",
        ] {
            check(&[("host", host), token], Err(HttpRefusal::Host));
        }
        check(&[token], Err(HttpRefusal::Host));
        check(&[("host", "localhost"), ("host", "localhost"), token], Err(HttpRefusal::Host));
    }

    #[test]
    fn origin_must_be_local_or_configured() {
        let (host, token) = (("host", "localhost:1"), ("authorization", "Bearer s3cret"));
        for origin in [
            "http://localhost",
            "http://localhost:5173",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "https://app.example:8443",
        ] {
            check(&[host, token, ("origin", origin)], Ok(()));
        }
        for origin in [
            "null",
            "",
            "http://evil.example",
            "https://app.example",
            "https://localhost:1",
            "http://localhost.evil.example",
            "http://a@localhost",
            "file://",
            "http://localhost/x",
            "http://localhost?x",
            "http://localhost#x",
            "chrome-extension://localhost",
        ] {
            check(&[host, token, ("origin", origin)], Err(HttpRefusal::Origin));
        }
        let origin = ("origin", "http://localhost:1");
        check(&[host, token, origin, origin], Err(HttpRefusal::Origin));
    }

    #[test]
    fn request_needs_the_token() {
        let host = ("host", "localhost:1");
        check(&[host, ("authorization", "bearer s3cret")], Ok(()));
        for value in
            ["Bearer s3cre", "Bearer s3cret1", "Bearer ", "Bearer", "Basic s3cret", "s3cret", ""]
        {
            check(&[host, ("authorization", value)], Err(HttpRefusal::Token));
        }
        check(&[host], Err(HttpRefusal::Token));
        let token = ("authorization", "Bearer s3cret");
        check(&[host, token, token], Err(HttpRefusal::Token));
    }

    #[test]
    fn empty_token_never_matches() {
        assert!(!is_same_token(b"", b""));
    }
}
