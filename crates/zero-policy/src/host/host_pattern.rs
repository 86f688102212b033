//! Hosts that commands may connect to, as settings list them: `example.com`, `*.example.com:8443`.

use std::fmt;

use super::HostName;
use crate::rule::{DomainPattern, RuleError};

/// Ports that a pattern without a port covers.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Hosts that commands may connect to: a domain pattern as after `domain:` in a rule, optionally
/// with `:port`. Without a port it covers the web ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    text: String,
    domain: DomainPattern,
    port: Option<u16>,
}

impl HostPattern {
    /// Parses a pattern. An IPv6 address with a port must be in brackets.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        let wrong = || RuleError::Network(text.to_owned());
        let (domain, port) = match text.rsplit_once(':') {
            // The last colon of an address without brackets belongs to the address.
            Some((domain, port)) if !domain.contains(':') || domain.ends_with(']') => {
                let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
                let port = port.parse().ok().filter(|port| *port != 0 && is_number);
                (domain, Some(port.ok_or_else(wrong)?))
            }
            _ => (text, None),
        };
        let domain = DomainPattern::parse(domain).map_err(|_| wrong())?;
        Ok(Self { text: text.to_owned(), domain, port })
    }

    /// Whether it matches this host, whatever the port.
    pub fn matches_host(&self, host: &HostName) -> bool {
        self.domain.matches_host(host)
    }

    /// Whether it matches this port.
    pub fn matches_port(&self, port: u16) -> bool {
        match self.port {
            Some(named) => named == port,
            None => is_web_port(port),
        }
    }
}

/// Whether a rule without a port covers this one.
pub fn is_web_port(port: u16) -> bool {
    WEB_PORTS.contains(&port)
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, host: &str, port: u16, expected: bool) {
        let pattern = HostPattern::parse(pattern).unwrap();
        let host = HostName::from_host(host).unwrap();
        let fits = pattern.matches_host(&host) && pattern.matches_port(port);
        assert_eq!(fits, expected, "{pattern} and {host} port {port}");
    }

    #[test]
    fn host_pattern_matches_host_and_port() {
        check("Example.com.", "example.com", 443, true);
        check("example.com", "example.com", 80, true);
        check("example.com", "example.com", 22, false);
        check("example.com", "a.example.com", 443, false);
        check("example.com:8443", "example.com", 8443, true);
        check("example.com:8443", "example.com", 443, false);
        check("*.example.com", "a.b.example.com", 443, true);
        check("*.example.com", "example.com", 443, false);
        check("*.example.com", "badexample.com", 443, false);
        check("*.example.com:22", "a.example.com", 22, true);
        check("a.*.com", "a.b.com", 443, true);
        check("a.*.com", "a.b.c.com", 443, false);
        check("*", "anything.org", 443, true);
        check("*", "93.184.216.34", 443, false);
        check("*:8080", "anything.org", 8080, true);
        check("93.184.216.34", "0x5db8d822", 443, true);
        check("93.184.216.34", "93.184.216.35", 443, false);
        check("2606:4700::1111", "[2606:4700::1111]", 443, true);
        check("[2606:4700::1111]:853", "[2606:4700:0::1111]", 853, true);
        check("[2606:4700::1111]:853", "[2606:4700::1111]", 443, false);
        check("bücher.example", "xn--bcher-kva.example", 443, true);
    }

    #[test]
    fn host_pattern_rejects_malformed_text() {
        for text in [
            "",
            ":80",
            "a.com:",
            "a.com:0",
            "a.com:99999",
            "a.com:+80",
            "https://a.com",
            "a.com/x",
            "u@a.com",
            "a b.com",
            "a.com:80:90",
            "[::1",
            "1.2.3.4.5",
        ] {
            let error = HostPattern::parse(text).expect_err(text);
            assert!(matches!(error, RuleError::Network(_)), "{text}: {error}");
        }
    }
}
