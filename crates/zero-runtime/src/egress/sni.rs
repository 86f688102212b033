//! The host that a TLS client greets: a tunnel to one host must not be used to talk to another.
//!
//! Many hosts live at one address, and whoever answers there goes by the name in the greeting. So a
//! greeting that names another host than the tunnel was made for is not passed on. One that names
//! none is, and so is what is no TLS: it reaches the address that was judged and no other.
//!
//! The greeting is read whole, however it is cut into records, up to a bound; what begins as one
//! and cannot be read is not passed on either.

use zero_policy::HostName;

/// Longest greeting, in bytes.
const GREETING_BYTES_MAX: usize = 16 * 1024;

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// What the first bytes of a client are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientHelloCheck {
    /// Too few to tell.
    Unfinished,
    /// To be passed on.
    Fine,
    /// Not to be passed on; why, after "its TLS greeting".
    Wrong(String),
}

/// Looks at the first bytes that a client sends through a tunnel to `host`.
pub(super) fn look(bytes: &[u8], host: &HostName) -> ClientHelloCheck {
    match (bytes, host.name()) {
        // Whoever allows an address allows whatever answers there.
        (_, None) => return ClientHelloCheck::Fine,
        ([HANDSHAKE_RECORD, 3, ..] | [HANDSHAKE_RECORD] | [], _) => {}
        _ => return ClientHelloCheck::Fine,
    }
    match names(bytes) {
        Err(ClientHelloError::Unfinished) if bytes.len() < GREETING_BYTES_MAX => {
            ClientHelloCheck::Unfinished
        }
        Err(_) => ClientHelloCheck::Wrong("cannot be read".to_owned()),
        Ok(names) => {
            let other = names.iter().find(|name| {
                let name = std::str::from_utf8(name).ok();
                name.and_then(|name| HostName::from_host(name).ok()).as_ref() != Some(host)
            });
            other.map_or(ClientHelloCheck::Fine, |name| {
                let name: String = String::from_utf8_lossy(name).chars().take(80).collect();
                ClientHelloCheck::Wrong(format!("names another host, `{}`", name.escape_debug()))
            })
        }
    }
}

#[derive(Debug)]
enum ClientHelloError {
    /// Bytes are missing that may still come.
    Unfinished,
    Malformed,
}

/// The hosts that a greeting names.
fn names(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ClientHelloError> {
    let message = message(bytes)?;
    // Of a message that is whole nothing can be missing.
    named_in(ClientHelloReader(&message)).ok_or(ClientHelloError::Malformed)
}

/// The body of the first message, put together from as many records as it takes.
fn message(bytes: &[u8]) -> Result<Vec<u8>, ClientHelloError> {
    let mut records = ClientHelloReader(bytes);
    let mut message = Vec::new();
    loop {
        if let [kind, high, middle, low, body @ ..] = &message[..] {
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            if *kind != CLIENT_HELLO || length > GREETING_BYTES_MAX {
                return Err(ClientHelloError::Malformed);
            }
            if let Some(body) = body.get(..length) {
                return Ok(body.to_vec());
            }
        }
        let [kind, major, _] = records.array().ok_or(ClientHelloError::Unfinished)?;
        if (kind, major) != (HANDSHAKE_RECORD, 3) {
            return Err(ClientHelloError::Malformed);
        }
        let part = records.long().ok_or(ClientHelloError::Unfinished)?;
        if part.0.is_empty() {
            return Err(ClientHelloError::Malformed);
        }
        message.extend_from_slice(part.0);
    }
}

fn named_in(mut hello: ClientHelloReader<'_>) -> Option<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    let _version_and_random: [u8; 34] = hello.array()?;
    let _session = hello.short()?;
    let _ciphers = hello.long()?;
    let _compressions = hello.short()?;
    if hello.0.is_empty() {
        return Some(names);
    }
    let mut extensions = hello.long().filter(|_| hello.0.is_empty())?;
    while !extensions.0.is_empty() {
        let kind = u16::from_be_bytes(extensions.array()?);
        let mut data = extensions.long()?;
        if kind != SERVER_NAME {
            continue;
        }
        let mut list = data.long().filter(|_| data.0.is_empty())?;
        while !list.0.is_empty() {
            let [kind] = list.array()?;
            let name = list.long().filter(|_| kind == HOST_NAME)?;
            names.push(name.0.to_vec());
        }
    }
    Some(names)
}

/// What is left to read.
struct ClientHelloReader<'a>(&'a [u8]);

impl<'a> ClientHelloReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    /// What one byte says the length of.
    fn short(&mut self) -> Option<Self> {
        let [length] = self.array()?;
        self.take(length.into()).map(Self)
    }

    /// What two bytes say the length of.
    fn long(&mut self) -> Option<Self> {
        let length = u16::from_be_bytes(self.array()?);
        self.take(length.into()).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn long(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &long(data)].concat()
    }

    fn server_name(names: &[&str]) -> Vec<u8> {
        let each = names.iter().flat_map(|name| [vec![0], long(name.as_bytes())].concat());
        extension(SERVER_NAME, &long(&each.collect::<Vec<_>>()))
    }

    /// A greeting with these extensions, cut into records of so many bytes.
    fn hello(extensions: &[Vec<u8>], record: usize) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([1, 9, 0, 2, 0x13, 1, 1, 0]);
        body.extend(long(&extensions.concat()));
        let mut message = vec![CLIENT_HELLO];
        message.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
        message.extend(body);
        let records = message.chunks(record);
        records.flat_map(|part| [&[22, 3, 1][..], &long(part)].concat()).collect()
    }

    #[track_caller]
    fn check(bytes: &[u8], host: &str, expected: &str) {
        let said = match look(bytes, &HostName::from_host(host).unwrap()) {
            ClientHelloCheck::Unfinished => "unfinished".to_owned(),
            ClientHelloCheck::Fine => "fine".to_owned(),
            ClientHelloCheck::Wrong(said) => said,
        };
        assert_eq!(said, expected, "{host} {bytes:?}");
    }

    #[test]
    fn a_greeting_names_the_host_of_its_tunnel() {
        let padding = || extension(21, &[0; 300]);
        for record in [1, 7, 64, 16_000] {
            let to = |names: &[&str]| hello(&[padding(), server_name(names), padding()], record);
            check(&to(&["a.com"]), "a.com", "fine");
            check(&to(&["A.com."]), "a.com", "fine");
            check(&to(&["b.com"]), "a.com", "names another host, `b.com`");
            check(&to(&["a.com", "b.com"]), "a.com", "names another host, `b.com`");
            check(&to(&["93.184.216.34"]), "a.com", "names another host, `93.184.216.34`");
            check(&to(&["b.com"]), "93.184.216.34", "fine");
            check(&to(&["x\u{1b}"]), "a.com", "names another host, `x\\u{1b}`");
            let twice = hello(&[server_name(&["a.com"]), server_name(&["b.com"])], record);
            check(&twice, "a.com", "names another host, `b.com`");
            check(&hello(&[padding()], record), "a.com", "fine");
        }
    }

    #[test]
    fn what_is_no_greeting_is_passed_on_and_a_broken_one_is_not() {
        for other in [&b"SSH-2.0-x"[..], b"GET / HTTP/1.1", &[22, 2, 1], &[21, 3, 3, 0, 2]] {
            check(other, "a.com", "fine");
        }
        let whole = hello(&[server_name(&["a.com"])], 40);
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
        check(&hello(&[bad], 99), "a.com", "cannot be read");
        let unknown = extension(SERVER_NAME, &[0, 4, 1, 0, 1, b'a']);
        check(&hello(&[unknown], 99), "a.com", "cannot be read");
    }

    proptest! {
        #[test]
        fn no_bytes_upset_it_and_none_but_the_host_itself_is_let_through(
            name in "[a-c]{1,2}\\.com",
            at in any::<prop::sample::Index>(),
            put in proptest::collection::vec(any::<u8>(), 0..6),
            record in 1..200_usize,
        ) {
            let host = HostName::from_host("a.com").unwrap();
            let mut bytes = hello(&[server_name(&[&name])], record);
            let is_fine = look(&bytes, &host) == ClientHelloCheck::Fine;
            prop_assert_eq!(is_fine, name == "a.com");
            let at = at.index(bytes.len());
            bytes.splice(at..(at + put.len()).min(bytes.len()), put);
            look(&bytes, &host);
        }
    }
}
