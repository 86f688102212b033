//! A client's request, independent of its protocol.

use std::net::{IpAddr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncWrite};
use zero_policy::HostName;

use super::client_connection::ClientConnection;
use super::proxy_error::{ProxyError, UnsupportedFeature};
use super::request_body::RequestBodyReader;
use super::{http_request, socks};

/// The client's protocol, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientProtocol {
    Unknown,
    Socks4,
    /// SOCKS5 before the authentication method is agreed on.
    SocksGreeting,
    Socks5,
    /// HTTP `CONNECT`.
    Connect,
    /// A plain HTTP request, which is forwarded.
    Http,
}

impl ClientProtocol {
    /// Stable word for records.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Socks4 => "socks4",
            Self::SocksGreeting | Self::Socks5 => "socks5",
            Self::Connect => "connect",
            Self::Http => "http",
        }
    }

    /// The reply that tells the client that its connection is established.
    pub(super) fn success_reply(self) -> &'static [u8] {
        match self {
            Self::Socks5 => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            Self::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Self::Http | Self::Unknown | Self::Socks4 | Self::SocksGreeting => b"",
        }
    }
}

/// The host and port that a client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTarget {
    /// The host, by name or address.
    pub host: HostName,
    /// The TCP port that the client requested.
    pub port: u16,
}

/// A parsed request.
#[derive(Debug)]
pub(super) struct ProxyRequest {
    pub(super) target: ConnectTarget,
    pub(super) onward: ForwardMode,
}

/// What is forwarded once the connection is established.
#[derive(Debug)]
pub(super) enum ForwardMode {
    /// All bytes in both directions.
    Tunnel,
    /// This head and its body, then the server's response.
    Message { head: Vec<u8>, body: RequestBodyReader },
}

/// Reads a client's request. The first byte tells the protocols apart.
pub(super) async fn read<S>(
    client: &mut ClientConnection<S>,
    head_max: usize,
) -> Result<ProxyRequest, ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    client.read_more(head_max).await?;
    match client.unread().first() {
        Some(5) => socks::read(client).await,
        Some(4) => {
            client.protocol = ClientProtocol::Socks4;
            Err(ProxyError::Unsupported(UnsupportedFeature::Socks4))
        }
        Some(first) if first.is_ascii_alphabetic() => http_request::read(client, head_max).await,
        _ => Err(ProxyError::Malformed("it is neither SOCKS5 nor HTTP")),
    }
}

/// Parses a host without a port. An IPv6 address may omit its brackets.
pub(super) fn parse_host(text: &str) -> Result<HostName, ProxyError> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(HostName::from_address(IpAddr::V6(address)));
    }
    // A zone names a network interface of this machine, which commands may not choose.
    if text.contains('%') {
        return Err(ProxyError::Malformed("the host contains a `%`"));
    }
    HostName::from_host(text).map_err(|_| ProxyError::Malformed("the host is not a host name"))
}
