//! Interprets provider errors: their kind, message and remedy.
//!
//! Providers use different codes and messages, and the same code has different meanings. All of
//! that knowledge is in this module.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use zero_core::text_shortening::one_line;
use zero_runtime::web::retry_after_header;

use crate::model::{ModelError, ModelErrorKind};

/// Why one attempt failed.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    /// The error for the user.
    pub(crate) error: ModelError,
    /// Whether the same request may succeed later.
    pub(crate) may_pass: bool,
}

impl From<ModelError> for AttemptFailure {
    fn from(error: ModelError) -> Self {
        Self { may_pass: error.kind.is_transient(), error }
    }
}

impl AttemptFailure {
    /// A failure that is not retried, whatever its kind.
    pub(crate) fn permanent(error: ModelError) -> Self {
        Self { error, may_pass: false }
    }
}

/// Details of the model for error messages.
#[derive(Clone, Debug)]
pub(crate) struct ModelDescriptor {
    /// Name that users select it by.
    pub(crate) name: String,
    /// The provider's name for it.
    pub(crate) id: String,
    /// Origin of its address, without path and query.
    pub(crate) origin: String,
    /// Where its key is set: `check the variable OPENAI_API_KEY`.
    pub(crate) key_hint: String,
    /// Where its name at the provider is set.
    pub(crate) model_hint: String,
    /// Where its address is set.
    pub(crate) address_hint: String,
}

/// Interprets a response with an error status.
pub(crate) fn failure_from_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &str,
    subject: &ModelDescriptor,
) -> AttemptFailure {
    let body_error = ProviderErrorBody::parse(body);
    let kind = body_error.classify(Some(status.as_u16()));
    let words = match body_error.display_message() {
        Some(words) => format!(" (HTTP {}): {words}", status.as_u16()),
        None => format!(" (HTTP {})", status.as_u16()),
    };
    let mut error = body_error.to_model_error(kind, &words, subject);
    error.retry_after = retry_after_header(headers).or_else(|| body_error.retry_after());
    let says_no = headers.get("x-should-retry").is_some_and(|value| value == "false");
    match says_no || body_error.is_without_credit(Some(status.as_u16())) {
        true => AttemptFailure::permanent(error),
        false => AttemptFailure::from(error),
    }
}

/// Interprets an error object in place of a reply, or in the middle of one.
pub(crate) fn failure_from_object(
    object: &Value,
    subject: Option<&ModelDescriptor>,
) -> AttemptFailure {
    let body_error = ProviderErrorBody::from_value(object);
    let kind = body_error.classify(None);
    let words = body_error.display_message().map_or(String::new(), |words| format!(": {words}"));
    let mut error = match subject {
        Some(subject) => body_error.to_model_error(kind, &words, subject),
        None => ModelError::new(kind, format!("the provider reported an error{words}")),
    };
    error.retry_after = body_error.retry_after();
    match body_error.is_without_credit(None) {
        true => AttemptFailure::permanent(error),
        false => AttemptFailure::from(error),
    }
}

/// Shortens untrusted text for an error message: one line, no invisible characters, bounded length.
pub(crate) fn provider_text(text: &str) -> Option<String> {
    let shown = one_line(text, 400);
    (!shown.is_empty()).then_some(shown)
}

/// Content of a provider's error.
#[derive(Default)]
struct ProviderErrorBody {
    message: String,
    /// Its `type`, `code`, `status` and `reason`, in lower case.
    codes: Vec<String>,
    /// A status code in the body instead of the response head.
    status: Option<u16>,
}

impl ProviderErrorBody {
    fn parse(body: &str) -> Self {
        match serde_json::from_str(body) {
            Ok(value) => Self::from_value(&value),
            // An HTML page contains nothing useful.
            Err(_) if body.trim_start().starts_with('<') => Self::default(),
            Err(_) => Self { message: body.to_owned(), ..Self::default() },
        }
    }

    fn from_value(value: &Value) -> Self {
        // Gemini wraps its errors in a list.
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = match value.get("error") {
            Some(error @ (Value::Object(_) | Value::String(_))) => error,
            _ => value,
        };
        let mut body_error = Self { message: extract_message(error), ..Self::default() };
        for key in ["type", "code", "status"] {
            match error.get(key) {
                Some(Value::String(code)) => body_error.codes.push(code.to_ascii_lowercase()),
                Some(Value::Number(code)) => {
                    let status = code.as_u64().and_then(|code| u16::try_from(code).ok());
                    body_error.status =
                        body_error.status.or(status.filter(|code| (400..600).contains(code)));
                }
                _ => {}
            }
        }
        let details = error.get("details").and_then(Value::as_array);
        let reasons =
            details.into_iter().flatten().filter_map(|detail| detail.get("reason")?.as_str());
        body_error.codes.extend(reasons.map(str::to_ascii_lowercase));
        body_error
    }

    fn display_message(&self) -> Option<String> {
        // It is followed by what to do.
        provider_text(&self.message)
            .map(|text| match text.strip_suffix('.') {
                Some(sentence) if !sentence.ends_with('.') => sentence.to_owned(),
                _ => text,
            })
            .or_else(|| self.codes.first().and_then(|code| provider_text(code)))
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
    }

    fn classify(&self, status: Option<u16>) -> ModelErrorKind {
        let status = status.or(self.status);
        let message = self.message.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
        let is_rate = self.has_code(&[
            "rate_limit_exceeded",
            "rate_limit_error",
            "resource_exhausted",
            "tokens",
            "requests",
            "too_many_requests",
        ]);
        if status != Some(429) && !is_rate && self.is_too_long(status, &message) {
            return ModelErrorKind::ContextLength;
        }
        let is_declined = self.has_code(&[
            "content_filter",
            "content_policy_violation",
            "responsibleaipolicyviolation",
            "moderation_blocked",
            "cyber_policy_violation",
        ]) || says(&[
            "content management policy",
            "usage policy",
            "usage policies",
            "content policy",
            "flagged by moderation",
            "was flagged",
            "content filter",
        ]);
        if is_declined && !matches!(status, Some(401 | 429 | 500..)) {
            return ModelErrorKind::Refusal;
        }
        if self.has_code(&[
            "invalid_api_key",
            "authentication_error",
            "permission_error",
            "api_key_invalid",
            "unauthenticated",
            "permission_denied",
        ]) || says(&["api key not valid"])
        {
            return ModelErrorKind::Auth;
        }
        if self.is_without_credit(status) {
            return ModelErrorKind::RateLimit;
        }
        match status {
            Some(401 | 403) => ModelErrorKind::Auth,
            Some(429) => ModelErrorKind::RateLimit,
            Some(408 | 500..) => ModelErrorKind::Server,
            _ if is_rate => ModelErrorKind::RateLimit,
            Some(_) => ModelErrorKind::InvalidRequest,
            None if self.has_code(&[
                "invalid_request_error",
                "invalid_argument",
                "model_not_found",
                "not_found_error",
                "invalid_prompt",
                "invalid_image",
            ]) =>
            {
                ModelErrorKind::InvalidRequest
            }
            None => ModelErrorKind::Server,
        }
    }

    fn is_too_long(&self, status: Option<u16>, message: &str) -> bool {
        const WORDS: &[&str] = &[
            "maximum context length",
            "prompt is too long",
            "context length",
            "context window",
            "context size",
            "input is too long",
            "too large for model with",
            "reduce the length of the messages",
        ];
        // Some servers report this with status 500.
        let can_be = matches!(status, None | Some(400 | 413 | 422 | 500));
        let counted = message.contains("input token count") && message.contains("exceeds");
        let is_said = counted || WORDS.iter().any(|words| message.contains(words));
        status == Some(413)
            || self.has_code(&[
                "context_length_exceeded",
                "exceed_context_size_error",
                "string_above_max_length",
                "request_too_large",
            ])
            || (can_be && is_said)
    }

    fn is_without_credit(&self, status: Option<u16>) -> bool {
        let message = self.message.to_ascii_lowercase();
        status.or(self.status) == Some(402)
            || self.has_code(&[
                "insufficient_quota",
                "billing_error",
                "billing_not_active",
                "billing_hard_limit_reached",
            ])
            || message.contains("credit balance is too low")
            || message.contains("insufficient balance")
    }

    fn to_model_error(
        &self,
        kind: ModelErrorKind,
        words: &str,
        subject: &ModelDescriptor,
    ) -> ModelError {
        let ModelDescriptor { name, id, origin, key_hint, model_hint, address_hint } = subject;
        let is_unknown_model = self.has_code(&["model_not_found"])
            || (self.message.to_ascii_lowercase().contains("model")
                && words.contains("(HTTP 404)"));
        let message = match kind {
            ModelErrorKind::Auth => {
                format!("`{name}`: {origin} does not accept the key{words}; {key_hint}")
            }
            ModelErrorKind::RateLimit
                if self.is_without_credit(None) || words.contains("(HTTP 402)") =>
            {
                format!(
                    "`{name}`: there is no credit left at {origin}{words}; look at your plan there, or \
                     choose another model"
                )
            }
            ModelErrorKind::RateLimit => {
                format!(
                    "`{name}`: {origin} has reached its rate limit{words}; wait, or choose another model"
                )
            }
            ModelErrorKind::ContextLength => {
                format!(
                    "the conversation is longer than `{name}` can take{words}; shorten it with /compact"
                )
            }
            ModelErrorKind::Refusal => {
                format!("{origin} declined the request{words}; rephrase it")
            }
            ModelErrorKind::Server => {
                format!(
                    "`{name}`: {origin} failed{words}; try again later, or choose another model"
                )
            }
            _ if is_unknown_model => {
                format!("{origin} knows no model `{id}`{words}; {model_hint}")
            }
            _ if words.starts_with(" (HTTP 404)") => {
                format!(
                    "`{name}`: nothing answers at that address of {origin}{words}; {address_hint}, \
                     which often ends in /v1"
                )
            }
            _ => format!("`{name}`: {origin} does not accept the request{words}"),
        };
        ModelError::new(kind, message)
    }

    /// `Please try again in 1.5s`, if no header has the delay.
    fn retry_after(&self) -> Option<Duration> {
        let (_, rest) = self.message.split_once("try again in ")?;
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let number: f64 = rest.get(..digits)?.trim_end_matches('.').parse().ok()?;
        let seconds = match rest.get(digits..)?.trim_start() {
            unit if unit.starts_with("ms") => number / 1000.0,
            unit if unit.starts_with('s') => number,
            _ => return None,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

fn extract_message(error: &Value) -> String {
    let text =
        |value: &Value| value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    if let Some(text) = text(error) {
        return text;
    }
    // OpenRouter forwards the message of the upstream provider.
    let behind = error.pointer("/metadata/raw").and_then(text);
    let message = ["message", "detail", "error_description", "error", "msg"]
        .iter()
        .find_map(|key| text(error.get(key)?));
    let listed =
        ["/detail/0/msg", "/errors/0/message"].iter().find_map(|at| text(error.pointer(at)?));
    match (message.or(listed), behind) {
        (Some(message), Some(behind)) => format!("{message}: {behind}"),
        (message, behind) => message.or(behind).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
