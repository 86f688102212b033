//! SOCKS5, limited to `CONNECT` without authentication: no `BIND`, no UDP.

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use zero_policy::HostName;

use super::client_connection::ClientConnection;
use super::proxy_error::{ProxyError, UnsupportedFeature};
use super::proxy_request::{self, ClientProtocol, ConnectTarget, ForwardMode, ProxyRequest};

const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const CONNECT: u8 = 1;

/// Reads the greeting and the request.
pub(super) async fn read<S>(client: &mut ClientConnection<S>) -> Result<ProxyRequest, ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    client.protocol = ClientProtocol::SocksGreeting;
    let [_, count] = read_array(client).await?;
    let methods = client.read_exact(count.into()).await?;
    if !methods.contains(&NO_PASSWORD) {
        return Err(ProxyError::Unsupported(UnsupportedFeature::Authentication));
    }
    client.send(&[VERSION, NO_PASSWORD]).await?;
    client.protocol = ClientProtocol::Socks5;
    let [version, command, reserved, kind] = read_array(client).await?;
    if version != VERSION || reserved != 0 {
        return Err(ProxyError::Malformed("it is not a SOCKS5 request"));
    }
    if command != CONNECT {
        return Err(ProxyError::Unsupported(UnsupportedFeature::SocksCommand));
    }
    let host = match kind {
        1 => HostName::from_address(IpAddr::from(read_array::<4, S>(client).await?)),
        3 => {
            let [length] = read_array(client).await?;
            let name = client.read_exact(length.into()).await?;
            let name = std::str::from_utf8(&name)
                .map_err(|_| ProxyError::Malformed("the host is not valid UTF-8"))?;
            proxy_request::parse_host(name)?
        }
        4 => HostName::from_address(IpAddr::from(read_array::<16, S>(client).await?)),
        _ => return Err(ProxyError::Unsupported(UnsupportedFeature::SocksAddress)),
    };
    let port = u16::from_be_bytes(read_array(client).await?);
    Ok(ProxyRequest { target: ConnectTarget { host, port }, onward: ForwardMode::Tunnel })
}

async fn read_array<const LEN: usize, S>(
    client: &mut ClientConnection<S>,
) -> Result<[u8; LEN], ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    client.read_exact(LEN).await?.try_into().map_err(|_| ProxyError::ClientGone)
}
