//! Tool methods for a client that makes calls itself, beside the agent. The session's tool backend
//! runs them, and the client sees them as updates like any other call.

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
use crate::rpc_error;
use crate::session::ActiveSession;
use crate::session_forwarding::session_backend;

/// Handles a tool request.
pub(crate) fn handle_request(
    agent: &Arc<AcpAgent>,
    (method, spelling): (ToolMethod, MethodPrefix),
    params: Value,
    responder: Responder<Value>,
) {
    let agent = Arc::clone(agent);
    match method {
        ToolMethod::List => {
            tokio::spawn(async move {
                let listed = list_tools(&agent, spelling, params).await;
                let _ = responder.respond_with_result(listed);
            });
        }
        ToolMethod::Use => match ToolUseParams::from_params(params) {
            Err(error) => drop(responder.respond_with_error(error)),
            Ok(request) => {
                let guard = register_call(&agent, spelling, &request);
                let taken_back = responder.cancellation();
                tokio::spawn(async move {
                    let unasked = async move { taken_back.cancelled().await };
                    let made = run_call(guard, spelling, request, unasked).await;
                    let _ = responder.respond_with_result(made);
                });
            }
        },
        ToolMethod::Result => {
            agent.tool_calls.resolve(params);
            let _ = responder.respond(json!({}));
        }
        ToolMethod::Cancel => {
            let cancelled = rpc_error::parse_params::<ToolCancelParams>("tools/cancel", params)
                .map(|target| {
                    agent.own_calls.cancel(&target.session_id, &target.tool_call_id);
                    json!({})
                });
            let _ = responder.respond_with_result(cancelled);
        }
    }
}

/// Handles a tool notification; unknown methods are ignored.
pub(crate) fn handle_notification(agent: &Arc<AcpAgent>, method: &str, params: Value) {
    match ToolMethod::parse(method) {
        Some((ToolMethod::Use, spelling)) => {
            let (Ok(request), Some(calls)) =
                (ToolUseParams::from_params(params), client_calls(agent))
            else {
                tracing::warn!("ignored an invalid tool call notification");
                return;
            };
            let guard = register_call(agent, spelling, &request);
            tokio::spawn(async move {
                let names = (request.session_id.clone(), request.tool_call_id.clone());
                let made = run_call(guard, spelling, request, std::future::pending()).await;
                calls.send_result(names, spelling, made).await;
            });
        }
        Some((ToolMethod::Cancel, _)) => {
            if let Ok(target) = rpc_error::parse_params::<ToolCancelParams>("tools/cancel", params)
            {
                agent.own_calls.cancel(&target.session_id, &target.tool_call_id);
            }
        }
        Some((ToolMethod::Result, _)) => agent.tool_calls.resolve(params),
        Some((ToolMethod::List, _)) | None => {}
    }
}

async fn list_tools(
    agent: &AcpAgent,
    spelling: MethodPrefix,
    params: Value,
) -> Result<Value, Error> {
    let params = ToolListParams::from_params(params)?;
    let active = match &params.session_id {
        Some(id) => agent.find_session(id)?,
        None => sole_session(agent)?,
    };
    let dialect = params.dialect(spelling.default_dialect())?;
    client_calls::list_tools(&call_target(&active, spelling), dialect).await
}

/// The only open session, for calls that name none.
fn sole_session(agent: &AcpAgent) -> Result<Arc<ActiveSession>, Error> {
    let sessions = agent.sessions();
    let mut open = sessions.values();
    match (open.next(), open.next()) {
        (Some(active), None) => Ok(Arc::clone(active)),
        _ => Err(rpc_error::invalid_params(
            "name the session by `sessionId`: each has tools of its own",
        )),
    }
}

/// A registered call and its target.
type RegisteredSessionCall = (ClientCalls, CallGuard, CallTarget);

/// Registers a call before the next message is handled, so that closing the session cancels it.
fn register_call(
    agent: &AcpAgent,
    spelling: MethodPrefix,
    request: &ToolUseParams,
) -> Result<RegisteredSessionCall, Error> {
    let active = agent.find_session(&request.session_id)?;
    let calls =
        client_calls(agent).ok_or_else(|| rpc_error::bad_request("`initialize` comes first"))?;
    let guard = calls.register_call(request)?;
    Ok((calls, guard, call_target(&active, spelling)))
}

async fn run_call(
    noted: Result<RegisteredSessionCall, Error>,
    spelling: MethodPrefix,
    request: ToolUseParams,
    unasked: impl Future<Output = ()> + Send,
) -> Result<Value, Error> {
    let (calls, guard, call_target) = noted?;
    calls.run_call(guard, std::future::ready(Ok(call_target)), spelling, request, unasked).await
}

fn client_calls(agent: &AcpAgent) -> Option<ClientCalls> {
    Some(ClientCalls::new(agent.client_handle()?, Arc::clone(&agent.own_calls)))
}

fn call_target(active: &ActiveSession, spelling: MethodPrefix) -> CallTarget {
    let sender = active.sender.clone();
    let backend = session_backend(&active.backend, &active.own_mode, &sender);
    let dialect: DialectName = spelling.default_dialect();
    CallTarget { backend, session_sender: Some(sender), dialect }
}
