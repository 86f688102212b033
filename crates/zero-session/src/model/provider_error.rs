//! Errors with the provider's message and what to do next.

use zero_core::text_shortening::one_line;

use crate::model::{ModelError, ModelErrorKind};

/// Maximum number of characters of the provider's message that are repeated.
const MESSAGE_CHARS_MAX: usize = 600;

/// The error for a message of the provider.
pub(crate) fn provider_error(kind: ModelErrorKind, message: &str) -> ModelError {
    let (what, next) = match kind {
        ModelErrorKind::Auth => {
            ("the provider does not accept the key", "check the key, and what it may be used for")
        }
        ModelErrorKind::RateLimit => (
            "the provider allows no more for now",
            "wait, or look at the limits and the credit of the account",
        ),
        ModelErrorKind::ContextLength => (
            "the conversation is longer than the model can take",
            "use `/compact`, or a model with a larger window",
        ),
        ModelErrorKind::Refusal => ("the provider declined", "rephrase the request"),
        ModelErrorKind::Network => ("the connection failed", "check the network and try again"),
        ModelErrorKind::Timeout => ("the provider took too long", "try again"),
        ModelErrorKind::Server => ("the provider failed", "try again in a while"),
        ModelErrorKind::InvalidRequest => (
            "the provider does not accept the request",
            "check the name of the model and its settings",
        ),
        ModelErrorKind::Cancelled => ("the request was stopped", "ask again"),
    };
    let message = to_printable(message);
    let message = if message.is_empty() { String::new() } else { format!(": {message}") };
    ModelError::new(kind, format!("{what}{message}; {next}"))
}

/// The stream ended before the reply was complete.
pub(crate) fn truncated_stream_error() -> ModelError {
    ModelError::new(
        ModelErrorKind::Network,
        "the connection broke in mid-answer; check the network and try again",
    )
}

/// The provider sent an invalid response.
pub(crate) fn invalid_response_error(what: &str) -> ModelError {
    provider_error(ModelErrorKind::Server, what)
}

/// A message as one line of bounded length, without a trailing full stop.
pub(crate) fn to_printable(message: &str) -> String {
    one_line(message, MESSAGE_CHARS_MAX).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_error_says_cause_and_next_step() {
        let error = provider_error(ModelErrorKind::Auth, "invalid x-api-key.\n");
        assert_eq!(
            error.message,
            "the provider does not accept the key: invalid x-api-key; \
             check the key, and what it may be used for"
        );
        let error = provider_error(ModelErrorKind::Server, "");
        assert_eq!(error.message, "the provider failed; try again in a while");
    }

    #[test]
    fn long_provider_text_is_cut_to_one_line() {
        let message = format!("\u{1b}[31mé{}", "x".repeat(5_000));
        let line = to_printable(&message);
        assert_eq!(line.chars().count(), MESSAGE_CHARS_MAX + 1, "and a mark");
        assert!(!line.contains('\u{1b}'));
    }
}
