//! Which addresses count as one, wherever something is counted by address.
//!
//! This machine has many addresses and whoever is on it can use them all; a network hands each of its
//! members a whole block of version 6. Counting each address by itself would count nothing.

use std::net::{IpAddr, Ipv4Addr};

/// Addresses that count as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AddressGroup {
    /// All of this machine's loopback.
    ThisMachine,
    /// One address of version 4.
    V4(Ipv4Addr),
    /// A block of version 6: the first 64 bits.
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
