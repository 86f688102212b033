//! SOCKS5, as far as it makes connections: no passwords, no waiting for others, no UDP.

use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use zero_policy::HostName;

use super::client::Client;
use super::failure::{Failure, Unsupported};
use super::request::{self, Onward, Protocol, Request, Wanted};

const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const CONNECT: u8 = 1;

/// Reads the greeting and the request.
pub(super) async fn read<S>(client: &mut Client<S>) -> Result<Request, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    client.protocol = Protocol::SocksGreeting;
    let [_, count] = array(client).await?;
    let methods = client.take(count.into()).await?;
    if !methods.contains(&NO_PASSWORD) {
        return Err(Failure::Unsupported(Unsupported::Authentication));
    }
    client.say(&[VERSION, NO_PASSWORD]).await?;
    client.protocol = Protocol::Socks5;
    let [version, command, reserved, kind] = array(client).await?;
    if version != VERSION || reserved != 0 {
        return Err(Failure::Malformed("it is no SOCKS5 request"));
    }
    if command != CONNECT {
        return Err(Failure::Unsupported(Unsupported::SocksCommand));
    }
    let host = match kind {
        1 => HostName::address(IpAddr::from(array::<4, S>(client).await?)),
        3 => {
            let [length] = array(client).await?;
            let name = client.take(length.into()).await?;
            let name = std::str::from_utf8(&name)
                .map_err(|_| Failure::Malformed("the host is no text"))?;
            request::host(name)?
        }
        4 => HostName::address(IpAddr::from(array::<16, S>(client).await?)),
        _ => return Err(Failure::Unsupported(Unsupported::SocksAddress)),
    };
    let port = u16::from_be_bytes(array(client).await?);
    Ok(Request { wanted: Wanted { host, port }, onward: Onward::Tunnel })
}

async fn array<const LEN: usize, S>(client: &mut Client<S>) -> Result<[u8; LEN], Failure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    client.take(LEN).await?.try_into().map_err(|_| Failure::Gone)
}
