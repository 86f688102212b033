//! The address of a NATS server: checked, and described without its password.

use url::Url;
use zero_core::loopback_host::is_loopback_host;

/// The port of NATS.
const DEFAULT_PORT: u16 = 4222;
/// Maximum number of hosts in an address.
const HOSTS_MAX: usize = 16;

/// What an address says.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct NatsAddress {
    /// Each as `host:port`.
    pub(super) hosts: Vec<String>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// Whether connections are encrypted.
    pub(super) is_encrypted: bool,
    /// Names the servers, without a password.
    pub(super) description: String,
}

impl NatsAddress {
    /// Parses an address. The error repeats nothing of it, since it may contain a password.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (rest, must_encrypt) =
            match (text.strip_prefix("nats://"), text.strip_prefix("tls://")) {
                (Some(rest), _) => (rest, false),
                (_, Some(rest)) => (rest, true),
                _ => {
                    return Err("the address of the bus does not begin with `nats://` or `tls://`"
                        .to_owned());
                }
            };
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let may_be_plain = match query {
            "" => false,
            "tls=disable" if !must_encrypt => true,
            _ => {
                return Err(
                    "the address of the bus has unknown parameters; only `tls=disable` exists, \
                     with `nats://`"
                        .to_owned(),
                );
            }
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) = match login {
            Some(login) => {
                let url = Url::parse(&format!("nats://{login}@host"));
                let url = url.map_err(|_| "the login in the address of the bus is malformed")?;
                let decode = |text: &str| {
                    percent_decode(text).ok_or("the login in the address of the bus is not UTF-8")
                };
                let password = url.password().map(decode).transpose()?;
                (Some(decode(url.username())?).filter(|user| !user.is_empty()), password)
            }
            None => (None, None),
        };
        if user.is_none() && password.is_some() {
            return Err("the address of the bus has a password, but no user".to_owned());
        }
        let hosts: Vec<(String, bool)> =
            hosts.split(',').map(parse_host).collect::<Result<_, _>>()?;
        if hosts.len() > HOSTS_MAX {
            return Err(format!("the address of the bus names more than {HOSTS_MAX} hosts"));
        }
        let is_local = hosts.iter().all(|(_, is_local)| *is_local);
        let hosts: Vec<String> = hosts.into_iter().map(|(host, _)| host).collect();
        let description = format!("`{}`", hosts.join(","));
        let is_encrypted = must_encrypt || !(is_local || may_be_plain);
        Ok(Self { hosts, user, password, is_encrypted, description })
    }
}

/// A host with its port, and whether it is this machine.
fn parse_host(text: &str) -> Result<(String, bool), String> {
    let invalid = || "the address of the bus names no valid host and port".to_owned();
    // The rules of the web: they know names, numbers and brackets.
    let url = Url::parse(&format!("http://{text}/")).map_err(|_| invalid())?;
    let is_host_alone = url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && !text.contains('/');
    let host = url.host_str().filter(|_| is_host_alone).ok_or_else(invalid)?;
    // Its parser leaves out port 80.
    let port = match (url.port(), text.ends_with(":80")) {
        (Some(port), _) => port,
        (None, true) => 80,
        (None, false) => DEFAULT_PORT,
    };
    if port == 0 {
        return Err(invalid());
    }
    Ok((format!("{host}:{port}"), is_loopback_host(host)))
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = tail;
            }
            (byte, tail) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let parsed = match NatsAddress::parse(text) {
            Ok(address) => {
                assert!(!address.description.contains("hunter2"), "{}", address.description);
                format!(
                    "{} {} {}",
                    address.user.as_deref().unwrap_or("-"),
                    address.hosts.join(","),
                    if address.is_encrypted { "encrypted" } else { "plain" }
                )
            }
            Err(why) => {
                assert!(!why.contains("hunter2"), "{why}");
                why
            }
        };
        assert!(parsed.contains(expected), "{text}: {parsed}");
    }

    #[test]
    fn addresses_are_encrypted_except_on_this_machine() {
        check("nats://127.0.0.1", "- 127.0.0.1:4222 plain");
        check("nats://me:hunter2@localhost:99/", "me localhost:99 plain");
        check("nats://[::1]:99", "- [::1]:99 plain");
        check("tls://localhost", "- localhost:4222 encrypted");
        check("nats://bus.example:80", "- bus.example:80 encrypted");
        check("nats://bus.example,localhost", "- bus.example:4222,localhost:4222 encrypted");
        check("nats://me@bus.example?tls=disable", "me bus.example:4222 plain");
        let login = NatsAddress::parse("nats://m%65:hunter%32@localhost").unwrap();
        assert_eq!(login.user.as_deref(), Some("me"));
        assert_eq!(login.password.as_deref(), Some("hunter2"));
    }

    #[test]
    fn wrong_addresses_are_refused_without_repeating_them() {
        for (text, problem) in [
            ("http://me:hunter2@bus", "does not begin with `nats://`"),
            ("nats://", "no valid host"),
            ("nats://me:hunter2@", "no valid host"),
            ("nats://bus:hunter2", "no valid host"),
            ("nats://bus:0", "no valid host"),
            ("nats://bus/hunter2", "no valid host"),
            ("nats://:hunter2@bus", "a password, but no user"),
            ("nats://bus?hunter2", "unknown parameters"),
            ("tls://bus?tls=disable", "unknown parameters"),
            ("nats://me:%ff@bus", "not UTF-8"),
        ] {
            check(text, problem);
        }
        let many = format!("nats://{}", ["bus"; HOSTS_MAX + 1].join(","));
        check(&many, "more than 16 hosts");
    }
}
