//! Errors of a gateway link. Each says what to do next.

use zero_wire::client::{GatewayClientError, RetryAdvice};
use zero_wire::{ErrorCode, SESSION_NOT_FOUND};

/// Why a gateway request failed. No message contains a token or a password.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GatewayLinkError {
    /// The gateway cannot be reached or rejects the connection.
    #[error("{message}")]
    Unreachable {
        /// What happened and what to do next.
        message: String,
        /// Whether a retry may succeed.
        is_passing: bool,
    },
    /// The configuration of the gateway is invalid: a settings file or the command line.
    #[error("{message}")]
    Settings {
        /// What is wrong, where, and what to do next.
        message: String,
    },
    /// The gateway refused the request.
    #[error("{message}")]
    Refused {
        /// Its error code.
        code: ErrorCode,
        /// Its message.
        message: String,
        /// Its `details.code`, which refines the code.
        detail: Option<String>,
    },
    /// There is no such session.
    #[error("there is no session `{key}`; `zero sessions list` shows the existing ones")]
    NoSession {
        /// The requested key.
        key: String,
    },
    /// The connection was lost during the request and was not restored in time.
    #[error(
        "the connection to the gateway was lost and did not come back; whether `{what}` was done is not known"
    )]
    Lost {
        /// The request.
        what: String,
    },
    /// This gateway does not support the operation.
    #[error("this gateway cannot {what}; one of zero's own can (`zero gateway`)")]
    Unsupported {
        /// The unsupported operation, as a verb phrase for the message.
        what: &'static str,
    },
}

impl GatewayLinkError {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { is_passing, .. } => *is_passing,
            Self::Refused { code, .. } => *code == ErrorCode::Unavailable,
            Self::Lost { .. } => true,
            Self::Settings { .. } | Self::NoSession { .. } | Self::Unsupported { .. } => false,
        }
    }

    /// Converts a refusal that says that the session does not exist into `NoSession`.
    pub(crate) fn for_session(self, key: &str) -> Self {
        match &self {
            // Other gateways of the OpenClaw protocol have only the text.
            Self::Refused { message, detail, .. }
                if detail.as_deref() == Some(SESSION_NOT_FOUND)
                    || message.starts_with("No session found") =>
            {
                Self::NoSession { key: key.to_owned() }
            }
            _ => self,
        }
    }
}

impl From<GatewayClientError> for GatewayLinkError {
    fn from(error: GatewayClientError) -> Self {
        match error {
            GatewayClientError::Refused { error } => {
                let detail = error.details.as_ref().and_then(|it| it.get("code")?.as_str());
                let detail = detail.map(str::to_owned);
                Self::Refused { code: error.code, message: error.message, detail }
            }
            error => Self::Unreachable {
                is_passing: error.retry_advice() != RetryAdvice::Never,
                message: error.to_string(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zero_wire::ErrorPayload;

    use super::*;

    #[track_caller]
    fn check(error: ErrorPayload, is_missing_session: bool) {
        let error = GatewayLinkError::from(GatewayClientError::Refused { error });
        let is_missing = matches!(error.for_session("x"), GatewayLinkError::NoSession { .. });
        assert_eq!(is_missing, is_missing_session);
    }

    #[test]
    fn missing_session_is_known_by_code_or_text() {
        let refused = |text: &str| ErrorPayload::invalid(text.to_owned());
        check(refused("gone").with_details(json!({"code": SESSION_NOT_FOUND})), true);
        check(refused("No session found: x"), true);
        check(refused("gone").with_details(json!({"code": "MISSING_SCOPE"})), false);
        check(refused("gone"), false);
    }
}
