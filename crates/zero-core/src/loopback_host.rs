//! Which written hosts are this machine.

use std::net::IpAddr;

/// Whether a host of a URL is this machine, by its name or address. An IPv6 address may have brackets.
/// Names below `localhost` do not count: a resolver may send them elsewhere.
pub fn is_loopback_host(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_of_this_machine_are_loopback() {
        for host in ["localhost", "LocalHost", "localhost.", "127.0.0.1", "127.9.9.9"] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in ["::1", "[::1]", "::ffff:127.0.0.1", "[::ffff:127.0.0.1]"] {
            assert!(is_loopback_host(host), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_not_loopback() {
        for host in ["", "a.localhost", "localhost.example", "10.0.0.1", "0.0.0.0", "[::]", "[::1"]
        {
            assert!(!is_loopback_host(host), "{host}");
        }
    }
}
