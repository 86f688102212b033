//! What can go wrong between a client and a gateway. Each message says what to do next.

use std::time::Duration;

use serde_json::Value;

use crate::close;
use crate::error::{ErrorCode, ErrorPayload};

/// Why a client got nothing. No message holds a token or a password.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GatewayClientError {
    /// The gateway said no.
    #[error("the gateway refused: {}{}", sanitize_text(&error.message), refusal_hint(error))]
    Refused {
        /// Why.
        error: ErrorPayload,
    },
    /// The connection ended.
    #[error("the gateway closed the connection ({code}{}{}); {}",
        if reason.is_empty() { "" } else { " " }, sanitize_text(reason), close_hint(*code))]
    Closed {
        /// The code, as WebSocket has them.
        code: u16,
        /// In words.
        reason: String,
    },
    /// There is no gateway to be found.
    #[error(
        "cannot reach a gateway at {at}: {what}; start it with `zero gateway`, or check the URL"
    )]
    Unreachable {
        /// Where.
        at: String,
        /// What happened.
        what: String,
    },
    /// It took too long.
    #[error("{what} took longer than {} s; see whether the gateway is well, or allow more time",
        after.as_secs_f32())]
    Timeout {
        /// What.
        what: &'static str,
        /// How long it could have taken.
        after: Duration,
    },
    /// The peer does not speak the protocol.
    #[error("{}; check that this is a gateway, and that both are up to date", sanitize_text(what))]
    Protocol {
        /// What it did.
        what: String,
    },
    /// Everything would be sent in the clear.
    #[error(
        "will not send anything in the clear to `{host}`; use `wss://`, reach it through a \
        tunnel on this machine, or say `--allow-plaintext` (`gateway.remote.allowPlaintext`)"
    )]
    Plaintext {
        /// To whom.
        host: String,
    },
    /// The gateway's certificate is not accepted.
    #[error("no safe connection: {}", sanitize_text(what))]
    Tls {
        /// Why, and what to do.
        what: String,
    },
    /// The gateway would not take a message this long.
    #[error("the message has {bytes} bytes and the gateway takes {bytes_max}; send less at once")]
    TooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
}

/// Whether to connect again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// It would end the same way: somebody has to change something first.
    Never,
    /// After the usual wait.
    Later,
    /// The gateway said when.
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

/// What the peer wrote, fit for a terminal.
fn sanitize_text(text: &str) -> String {
    const LEN_MAX: usize = 1000;
    let safe = |c: char| if c.is_control() { c.escape_debug().collect() } else { String::from(c) };
    text.chars().take(LEN_MAX).map(safe).collect()
}

/// What to do next: how credentials are given only we know; the rest a gateway may say itself, after a
/// semicolon as zero's does.
fn refusal_hint(error: &ErrorPayload) -> &'static str {
    let code =
        error.details.as_ref().and_then(|details| details.get("code")).and_then(Value::as_str);
    match code.unwrap_or_default() {
        "AUTH_TOKEN_MISMATCH" => {
            "; give it with `--token-file`, or as `gateway.remote.tokenFile` in settings"
        }
        "AUTH_TOKEN_MISSING" => {
            "; give its token with `--token-file`, or as `gateway.remote.tokenFile` in settings"
        }
        "AUTH_PASSWORD_MISMATCH" => {
            "; give it with `--password-file`, or as `gateway.remote.passwordFile` in settings"
        }
        "AUTH_PASSWORD_MISSING" => {
            "; give its password with `--password-file`, or as `gateway.remote.passwordFile` in settings"
        }
        _ if error.message.contains("; ") => "",
        "AUTH_RATE_LIMITED" => "; wait some minutes, then try with the right credentials",
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
        close::NORMAL | close::GOING_AWAY => "connect again when it is needed",
        close::PROTOCOL_ERROR | close::NOT_TEXT => "check that both are up to date",
        close::POLICY => "check the credentials, and that events are read as fast as they come",
        close::TOO_LONG => "send or ask for less at once",
        close::RESTART => "it restarts: connect again in a moment",
        close::TRY_LATER => "it is not ready: connect again in a moment",
        close::SILENT => "it said nothing for too long: connect again",
        _ => "see whether it still runs, and connect again",
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
            "the gateway refused: unauthorized; give it with `--token-file`, or as `gateway.remote.tokenFile` in settings",
        );
        let mut starting = refusal(ErrorCode::Unavailable, "");
        starting.retry_after_ms = Some(500);
        check(
            GatewayClientError::Refused { error: starting },
            RetryAdvice::After(Duration::from_millis(500)),
            "the gateway refused: unauthorized; try again in a moment",
        );
        let mut told = refusal(ErrorCode::Unavailable, "");
        told.message = "it is full; come back later".to_owned();
        check(
            GatewayClientError::Refused { error: told },
            RetryAdvice::Later,
            "the gateway refused: it is full; come back later",
        );
        let mut told = refusal(ErrorCode::InvalidRequest, "AUTH_TOKEN_MISMATCH");
        told.message = "unauthorized: not a token; look it up".to_owned();
        check(
            GatewayClientError::Refused { error: told },
            RetryAdvice::Never,
            "the gateway refused: unauthorized: not a token; look it up; give it with `--token-file`, or as `gateway.remote.tokenFile` in settings",
        );
        check(
            GatewayClientError::Plaintext { host: "far".to_owned() },
            RetryAdvice::Never,
            "will not send anything in the clear to `far`; use `wss://`, reach it through a tunnel \
             on this machine, or say `--allow-plaintext` (`gateway.remote.allowPlaintext`)",
        );
        check(
            GatewayClientError::Closed { code: 1012, reason: "service restart".to_owned() },
            RetryAdvice::Later,
            "the gateway closed the connection (1012 service restart); it restarts: connect again \
             in a moment",
        );
        check(
            GatewayClientError::Closed { code: 1002, reason: String::new() },
            RetryAdvice::Never,
            "the gateway closed the connection (1002); check that both are up to date",
        );
        check(
            GatewayClientError::Protocol { what: "\u{1b}[31mred".to_owned() },
            RetryAdvice::Never,
            "\\u{1b}[31mred; check that this is a gateway, and that both are up to date",
        );
        check(
            GatewayClientError::Timeout { what: "chat.send", after: Duration::from_millis(1500) },
            RetryAdvice::Later,
            "chat.send took longer than 1.5 s; see whether the gateway is well, or allow more time",
        );
    }
}
