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
use zero_policy::{ConnectDeniedError, HostName};

use super::proxy_error::ProxyError;
use super::proxy_request::ConnectTarget;
use super::{EgressConfig, ResolverConfig};
use crate::detached_thread;

/// Most addresses of an answer; one with more is not used, because not all were checked.
const ADDRESSES_MAX: usize = 64;
/// Most addresses that are tried.
const TRIED_MAX: usize = 4;

/// Looks names up.
pub trait HostResolver: Send + Sync {
    /// All addresses of a host; it may block.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Looks names up as this machine does.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl HostResolver for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// The addresses a host may be connected to.
pub(super) async fn pin(
    config: &EgressConfig,
    lookups: &Arc<Semaphore>,
    wanted: &ConnectTarget,
) -> Result<Vec<SocketAddr>, ProxyError> {
    let answer = match (wanted.host.ip(), wanted.host.name()) {
        (Some(address), _) => vec![address],
        (None, Some(name)) => look_up(config, lookups, name).await?,
        (None, None) => Vec::new(),
    };
    check_addresses(config, answer, wanted.port)
}

async fn look_up(
    config: &EgressConfig,
    lookups: &Arc<Semaphore>,
    name: &str,
) -> Result<Vec<IpAddr>, ProxyError> {
    let answer = config.internet.look_up(lookups, name, config.limits.resolve_time).await;
    answer.map_err(|why| match why {
        LookupError::TimedOut => ProxyError::ResolveTimeout,
        LookupError::Unknown => ProxyError::NoAddress,
    })
}

/// Why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// Nobody answered in time.
    TimedOut,
    /// Nobody knows the name.
    Unknown,
}

impl ResolverConfig {
    /// All addresses of a name, none of them judged. As many lookups run at a time as there are
    /// `lookups`; one that hangs keeps its place.
    pub async fn look_up(
        &self,
        lookups: &Arc<Semaphore>,
        name: &str,
        time: Duration,
    ) -> Result<Vec<IpAddr>, LookupError> {
        let (resolver, lookups, name) =
            (Arc::clone(&self.resolver), Arc::clone(lookups), name.to_owned());
        let look_up = async {
            let place = lookups.acquire_owned().await;
            // The place is given back when the lookup ends, also when nobody waits for it any more.
            let lookup = move || {
                let _place = place;
                resolver.resolve(&name)
            };
            detached_thread::run("zero-lookup", lookup).await
        };
        match timeout(time, look_up).await {
            Err(_) => Err(LookupError::TimedOut),
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(_) => Err(LookupError::Unknown),
        }
    }
}

fn check_addresses(
    config: &EgressConfig,
    answer: Vec<IpAddr>,
    port: u16,
) -> Result<Vec<SocketAddr>, ProxyError> {
    let may_pin = |address, inside| config.gatekeeper.authorize_address(address, inside);
    match validate_addresses(&config.internet, answer, may_pin) {
        Ok(usable) => Ok(usable.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()),
        Err(AddressPinError::NoAddress) => Err(ProxyError::NoAddress),
        Err(AddressPinError::Refused(refusal)) => Err(ProxyError::Refused(refusal)),
    }
}

/// Why no address of a host may be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressPinError {
    /// There is none, or there are more than are checked.
    #[error("its address could not be found")]
    NoAddress,
    /// One of them may not be used, and so the host may not.
    #[error(transparent)]
    Refused(#[from] ConnectDeniedError),
}

/// The addresses of an answer, when every one of them may be used. One that only wraps another is
/// that other one.
pub fn validate_addresses(
    internet: &ResolverConfig,
    answer: Vec<IpAddr>,
    may_pin: impl Fn(IpAddr, Option<&'static str>) -> Result<(), ConnectDeniedError>,
) -> Result<Vec<IpAddr>, AddressPinError> {
    if answer.is_empty() || answer.len() > ADDRESSES_MAX {
        return Err(AddressPinError::NoAddress);
    }
    let addresses: Vec<(IpAddr, Option<&'static str>)> = answer
        .into_iter()
        .filter_map(|address| HostName::from_address(address).ip())
        .map(|address| (address, (internet.inside)(address)))
        .collect();
    let inside = addresses.iter().filter(|(_, inside)| inside.is_some()).count();
    if inside != 0 && inside != addresses.len() {
        // Nobody needs that who means well.
        let what = "a name that leads to the internet and to a private network at once";
        return Err(ConnectDeniedError::PrivateHost { what, may_be_named: false }.into());
    }
    for (address, inside) in &addresses {
        may_pin(*address, *inside)?;
    }
    Ok(addresses.into_iter().map(|(address, _)| address).collect())
}

/// Connects to the first of the addresses that answers.
pub(super) async fn connect(
    addresses: &[SocketAddr],
    time: Duration,
) -> Result<(TcpStream, SocketAddr), ProxyError> {
    let tried = addresses.len().min(TRIED_MAX);
    let each = time / u32::try_from(tried.max(1)).unwrap_or(1);
    let mut failure = ProxyError::NoAddress;
    for address in addresses.iter().take(tried) {
        failure = match timeout(each, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // It only makes small messages slower where it fails.
                let _ = stream.set_nodelay(true);
                return Ok((stream, *address));
            }
            Ok(Err(error)) => ProxyError::Unreachable(error.kind()),
            Err(_) => ProxyError::ConnectTimeout,
        };
    }
    Err(failure)
}
