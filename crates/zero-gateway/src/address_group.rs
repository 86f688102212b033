//! Groups of addresses that limits count as one client.
//!
//! Every local program can use all loopback addresses, and a host usually has a whole IPv6 /64
//! prefix. A limit per single address would be easy to evade.

use std::net::{IpAddr, Ipv4Addr};

/// Addresses that count as one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AddressGroup {
    /// All loopback addresses.
    ThisMachine,
    /// A single IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 /64 prefix: the first 64 bits of the address.
    V6([u16; 4]),
}

impl From<IpAddr> for AddressGroup {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Self::ThisMachine,
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, same: bool) {
        let group = |text: &str| AddressGroup::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(group(one) == group(other), same, "{one} and {other}");
    }

    #[test]
    fn addresses_of_one_host_form_one_group() {
        check("127.0.0.1", "127.9.8.7", true);
        check("127.0.0.1", "::1", true);
        check("127.0.0.1", "::ffff:127.0.0.1", true);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true);
        check("2001:db8:0:1::1", "2001:db8:0:2::1", false);
        check("10.0.0.1", "127.0.0.1", false);
    }
}
