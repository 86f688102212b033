//! Why the proxy made no connection, and the reply in each protocol.

use std::fmt;
use std::io;

use zero_policy::{ConnectDeniedError, HostName};

use super::connection_log::ConnectionStatus;
use super::proxy_request::{ClientProtocol, ConnectTarget};

/// Why the proxy made no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProxyError {
    /// The client sent something that is not a request.
    Malformed(&'static str),
    /// Valid in the protocol, but not supported by this proxy.
    Unsupported(UnsupportedFeature),
    /// The head is longer than allowed.
    HeadTooLong,
    /// The client did not send its request in time.
    HeadTimeout,
    /// The authorizer denied the connection.
    Refused(ConnectDeniedError),
    /// The name has no address, or more than can be checked.
    NoAddress,
    /// The name lookup took too long.
    ResolveTimeout,
    /// No address accepted the connection.
    Unreachable(io::ErrorKind),
    /// Connecting took too long.
    ConnectTimeout,
    /// The connection could not be recorded.
    LogUnavailable,
    /// The client disconnected before its request was complete.
    ClientGone,
    /// The proxy shut down.
    ProxyEnded,
}

/// Protocol features that the proxy does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnsupportedFeature {
    /// SOCKS4.
    Socks4,
    /// The client offers only authentication methods other than "none".
    Authentication,
    /// SOCKS `BIND` or `UDP ASSOCIATE`.
    SocksCommand,
    /// An address type that SOCKS5 does not define.
    SocksAddress,
}

impl ProxyError {
    /// The status for the record.
    pub(super) fn status(&self) -> ConnectionStatus {
        match self {
            Self::Refused(_) => ConnectionStatus::Denied,
            Self::HeadTimeout | Self::ResolveTimeout | Self::ConnectTimeout => {
                ConnectionStatus::TimedOut
            }
            Self::ClientGone | Self::ProxyEnded => ConnectionStatus::Cancelled,
            _ => ConnectionStatus::Failed,
        }
    }

    /// What failed at an allowed host, as the end of a sentence about the proxy. `None` for other errors.
    pub(super) fn host_failure(&self) -> Option<String> {
        match self {
            Self::NoAddress => Some("could not resolve its address".to_owned()),
            Self::ResolveTimeout => Some("could not resolve its address in time".to_owned()),
            Self::Unreachable(kind) => Some(format!("could not connect to it: {kind}")),
            Self::ConnectTimeout => Some("could not connect to it in time".to_owned()),
            _ => None,
        }
    }

    /// The reply to the client; empty if the client has disconnected.
    pub(super) fn to_reply(
        &self,
        protocol: ClientProtocol,
        target: Option<&ConnectTarget>,
    ) -> Vec<u8> {
        match protocol {
            _ if *self == Self::ClientGone => Vec::new(),
            ClientProtocol::Socks4 => vec![0, 0x5b, 0, 0, 0, 0, 0, 0],
            ClientProtocol::SocksGreeting => vec![5, 0xff],
            ClientProtocol::Socks5 => vec![5, self.socks_code(), 0, 1, 0, 0, 0, 0, 0, 0],
            ClientProtocol::Connect | ClientProtocol::Http | ClientProtocol::Unknown => {
                self.to_http_response(target)
            }
        }
    }

    fn socks_code(&self) -> u8 {
        match self {
            Self::Refused(_) => 2,
            Self::NoAddress | Self::ResolveTimeout | Self::ConnectTimeout => 4,
            Self::Unreachable(io::ErrorKind::ConnectionRefused) => 5,
            Self::Unreachable(io::ErrorKind::NetworkUnreachable) => 3,
            Self::Unreachable(_) => 4,
            Self::Unsupported(UnsupportedFeature::SocksAddress) => 8,
            Self::Unsupported(_) => 7,
            _ => 1,
        }
    }

    fn to_http_response(&self, target: Option<&ConnectTarget>) -> Vec<u8> {
        let status = match self {
            Self::Malformed(_) | Self::Unsupported(_) => "400 Bad Request",
            Self::HeadTooLong => "431 Request Header Fields Too Large",
            Self::HeadTimeout => "408 Request Timeout",
            Self::Refused(_) => "403 Forbidden",
            Self::NoAddress | Self::Unreachable(_) | Self::ClientGone => "502 Bad Gateway",
            Self::ResolveTimeout | Self::ConnectTimeout => "504 Gateway Timeout",
            Self::LogUnavailable | Self::ProxyEnded => "503 Service Unavailable",
        };
        let body = self.explain(target);
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// The error with its target and what to do about it, as the body of an HTTP reply.
    fn explain(&self, target: Option<&ConnectTarget>) -> String {
        let mut text = match target {
            Some(ConnectTarget { host, port }) => {
                format!("zero: no connection to {host} port {port}: {self}\n")
            }
            None => format!("zero: no connection: {self}\n"),
        };
        if let (Self::Refused(refusal), Some(target)) = (self, target)
            && let Some(remedy) = suggest_remedy(refusal, &target.host, target.port)
        {
            text.push_str(&remedy);
            text.push('\n');
        }
        text
    }
}

/// How the user can allow the connection, if it can be allowed.
pub fn suggest_remedy(refusal: &ConnectDeniedError, host: &HostName, port: u16) -> Option<String> {
    let allow =
        |host: String| format!("zero config add permissions.allow 'WebFetch(domain:{host})'");
    match refusal {
        ConnectDeniedError::NoRule | ConnectDeniedError::Unanswered { .. } => {
            Some(format!("to allow it: {}", allow(host.to_string())))
        }
        ConnectDeniedError::NotJudged => {
            Some("name it there, or request network access (`\"network_access\": true`)".to_owned())
        }
        ConnectDeniedError::Port { .. } => {
            Some(format!("to allow it: zero config add sandbox.network '{host}:{port}'"))
        }
        ConnectDeniedError::PrivateHost { may_be_named: true, address, .. } => {
            let host = address.map_or_else(|| host.clone(), HostName::from_address);
            host.ip()
                .map(|ip| format!("to allow it in your own settings: {}", allow(ip.to_string())))
        }
        ConnectDeniedError::Rule { place, .. } => Some(format!("the rule is in {place}")),
        ConnectDeniedError::PrivateHost { .. }
        | ConnectDeniedError::OtherName { .. }
        | ConnectDeniedError::Rejected { .. } => None,
    }
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "the request is malformed: {what}"),
            Self::Unsupported(UnsupportedFeature::Socks4) => {
                f.write_str("SOCKS4 is not supported; use SOCKS5 or HTTP")
            }
            Self::Unsupported(UnsupportedFeature::Authentication) => {
                f.write_str("the client requires authentication, which the proxy does not support")
            }
            Self::Unsupported(UnsupportedFeature::SocksCommand) => {
                f.write_str("only outgoing connections are supported")
            }
            Self::Unsupported(UnsupportedFeature::SocksAddress) => {
                f.write_str("unknown SOCKS5 address type")
            }
            Self::HeadTooLong => f.write_str("the request head is too long"),
            Self::HeadTimeout => f.write_str("the request did not arrive in time"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::NoAddress => f.write_str("could not resolve its address"),
            Self::ResolveTimeout => f.write_str("resolving its address took too long"),
            Self::Unreachable(kind) => write!(f, "could not connect: {kind}"),
            Self::ConnectTimeout => f.write_str("connecting took too long"),
            Self::LogUnavailable => {
                f.write_str("the audit log is not writable, so no connection is made")
            }
            Self::ClientGone => f.write_str("the client disconnected"),
            Self::ProxyEnded => f.write_str("the session ended"),
        }
    }
}
