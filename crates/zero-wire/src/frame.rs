//! The messages of the protocol: [`GatewayFrame`], which is a request, a response or an event, and
//! [`parse`], which reads and validates one.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorPayload;
use crate::params::ParamsChecker;

/// Maximum length of a message before the sender has authenticated, in bytes.
pub const UNAUTHENTICATED_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a message of an authenticated sender, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 25 * 1024 * 1024;
/// Maximum number of bytes that are queued for a slow reader.
pub const BUFFERED_BYTES_MAX: usize = 50 * 1024 * 1024;
/// Maximum number of JSON values in one message: an array of millions would use far more memory
/// than it has bytes.
pub const VALUES_MAX: usize = 1 << 20;

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum GatewayFrame {
    /// A client calls a method.
    #[serde(rename = "req")]
    Request(RequestFrame),
    /// The gateway answers a request.
    #[serde(rename = "res")]
    Response(ResponseFrame),
    /// The gateway reports an event.
    #[serde(rename = "event")]
    Event(EventFrame),
}

/// Why a message is not a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameParseError {
    /// The message is not JSON.
    #[error("not JSON; send one JSON object in each message")]
    NotJson,
    /// The message has more than [`VALUES_MAX`] values.
    #[error("a message has at most {VALUES_MAX} values; send less at once")]
    TooMany,
    /// The message is JSON, but not a valid frame.
    #[error("invalid {kind} frame: {what}")]
    Invalid {
        /// `request`, `response` or `event`, according to its `type`; `request` if that is missing
        /// or unknown.
        kind: &'static str,
        /// The problems, in the wording of OpenClaw.
        what: String,
        /// Its `id`, so that it can be answered.
        id: Option<String>,
    },
}

/// Reads the frame in a message and validates it.
pub fn parse(text: &str) -> Result<GatewayFrame, FrameParseError> {
    if has_more_values_than(text, VALUES_MAX) {
        return Err(FrameParseError::TooMany);
    }
    let message: Value = serde_json::from_str(text).map_err(|_| FrameParseError::NotJson)?;
    let id = message.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.map(str::to_owned);
    let invalid = |kind, what: &str| FrameParseError::Invalid { kind, what: what.to_owned(), id };
    let Value::Object(mut fields) = message else {
        return Err(invalid("request", "must be object"));
    };
    let Some(kind) = fields.shift_remove("type") else {
        return Err(invalid("request", "must have required property 'type'"));
    };
    // Each kind is read separately: to read `GatewayFrame` would copy every value once more.
    let fields = Value::Object(fields);
    let (kind, frame) = match kind.as_str() {
        Some("req") => ("request", read_fields(fields, &REQUEST).map(GatewayFrame::Request)),
        Some("res") => ("response", read_fields(fields, &RESPONSE).map(GatewayFrame::Response)),
        Some("event") => ("event", read_fields(fields, &EVENT).map(GatewayFrame::Event)),
        _ => ("request", Err("at /type: must be equal to constant".to_owned())),
    };
    frame.map_err(|what| invalid(kind, &what))
}

/// Whether a text has more than `most` JSON values, counted by the separators and brackets outside
/// strings.
fn has_more_values_than(text: &str, most: usize) -> bool {
    let (mut values, mut in_text, mut escaped) = (1_usize, false, false);
    for byte in text.bytes() {
        if in_text {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => in_text = true,
                b',' | b'[' | b'{' => values += 1,
                _ => {}
            }
        }
        if values > most {
            return true;
        }
    }
    false
}

static REQUEST: LazyLock<ParamsChecker> = LazyLock::new(ParamsChecker::for_type::<RequestFrame>);
static RESPONSE: LazyLock<ParamsChecker> = LazyLock::new(ParamsChecker::for_type::<ResponseFrame>);
static EVENT: LazyLock<ParamsChecker> = LazyLock::new(ParamsChecker::for_type::<EventFrame>);

/// Builds the frame validators now rather than for the first message.
pub fn warm_up_checkers() {
    for checker in [&REQUEST, &RESPONSE, &EVENT] {
        LazyLock::force(checker);
    }
}

fn read_fields<T: DeserializeOwned>(fields: Value, checker: &ParamsChecker) -> Result<T, String> {
    checker.check(&fields)?;
    serde_json::from_value(fields).map_err(|_| "must match the schema".to_owned())
}

/// A call of a method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestFrame {
    /// Id that the response repeats; not empty.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Name of the method.
    #[schemars(length(min = 1))]
    pub method: String,
    /// Parameters of the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// W3C trace context of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub traceparent: Option<String>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseFrame {
    /// Id of the request.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Whether the request succeeded.
    pub ok: bool,
    /// Result of the method, if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Why the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorPayload>,
}

/// Something that the gateway reports to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventFrame {
    /// Name of the event.
    #[schemars(length(min = 1))]
    pub event: String,
    /// Payload of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Number of the event on this connection, from 1. `connect.challenge` has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// Versions of the gateway's presence list and health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_version: Option<StateVersion>,
}

/// Versions of the gateway's presence list and health. zero does not change them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateVersion {
    /// Version of the list of connected clients.
    pub presence: u64,
    /// Version of the health state.
    pub health: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorCode;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let outcome = match parse(text) {
            Ok(frame) => format!("{frame:?}"),
            Err(FrameParseError::Invalid { kind, what, id }) => {
                let id = id.unwrap_or_else(|| "invalid".to_owned());
                format!("{id}: invalid {kind} frame: {what}")
            }
            Err(error) => error.to_string(),
        };
        assert!(outcome.starts_with(expected), "{text}\n  gave {outcome}\nwanted {expected}");
    }

    #[test]
    fn invalid_frame_error_says_why() {
        let not_json = "not JSON; send one JSON object in each message";
        for text in ["", "hello", "{", "{\"a\":1} x", "\u{0}", "{\"type\":\"req\""] {
            check(text, not_json);
        }
        check(&"[".repeat(1000), not_json);
        check(&format!("{}{}", "[".repeat(200), "]".repeat(200)), not_json);
        check(&format!("[{}1]", "1,".repeat(VALUES_MAX)), "a message has at most 1048576 values");
        check("[]", "invalid: invalid request frame: must be object");
        check("null", "invalid: invalid request frame: must be object");
        check("{}", "invalid: invalid request frame: must have required property 'type'");
        check(r#"{"id":"7"}"#, "7: invalid request frame: must have required property 'type'");
        check(
            r#"{"type":"ask","id":"7"}"#,
            "7: invalid request frame: at /type: must be equal to constant",
        );
        check(
            r#"{"type":1}"#,
            "invalid: invalid request frame: at /type: must be equal to constant",
        );
        check(
            r#"{"type":"req","method":"health"}"#,
            "invalid: invalid request frame: must have required property 'id'",
        );
        check(
            r#"{"type":"req","id":"","method":"health"}"#,
            "invalid: invalid request frame: at /id: must NOT have fewer than 1 characters",
        );
        check(
            r#"{"type":"req","id":"1"}"#,
            "1: invalid request frame: must have required property 'method'",
        );
        check(
            r#"{"type":"req","id":"1","method":"health","token":"x"}"#,
            "1: invalid request frame: at root: unexpected property 'token'",
        );
        check(
            &format!(
                r#"{{"type":"req","id":"1","method":"m","traceparent":"{}"}}"#,
                "x".repeat(129)
            ),
            "1: invalid request frame: at /traceparent: must NOT have more than 128 characters",
        );
        check(
            r#"{"type":"res","id":"1"}"#,
            "1: invalid response frame: must have required property 'ok'",
        );
        check(
            r#"{"type":"res","id":"1","ok":false,"error":{"code":1,"message":"m"}}"#,
            "1: invalid response frame: at /error/code: must be string",
        );
        check(
            r#"{"type":"event","event":"tick","seq":-1}"#,
            "invalid: invalid event frame: at /seq: must be >= 0",
        );
    }

    #[test]
    fn separators_in_strings_do_not_count_as_values() {
        let text = ",[{".repeat(VALUES_MAX);
        let frame = format!(r#"{{"type":"req","id":"\\\",","method":"m","params":"{text}"}}"#);
        check(&frame, r#"Request(RequestFrame { id: "\\\",", method: "m""#);
    }

    #[test]
    fn unknown_error_code_is_preserved() {
        check(
            r#"{"type":"res","id":"1","ok":false,"error":{"code":"TEAPOT","message":"m"}}"#,
            r#"Response(ResponseFrame { id: "1", ok: false, payload: None, error: Some(ErrorPayload { code: Other("TEAPOT")"#,
        );
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// Never null, because a null payload is read as an absent one.
    fn payloads() -> impl Strategy<Value = Option<Value>> {
        prop::option::of(values().prop_filter("null is read as absent", |value| !value.is_null()))
    }

    fn frames() -> impl Strategy<Value = GatewayFrame> {
        let request = (".+", ".+", payloads(), prop::option::of(".{0,128}")).prop_map(
            |(id, method, params, traceparent)| {
                GatewayFrame::Request(RequestFrame { id, method, params, traceparent })
            },
        );
        let codes = prop_oneof![
            Just(ErrorCode::InvalidRequest),
            Just(ErrorCode::Unavailable),
            "[A-Z]{9}".prop_map(ErrorCode::Other),
        ];
        let errors = (codes, ".+", payloads(), any::<Option<bool>>(), any::<Option<u64>>())
            .prop_map(|(code, message, details, retryable, retry_after_ms)| ErrorPayload {
                code,
                message,
                details,
                retryable,
                retry_after_ms,
            });
        let response = (".+", any::<bool>(), payloads(), prop::option::of(errors)).prop_map(
            |(id, ok, payload, error)| {
                GatewayFrame::Response(ResponseFrame { id, ok, payload, error })
            },
        );
        let versions =
            any::<(u64, u64)>().prop_map(|(presence, health)| StateVersion { presence, health });
        let event = (".+", payloads(), any::<Option<u64>>(), prop::option::of(versions)).prop_map(
            |(event, payload, seq, state_version)| {
                GatewayFrame::Event(EventFrame { event, payload, seq, state_version })
            },
        );
        prop_oneof![request, response, event]
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(frame in frames()) {
            let text = serde_json::to_string(&frame).unwrap();
            prop_assert_eq!(parse(&text), Ok(frame.clone()));
            prop_assert_eq!(serde_json::from_str::<GatewayFrame>(&text).unwrap(), frame);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = parse(&text);
        }

        #[test]
        fn no_cut_or_changed_frame_makes_it_panic(frame in frames(), at in any::<prop::sample::Index>(), byte: u8) {
            let mut bytes = serde_json::to_vec(&frame).unwrap();
            let index = at.index(bytes.len());
            let _ = parse(&String::from_utf8_lossy(&bytes[..index]));
            bytes[index] = byte;
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn no_object_makes_a_checker_panic(value in values()) {
            for method in crate::schema::methods() {
                let _ = (method.checker)().check(&value);
            }
        }
    }
}
