//! The request methods: their names, required scopes, parameters and handlers.

mod approvals;
mod chat;
mod devices;
mod machine;
mod nodes;
mod sessions;
mod tools;
mod usage;
mod zero_sessions;

use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use zero_session::model::ThinkingEffort;
use zero_wire::zero_sessions::SessionInfo;
use zero_wire::{ErrorCode, ErrorPayload, GatewayMethod, parse_params};

use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::{forbidden_error, quote_input, to_error_shape, unavailable_error};
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

        /// Validates a request that this gateway executes. The work starts when the returned future is polled.
        pub(crate) fn prepare_here(
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
                _ => Err(ErrorPayload::invalid(format!("unknown method: {}", quote_input(method)))),
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
    zero_wire::zero_sessions::ZeroSessionsFork => Now zero_sessions::fork,
    zero_wire::zero_sessions::ZeroSessionsPrompts => InTurn zero_sessions::prompts,
    zero_wire::zero_sessions::ZeroSessionsContext => InTurn zero_sessions::context,
    zero_wire::zero_sessions::ZeroSessionsRewind => Now zero_sessions::rewind,
    zero_wire::zero_sessions::ZeroSessionsChoices => Now zero_sessions::choices,
    zero_wire::zero_sessions::ZeroApprovalsList => Now approvals::list,
    zero_wire::zero_sessions::ZeroApprovalsResolve => Now approvals::resolve_exactly,
    zero_wire::zero_sessions::ZeroQuestionsResolve => Now approvals::answer_question,
    zero_wire::zero_sessions::ZeroGrantsList => Now approvals::list_grants,
    zero_wire::zero_sessions::ZeroGrantsRevoke => Now approvals::revoke_grants,
    zero_wire::usage::ZeroUsage => InTurn usage::report,
    zero_wire::usage::ZeroBudgets => InTurn usage::list_budgets,
    zero_wire::devices::ZeroDevicesList => Now devices::list,
    zero_wire::devices::ZeroDevicesInvite => Now devices::invite,
    zero_wire::devices::ZeroDevicesApprove => Now devices::approve,
    zero_wire::devices::ZeroDevicesReject => Now devices::reject,
    zero_wire::devices::ZeroDevicesScope => Now devices::scope,
    zero_wire::devices::ZeroDevicesRevoke => Now devices::revoke,
    zero_wire::machine::ZeroAuditList => InTurn machine::list_audit,
    zero_wire::machine::ZeroAuditShow => InTurn machine::show_audit,
    zero_wire::machine::ZeroAuditVerify => InTurn machine::verify_audit,
    zero_wire::machine::ZeroPolicyExplain => InTurn machine::explain_policy,
    zero_wire::machine::ZeroPolicyRules => InTurn machine::read_rules,
    zero_wire::machine::ZeroPolicySimulate => InTurn machine::simulate_policy,
    zero_wire::machine::ZeroPolicySave => InTurn machine::save_rules,
    zero_wire::machine::ZeroMachineDoctor => InTurn machine::run_doctor,
    zero_wire::nodes::ZeroNodesList => Now nodes::list,
    zero_wire::nodes::ZeroNodesDrain => Now nodes::drain,
    zero_wire::tools::ToolsAttach => Now tools::attach,
    zero_wire::tools::ToolsOffer => Now tools::offer,
    zero_wire::tools::ToolsProgress => Now tools::progress,
    zero_wire::tools::ToolsResult => Now tools::result,
}

/// Whether another gateway can execute a method. Tools are hosted where their client is connected.
pub(crate) fn can_be_forwarded(method: &str) -> bool {
    !method.starts_with("tools/")
}

/// Completes the answer of another gateway: the client is watching where it is connected.
pub(crate) async fn adopt_answer(
    peer: &Arc<AuthenticatedConnection>,
    method: &str,
    payload: String,
) -> Result<String, ErrorPayload> {
    if method != zero_wire::zero_sessions::ZeroSessionsOpen::NAME {
        return Ok(payload);
    }
    let opened: SessionInfo = serde_json::from_str(&payload)
        .map_err(|error| unavailable_error(format!("another gateway answered wrongly: {error}")))?;
    encode_result(&zero_sessions::watch_opened(peer, opened).await?)
}

/// Checks that the connection has the scope of a method.
fn admit<M: GatewayMethod>(peer: &AuthenticatedConnection) -> Result<(), ErrorPayload> {
    if peer.has_scope(M::SCOPE) { Ok(()) } else { Err(forbidden_error(M::NAME, M::SCOPE)) }
}

fn encode_result(result: &impl serde::Serialize) -> Result<String, ErrorPayload> {
    serde_json::to_string(result).map_err(|error| {
        tracing::error!(%error, "a result cannot be written as JSON");
        ErrorPayload::new(ErrorCode::Unavailable, "the result cannot be written as JSON")
    })
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
            quote_input(word)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
