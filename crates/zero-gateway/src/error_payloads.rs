//! Error payloads for failed requests.

use zero_core::text_shortening::excerpt;
use zero_runtime::tool_backend::ToolBackendError;
use zero_session::sessions::SessionError;
use zero_session::store::StoreError;
use zero_wire::method::TokenScope;
use zero_wire::{ErrorCode, ErrorPayload, SESSION_NOT_FOUND};

/// `details.code` of the error for a session of another gateway; `details.gateway` names its process.
pub(crate) const SESSION_ELSEWHERE: &str = "SESSION_ELSEWHERE";

/// The error for a client without the required scope.
pub(crate) fn forbidden_error(method: &str, scope: TokenScope) -> ErrorPayload {
    let scope = scope.as_str();
    let message = format!(
        "{method} needs the scope {scope}, which this connection was not granted; connect with a \
         token that has it, and ask for it in `scopes`"
    );
    let details = serde_json::json!({"code": "MISSING_SCOPE", "missingScope": scope});
    ErrorPayload::new(ErrorCode::Forbidden, message).with_details(details)
}

/// Quotes text of a client in an error message.
pub(crate) fn quote_input(text: &str) -> String {
    excerpt(text, 100)
}

/// Converts a session error for the client. Details that only the operator needs are logged.
pub(crate) fn to_error_shape(error: SessionError) -> ErrorPayload {
    match &error {
        SessionError::NotFound(_) | SessionError::NoLabel(_) => {
            session_not_found_error(error.to_string())
        }
        SessionError::Key(_)
        | SessionError::NoAgent { .. }
        | SessionError::Invalid(_)
        | SessionError::Full(_)
        | SessionError::Store(StoreError::NoTranscript { .. } | StoreError::TooMany(_))
        | SessionError::ToolBackend(ToolBackendError::Workspace(_)) => {
            ErrorPayload::invalid(error.to_string())
        }
        SessionError::ToolBackend(ToolBackendError::FolderNotAllowed(out)) => {
            let details = serde_json::json!({"code": "OUT_OF_REACH", "folder": out.folder});
            ErrorPayload::new(ErrorCode::Forbidden, error.to_string()).with_details(details)
        }
        SessionError::Elsewhere { node } => {
            let details = serde_json::json!({"code": SESSION_ELSEWHERE, "gateway": node});
            unavailable_error(error.to_string()).with_details(details)
        }
        SessionError::RunIdTaken(_) => {
            let details = serde_json::json!({"code": "IDEMPOTENCY_CONFLICT"});
            ErrorPayload::invalid(error.to_string()).with_details(details)
        }
        SessionError::Model(model) if !model.kind.is_transient() => {
            ErrorPayload::invalid(error.to_string())
        }
        SessionError::Model(_)
        | SessionError::Busy(_)
        | SessionError::ShuttingDown
        | SessionError::ToolBackend(ToolBackendError::ClientDisconnected { .. }) => {
            unavailable_error(error.to_string())
        }
        SessionError::Store(StoreError::NoSession(session)) => {
            session_not_found_error(format!("No session found: {session}"))
        }
        SessionError::Store(error @ (StoreError::KeyTaken(_) | StoreError::RunNotOpen(_))) => {
            ErrorPayload::invalid(error.to_string())
        }
        // The owner of the label is not disclosed.
        SessionError::Store(StoreError::LabelTaken { label, .. }) => ErrorPayload::invalid(
            format!("the label `{}` is taken; choose another", quote_input(label)),
        ),
        SessionError::Store(StoreError::Broken { verb, .. }) => {
            tracing::error!(%error, "the session store failed");
            unavailable_error(format!("the session store cannot {verb} now; try again in a moment"))
        }
        SessionError::ToolBackend(ToolBackendError::StoreUnavailable(_)) => {
            tracing::error!(%error, "the session store failed");
            unavailable_error("the session store does not answer; try again in a moment".to_owned())
        }
        SessionError::Store(StoreError::NoSpace { verb, .. }) => {
            tracing::error!(%error, "the disk of the session store is full");
            unavailable_error(format!(
                "the session store cannot {verb}: its disk is full; make room on the gateway's machine, then try again"
            ))
        }
        // Trying again does not help, and the path of the file is only for the operator.
        SessionError::Store(StoreError::Damaged { verb, .. }) => {
            tracing::error!(%error, "the session store is damaged");
            let message = format!(
                "the session store cannot {verb}: part of it is damaged; other sessions can be \
                 used; `zero doctor` on the gateway's machine says what to do"
            );
            let details = serde_json::json!({"code": "STORE_DAMAGED"});
            ErrorPayload::new(ErrorCode::Unavailable, message).with_details(details)
        }
        SessionError::Store(StoreError::Busy | StoreError::ClaimLost(_)) => {
            unavailable_error(error.to_string())
        }
        SessionError::Internal => ErrorPayload::new(ErrorCode::Unavailable, error.to_string()),
    }
}

fn session_not_found_error(message: String) -> ErrorPayload {
    ErrorPayload::invalid(message).with_details(serde_json::json!({"code": SESSION_NOT_FOUND}))
}

/// Error for a request that may succeed if retried.
pub(crate) fn unavailable_error(message: String) -> ErrorPayload {
    let mut shape = ErrorPayload::new(ErrorCode::Unavailable, message);
    shape.retryable = Some(true);
    shape.retry_after_ms = Some(1_000);
    shape
}

#[cfg(test)]
mod tests {
    use super::*;
    use zero_session::model::{ModelError, ModelErrorKind};

    #[track_caller]
    fn check(error: SessionError, code: ErrorCode, message: &str) {
        let shape = to_error_shape(error);
        let retryable = code == ErrorCode::Unavailable;
        assert_eq!((&shape.code, shape.message.as_str()), (&code, message));
        assert_eq!(shape.retryable.unwrap_or(false), retryable);
    }

    #[test]
    fn errors_tell_if_retry_can_help() {
        use ErrorCode::{InvalidRequest, Unavailable};
        check(SessionError::NotFound("x".into()), InvalidRequest, "No session found: x");
        check(SessionError::NoLabel("x".into()), InvalidRequest, "No session found with label: x");
        check(SessionError::Busy("full".into()), Unavailable, "full");
        let down = "zero is shutting down; send it again in a moment";
        check(SessionError::ShuttingDown, Unavailable, down);
        let model = |kind| SessionError::Model(ModelError::new(kind, "why"));
        check(model(ModelErrorKind::Auth), InvalidRequest, "why");
        check(model(ModelErrorKind::Network), Unavailable, "why");
    }

    #[test]
    fn missing_session_has_code() {
        for error in [
            SessionError::NotFound("x".into()),
            SessionError::NoLabel("x".into()),
            StoreError::NoSession("x".into()).into(),
        ] {
            let details = to_error_shape(error).details.unwrap();
            assert_eq!(details["code"], SESSION_NOT_FOUND);
        }
    }

    #[test]
    fn internal_details_are_not_sent() {
        let broken = StoreError::Broken { verb: "write", why: "/var/lib/x: disk full".into() };
        let message = "the session store cannot write now; try again in a moment";
        check(broken.into(), ErrorCode::Unavailable, message);
        let full = StoreError::NoSpace { verb: "write", why: "/var/lib/x: disk full".into() };
        let message = "the session store cannot write: its disk is full; make room on the gateway's machine, then try again";
        check(full.into(), ErrorCode::Unavailable, message);
        let key = zero_session::key::SessionKey::resolve("agent:main:secret", "main").unwrap();
        let taken = StoreError::LabelTaken { label: "x".into(), key };
        check(taken.into(), ErrorCode::InvalidRequest, "the label `x` is taken; choose another");
    }

    #[test]
    fn damaged_store_is_not_retried() {
        let why = "/var/lib/x: malformed".to_owned();
        let shape = to_error_shape(StoreError::Damaged { verb: "read the ledger", why }.into());
        assert_eq!((shape.code, shape.retryable), (ErrorCode::Unavailable, None));
        assert!(shape.message.contains("`zero doctor`"), "{}", shape.message);
        assert!(!shape.message.contains("/var/lib"), "{}", shape.message);
    }

    #[test]
    fn missing_scope_is_named_in_error() {
        let shape = forbidden_error("chat.send", TokenScope::Write);
        assert_eq!(shape.code, ErrorCode::Forbidden);
        assert!(shape.message.contains("operator.write"), "{}", shape.message);
        assert_eq!(shape.details.unwrap()["missingScope"], "operator.write");
    }
}
