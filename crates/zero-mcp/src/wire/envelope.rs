//! [`MessageEnvelope`], the outer members of a JSON-RPC message: what kind it is, and its id.

use rmcp::model::RequestId;

use super::json_scan::{self, MalformedJsonError};

/// How many bytes at the beginning and the end of an overlong line are searched for its id.
const ID_SEARCH_BYTES: usize = zero_runtime::line_reader::ENDS_KEPT;

/// The members of a message that say what it is, as raw JSON.
#[derive(Debug, Default)]
pub(crate) struct MessageEnvelope<'a> {
    /// Whether it says that it is JSON-RPC 2.0.
    pub(crate) is_version_two: bool,
    /// Id of the message.
    pub(crate) id: EnvelopeId,
    pub(crate) method: Option<String>,
    pub(crate) params: Option<&'a [u8]>,
    pub(crate) result: Option<&'a [u8]>,
    pub(crate) error: Option<&'a [u8]>,
}

/// The id of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum EnvelopeId {
    #[default]
    Absent,
    /// Present, but null or not a valid id.
    Unusable,
    Valid(RequestId),
}

impl EnvelopeId {
    fn read(written: &[u8]) -> Self {
        // A longer id is refused, because it would be stored and repeated.
        if written.len() > ID_SEARCH_BYTES {
            return Self::Unusable;
        }
        serde_json::from_slice(written).map_or(Self::Unusable, Self::Valid)
    }

    pub(crate) fn request_id(&self) -> Option<&RequestId> {
        match self {
            Self::Valid(id) => Some(id),
            Self::Absent | Self::Unusable => None,
        }
    }
}

impl<'a> MessageEnvelope<'a> {
    /// Reads a whole message. A message with a duplicate member is invalid.
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, MalformedJsonError> {
        let (envelope, whole) = Self::read_partial(message);
        if whole { Ok(envelope) } else { Err(MalformedJsonError) }
    }

    /// Reads the beginning of a message, as far as it goes.
    pub(crate) fn read_head(head: &'a [u8]) -> Self {
        Self::read_partial(head).0
    }

    fn read_partial(message: &'a [u8]) -> (Self, bool) {
        let mut envelope = Self::default();
        let mut seen: [bool; 6] = [false; 6];
        for piece in json_scan::members(message) {
            let Ok(piece) = piece else { return (envelope, false) };
            let known: [&[u8]; 6] = [b"jsonrpc", b"id", b"method", b"params", b"result", b"error"];
            let Some(which) = known.iter().position(|known| *known == piece.key) else { continue };
            if seen.get_mut(which).is_none_or(|seen| std::mem::replace(seen, true)) {
                return (Self::default(), false);
            }
            match which {
                0 => envelope.is_version_two = piece.value == br#""2.0""#,
                1 => envelope.id = EnvelopeId::read(piece.value),
                2 => {
                    let Some(method) = json_scan::parse_text(piece.value) else {
                        return (Self::default(), false);
                    };
                    envelope.method = Some(method);
                }
                // Some peers send all of these, with null for those that do not apply.
                _ if piece.value == b"null" => {}
                3 => envelope.params = Some(piece.value),
                4 => envelope.result = Some(piece.value),
                _ => envelope.error = Some(piece.value),
            }
        }
        (envelope, true)
    }
}

/// Finds the id at the end of a message whose middle is missing: the last member of the outermost
/// object.
pub(crate) fn find_trailing_id(tail: &[u8]) -> Option<RequestId> {
    let tail = tail.trim_ascii_end().strip_suffix(b"}")?;
    let at = tail.windows(4).rposition(|window| window == br#""id""#)?;
    let before = tail.get(..at)?.trim_ascii_end();
    let value = tail.get(at + 4..)?.trim_ascii().strip_prefix(b":")?.trim_ascii();
    if before.last() != Some(&b',') {
        return None;
    }
    EnvelopeId::read(value).request_id().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_found_at_either_end_of_truncated_message() {
        let head = br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"xxxx"#;
        assert_eq!(MessageEnvelope::read_head(head).id, EnvelopeId::Valid(RequestId::Number(7)));
        let cut = br#"{"jsonrpc":"2.0","id":71234"#;
        assert_eq!(MessageEnvelope::read_head(cut).id, EnvelopeId::Absent);
        assert_eq!(find_trailing_id(br#"xxx"]},"id":9}"#), Some(RequestId::Number(9)));
        assert_eq!(
            find_trailing_id(b"xx\"]},\"id\" : \"a\" } \r"),
            Some(RequestId::String("a".into()))
        );
        assert_eq!(find_trailing_id(br#"xxx{"a":1,"id":9}}"#), None);
        assert_eq!(find_trailing_id(br#"x,"id":9,"b":2}"#), None);
    }

    #[test]
    fn duplicate_member_makes_message_invalid() {
        assert!(MessageEnvelope::read(br#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#).is_err());
        assert!(MessageEnvelope::read(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_ok());
    }

    #[test]
    fn invalid_ids_are_unusable() {
        for id in ["null", "1.5", "[]", "true", "18446744073709551616"] {
            let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            assert_eq!(
                MessageEnvelope::read(message.as_bytes()).unwrap().id,
                EnvelopeId::Unusable,
                "{id}"
            );
        }
    }
}
