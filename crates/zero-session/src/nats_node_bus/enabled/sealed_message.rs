//! Messages that only processes of the same cluster can read and make.
//!
//! Any client that may connect to a NATS server can read the messages of others and send in their place.
//! So each message is encrypted and authenticated with a key that is derived from the secret in the
//! store, from its sender and from a random number of the sender's process. Each is numbered, and
//! accepted once: a recorded message cannot be sent again. Its kind, its cluster, its sender and its
//! recipient are authenticated with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::node_bus::{BusSecret, ClusterName, NODE_NAME_BYTES_MAX};

/// Version of this format, the first byte of each message.
const FORMAT: u8 = 1;
/// Length of the random number of a process.
const SALT_BYTES: usize = 16;
/// Length of what precedes the name of the sender: format, kind, salt, number, length of the name.
const HEAD_BYTES: usize = 1 + 1 + SALT_BYTES + 8 + 1;
/// What a message is longer than its content, at most.
pub(super) const OVERHEAD_BYTES_MAX: usize = HEAD_BYTES + NODE_NAME_BYTES_MAX + 16;
/// How far a message may be behind the newest one of its sender.
const WINDOW: u64 = 1_024;
/// Maximum number of senders that are known; a process per restart of each gateway.
const SENDERS_MAX: usize = 4_096;
/// A sender that was silent for this long can be forgotten.
pub(super) const SENDER_IDLE_MAX: Duration = Duration::from_secs(600);

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BusMessageKind {
    /// Rings of doorbells, to all.
    Rings = 1,
    /// A question whether the recipient is there.
    Probe = 2,
    /// The answer to it.
    ProbeReply = 3,
    /// A part of a request.
    Request = 4,
    /// A part of its answer.
    Answer = 5,
    /// What is said instead of an answer.
    Refusal = 6,
}

impl BusMessageKind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Rings, Self::Probe, Self::ProbeReply, Self::Request, Self::Answer, Self::Refusal]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// An authentic message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OpenedMessage {
    pub(super) kind: BusMessageKind,
    pub(super) from: String,
    pub(super) content: Vec<u8>,
}

/// Why a message is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectedMessage {
    /// It is not of this format.
    Malformed,
    /// It was not made with the key of this cluster, or for another recipient.
    Forged,
    /// It was accepted before, or is older than others that were.
    Repeated,
    /// Its sender has the name of another process.
    StolenName,
    /// There are too many senders.
    TooManySenders,
}

/// Makes the messages of this process.
pub(super) struct MessageSealer {
    secret: BusSecret,
    cluster: ClusterName,
    node: String,
    salt: [u8; SALT_BYTES],
    key: LessSafeKey,
    next: AtomicU64,
}

impl MessageSealer {
    /// Fails if the system has no randomness.
    pub(super) fn new(
        secret: BusSecret,
        cluster: ClusterName,
        node: &str,
    ) -> Result<Self, ring::error::Unspecified> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt)?;
        let key = derive_key(&secret, &cluster, node, &salt)?;
        Ok(Self { secret, cluster, node: node.to_owned(), salt, key, next: AtomicU64::new(0) })
    }

    /// Makes a message for a process, or for all.
    pub(super) fn seal(
        &self,
        kind: BusMessageKind,
        to: Option<&str>,
        content: &[u8],
    ) -> Result<Vec<u8>, ring::error::Unspecified> {
        // Each number is used once, since the key is new with each process.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = Vec::with_capacity(content.len() + OVERHEAD_BYTES_MAX);
        message.extend([FORMAT, kind as u8]);
        message.extend(self.salt);
        message.extend(number.to_be_bytes());
        message.push(u8::try_from(self.node.len()).map_err(|_| ring::error::Unspecified)?);
        message.extend(self.node.as_bytes());
        let head = message.len();
        let authenticated = authenticated_data(&message, &self.cluster, to);
        message.extend(content);
        let tag = self.key.seal_in_place_separate_tag(
            nonce(number),
            Aad::from(authenticated),
            message.get_mut(head..).unwrap_or_default(),
        )?;
        message.extend(tag.as_ref());
        Ok(message)
    }
}

/// Opens the messages of others.
pub(super) struct MessageOpener {
    senders: HashMap<String, MessageSender>,
}

/// What is known of one sender.
struct MessageSender {
    salt: [u8; SALT_BYTES],
    key: LessSafeKey,
    accepted: AcceptedNumbers,
    last_message: Duration,
}

impl MessageOpener {
    pub(super) fn new() -> Self {
        Self { senders: HashMap::new() }
    }

    /// Opens a message that was received at a time of a steady clock. `to_all` says whether it was sent to
    /// all or to this process.
    pub(super) fn open(
        &mut self,
        sealer: &MessageSealer,
        message: &[u8],
        to_all: bool,
        now: Duration,
    ) -> Result<OpenedMessage, RejectedMessage> {
        let head = MessageHead::parse(message).ok_or(RejectedMessage::Malformed)?;
        let to = if to_all { None } else { Some(&*sealer.node) };
        if (head.kind == BusMessageKind::Rings) != to_all {
            return Err(RejectedMessage::Forged);
        }
        let known = self.senders.get(head.from).filter(|sender| sender.salt == head.salt);
        let derived;
        let key = match known {
            Some(sender) => &sender.key,
            None => {
                derived = derive_key(&sealer.secret, &sealer.cluster, head.from, &head.salt)
                    .map_err(|_| RejectedMessage::Forged)?;
                &derived
            }
        };
        let authenticated = authenticated_data(head.bytes, &sealer.cluster, to);
        let mut content = head.sealed.to_vec();
        let content = key
            .open_in_place(nonce(head.number), Aad::from(authenticated), &mut content)
            .map_err(|_| RejectedMessage::Forged)?
            .to_vec();
        // From here on it is of this cluster.
        if head.from == sealer.node && head.salt != sealer.salt {
            return Err(RejectedMessage::StolenName);
        }
        self.accept(&head, sealer, now)?;
        Ok(OpenedMessage { kind: head.kind, from: head.from.to_owned(), content })
    }

    fn accept(
        &mut self,
        head: &MessageHead<'_>,
        sealer: &MessageSealer,
        now: Duration,
    ) -> Result<(), RejectedMessage> {
        if let Some(sender) = self.senders.get_mut(head.from)
            && now.saturating_sub(sender.last_message) <= SENDER_IDLE_MAX
        {
            if sender.salt != head.salt {
                return Err(RejectedMessage::StolenName);
            }
            sender.last_message = now;
            return match sender.accepted.insert(head.number) {
                true => Ok(()),
                false => Err(RejectedMessage::Repeated),
            };
        }
        // New messages of a forgotten process cannot be told from replayed ones. Requests are valid for a
        // shorter time, and rings do no harm.
        if self.senders.len() >= SENDERS_MAX {
            self.senders
                .retain(|_, sender| now.saturating_sub(sender.last_message) <= SENDER_IDLE_MAX);
        }
        if self.senders.len() >= SENDERS_MAX {
            return Err(RejectedMessage::TooManySenders);
        }
        let key = derive_key(&sealer.secret, &sealer.cluster, head.from, &head.salt)
            .map_err(|_| RejectedMessage::Forged)?;
        let accepted = AcceptedNumbers::first(head.number);
        let sender = MessageSender { salt: head.salt, key, accepted, last_message: now };
        self.senders.insert(head.from.to_owned(), sender);
        Ok(())
    }
}

/// What precedes the content of a message.
struct MessageHead<'a> {
    kind: BusMessageKind,
    salt: [u8; SALT_BYTES],
    number: u64,
    from: &'a str,
    /// All of it, as it was received.
    bytes: &'a [u8],
    sealed: &'a [u8],
}

impl<'a> MessageHead<'a> {
    fn parse(message: &'a [u8]) -> Option<Self> {
        let (&[format], rest) = message.split_first_chunk()?;
        let (&[kind], rest) = rest.split_first_chunk()?;
        let (&salt, rest) = rest.split_first_chunk()?;
        let (&number, rest) = rest.split_first_chunk()?;
        let (&[name_bytes], rest) = rest.split_first_chunk()?;
        let (name, sealed) = rest.split_at_checked(usize::from(name_bytes))?;
        let kind = BusMessageKind::from_byte(kind).filter(|_| format == FORMAT)?;
        Some(Self {
            kind,
            salt,
            number: u64::from_be_bytes(number),
            from: std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?,
            bytes: message.get(..HEAD_BYTES + name.len())?,
            sealed,
        })
    }
}

/// The numbers of a sender that were accepted: the newest, and which of those before it.
struct AcceptedNumbers {
    newest: u64,
    /// Bit `number % WINDOW` says whether it was accepted.
    window: [u64; (WINDOW / 64) as usize],
}

impl AcceptedNumbers {
    fn first(number: u64) -> Self {
        let mut accepted = Self { newest: number, window: [0; (WINDOW / 64) as usize] };
        accepted.set(number, true);
        accepted
    }

    /// Accepts a number; `false` if it was accepted before, or may have been.
    fn insert(&mut self, number: u64) -> bool {
        if number > self.newest {
            for passed in (self.newest + 1..=number).rev().take(WINDOW as usize) {
                self.set(passed, false);
            }
            self.newest = number;
        } else if self.newest - number >= WINDOW || self.get(number) {
            return false;
        }
        self.set(number, true);
        true
    }

    fn get(&self, number: u64) -> bool {
        let at = number % WINDOW;
        self.window.get((at / 64) as usize).is_some_and(|bits| bits & (1 << (at % 64)) != 0)
    }

    fn set(&mut self, number: u64, accepted: bool) {
        let at = number % WINDOW;
        if let Some(bits) = self.window.get_mut((at / 64) as usize) {
            match accepted {
                true => *bits |= 1 << (at % 64),
                false => *bits &= !(1 << (at % 64)),
            }
        }
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    for (at, byte) in bytes.iter_mut().skip(NONCE_LEN - 8).zip(number.to_be_bytes()) {
        *at = byte;
    }
    Nonce::assume_unique_for_key(bytes)
}

/// The key of one process.
fn derive_key(
    secret: &BusSecret,
    cluster: &ClusterName,
    node: &str,
    salt: &[u8; SALT_BYTES],
) -> Result<LessSafeKey, ring::error::Unspecified> {
    let purpose: &[&[u8]] =
        &[b"zero node bus 1\0", cluster.as_str().as_bytes(), b"\0", node.as_bytes()];
    let derived = Salt::new(HKDF_SHA256, salt).extract(secret.as_bytes());
    let key: UnboundKey = derived.expand(purpose, &CHACHA20_POLY1305)?.into();
    Ok(LessSafeKey::new(key))
}

/// The head of a message, and where it belongs.
fn authenticated_data(head: &[u8], cluster: &ClusterName, to: Option<&str>) -> Vec<u8> {
    // Names of clusters contain no zero, so that no two of these are the same for different messages.
    [head, cluster.as_str().as_bytes(), b"\0", to.unwrap_or_default().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn sealer(secret: u8, cluster: &str, node: &str) -> MessageSealer {
        let cluster = ClusterName::new(cluster).unwrap();
        MessageSealer::new(BusSecret::new([secret; 32]), cluster, node).unwrap()
    }

    #[test]
    fn message_is_opened_once_by_its_recipient() {
        let (x, y, z) = (sealer(1, "c", "x"), sealer(1, "c", "y"), sealer(1, "c", "z"));
        let message = x.seal(BusMessageKind::Request, Some("y"), b"secret prompt").unwrap();
        assert!(!message.windows(6).any(|window| window == b"secret"), "it is encrypted");
        let mut opener = MessageOpener::new();
        let opened = opener.open(&y, &message, false, NOW).unwrap();
        assert_eq!((opened.kind, &*opened.from), (BusMessageKind::Request, "x"));
        assert_eq!(opened.content, b"secret prompt");
        let check = |opener: &mut MessageOpener, reader, message: &[u8], to_all, expected| {
            let rejected = opener.open(reader, message, to_all, NOW).unwrap_err();
            assert_eq!(rejected, expected);
        };
        check(&mut opener, &y, &message, false, RejectedMessage::Repeated);
        let others = &mut MessageOpener::new();
        let (secret, cluster) = (sealer(2, "c", "y"), sealer(1, "d", "y"));
        check(others, &z, &message, false, RejectedMessage::Forged);
        check(others, &y, &message, true, RejectedMessage::Forged);
        check(others, &secret, &message, false, RejectedMessage::Forged);
        check(others, &cluster, &message, false, RejectedMessage::Forged);
        assert!(others.senders.is_empty(), "strangers leave no trace");
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let (x, y) = (sealer(1, "c", "x"), sealer(1, "c", "y"));
        let message = x.seal(BusMessageKind::Answer, Some("y"), b"yes").unwrap();
        for at in 0..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 1;
            let opened = MessageOpener::new().open(&y, &changed, false, NOW);
            assert!(opened.is_err(), "byte {at}");
            let cut = MessageOpener::new().open(&y, &message[..at], false, NOW);
            assert!(cut.is_err(), "{at} bytes");
        }
    }

    #[test]
    fn stolen_name_is_refused() {
        let (x, impostor, y) = (sealer(1, "c", "x"), sealer(1, "c", "x"), sealer(1, "c", "y"));
        let opener = &mut MessageOpener::new();
        let seal =
            |sealer: &MessageSealer| sealer.seal(BusMessageKind::Probe, Some("y"), b"").unwrap();
        opener.open(&y, &seal(&x), false, NOW).unwrap();
        let rejected = opener.open(&y, &seal(&impostor), false, NOW).unwrap_err();
        assert_eq!(rejected, RejectedMessage::StolenName);
        opener.open(&y, &seal(&x), false, NOW).unwrap();
        // Its own name.
        let to_itself = impostor.seal(BusMessageKind::Probe, Some("x"), b"").unwrap();
        let rejected = opener.open(&x, &to_itself, false, NOW).unwrap_err();
        assert_eq!(rejected, RejectedMessage::StolenName);
        // A process that is long gone.
        let later = NOW + SENDER_IDLE_MAX + NOW;
        opener.open(&y, &seal(&impostor), false, later).unwrap();
    }

    #[test]
    fn numbers_are_accepted_once_in_any_order() {
        let mut accepted = AcceptedNumbers::first(5);
        for (number, expected) in [
            (5, false),
            (4, true),
            (4, false),
            (7, true),
            (6, true),
            (6, false),
            (7 + WINDOW, true),
            (7, false),
            (8, true),
            (8, false),
            (7 + 5 * WINDOW, true),
            (6 + 5 * WINDOW, true),
            (8 + 4 * WINDOW, true),
            (7 + 4 * WINDOW, false),
            (u64::MAX, true),
            (u64::MAX, false),
            (0, false),
        ] {
            assert_eq!(accepted.insert(number), expected, "{number}");
        }
    }
}
