//! Addresses of names that are known without a lookup, so that no question is asked in vain.
//!
//! A name that a call chose is not looked up before the user has answered, because a name that is only
//! resolved carries data already. What counts is the machine's own list of hosts, and what a lookup of
//! this process found before: an allowed one, or one of a default registry of an installed program.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use zero_policy::{ConnectDeniedError, HostName};
use zero_sandbox::path_survey;

use super::ResolverConfig;
use super::address_pinning::{AddressPinError, validate_addresses};

/// The machine's own list of hosts.
const HOSTS_FILE: &str = "/etc/hosts";
/// Largest list of hosts that is read.
const HOSTS_BYTES_MAX: u64 = 1 << 20;
/// How long the answer of a lookup counts.
const AGE_MAX: Duration = Duration::from_secs(10 * 60);
/// Most names whose addresses are kept, and most addresses of each.
const NAMES_MAX: usize = 256;
const ADDRESSES_MAX: usize = 64;

/// What lookups of this process found.
static FOUND: Mutex<BTreeMap<String, FoundAddresses>> = Mutex::new(BTreeMap::new());

struct FoundAddresses {
    at: Instant,
    addresses: Vec<IpAddr>,
}

/// Stores the answer of a lookup.
pub(super) fn store(name: &str, addresses: &[IpAddr]) {
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.retain(|_, entry| entry.at.elapsed() < AGE_MAX);
    if addresses.len() <= ADDRESSES_MAX && (found.len() < NAMES_MAX || found.contains_key(name)) {
        let entry = FoundAddresses { at: Instant::now(), addresses: addresses.to_vec() };
        found.insert(name.to_owned(), entry);
    }
}

fn find(name: &str) -> Option<Vec<IpAddr>> {
    let found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = found.get(name).filter(|entry| entry.at.elapsed() < AGE_MAX);
    let known = entry.map(|entry| entry.addresses.clone());
    drop(found);
    known.or_else(|| {
        let bytes = path_survey::read_small_file(Path::new(HOSTS_FILE), HOSTS_BYTES_MAX)?;
        find_in_hosts(&String::from_utf8_lossy(&bytes), name)
    })
}

/// The addresses of a name in a list of hosts; `None` if it is not in it.
fn find_in_hosts(text: &str, name: &str) -> Option<Vec<IpAddr>> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let addresses = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    let addresses: Vec<IpAddr> = addresses.take(ADDRESSES_MAX).collect();
    Some(addresses).filter(|addresses| !addresses.is_empty())
}

impl ResolverConfig {
    /// Why a host cannot be reached even if the user allows its name, because of an address that it is
    /// known to have. `None` if nothing is known.
    pub fn find_known_refusal(
        &self,
        host: &HostName,
        may_pin: impl Fn(IpAddr, Option<&'static str>) -> Result<(), ConnectDeniedError>,
    ) -> Option<ConnectDeniedError> {
        let known = find(host.name()?)?;
        match validate_addresses(self, host, known, may_pin) {
            Err(AddressPinError::Refused(refusal)) => Some(refusal),
            Ok(_) | Err(AddressPinError::NoAddress) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_found_in_list_of_hosts() {
        let text = "127.0.0.1 localhost\n# 1.2.3.4 no.test\n10.0.0.1\ta.test A2.test # b.test\n\
                    nonsense c.test\nfd00::1 a.test\n";
        let found = |name: &str| find_in_hosts(text, name).map(|found| found.len());
        assert_eq!(found("a.test"), Some(2));
        assert_eq!(found("a2.test"), Some(1));
        for name in ["no.test", "b.test", "c.test", "10.0.0.1", "test"] {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn address_that_was_found_before_is_known_without_a_lookup() {
        let host = HostName::from_host("known-address.test").unwrap();
        let refuse = |_: IpAddr, inside: Option<&'static str>| match inside {
            Some(what) => {
                Err(ConnectDeniedError::PrivateHost { what, address: None, may_be_named: true })
            }
            None => Ok(()),
        };
        let config = ResolverConfig::default();
        assert_eq!(config.find_known_refusal(&host, refuse), None);
        store("known-address.test", &["203.0.113.80".parse().unwrap()]);
        let refusal = config.find_known_refusal(&host, refuse).unwrap().to_string();
        assert!(refusal.starts_with("it resolves to 203.0.113.80, "), "{refusal}");
        store("known-address.test", &["93.184.216.34".parse().unwrap()]);
        assert_eq!(config.find_known_refusal(&host, refuse), None);
    }
}
