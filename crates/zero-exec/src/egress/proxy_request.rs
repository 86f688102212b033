//! What a client wants, whichever protocol it speaks.

use std::net::{IpAddr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncWrite};
use zero_policy::HostName;

use super::client_connection::ClientConnection;
use super::proxy_error::{ProxyError, UnsupportedFeature};
use super::request_body::RequestBodyReader;
use super::{http_request, socks};

/// What a client speaks, as far as it has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientProtocol {
    Unknown,
    Socks4,
    /// SOCKS5, before both agreed on how the client proves who it is.
    SocksGreeting,
    Socks5,
    /// HTTP `CONNECT`.
    Connect,
    /// A plain HTTP request to be passed on.
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

    /// What the client hears once its connection stands.
    pub(super) fn success_reply(self) -> &'static [u8] {
        match self {
            Self::Socks5 => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
            Self::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Self::Http | Self::Unknown | Self::Socks4 | Self::SocksGreeting => b"",
        }
    }
}

/// Where a client wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTarget {
    /// The host, by name or address.
    pub host: HostName,
    /// The TCP port that the client asked for.
    pub port: u16,
}

/// What a client wants.
#[derive(Debug)]
pub(super) struct ProxyRequest {
    pub(super) wanted: ConnectTarget,
    pub(super) onward: ForwardMode,
}

/// What is passed on once the connection stands.
#[derive(Debug)]
pub(super) enum ForwardMode {
    /// Whatever either side says.
    Tunnel,
    /// This head and its body, and then what the other side answers.
    Message { head: Vec<u8>, body: RequestBodyReader },
}

/// Reads what a client wants. The first byte tells the protocols apart.
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

/// Reads a host that stands alone. IPv6 addresses may do without brackets.
pub(super) fn parse_host(text: &str) -> Result<HostName, ProxyError> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Ok(HostName::from_address(IpAddr::V6(address)));
    }
    // A zone names an interface of this machine, which is nobody's business.
    if text.contains('%') {
        return Err(ProxyError::Malformed("the host contains a `%`"));
    }
    HostName::from_host(text).map_err(|_| ProxyError::Malformed("the host is no host name"))
}
