//! Resolves a host name to the addresses that a connection may use: one lookup, every address
//! checked.
//!
//! The owner of a name decides which addresses it resolves to and can change them at any time. So
//! there is one lookup, every address in its answer is checked, and the connection uses one of
//! these.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use zero_policy::{ConnectDeniedError, HostName};

use super::known_addresses;
use super::proxy_error::ProxyError;
use super::proxy_request::ConnectTarget;
use super::{EgressConfig, ResolverConfig};
use crate::detached_thread;

/// Most addresses in an answer. A longer answer is rejected because not all of it is checked.
const ADDRESSES_MAX: usize = 64;
/// Most addresses that are tried.
const TRIED_MAX: usize = 4;

/// Resolves host names.
pub trait HostResolver: Send + Sync {
    /// All addresses of a host. May block.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolves names with this machine's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl HostResolver for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// Resolves `host` and returns the addresses that may be connected to.
pub(super) async fn pin(
    config: &EgressConfig,
    lookups: &Arc<Semaphore>,
    target: &ConnectTarget,
) -> Result<Vec<SocketAddr>, ProxyError> {
    let answer = match (target.host.ip(), target.host.name()) {
        (Some(address), _) => vec![address],
        (None, Some(name)) => look_up(config, lookups, name).await?,
        (None, None) => Vec::new(),
    };
    check_addresses(config, answer, target)
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

/// Why a name could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupError {
    /// The lookup did not finish in time.
    TimedOut,
    /// The lookup failed or returned no address.
    Unknown,
}

impl ResolverConfig {
    /// All addresses of a name, unchecked. At most as many lookups run at a time as `lookups` has
    /// permits; a lookup that hangs keeps its permit.
    pub async fn look_up(
        &self,
        lookups: &Arc<Semaphore>,
        name: &str,
        time: Duration,
    ) -> Result<Vec<IpAddr>, LookupError> {
        let looked_up = name.to_owned();
        let (resolver, lookups, name) =
            (Arc::clone(&self.resolver), Arc::clone(lookups), name.to_owned());
        let look_up = async {
            let permit = lookups.acquire_owned().await;
            // The lookup returns its permit when it ends, even if the caller stopped waiting.
            let lookup = move || {
                let _permit = permit;
                resolver.resolve(&name)
            };
            detached_thread::run("zero-lookup", lookup).await
        };
        match timeout(time, look_up).await {
            Err(_) => Err(LookupError::TimedOut),
            Ok(Some(Ok(answer))) => {
                known_addresses::store(&looked_up, &answer);
                Ok(answer)
            }
            Ok(_) => Err(LookupError::Unknown),
        }
    }
}

fn check_addresses(
    config: &EgressConfig,
    answer: Vec<IpAddr>,
    target: &ConnectTarget,
) -> Result<Vec<SocketAddr>, ProxyError> {
    let may_pin = |address, inside| config.authorizer.authorize_address(address, inside);
    match validate_addresses(&config.internet, &target.host, answer, may_pin) {
        Ok(usable) => Ok(usable.into_iter().map(|ip| SocketAddr::new(ip, target.port)).collect()),
        Err(AddressPinError::NoAddress) => Err(ProxyError::NoAddress),
        Err(AddressPinError::Refused(refusal)) => Err(ProxyError::Refused(refusal)),
    }
}

/// Why no address of a host may be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressPinError {
    /// The name has no address, or more than 64.
    #[error("its address could not be found")]
    NoAddress,
    /// One of the addresses is not allowed, so the host is not either.
    #[error(transparent)]
    Refused(#[from] ConnectDeniedError),
}

/// Returns the addresses of `host` if every one of them is allowed. An IPv6 address that embeds an
/// IPv4 address counts as the latter.
pub fn validate_addresses(
    internet: &ResolverConfig,
    host: &HostName,
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
    let private = addresses.iter().find(|(_, inside)| inside.is_some());
    if let Some((address, _)) = private
        && addresses.iter().any(|(_, inside)| inside.is_none())
    {
        // No legitimate setup needs this; an attacker could use it to reach the private address.
        let what = "a private address, and also to public ones; no rule opens that";
        let address = Some(*address);
        return Err(ConnectDeniedError::PrivateHost { what, address, may_be_named: false }.into());
    }
    for (address, inside) in &addresses {
        may_pin(*address, *inside).map_err(|refusal| match host.ip() {
            Some(_) => refusal,
            None => refusal.resolved_to(*address),
        })?;
    }
    Ok(addresses.into_iter().map(|(address, _)| address).collect())
}

/// Connects to the first address that answers.
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
                // Failure only makes small messages slower.
                let _ = stream.set_nodelay(true);
                return Ok((stream, *address));
            }
            Ok(Err(error)) => ProxyError::Unreachable(error.kind()),
            Err(_) => ProxyError::ConnectTimeout,
        };
    }
    Err(failure)
}
