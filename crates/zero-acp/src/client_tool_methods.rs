//! Tools for a client that makes calls itself, beside the agent: the hands of its session do them,
//! and the client is shown them like any other call.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use serde_json::{Value, json};
use zero_runtime::DialectName;

use crate::acp_agent::AcpAgent;
use crate::client_calls::{
    self, CallGuard, CallTarget, ClientCalls, MethodPrefix, ToolCancelParams, ToolListParams,
    ToolMethod, ToolUseParams,
};
use crate::observed_backend::ObservedToolBackend;
use crate::rpc_error;
use crate::session::ActiveSession;

/// Answers a request.
pub(crate) fn request(
    agent: &Arc<AcpAgent>,
    (method, spelling): (ToolMethod, MethodPrefix),
    params: Value,
    responder: Responder<Value>,
) {
    let agent = Arc::clone(agent);
    match method {
        ToolMethod::List => {
            tokio::spawn(async move {
                let listed = list(&agent, spelling, params).await;
                let _ = responder.respond_with_result(listed);
            });
        }
        ToolMethod::Use => match ToolUseParams::of(params) {
            Err(error) => drop(responder.respond_with_error(error)),
            Ok(wanted) => {
                let begun = begin(&agent, spelling, &wanted);
                let taken_back = responder.cancellation();
                tokio::spawn(async move {
                    let unasked = async move { taken_back.cancelled().await };
                    let made = make(begun, spelling, wanted, unasked).await;
                    let _ = responder.respond_with_result(made);
                });
            }
        },
        ToolMethod::Result => {
            let _ = responder.respond(json!({}));
        }
        ToolMethod::Cancel => {
            let cancelled =
                rpc_error::params::<ToolCancelParams>("tools/cancel", params).map(|said| {
                    agent.own_calls.cancel(&said.session_id, &said.tool_call_id);
                    json!({})
                });
            let _ = responder.respond_with_result(cancelled);
        }
    }
}

/// Takes what needs no answer; what is not known is ignored.
pub(crate) fn notification(agent: &Arc<AcpAgent>, method: &str, params: Value) {
    match ToolMethod::of(method) {
        Some((ToolMethod::Use, spelling)) => {
            let (Ok(wanted), Some(calls)) = (ToolUseParams::of(params), calls(agent)) else {
                tracing::warn!("a call that makes no sense, and of which nobody can be told");
                return;
            };
            let begun = begin(agent, spelling, &wanted);
            tokio::spawn(async move {
                let names = (wanted.session_id.clone(), wanted.tool_call_id.clone());
                let made = make(begun, spelling, wanted, std::future::pending()).await;
                calls.tell(names, spelling, made).await;
            });
        }
        Some((ToolMethod::Cancel, _)) => {
            if let Ok(said) = rpc_error::params::<ToolCancelParams>("tools/cancel", params) {
                agent.own_calls.cancel(&said.session_id, &said.tool_call_id);
            }
        }
        Some((ToolMethod::List | ToolMethod::Result, _)) | None => {}
    }
}

async fn list(agent: &AcpAgent, spelling: MethodPrefix, params: Value) -> Result<Value, Error> {
    let asked = ToolListParams::of(params)?;
    let active = match &asked.session_id {
        Some(id) => agent.active(id)?,
        None => the_only_one(agent)?,
    };
    let dialect = asked.dialect(spelling.usual_dialect())?;
    client_calls::list(&place(&active, spelling), dialect).await
}

/// The session that is meant where none is named.
fn the_only_one(agent: &AcpAgent) -> Result<Arc<ActiveSession>, Error> {
    let sessions = agent.sessions();
    let mut open = sessions.values();
    match (open.next(), open.next()) {
        (Some(active), None) => Ok(Arc::clone(active)),
        _ => Err(rpc_error::invalid("name the session by `sessionId`: each has tools of its own")),
    }
}

/// A call that was noted, and what makes it.
type RegisteredSessionCall = (ClientCalls, CallGuard, CallTarget);

/// Notes a call before anything else is heard: whoever closes the session after that stops it.
fn begin(
    agent: &AcpAgent,
    spelling: MethodPrefix,
    wanted: &ToolUseParams,
) -> Result<RegisteredSessionCall, Error> {
    let active = agent.active(&wanted.session_id)?;
    let calls = calls(agent).ok_or_else(|| rpc_error::bad_request("`initialize` comes first"))?;
    let begun = calls.begin(wanted)?;
    Ok((calls, begun, place(&active, spelling)))
}

async fn make(
    noted: Result<RegisteredSessionCall, Error>,
    spelling: MethodPrefix,
    wanted: ToolUseParams,
    unasked: impl Future<Output = ()> + Send,
) -> Result<Value, Error> {
    let (calls, begun, place) = noted?;
    calls.make(begun, std::future::ready(Ok(place)), spelling, wanted, unasked).await
}

fn calls(agent: &AcpAgent) -> Option<ClientCalls> {
    Some(ClientCalls::new(agent.known_client()?, Arc::clone(&agent.own_calls)))
}

fn place(active: &ActiveSession, spelling: MethodPrefix) -> CallTarget {
    let mailbox = active.mailbox.clone();
    let tapped = ObservedToolBackend {
        hands: Arc::clone(&active.hands),
        mailbox: mailbox.clone(),
        own_mode: Arc::clone(&active.own_mode),
    };
    let dialect: DialectName = spelling.usual_dialect();
    CallTarget { hands: Arc::new(tapped), shown: Some(mailbox), dialect }
}
