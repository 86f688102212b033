//! Tools for a client that makes calls itself, beside the agent: the hands of its session do them,
//! and the client is shown them like any other call.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use serde_json::{Value, json};
use zero_runtime::DialectName;

use crate::agent::Agent;
use crate::own_calls::{
    self, Begun, CancelParams, ListParams, Method, OwnCalls, Spelling, UseParams, Workplace,
};
use crate::rpc;
use crate::session::Active;
use crate::tap::Tapped;

/// Answers a request.
pub(crate) fn request(
    agent: &Arc<Agent>,
    (method, spelling): (Method, Spelling),
    params: Value,
    responder: Responder<Value>,
) {
    let agent = Arc::clone(agent);
    match method {
        Method::List => {
            tokio::spawn(async move {
                let listed = list(&agent, spelling, params).await;
                let _ = responder.respond_with_result(listed);
            });
        }
        Method::Use => match UseParams::of(params) {
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
        Method::Result => {
            let _ = responder.respond(json!({}));
        }
        Method::Cancel => {
            let cancelled = rpc::params::<CancelParams>("tools/cancel", params).map(|said| {
                agent.own_calls.cancel(&said.session_id, &said.tool_call_id);
                json!({})
            });
            let _ = responder.respond_with_result(cancelled);
        }
    }
}

/// Takes what needs no answer; what is not known is ignored.
pub(crate) fn notification(agent: &Arc<Agent>, method: &str, params: Value) {
    match Method::of(method) {
        Some((Method::Use, spelling)) => {
            let (Ok(wanted), Some(calls)) = (UseParams::of(params), calls(agent)) else {
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
        Some((Method::Cancel, _)) => {
            if let Ok(said) = rpc::params::<CancelParams>("tools/cancel", params) {
                agent.own_calls.cancel(&said.session_id, &said.tool_call_id);
            }
        }
        Some((Method::List | Method::Result, _)) | None => {}
    }
}

async fn list(agent: &Agent, spelling: Spelling, params: Value) -> Result<Value, Error> {
    let asked = ListParams::of(params)?;
    let active = match &asked.session_id {
        Some(id) => agent.active(id)?,
        None => the_only_one(agent)?,
    };
    let dialect = asked.dialect(spelling.usual_dialect())?;
    own_calls::list(&place(&active, spelling), dialect).await
}

/// The session that is meant where none is named.
fn the_only_one(agent: &Agent) -> Result<Arc<Active>, Error> {
    let sessions = agent.sessions();
    let mut open = sessions.values();
    match (open.next(), open.next()) {
        (Some(active), None) => Ok(Arc::clone(active)),
        _ => Err(rpc::invalid("name the session by `sessionId`: each has tools of its own")),
    }
}

/// A call that was noted, and what makes it.
type Noted = (OwnCalls, Begun, Workplace);

/// Notes a call before anything else is heard: whoever closes the session after that stops it.
fn begin(agent: &Agent, spelling: Spelling, wanted: &UseParams) -> Result<Noted, Error> {
    let active = agent.active(&wanted.session_id)?;
    let calls = calls(agent).ok_or_else(|| rpc::bad_request("`initialize` comes first"))?;
    let begun = calls.begin(wanted)?;
    Ok((calls, begun, place(&active, spelling)))
}

async fn make(
    noted: Result<Noted, Error>,
    spelling: Spelling,
    wanted: UseParams,
    unasked: impl Future<Output = ()> + Send,
) -> Result<Value, Error> {
    let (calls, begun, place) = noted?;
    calls.make(begun, std::future::ready(Ok(place)), spelling, wanted, unasked).await
}

fn calls(agent: &Agent) -> Option<OwnCalls> {
    Some(OwnCalls::new(agent.known_client()?, Arc::clone(&agent.own_calls)))
}

fn place(active: &Active, spelling: Spelling) -> Workplace {
    let mailbox = active.mailbox.clone();
    let tapped = Tapped {
        hands: Arc::clone(&active.hands),
        mailbox: mailbox.clone(),
        own_mode: Arc::clone(&active.own_mode),
    };
    let dialect: DialectName = spelling.usual_dialect();
    Workplace { hands: Arc::new(tapped), shown: Some(mailbox), dialect }
}
