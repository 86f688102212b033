//! The request methods: their names, required scopes, parameters and handlers.

mod approvals;
mod chat;
mod sessions;
mod tools;
mod zero_sessions;

use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use zero_core::text_shortening::excerpt;
use zero_runtime::tool_backend::ToolBackendError;
use zero_session::model::ThinkingEffort;
use zero_session::sessions::SessionError;
use zero_session::store::StoreError;
use zero_wire::{ErrorCode, ErrorPayload, GatewayMethod, parse_params};

use crate::authenticated_connection::AuthenticatedConnection;
use crate::read_limiter::{ReadPermit, run_blocking};

/// A validated request that has not started. Resolves to the response as JSON.
pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Result<String, ErrorPayload>> + Send>>;

/// When a request runs.
#[derive(Clone, Copy)]
enum MethodSchedule {
    /// Immediately.
    Now,
    /// In the read queue, because it reads much and its response may be large.
    InTurn,
}

impl MethodSchedule {
    async fn acquire_permit(
        self,
        peer: &AuthenticatedConnection,
    ) -> Result<Option<ReadPermit>, ErrorPayload> {
        match self {
            Self::Now => Ok(None),
            Self::InTurn => peer.acquire_read_permit().await.map(Some),
        }
    }
}

/// Declares the handler and schedule of each method.
macro_rules! declare_methods {
    ($($method:ty => $when:ident $function:path,)*) => {
        /// Names of all methods except `connect`.
        pub(crate) const NAMES: &[&str] = &[$(<$method as GatewayMethod>::NAME,)*];

        /// Validates a request. The work starts when the returned future is polled.
        pub(crate) fn prepare(
            peer: &Arc<AuthenticatedConnection>,
            method: &str,
            given: Option<Value>,
        ) -> Result<AnswerFuture, ErrorPayload> {
            match method {
                $(<$method as GatewayMethod>::NAME => {
                    admit::<$method>(peer)?;
                    let given = parse_params::<$method>(given)?;
                    let peer = Arc::clone(peer);
                    Ok(Box::pin(async move {
                        let turn = MethodSchedule::$when.acquire_permit(&peer).await?;
                        let result: <$method as GatewayMethod>::Result = $function(&peer, given).await?;
                        let Some(turn) = turn else { return encode_result(&result) };
                        let write = move || {
                            let _turn = turn;
                            encode_result(&result)
                        };
                        run_blocking(write).await.map_err(|error| to_error_shape(error.into()))?
                    }))
                })*
                "connect" => Err(ErrorPayload::invalid("connect is only valid as the first request")),
                _ => Err(ErrorPayload::invalid(format!("unknown method: {}", shorten(method)))),
            }
        }
    };
}

declare_methods! {
    zero_wire::chat::ChatSend => Now chat::send,
    zero_wire::chat::ChatAbort => Now chat::abort,
    zero_wire::chat::ChatHistory => InTurn chat::history,
    zero_wire::chat::AgentWait => Now chat::wait,
    zero_wire::chat::Health => Now chat::health,
    zero_wire::sessions::SessionsList => Now sessions::list,
    zero_wire::sessions::SessionsResolve => Now sessions::resolve,
    zero_wire::sessions::SessionsGet => InTurn sessions::get,
    zero_wire::sessions::SessionsReset => Now sessions::reset,
    zero_wire::sessions::SessionsPatch => Now sessions::patch,
    zero_wire::sessions::SessionsDelete => Now sessions::delete,
    zero_wire::sessions::SessionsPreview => InTurn sessions::preview,
    zero_wire::approvals::ExecApprovalGet => Now approvals::get,
    zero_wire::approvals::ExecApprovalResolve => Now approvals::resolve,
    zero_wire::zero_sessions::ZeroSessionsOpen => Now zero_sessions::open,
    zero_wire::zero_sessions::ZeroSessionsShow => Now zero_sessions::show,
    zero_wire::zero_sessions::ZeroSessionsList => Now zero_sessions::list,
    zero_wire::zero_sessions::ZeroSessionsSubscribe => Now zero_sessions::subscribe,
    zero_wire::zero_sessions::ZeroSessionsUnsubscribe => Now zero_sessions::unsubscribe,
    zero_wire::zero_sessions::ZeroSessionsEvents => InTurn zero_sessions::events,
    zero_wire::zero_sessions::ZeroSessionsSet => Now zero_sessions::set,
    zero_wire::zero_sessions::ZeroSessionsChoices => Now zero_sessions::choices,
    zero_wire::zero_sessions::ZeroApprovalsList => Now approvals::list,
    zero_wire::zero_sessions::ZeroApprovalsResolve => Now approvals::resolve_exactly,
    zero_wire::zero_sessions::ZeroQuestionsResolve => Now approvals::answer_question,
    zero_wire::zero_sessions::ZeroGrantsList => Now approvals::list_grants,
    zero_wire::tools::ToolsAttach => Now tools::attach,
    zero_wire::tools::ToolsOffer => Now tools::offer,
    zero_wire::tools::ToolsProgress => Now tools::progress,
    zero_wire::tools::ToolsResult => Now tools::result,
}

/// Checks that the connection has the scope of a method.
fn admit<M: GatewayMethod>(peer: &AuthenticatedConnection) -> Result<(), ErrorPayload> {
    if peer.has_scope(M::SCOPE) { Ok(()) } else { Err(forbidden_error(M::NAME, M::SCOPE)) }
}

fn forbidden_error(method: &str, scope: zero_wire::method::TokenScope) -> ErrorPayload {
    let scope = scope.as_str();
    let message = format!(
        "{method} needs the scope {scope}, which this connection was not granted; connect with a \
         token that has it, and ask for it in `scopes`"
    );
    let details = serde_json::json!({"code": "MISSING_SCOPE", "missingScope": scope});
    ErrorPayload::new(ErrorCode::Forbidden, message).with_details(details)
}

fn encode_result(result: &impl serde::Serialize) -> Result<String, ErrorPayload> {
    serde_json::to_string(result).map_err(|error| {
        tracing::error!(%error, "a result cannot be written as JSON");
        ErrorPayload::new(ErrorCode::Unavailable, "the result cannot be written as JSON")
    })
}

/// Truncates and cleans client input for an error message.
fn shorten(text: &str) -> String {
    excerpt(text, 100)
}

/// Converts a session error for the client. Details that only the operator needs are logged.
pub(crate) fn to_error_shape(error: SessionError) -> ErrorPayload {
    match &error {
        SessionError::Key(_)
        | SessionError::NotFound(_)
        | SessionError::NoLabel(_)
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
            ErrorPayload::invalid(format!("No session found: {session}"))
        }
        // The owner of the label is not disclosed.
        SessionError::Store(StoreError::LabelTaken { label, .. }) => ErrorPayload::invalid(
            format!("the label `{}` is taken; choose another", shorten(label)),
        ),
        SessionError::Store(StoreError::Broken { verb, .. }) => {
            tracing::error!(%error, "the session store failed");
            unavailable_error(format!("the session store cannot {verb} now; try again in a moment"))
        }
        SessionError::Store(StoreError::Busy) => unavailable_error(error.to_string()),
        SessionError::Internal => ErrorPayload::new(ErrorCode::Unavailable, error.to_string()),
    }
}

/// Error for a request that may succeed if retried.
pub(crate) fn unavailable_error(message: String) -> ErrorPayload {
    let mut shape = ErrorPayload::new(ErrorCode::Unavailable, message);
    shape.retryable = Some(true);
    shape.retry_after_ms = Some(1_000);
    shape
}

/// Parses a thinking level, in zero's terms or in those of OpenClaw.
fn parse_thinking(word: &str) -> Result<ThinkingEffort, ErrorPayload> {
    let folded = word.trim().to_lowercase();
    let ours = ThinkingEffort::ALL.into_iter().find(|thinking| thinking.as_str() == folded);
    let theirs = match folded.as_str() {
        "none" => Some(ThinkingEffort::Off),
        "minimal" => Some(ThinkingEffort::Low),
        "xhigh" | "max" => Some(ThinkingEffort::High),
        "auto" | "adaptive" => Some(ThinkingEffort::Default),
        _ => None,
    };
    ours.or(theirs).ok_or_else(|| {
        let known = ThinkingEffort::ALL.map(ThinkingEffort::as_str).join(", ");
        ErrorPayload::invalid(format!(
            "there is no thinking level `{}`; the levels are {known}",
            shorten(word)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zero_session::model::{ModelError, ModelErrorKind};
    use zero_wire::method::TokenScope;

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
    fn internal_details_are_not_sent() {
        let broken = StoreError::Broken { verb: "write", why: "/var/lib/x: disk full".into() };
        let message = "the session store cannot write now; try again in a moment";
        check(broken.into(), ErrorCode::Unavailable, message);
        let key = zero_session::key::SessionKey::resolve("agent:main:secret", "main").unwrap();
        let taken = StoreError::LabelTaken { label: "x".into(), key };
        check(taken.into(), ErrorCode::InvalidRequest, "the label `x` is taken; choose another");
    }

    #[test]
    fn missing_scope_is_named_in_error() {
        let shape = forbidden_error("chat.send", TokenScope::Write);
        assert_eq!(shape.code, ErrorCode::Forbidden);
        assert!(shape.message.contains("operator.write"), "{}", shape.message);
        assert_eq!(shape.details.unwrap()["missingScope"], "operator.write");
    }

    #[test]
    fn thinking_accepts_zero_and_openclaw_names() {
        for (word, expected) in [
            ("off", ThinkingEffort::Off),
            ("High", ThinkingEffort::High),
            ("minimal", ThinkingEffort::Low),
            ("adaptive", ThinkingEffort::Default),
        ] {
            assert_eq!(parse_thinking(word).unwrap(), expected, "{word}");
        }
        let error = parse_thinking("loud\n").unwrap_err();
        let message =
            "there is no thinking level `loud\\n`; the levels are default, off, low, medium, high";
        assert_eq!(error.message, message);
    }

    #[test]
    fn method_names_are_unique() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
    }
}
