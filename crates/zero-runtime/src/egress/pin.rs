//! From a name to the addresses that may be connected to: looked up once, each one checked.
//!
//! Whoever owns a name decides where it leads, and may decide otherwise the next time. So there is
//! one lookup, every address of its answer is judged, and the connection goes to one of these.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use zero_policy::{HostName, Refusal};

use super::EgressConfig;
use super::failure::Failure;
use super::request::Wanted;

/// Most addresses of an answer; one with more is not used, because not all were checked.
const ADDRESSES_MAX: usize = 64;
/// Most addresses that are tried.
const TRIED_MAX: usize = 4;

/// Looks names up.
pub trait Resolver: Send + Sync {
    /// All addresses of a host; it may block.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Looks names up as this machine does.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// The addresses a host may be connected to.
pub(super) async fn pin(
    config: &EgressConfig,
    lookups: &Arc<Semaphore>,
    wanted: &Wanted,
) -> Result<Vec<SocketAddr>, Failure> {
    let answer = match (wanted.host.ip(), wanted.host.name()) {
        (Some(address), _) => vec![address],
        (None, Some(name)) => look_up(config, lookups, name.to_owned()).await?,
        (None, None) => Vec::new(),
    };
    check(config, answer, wanted.port)
}

async fn look_up(
    config: &EgressConfig,
    lookups: &Arc<Semaphore>,
    name: String,
) -> Result<Vec<IpAddr>, Failure> {
    let (resolver, lookups) = (config.internet.resolver.clone(), lookups.clone());
    let look_up = async {
        let place = lookups.acquire_owned().await;
        // The place is given back when the lookup ends, also when nobody waits for it any more.
        let lookup = move || {
            let _place = place;
            resolver.resolve(&name)
        };
        tokio::task::spawn_blocking(lookup).await
    };
    match timeout(config.limits.resolve_time, look_up).await {
        Err(_) => Err(Failure::ResolveTime),
        Ok(Ok(Ok(answer))) => Ok(answer),
        Ok(Ok(Err(_)) | Err(_)) => Err(Failure::NoAddress),
    }
}

/// Checks every address of an answer. One that only wraps another is that other one.
fn check(
    config: &EgressConfig,
    answer: Vec<IpAddr>,
    port: u16,
) -> Result<Vec<SocketAddr>, Failure> {
    if answer.is_empty() || answer.len() > ADDRESSES_MAX {
        return Err(Failure::NoAddress);
    }
    let addresses: Vec<(IpAddr, Option<&'static str>)> = answer
        .into_iter()
        .filter_map(|address| HostName::address(address).ip())
        .map(|address| (address, (config.internet.inside)(address)))
        .collect();
    let inside = addresses.iter().filter(|(_, inside)| inside.is_some()).count();
    if inside != 0 && inside != addresses.len() {
        // Nobody needs that who means well.
        let what = "a name that leads to the internet and to a private network at once";
        return Err(Failure::Refused(Refusal::Inside { what, may_be_named: false }));
    }
    for (address, inside) in &addresses {
        config.gatekeeper.may_pin(*address, *inside).map_err(Failure::Refused)?;
    }
    Ok(addresses.into_iter().map(|(address, _)| SocketAddr::new(address, port)).collect())
}

/// Connects to the first of the addresses that answers.
pub(super) async fn connect(
    addresses: &[SocketAddr],
    time: Duration,
) -> Result<(TcpStream, SocketAddr), Failure> {
    let tried = addresses.len().min(TRIED_MAX);
    let each = time / u32::try_from(tried.max(1)).unwrap_or(1);
    let mut failure = Failure::NoAddress;
    for address in addresses.iter().take(tried) {
        failure = match timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // It only makes small messages slower where it fails.
                let _ = stream.set_nodelay(true);
                return Ok((stream, *address));
            }
            Ok(Err(error)) => Failure::Unreachable(error.kind()),
            Err(_) => Failure::ConnectTime,
        };
    }
    Err(failure)
}
