//! What is in the messages of the bus, as bytes. Numbers are big-endian.

use bytes::{Buf, Bytes, TryGetError};
use zero_core::SessionId;

/// Maximum size of the rings in one message.
const RINGS_BYTES_MAX: usize = 48 * 1024;
/// Maximum number of rings in one message.
pub(super) const RINGS_MAX: usize = 256;

/// One part of a body. All parts but the last have the same size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BodyPart {
    /// Number of the request among those of the process that asks.
    pub(super) request: u64,
    /// Of a request: until when it may begin, in milliseconds of the clock of the one who is asked. It is
    /// too late then, since its request has ended.
    pub(super) valid_until_ms: u64,
    /// Where the part begins in the body.
    pub(super) offset: u32,
    /// Size of the whole body.
    pub(super) total: u32,
    pub(super) bytes: Bytes,
}

/// Size of a part without its bytes.
pub(super) const PART_HEAD_BYTES: usize = 8 + 8 + 4 + 4;

impl BodyPart {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(PART_HEAD_BYTES + self.bytes.len());
        content.extend(self.request.to_be_bytes());
        content.extend(self.valid_until_ms.to_be_bytes());
        content.extend(self.offset.to_be_bytes());
        content.extend(self.total.to_be_bytes());
        content.extend(&self.bytes);
        content
    }

    pub(super) fn decode(content: Vec<u8>) -> Result<Self, TryGetError> {
        let mut content = Bytes::from(content);
        Ok(Self {
            request: content.try_get_u64()?,
            valid_until_ms: content.try_get_u64()?,
            offset: content.try_get_u32()?,
            total: content.try_get_u32()?,
            bytes: content,
        })
    }
}

/// What is said instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RefusalReason {
    Busy = 1,
    Failed = 2,
    AnswerTooLarge = 3,
}

/// Encodes two numbers: a probe's and the time at which it was answered, or a request's and why it has no
/// answer.
pub(super) fn encode_pair(first: u64, second: u64) -> Vec<u8> {
    [first.to_be_bytes(), second.to_be_bytes()].concat()
}

/// Decodes what [`encode_pair`] makes.
pub(super) fn decode_pair(content: &[u8]) -> Option<(u64, u64)> {
    let (&first, rest) = content.split_first_chunk()?;
    let second = rest.try_into().ok()?;
    Some((u64::from_be_bytes(first), u64::from_be_bytes(second)))
}

impl RefusalReason {
    pub(super) fn from_number(number: u64) -> Option<Self> {
        [Self::Busy, Self::Failed, Self::AnswerTooLarge]
            .into_iter()
            .find(|reason| *reason as u64 == number)
    }
}

/// Encodes as many rings as fit into messages.
pub(super) fn encode_rings(rings: &[(SessionId, u64)]) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for (session, seq) in rings {
        let name = session.as_str().as_bytes();
        // Ids are much shorter.
        let Ok(length) = u16::try_from(name.len()) else { continue };
        let bytes = 2 + name.len() + 8;
        let message = match messages.last_mut() {
            Some(last) if last.len() + bytes <= RINGS_BYTES_MAX => last,
            _ => messages.push_mut(Vec::new()),
        };
        message.extend(length.to_be_bytes());
        message.extend(name);
        message.extend(seq.to_be_bytes());
    }
    messages
}

/// Decodes rings; `None` if they are malformed.
pub(super) fn decode_rings(mut content: &[u8]) -> Option<Vec<(SessionId, u64)>> {
    let mut rings = Vec::new();
    while !content.is_empty() {
        let (&length, rest) = content.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(length)))?;
        let (&seq, rest) = rest.split_first_chunk()?;
        let session = SessionId::new(std::str::from_utf8(name).ok()?).ok()?;
        rings.push((session, u64::from_be_bytes(seq)));
        content = rest;
    }
    Some(rings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_contents_are_decoded_unchanged() {
        let part = BodyPart {
            request: 7,
            valid_until_ms: u64::MAX,
            offset: 3,
            total: 6,
            bytes: Bytes::from("def"),
        };
        assert_eq!(BodyPart::decode(part.encode()), Ok(part.clone()));
        assert_eq!(part.encode().len(), PART_HEAD_BYTES + 3);
        assert!(BodyPart::decode(part.encode()[..PART_HEAD_BYTES - 1].to_vec()).is_err());
        assert_eq!(decode_pair(&encode_pair(1, u64::MAX)), Some((1, u64::MAX)));
        assert_eq!(decode_pair(&[0; 15]), None);
        assert_eq!(decode_pair(&[0; 17]), None);
        let ring = |number: u64| (SessionId::new(format!("s{number}")).unwrap(), number);
        let rings: Vec<_> = (0..10_000).map(ring).collect();
        let messages = encode_rings(&rings);
        assert!(messages.len() > 1 && messages.iter().all(|it| it.len() <= RINGS_BYTES_MAX));
        let decoded = messages.iter().flat_map(|message| decode_rings(message).unwrap());
        assert_eq!(decoded.collect::<Vec<_>>(), rings);
        for cut in 1..10 {
            assert_eq!(decode_rings(&messages[0][..cut]), None, "{cut}");
        }
    }
}
