//! Checks the host and origin of a request, and whether it asks for a WebSocket.
//!
//! The host is checked because a page can make its own host name resolve to this machine (DNS
//! rebinding). The origin is checked because a page can send requests to other hosts. Browsers let
//! any page open a WebSocket to this machine, so both checks happen before the upgrade. The only page
//! that is trusted is the gateway's own console, whose origin is the very address that the request
//! is sent to. Other pages served from this machine are not trusted; their origin must be
//! configured. A repeated header is refused, since two parsers could use different values.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CONNECTION, HOST, HeaderName, ORIGIN, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::uri::Authority;
use http::{HeaderMap, Method, Uri};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Checks requests.
pub(crate) struct RequestFilter {
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    Host,
    Origin,
}

/// Reason why a request cannot be upgraded to a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpgradeError {
    /// The request does not ask for an upgrade.
    NotRequested,
    /// The WebSocket version is not supported.
    Version,
    /// The key is invalid.
    Key,
}

impl RequestFilter {
    /// Accepts requests addressed to this machine or one of `hosts`, and from pages of `origins`
    /// only.
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Self {
        Self {
            hosts: hosts.iter().map(|host| normalize_host(host)).collect(),
            origins: origins.iter().map(|origin| origin.to_ascii_lowercase()).collect(),
        }
    }

    /// Checks that a request received at the address `at` is addressed to this gateway and, if a
    /// page sent it, that its origin is allowed.
    /// Of this gateway's own pages, the scheme tells whether they were served by TLS.
    pub(crate) fn check(
        &self,
        at: IpAddr,
        own_scheme: &str,
        target: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), RequestRefusal> {
        let host = single_header(headers, &HOST).map_err(|_| RequestRefusal::Host)?;
        let Some(host) = host.filter(|host| self.is_allowed_host(host, at)) else {
            return Err(RequestRefusal::Host);
        };
        // The request target can name a different host than the header; proxies use the target.
        if target.authority().is_some_and(|named| !named.as_str().eq_ignore_ascii_case(host)) {
            return Err(RequestRefusal::Host);
        }
        let origin = single_header(headers, &ORIGIN).map_err(|_| RequestRefusal::Origin)?;
        let Some(origin) = origin.map(str::to_ascii_lowercase) else { return Ok(()) };
        // The host was checked: a page of that origin came from this gateway.
        let is_own = origin.strip_prefix(own_scheme).and_then(|rest| rest.strip_prefix("://"))
            == Some(host.to_ascii_lowercase().as_str());
        if is_own || self.origins.contains(&origin) { Ok(()) } else { Err(RequestRefusal::Origin) }
    }

    fn is_allowed_host(&self, host: &str, at: IpAddr) -> bool {
        let Ok(host) = Authority::try_from(host) else { return false };
        if host.as_str().contains('@') {
            return false;
        }
        let host = normalize_host(host.host());
        // A name can be made to resolve to this machine; an address cannot.
        match host.parse::<IpAddr>() {
            Ok(address) => {
                let address = address.to_canonical();
                address.is_loopback()
                    || address == at.to_canonical()
                    || self.hosts.contains(&address.to_string())
            }
            Err(_) => host == "localhost" || self.hosts.contains(&host),
        }
    }
}

impl RequestRefusal {
    /// Message for the user: the problem and how to fix it.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Host => {
                "forbidden: this gateway answers only requests that are addressed to it; \
                 name the host in its allowed hosts"
            }
            Self::Origin => {
                "forbidden: pages of this origin may not use this gateway; \
                 name the origin in its allowed origins"
            }
        }
    }
}

/// The accept value for the key of an upgrade request.
pub(crate) fn accept_key(method: &Method, headers: &HeaderMap) -> Result<String, UpgradeError> {
    let asks = method == Method::GET
        && has_token(headers, &CONNECTION, "upgrade")
        && has_token(headers, &UPGRADE, "websocket");
    if !asks {
        return Err(UpgradeError::NotRequested);
    }
    if !matches!(single_header(headers, &SEC_WEBSOCKET_VERSION), Ok(Some("13"))) {
        return Err(UpgradeError::Version);
    }
    let key = single_header(headers, &SEC_WEBSOCKET_KEY).ok().flatten().ok_or(UpgradeError::Key)?;
    let is_key = BASE64_STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    if is_key { Ok(derive_accept_key(key.as_bytes())) } else { Err(UpgradeError::Key) }
}

/// A header that is repeated or not valid text.
pub(crate) struct AmbiguousHeader;

/// The value of a header that occurs at most once.
pub(crate) fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, AmbiguousHeader> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| AmbiguousHeader),
        (Some(_), Some(_)) => Err(AmbiguousHeader),
    }
}

fn has_token(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// A host in lower case and without the brackets of an IPv6 address.
fn normalize_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header_map(headers: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), value.parse::<http::HeaderValue>().unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().map(pair) {
            map.append(name, value);
        }
        map
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], expected: Result<(), RequestRefusal>) {
        check_target("/", headers, expected);
    }

    #[track_caller]
    fn check_target(target: &str, headers: &[(&str, &str)], expected: Result<(), RequestRefusal>) {
        let origins = ["https://App.example:8443".to_owned()];
        let guard =
            RequestFilter::new(&["box.lan".to_owned(), "[2001:db8::5]".to_owned()], &origins);
        let checked = guard.check(
            "192.0.2.9".parse().unwrap(),
            "http",
            &target.parse().unwrap(),
            &header_map(headers),
        );
        assert_eq!(checked, expected, "{target} {headers:?}");
    }

    #[test]
    fn host_header_must_name_this_gateway() {
        for host in [
            "localhost",
            "localhost:18789",
            "LOCALHOST:1",
            "127.0.0.1:9",
            "127.0.0.2",
            "[::1]:9",
            "box.lan:9",
            "BOX.lan",
            "192.0.2.9:18789",
            "[::ffff:192.0.2.9]",
            "[2001:db8::5]:1",
        ] {
            check(&[("host", host)], Ok(()));
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "a@localhost",
            "localhost.",
            "0.0.0.0",
            "192.0.2.8",
            "",
            "box.lan.evil.example",
            "evil.example:18789",
        ] {
            check(&[("host", host)], Err(RequestRefusal::Host));
        }
        check(&[], Err(RequestRefusal::Host));
        check(&[("host", "localhost"), ("host", "localhost")], Err(RequestRefusal::Host));
    }

    #[test]
    fn absolute_target_must_match_host_header() {
        let headers = [("host", "localhost:1")];
        check_target("http://LOCALHOST:1/", &headers, Ok(()));
        check_target("http://localhost:2/", &headers, Err(RequestRefusal::Host));
        check_target("http://evil.example/", &headers, Err(RequestRefusal::Host));
    }

    #[test]
    fn origin_must_be_allowed() {
        let host = ("host", "localhost:1");
        check(&[host, ("origin", "https://app.example:8443")], Ok(()));
        check(&[host, ("origin", "http://localhost:1")], Ok(()));
        check(&[("host", "[::1]:1"), ("origin", "http://[::1]:1")], Ok(()));
        for origin in [
            "null",
            "",
            "http://localhost",
            "https://localhost:1",
            "http://localhost:2",
            "http://127.0.0.1:1",
            "http://localhost:1/",
            "http://127.0.0.1:18789",
            "http://evil.example",
            "https://app.example",
            "https://app.example:8443/",
            "https://app.example:8443.evil.example",
            "http://app.example:8443",
            "file://",
            "chrome-extension://abcdefgh",
        ] {
            check(&[host, ("origin", origin)], Err(RequestRefusal::Origin));
        }
        let origin = ("origin", "https://app.example:8443");
        check(&[host, origin, origin], Err(RequestRefusal::Origin));
    }

    #[test]
    fn only_websocket_request_is_upgraded() {
        #[track_caller]
        fn check(method: Method, headers: &[(&str, &str)], expected: Result<&str, UpgradeError>) {
            let accepted = accept_key(&method, &header_map(headers));
            assert_eq!(accepted, expected.map(str::to_owned), "{headers:?}");
        }
        let connection = ("connection", "keep-alive, Upgrade");
        let upgrade = ("upgrade", "WebSocket");
        let version = ("sec-websocket-version", "13");
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let all = [connection, upgrade, version, key];
        check(Method::GET, &all, Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        check(Method::POST, &all, Err(UpgradeError::NotRequested));
        check(Method::GET, &[upgrade, version, key], Err(UpgradeError::NotRequested));
        check(Method::GET, &[connection, version, key], Err(UpgradeError::NotRequested));
        let old = ("sec-websocket-version", "8");
        check(Method::GET, &[connection, upgrade, old, key], Err(UpgradeError::Version));
        check(Method::GET, &[connection, upgrade, key], Err(UpgradeError::Version));
        check(Method::GET, &[connection, upgrade, version], Err(UpgradeError::Key));
        let short = ("sec-websocket-key", "c2hvcnQ=");
        check(Method::GET, &[connection, upgrade, version, short], Err(UpgradeError::Key));
        check(Method::GET, &[connection, upgrade, version, key, key], Err(UpgradeError::Key));
    }
}
