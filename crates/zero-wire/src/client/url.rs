//! [`GatewayUrl`], the address of a gateway without secrets.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// Port of a gateway whose URL names none.
pub const PORT_DEFAULT: u16 = 18789;
/// Maximum length of a URL, in bytes.
const LEN_MAX: usize = 2048;

/// The address of a gateway.
///
/// Invariant: it contains no user, password, query or fragment, so it can be shown and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUrl {
    secure: bool,
    host: Host<String>,
    port: u16,
    path: String,
}

/// Why a text is not the URL of a gateway. The text is not quoted, because it may contain a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayUrlError {
    /// It is not a URL.
    #[error("not a URL; write it like `wss://host:18789`")]
    Malformed,
    /// It has another scheme.
    #[error("not the URL of a gateway; use `ws://` or `wss://` (or `http://`, `https://`)")]
    Scheme,
    /// It has a user or a password before the host.
    #[error(
        "a gateway's URL must not contain credentials, because it appears in logs; remove the \
        part before the `@`, and pass the token or password separately"
    )]
    Credentials,
    /// It has a query or a fragment.
    #[error(
        "a gateway's URL must not have a query or a fragment; remove the part after `?` or `#`, \
        and pass a token separately"
    )]
    Query,
}

impl GatewayUrl {
    /// Whether the connection is encrypted.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Whether the host is this machine, according to its name or address.
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => IpAddr::V6(*address).to_canonical().is_loopback(),
        }
    }

    pub(super) fn host(&self) -> &Host<String> {
        &self.host
    }

    /// Port to connect to; [`PORT_DEFAULT`] if the URL names none.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for GatewayUrl {
    type Err = GatewayUrlError;

    fn from_str(text: &str) -> Result<Self, GatewayUrlError> {
        let text = text.trim();
        if text.len() > LEN_MAX || text.contains(char::is_control) {
            return Err(GatewayUrlError::Malformed);
        }
        let url = Url::parse(text).map_err(|_| GatewayUrlError::Malformed)?;
        let secure = match url.scheme() {
            "ws" | "http" => false,
            "wss" | "https" => true,
            _ => return Err(GatewayUrlError::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(GatewayUrlError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(GatewayUrlError::Query);
        }
        let host = url.host().ok_or(GatewayUrlError::Malformed)?.to_owned();
        let port = url.port().or_else(|| explicit_default_port(text, &url)).unwrap_or(PORT_DEFAULT);
        if port == 0 {
            return Err(GatewayUrlError::Malformed);
        }
        Ok(Self { secure, host, port, path: url.path().to_owned() })
    }
}

/// Returns the port if the URL names the default port of its scheme explicitly. [`Url`] drops that
/// port, but it is not the default port of a gateway.
fn explicit_default_port(text: &str, url: &Url) -> Option<u16> {
    let usual = url.port_or_known_default()?;
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '\\', '?', '#']).next()?;
    let (_, written) = authority.rsplit_once(':')?;
    (written.parse() == Ok(usual)).then_some(usual)
}

impl fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "wss" } else { "ws" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let outcome = match text.parse::<GatewayUrl>() {
            Ok(url) => format!("{url}{}", if url.is_loopback() { " here" } else { "" }),
            Err(error) => {
                assert!(!error.to_string().contains("s3cret"), "{error}");
                format!("{error:?}")
            }
        };
        assert_eq!(outcome, expected, "{text}");
    }

    #[test]
    fn url_parses_as_intended() {
        check("ws://localhost", "ws://localhost:18789/ here");
        check(" ws://127.0.0.1:1234 ", "ws://127.0.0.1:1234/ here");
        check("http://[::1]", "ws://[::1]:18789/ here");
        check("ws://[::ffff:127.0.0.1]/", "ws://[::ffff:7f00:1]:18789/ here");
        check("ws://127.1", "ws://127.0.0.1:18789/ here");
        check("ws://0x7f000001", "ws://127.0.0.1:18789/ here");
        check("https://example.com/gateway", "wss://example.com:18789/gateway");
        check("wss://example.com:443/", "wss://example.com:443/");
        check("ws://example.com:80", "ws://example.com:80/");
        check("ws://[::1]:80", "ws://[::1]:80/ here");
        check("WSS://EXAMPLE.com", "wss://example.com:18789/");
        check("ws://localhost.evil.example", "ws://localhost.evil.example:18789/");
        check("ws://127.0.0.1.evil.example", "ws://127.0.0.1.evil.example:18789/");
        check("ws://0.0.0.0", "ws://0.0.0.0:18789/");
    }

    #[test]
    fn urls_with_secrets_are_refused_and_not_quoted() {
        check("ws://user:s3cret@host", "Credentials");
        check("ws://s3cret@host", "Credentials");
        check("ws://:s3cret@host", "Credentials");
        check("ws://host?token=s3cret", "Query");
        check("ws://host?", "Query");
        check("ws://host#token=s3cret", "Query");
        check("ftp://host", "Scheme");
        check("host:18789", "Scheme");
        check("s3cret", "Malformed");
        check("ws://", "Malformed");
        check("ws://host:0", "Malformed");
        check("ws://host:99999", "Malformed");
        check("ws://ho\nst", "Malformed");
        check("", "Malformed");
    }
}
