//! Why a gateway gave nothing. Each says what to do next.

use zero_wire::ErrorCode;
use zero_wire::client::{GatewayClientError, RetryAdvice};

/// Why a gateway gave nothing. No message holds a token or a password.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GatewayLinkError {
    /// It cannot be reached, or does not let us in.
    #[error("{message}")]
    Unreachable {
        /// What happened and what to do next.
        message: String,
        /// Whether the same may work later.
        is_passing: bool,
    },
    /// What is written here about it cannot be used: a settings file or the command line.
    #[error("{message}")]
    Settings {
        /// What is wrong, where it stands and what to do next.
        message: String,
    },
    /// It said no.
    #[error("{message}")]
    Refused {
        /// What kind of no.
        code: ErrorCode,
        /// What it says.
        message: String,
    },
    /// There is no such session.
    #[error("there is no session `{key}`; `zero sessions list` shows those there are")]
    NoSession {
        /// What was asked for.
        key: String,
    },
    /// The connection was lost in the middle of it and did not come back in time.
    #[error(
        "the connection to the gateway was lost and did not come back; whether `{what}` was done is not known"
    )]
    Lost {
        /// What was asked for.
        what: String,
    },
    /// This gateway has no way to do it.
    #[error("this gateway cannot {what}; one of zero's own can (`zero gateway`)")]
    Unsupported {
        /// The unsupported operation, as a verb phrase for the message.
        what: &'static str,
    },
}

impl GatewayLinkError {
    /// Whether the same may work later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { is_passing, .. } => *is_passing,
            Self::Refused { code, .. } => *code == ErrorCode::Unavailable,
            Self::Lost { .. } => true,
            Self::Settings { .. } | Self::NoSession { .. } | Self::Unsupported { .. } => false,
        }
    }

    /// The same, of a session: that it is not there is known by the gateway's words.
    pub(crate) fn for_session(self, key: &str) -> Self {
        match &self {
            Self::Refused { message, .. } if message.starts_with("No session found") => {
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
                Self::Refused { code: error.code, message: error.message }
            }
            error => Self::Unreachable {
                is_passing: error.retry_advice() != RetryAdvice::Never,
                message: error.to_string(),
            },
        }
    }
}
