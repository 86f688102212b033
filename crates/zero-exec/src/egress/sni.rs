//! Checks the server name in a TLS `ClientHello`: a tunnel to one host must not be used for
//! another.
//!
//! Many hosts share one address, and the server selects one by the name in the `ClientHello`. So a
//! `ClientHello` that names another host than the tunnel's is not relayed. One without a name is
//! relayed, and so is traffic that is not TLS: it reaches only the address that was authorized.
//!
//! The `ClientHello` is reassembled from its records, up to a bound. One that starts correctly but
//! cannot be parsed is not relayed either.

use zero_core::text_shortening::excerpt;
use zero_policy::HostName;

/// Longest `ClientHello`, in bytes.
const CLIENT_HELLO_BYTES_MAX: usize = 16 * 1024;

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// The result of checking a client's first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientHelloCheck {
    /// More bytes are needed.
    Unfinished,
    /// The bytes may be relayed.
    Accepted,
    /// The bytes must not be relayed; the reason completes the sentence "its TLS greeting …".
    Rejected(String),
}

/// Checks the first bytes that a client sends through a tunnel to `host`.
pub(super) fn check_client_hello(bytes: &[u8], host: &HostName) -> ClientHelloCheck {
    match (bytes, host.name()) {
        // A rule for an address allows every host at that address.
        (_, None) => return ClientHelloCheck::Accepted,
        ([HANDSHAKE_RECORD, 3, ..] | [HANDSHAKE_RECORD] | [], _) => {}
        _ => return ClientHelloCheck::Accepted,
    }
    match read_server_names(bytes) {
        Err(ClientHelloError::Unfinished) if bytes.len() < CLIENT_HELLO_BYTES_MAX => {
            ClientHelloCheck::Unfinished
        }
        Err(_) => ClientHelloCheck::Rejected("cannot be read".to_owned()),
        Ok(names) => {
            let other = names.iter().find(|name| {
                let name = std::str::from_utf8(name).ok();
                name.and_then(|name| HostName::from_host(name).ok()).as_ref() != Some(host)
            });
            other.map_or(ClientHelloCheck::Accepted, |name| {
                let name = excerpt(&String::from_utf8_lossy(name), 80);
                ClientHelloCheck::Rejected(format!("names another host, `{name}`"))
            })
        }
    }
}

#[derive(Debug)]
enum ClientHelloError {
    /// More bytes are needed.
    Unfinished,
    Malformed,
}

/// The host names in a `ClientHello`.
fn read_server_names(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ClientHelloError> {
    let message = read_first_message(bytes)?;
    // The message is complete, so a missing byte means that it is malformed.
    parse_server_names(ClientHelloReader(&message)).ok_or(ClientHelloError::Malformed)
}

/// The body of the first handshake message, reassembled from its records.
fn read_first_message(bytes: &[u8]) -> Result<Vec<u8>, ClientHelloError> {
    let mut records = ClientHelloReader(bytes);
    let mut message = Vec::new();
    loop {
        if let [kind, high, middle, low, body @ ..] = &message[..] {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            if *kind != CLIENT_HELLO || length > CLIENT_HELLO_BYTES_MAX {
                return Err(ClientHelloError::Malformed);
            }
            if let Some(body) = body.get(..length) {
                return Ok(body.to_vec());
            }
        }
        let [kind, major, _] = records.take_array().ok_or(ClientHelloError::Unfinished)?;
        if (kind, major) != (HANDSHAKE_RECORD, 3) {
            return Err(ClientHelloError::Malformed);
        }
        let part = records.take_u16_prefixed().ok_or(ClientHelloError::Unfinished)?;
        if part.0.is_empty() {
            return Err(ClientHelloError::Malformed);
        }
        message.extend_from_slice(part.0);
    }
}

fn parse_server_names(mut hello: ClientHelloReader<'_>) -> Option<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let _version_and_random: [u8; 34] = hello.take_array()?;
    let _session = hello.take_u8_prefixed()?;
    let _ciphers = hello.take_u16_prefixed()?;
    let _compressions = hello.take_u8_prefixed()?;
    if hello.0.is_empty() {
        return Some(names);
    }
    let mut extensions = hello.take_u16_prefixed().filter(|_| hello.0.is_empty())?;
    while !extensions.0.is_empty() {
        let kind = u16::from_be_bytes(extensions.take_array()?);
        let mut data = extensions.take_u16_prefixed()?;
        if kind != SERVER_NAME {
            continue;
        }
        let mut list = data.take_u16_prefixed().filter(|_| data.0.is_empty())?;
        while !list.0.is_empty() {
            let [kind] = list.take_array()?;
            let name = list.take_u16_prefixed().filter(|_| kind == HOST_NAME)?;
            names.push(name.0.to_vec());
        }
    }
    Some(names)
}

/// A cursor over the unread bytes.
struct ClientHelloReader<'a>(&'a [u8]);

impl<'a> ClientHelloReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn take_array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    /// The contents of a field with a one-byte length prefix.
    fn take_u8_prefixed(&mut self) -> Option<Self> {
        let [length] = self.take_array()?;
        self.take(length.into()).map(Self)
    }

    /// The contents of a field with a two-byte length prefix.
    fn take_u16_prefixed(&mut self) -> Option<Self> {
        let length = u16::from_be_bytes(self.take_array()?);
        self.take(length.into()).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn u16_prefixed(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &u16_prefixed(data)].concat()
    }

    fn server_name(names: &[&str]) -> Vec<u8> {
        let each = names.iter().flat_map(|name| [vec![0], u16_prefixed(name.as_bytes())].concat());
        extension(SERVER_NAME, &u16_prefixed(&each.collect::<Vec<_>>()))
    }

    /// A `ClientHello` with these extensions, split into records of `record` bytes.
    fn client_hello(extensions: &[Vec<u8>], record: usize) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([1, 9, 0, 2, 0x13, 1, 1, 0]);
        body.extend(u16_prefixed(&extensions.concat()));
        let mut message = vec![CLIENT_HELLO];
        message.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
        message.extend(body);
        let records = message.chunks(record);
        records.flat_map(|part| [&[22, 3, 1][..], &u16_prefixed(part)].concat()).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], host: &str, expected: &str) {
        let outcome = match check_client_hello(bytes, &HostName::from_host(host).unwrap()) {
            ClientHelloCheck::Unfinished => "unfinished".to_owned(),
            ClientHelloCheck::Accepted => "fine".to_owned(),
            ClientHelloCheck::Rejected(outcome) => outcome,
        };
        assert_eq!(outcome, expected, "{host} {bytes:?}");
    }

    #[test]
    fn client_hello_must_name_tunnel_host() {
        let padding = || extension(21, &[0; 300]);
        for record in [1, 7, 64, 16_000] {
            let to =
                |names: &[&str]| client_hello(&[padding(), server_name(names), padding()], record);
            check(&to(&["a.com"]), "a.com", "fine");
            check(&to(&["A.com."]), "a.com", "fine");
            check(&to(&["b.com"]), "a.com", "names another host, `b.com`");
            check(&to(&["a.com", "b.com"]), "a.com", "names another host, `b.com`");
            check(&to(&["93.184.216.34"]), "a.com", "names another host, `93.184.216.34`");
            check(&to(&["b.com"]), "93.184.216.34", "fine");
            check(&to(&["x\u{1b}"]), "a.com", "names another host, `x\\u{1b}`");
            let twice = client_hello(&[server_name(&["a.com"]), server_name(&["b.com"])], record);
            check(&twice, "a.com", "names another host, `b.com`");
            check(&client_hello(&[padding()], record), "a.com", "fine");
        }
    }

    #[test]
    fn non_tls_is_forwarded_and_broken_hello_is_not() {
        for other in [&b"SSH-2.0-x"[..], b"GET / HTTP/1.1", &[22, 2, 1], &[21, 3, 3, 0, 2]] {
            check(other, "a.com", "fine");
        }
        let whole = client_hello(&[server_name(&["a.com"])], 40);
        for cut in 0..whole.len() {
            check(&whole[..cut], "a.com", "unfinished");
        }
        let longer = [&whole[..], b"whatever follows"].concat();
        check(&longer, "a.com", "fine");
        check(&[&whole[..45], &[23, 3, 3, 0, 1, 0][..]].concat(), "a.com", "cannot be read");
        check(&[22, 3, 1, 0, 0], "a.com", "cannot be read");
        check(&[22, 3, 1, 0, 4, 2, 0, 0, 9], "a.com", "cannot be read");
        check(&[22, 3, 1, 0, 4, 1, 0xff, 0, 0], "a.com", "cannot be read");
        let endless =
            [vec![22, 3, 1, 0, 4, 1, 0, 0x3f, 0], [22, 3, 1, 0, 1, 0].repeat(4000)].concat();
        check(&endless, "a.com", "cannot be read");
        let bad = extension(SERVER_NAME, &[0, 9, 0, 0, 1, b'a']);
        check(&client_hello(&[bad], 99), "a.com", "cannot be read");
        let unknown = extension(SERVER_NAME, &[0, 4, 1, 0, 1, b'a']);
        check(&client_hello(&[unknown], 99), "a.com", "cannot be read");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_pass_as_another_host(
            name in "[a-c]{1,2}\\.com",
            at in any::<prop::sample::Index>(),
            put in proptest::collection::vec(any::<u8>(), 0..6),
            record in 1..200_usize,
        ) {
            let host = HostName::from_host("a.com").unwrap();
            let mut bytes = client_hello(&[server_name(&[&name])], record);
            let is_fine = check_client_hello(&bytes, &host) == ClientHelloCheck::Accepted;
            prop_assert_eq!(is_fine, name == "a.com");
            let at = at.index(bytes.len());
            bytes.splice(at..(at + put.len()).min(bytes.len()), put);
            check_client_hello(&bytes, &host);
        }
    }
}
