//! The addresses of this machine's network interfaces.
//!
//! A service that listens on every interface also answers at the machine's public address, and from
//! the machine itself no firewall is in between. So a public address is no reason to believe that a
//! connection leaves the machine.

#![expect(unsafe_code, reason = "the list of interfaces is read by the C library")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a list is used. An interface that comes up meanwhile is known a moment later.
const AGE_MAX: Duration = Duration::from_secs(2);

static LATEST: Mutex<Option<AddressList>> = Mutex::new(None);

struct AddressList {
    read: Instant,
    addresses: Arc<[IpAddr]>,
}

/// Whether an interface of this machine has this address. Fails if the interfaces cannot be listed.
pub fn is_own_address(address: IpAddr) -> io::Result<bool> {
    let address = address.to_canonical();
    Ok(current_addresses()?.contains(&address))
}

fn current_addresses() -> io::Result<Arc<[IpAddr]>> {
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(list) = latest.as_ref().filter(|list| list.read.elapsed() < AGE_MAX) {
        return Ok(Arc::clone(&list.addresses));
    }
    let addresses: Arc<[IpAddr]> = read_addresses()?.into();
    *latest = Some(AddressList { read: Instant::now(), addresses: Arc::clone(&addresses) });
    Ok(addresses)
}

fn read_addresses() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: writes a pointer to a list that stays valid until it is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut addresses = Vec::new();
    let mut entry = first;
    // SAFETY: every entry is null or a valid member of the list, which no other code changes.
    while let Some(interface) = unsafe { entry.as_ref() } {
        // SAFETY: the address of an entry is null, or valid as long as the list.
        addresses.extend(unsafe { read_address(interface.ifa_addr) });
        entry = interface.ifa_next;
    }
    // SAFETY: the list is freed once, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(addresses)
}

/// The IP address in a socket address; `None` for addresses of other families.
///
/// # Safety
///
/// `address` is null or points to a socket address that is as large as its family demands.
unsafe fn read_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: see above. Both structures begin with the family.
    let family = i32::from(unsafe { address.as_ref()? }.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says which structure it is.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let octets = address.sin_addr.s_addr.to_ne_bytes();
            Some(IpAddr::V4(Ipv4Addr::from(octets)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which structure it is.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_addresses_are_own() {
        assert!(is_own_address(IpAddr::from([127, 0, 0, 1])).unwrap());
        assert!(is_own_address("::ffff:127.0.0.1".parse().unwrap()).unwrap());
        assert!(!is_own_address(IpAddr::from([93, 184, 216, 34])).unwrap());
    }
}
