//! [`GatewayClientError`], why a connection or a request failed, and [`RetryAdvice`], whether to
//! try again. Each message says what to do next.

use std::time::Duration;

use serde_json::Value;

use zero_core::sanitize::escape_line;
use zero_core::text_shortening::shorten_end;

use crate::close;
use crate::error::{ErrorCode, ErrorPayload};

/// What the message of a refused request begins with.
pub const REFUSAL_PREFIX: &str = "the gateway refused: ";

/// Why a connection or a request failed. No message contains a token or a password.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GatewayClientError {
    /// The gateway refused the request.
    #[error("{}{}{}", REFUSAL_PREFIX, sanitize_text(&error.message), refusal_hint(error))]
    Refused {
        /// The gateway's error.
        error: ErrorPayload,
    },
    /// The connection was closed.
    #[error("the gateway closed the connection ({code}{}{}); {}",
        if reason.is_empty() { "" } else { " " }, sanitize_text(reason), close_hint(*code))]
    Closed {
        /// The WebSocket close code.
        code: u16,
        /// The reason as text; may be empty.
        reason: String,
    },
    /// No gateway answers at the address.
    #[error(
        "cannot reach a gateway at {at}: {what}; start it with `zero gateway`, or check the URL"
    )]
    Unreachable {
        /// The address.
        at: String,
        /// What failed.
        what: String,
    },
    /// The time limit was exceeded.
    #[error("{what} took longer than {} s; check that the gateway works, or allow more time",
        after.as_secs_f32())]
    Timeout {
        /// What was being done: the name of a method, or "connecting to the gateway".
        what: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The peer violated the protocol.
    #[error(
        "{}; check that this is a gateway and that both sides are up to date",
        sanitize_text(what)
    )]
    Protocol {
        /// The violation.
        what: String,
    },
    /// The connection would not be encrypted.
    #[error(
        "refusing an unencrypted connection to `{host}`; use `wss://`, a tunnel on this machine, \
        or `--allow-plaintext` (`gateway.remote.allowPlaintext`)"
    )]
    Plaintext {
        /// Host of the gateway.
        host: String,
    },
    /// TLS failed, or the gateway's certificate is not accepted.
    #[error("cannot establish a secure connection: {}", sanitize_text(what))]
    Tls {
        /// Why, and what to do.
        what: String,
    },
    /// The message is longer than the gateway accepts.
    #[error(
        "the message has {bytes} bytes, but the gateway accepts at most {bytes_max}; send less \
        at once"
    )]
    TooLong {
        /// Length of the message.
        bytes: usize,
        /// The gateway's limit.
        bytes_max: usize,
    },
}

/// Whether to connect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Not before something changes: the next attempt would fail in the same way.
    Never,
    /// After the usual delay.
    Later,
    /// After the time that the gateway asked for.
    After(Duration),
}

impl GatewayClientError {
    /// Whether to connect again.
    pub fn retry_advice(&self) -> RetryAdvice {
        match self {
            Self::Refused { error } => match error.retry_after_ms {
                Some(wait) => RetryAdvice::After(Duration::from_millis(wait)),
                None if error.retryable == Some(true) || error.code == ErrorCode::Unavailable => {
                    RetryAdvice::Later
                }
                None => RetryAdvice::Never,
            },
            Self::Closed { code: close::PROTOCOL_ERROR, .. } => RetryAdvice::Never,
            Self::Closed { .. } | Self::Unreachable { .. } | Self::Timeout { .. } => {
                RetryAdvice::Later
            }
            Self::Protocol { .. } | Self::Plaintext { .. } => RetryAdvice::Never,
            Self::Tls { .. } | Self::TooLong { .. } => RetryAdvice::Never,
        }
    }
}

/// Makes a text of the peer short, and safe to print on a terminal.
fn sanitize_text(text: &str) -> String {
    escape_line(&shorten_end(text, 1000)).into_owned()
}

/// What to do next. Only the client knows how its user passes credentials. A gateway may give other
/// hints itself, after a semicolon as zero's gateway does; then none is added.
fn refusal_hint(error: &ErrorPayload) -> &'static str {
    let code =
        error.details.as_ref().and_then(|details| details.get("code")).and_then(Value::as_str);
    match code.unwrap_or_default() {
        "AUTH_TOKEN_MISMATCH" => "; pass it with `--token-file`, or set `gateway.remote.tokenFile`",
        "AUTH_TOKEN_MISSING" => {
            "; pass its token with `--token-file`, or set `gateway.remote.tokenFile`"
        }
        "AUTH_PASSWORD_MISMATCH" => {
            "; pass it with `--password-file`, or set `gateway.remote.passwordFile`"
        }
        "AUTH_PASSWORD_MISSING" => {
            "; pass its password with `--password-file`, or set `gateway.remote.passwordFile`"
        }
        _ if error.message.contains("; ") => "",
        "AUTH_RATE_LIMITED" => "; wait a few minutes, then try with the right credentials",
        "PROTOCOL_MISMATCH" => "; update the older of the two",
        "PAIRING_REQUIRED" => "; approve this device at the gateway, then try again",
        code if code.starts_with("DEVICE_") => {
            "; check the clock and the device key of this machine"
        }
        _ => match error.code {
            ErrorCode::Forbidden => "; use a token with that scope",
            ErrorCode::NotPaired => "; approve this device at the gateway, then try again",
            ErrorCode::Unavailable => "; try again in a moment",
            _ => "",
        },
    }
}

fn close_hint(code: u16) -> &'static str {
    match code {
        close::NORMAL | close::GOING_AWAY => "connect again if needed",
        close::PROTOCOL_ERROR | close::NOT_TEXT => "check that both sides are up to date",
        close::POLICY => "check the credentials, and that events are read as fast as they arrive",
        close::TOO_LONG => "send or request less at once",
        close::RESTART => "it is restarting, connect again in a moment",
        close::TRY_LATER => "it is not ready, connect again in a moment",
        close::SILENT => "it sent nothing for too long, connect again",
        _ => "check that it still runs, and connect again",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(error: GatewayClientError, retry: RetryAdvice, expected: &str) {
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.retry_advice(), retry, "{error}");
    }

    fn refusal(code: ErrorCode, details: &str) -> ErrorPayload {
        ErrorPayload::new(code, "unauthorized").with_details(json!({"code": details}))
    }

    #[test]
    fn every_error_says_what_to_do_next() {
        check(
            GatewayClientError::Refused {
                error: refusal(ErrorCode::InvalidRequest, "AUTH_TOKEN_MISMATCH"),
            },
            RetryAdvice::Never,
            "the gateway refused: unauthorized; pass it with `--token-file`, or set `gateway.remote.tokenFile`",
        );
        let mut starting = refusal(ErrorCode::Unavailable, "");
        starting.retry_after_ms = Some(500);
        check(
            GatewayClientError::Refused { error: starting },
            RetryAdvice::After(Duration::from_millis(500)),
            "the gateway refused: unauthorized; try again in a moment",
        );
        let mut hinted = refusal(ErrorCode::Unavailable, "");
        hinted.message = "it is full; come back later".to_owned();
        check(
            GatewayClientError::Refused { error: hinted },
            RetryAdvice::Later,
            "the gateway refused: it is full; come back later",
        );
        let mut hinted = refusal(ErrorCode::InvalidRequest, "AUTH_TOKEN_MISMATCH");
        hinted.message = "unauthorized: not a token; look it up".to_owned();
        check(
            GatewayClientError::Refused { error: hinted },
            RetryAdvice::Never,
            "the gateway refused: unauthorized: not a token; look it up; pass it with `--token-file`, or set `gateway.remote.tokenFile`",
        );
        check(
            GatewayClientError::Plaintext { host: "far".to_owned() },
            RetryAdvice::Never,
            "refusing an unencrypted connection to `far`; use `wss://`, a tunnel on this machine, \
             or `--allow-plaintext` (`gateway.remote.allowPlaintext`)",
        );
        check(
            GatewayClientError::Closed { code: 1012, reason: "service restart".to_owned() },
            RetryAdvice::Later,
            "the gateway closed the connection (1012 service restart); it is restarting, connect \
             again in a moment",
        );
        check(
            GatewayClientError::Closed { code: 1002, reason: String::new() },
            RetryAdvice::Never,
            "the gateway closed the connection (1002); check that both sides are up to date",
        );
        check(
            GatewayClientError::Protocol { what: "\u{1b}[31mred".to_owned() },
            RetryAdvice::Never,
            "\\u{1b}[31mred; check that this is a gateway and that both sides are up to date",
        );
        check(
            GatewayClientError::Timeout { what: "chat.send", after: Duration::from_millis(1500) },
            RetryAdvice::Later,
            "chat.send took longer than 1.5 s; check that the gateway works, or allow more time",
        );
    }
}
