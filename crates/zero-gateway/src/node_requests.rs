//! Executes the requests of other gateways, and passes requests on to them.
//!
//! A client may send a request to any gateway. If the session belongs to another one, the request is
//! refused there before anything was done, and goes on over the bus, together with what the client may do.
//! The other gateway executes the same code as for a client of its own, so the answer is the same.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::FolderAccess;
use zero_session::node_bus::{NodeBusError, NodeRequestHandler};
use zero_wire::method::TokenScope;
use zero_wire::nodes::NodeStatus;
use zero_wire::{ErrorCode, ErrorPayload};

use crate::auth::Principal;
use crate::authenticated_connection::{AuthenticatedConnection, HandshakeOutcome};
use crate::error_payloads::{SESSION_ELSEWHERE, unavailable_error};
use crate::gateway_inner::GatewayInner;
use crate::methods::{self, AnswerFuture};
use crate::node_messages::{
    ForwardedCall, ForwardedClient, NodeAnswer, NodeRequest, NodeRequestFailure, ask,
    wrong_answer_error,
};
use crate::send_queue::SendQueue;

/// How long the owner of a session is looked for, while it changes or cannot be reached.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(10);
/// The same, while no other gateway can be reached.
const BUS_WAIT_MAX: Duration = Duration::from_secs(2);
/// Pause before it is looked for again.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);
/// How long another gateway may take for a request. It waits for runs to end, in some.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(90);

/// Executes the requests of other gateways.
pub(crate) struct NodeRequestServer(Weak<GatewayInner>);

impl NodeRequestServer {
    /// Answers requests of other gateways from now on, if there are any.
    pub(crate) fn start(gateway: &Arc<GatewayInner>) {
        if let Some(bus) = gateway.sessions.node_bus() {
            bus.serve(Arc::new(Self(Arc::downgrade(gateway))));
        }
    }

    async fn execute(&self, from: &str, request: NodeRequest) -> NodeAnswer {
        let Some(gateway) = self.0.upgrade() else { return NodeAnswer::Moved };
        match request {
            NodeRequest::Call(call) => {
                tracing::debug!(from, method = %call.method, "a request of another gateway");
                execute_call(&gateway, *call).await
            }
            NodeRequest::Status => NodeAnswer::Status(Box::new(status_of(&gateway).await)),
            NodeRequest::Drain => {
                tracing::info!(from, "this gateway hands its sessions over and ends");
                gateway.start_drain();
                NodeAnswer::Accepted
            }
            NodeRequest::TakeOver => {
                gateway.sessions.take_over_abandoned();
                NodeAnswer::Accepted
            }
        }
    }
}

impl NodeRequestHandler for NodeRequestServer {
    fn answer(self: Arc<Self>, from: String, body: Bytes) -> BoxFuture<'static, Bytes> {
        Box::pin(async move {
            let answer = match serde_json::from_slice(&body) {
                Ok(request) => self.execute(&from, request).await,
                Err(error) => {
                    tracing::warn!(from, %error, "another gateway asks for something unknown");
                    let why = "the gateway of this session has another version of zero; update all gateways";
                    NodeAnswer::Refused(ErrorPayload::new(ErrorCode::Unavailable, why))
                }
            };
            // It has no maps with keys other than text.
            serde_json::to_vec(&answer).unwrap_or_default().into()
        })
    }
}

async fn execute_call(gateway: &Arc<GatewayInner>, call: ForwardedCall) -> NodeAnswer {
    if gateway.closing.is_cancelled() {
        return NodeAnswer::Moved;
    }
    let ForwardedCall { method, params, client } = call;
    let outbox = SendQueue::new(gateway.limits.send_queue_limits());
    outbox.mark_disconnected();
    let client = admit(client, gateway);
    let peer = AuthenticatedConnection::new_forwarded(Arc::clone(gateway), client, outbox);
    let answer = match methods::prepare_here(&peer, &method, params) {
        Ok(answer) => answer.await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(payload) => NodeAnswer::Payload(payload),
        Err(error) if other_gateway(&error).is_some() => NodeAnswer::Moved,
        // It began to close in the meantime.
        Err(error) if gateway.closing.is_cancelled() && error.retryable == Some(true) => {
            NodeAnswer::Moved
        }
        Err(error) => NodeAnswer::Refused(error),
    }
}

/// The client as one of this gateway. Folders are those of this machine.
fn admit(client: ForwardedClient, gateway: &GatewayInner) -> HandshakeOutcome {
    let scopes: Vec<TokenScope> =
        client.scopes.iter().filter_map(|name| TokenScope::from_name(name)).collect();
    let folder_access = match (scopes.contains(&TokenScope::Admin), &client.device) {
        (true, _) => FolderAccess::Anywhere,
        (false, Some(_)) => gateway.devices.folder_access(),
        (false, None) => gateway.auth.folder_access_of(&client.name),
    };
    let (name, owner) = (client.name, client.owner);
    let principal = Principal { name, scopes: scopes.clone(), folder_access, owner };
    HandshakeOutcome {
        principal,
        scopes,
        protocol: client.protocol,
        caps: client.caps,
        client: client.program,
        conn_id: client.connection,
        device: client.device,
    }
}

async fn status_of(gateway: &GatewayInner) -> NodeStatus {
    let stats = gateway.sessions.stats();
    let broken = gateway.sessions.store().check_ready().await.err();
    let problem = broken.map(|error| error.to_string()).or_else(|| stats.problem());
    NodeStatus {
        version: gateway.version.clone(),
        connections: gateway.connections.load(Ordering::Relaxed),
        running: stats.running,
        queued: stats.queued,
        takeovers: stats.cluster.map_or(0, |cluster| cluster.takeovers),
        draining: gateway.closing.is_cancelled(),
        problem,
    }
}

/// The gateway to which a session belongs, if that is why a request was refused.
fn other_gateway(error: &ErrorPayload) -> Option<&str> {
    let details = error.details.as_ref().filter(|details| details["code"] == SESSION_ELSEWHERE)?;
    details["gateway"].as_str()
}

/// Validates a request. If its session belongs to another gateway, that one executes it.
pub(crate) fn prepare(
    peer: &Arc<AuthenticatedConnection>,
    method: &str,
    params: Option<Value>,
) -> Result<AnswerFuture, ErrorPayload> {
    if peer.sessions().node_bus().is_none() || !methods::can_be_forwarded(method) {
        return methods::prepare_here(peer, method, params);
    }
    let here = methods::prepare_here(peer, method, params.clone())?;
    let (peer, method) = (Arc::clone(peer), method.to_owned());
    Ok(Box::pin(async move {
        match here.await {
            Err(error) if other_gateway(&error).is_some() => {
                let forwarded = forward(&peer, &method, params, error).await?;
                methods::adopt_answer(&peer, &method, forwarded).await
            }
            answer => answer,
        }
    }))
}

/// Sends a request to the gateway of its session. If the session moves meanwhile, it is looked for.
async fn forward(
    peer: &Arc<AuthenticatedConnection>,
    method: &str,
    params: Option<Value>,
    mut refusal: ErrorPayload,
) -> Result<String, ErrorPayload> {
    let begun = Instant::now();
    let client = forwarded_client(peer);
    let call = ForwardedCall { method: method.to_owned(), params: params.clone(), client };
    let body = NodeRequest::Call(Box::new(call)).encode()?;
    loop {
        let mut time_max = SEARCH_TIME_MAX;
        let Some(node) = other_gateway(&refusal).map(str::to_owned) else { return Err(refusal) };
        let failure = match ask(peer.sessions(), &node, body.clone(), ANSWER_TIME_MAX).await {
            Ok(NodeAnswer::Payload(payload)) => return Ok(payload),
            Ok(NodeAnswer::Refused(error)) => return Err(error),
            Ok(NodeAnswer::Moved) => refusal.clone(),
            Ok(NodeAnswer::Status(_) | NodeAnswer::Accepted) => {
                return Err(wrong_answer_error(&node));
            }
            Err(NodeRequestFailure::Bus(error)) if error.may_have_run() => {
                return Err(unavailable_error(format!(
                    "{error}; it is not known whether the request was executed; look at the session, and send the request again if it was not"
                )));
            }
            Err(NodeRequestFailure::Bus(error)) => {
                if matches!(error, NodeBusError::Unavailable { .. }) {
                    time_max = BUS_WAIT_MAX;
                }
                unavailable_error(error.to_string())
            }
            Err(NodeRequestFailure::Other(error)) => return Err(error),
        };
        if begun.elapsed() >= time_max {
            return Err(failure);
        }
        sleep(SEARCH_PAUSE).await;
        // The session may be here by now, or at a third gateway.
        match methods::prepare_here(peer, method, params.clone())?.await {
            Err(error) if other_gateway(&error).is_some() => refusal = error,
            answer => return answer,
        }
    }
}

fn forwarded_client(peer: &AuthenticatedConnection) -> ForwardedClient {
    let greeting = peer.greeting();
    ForwardedClient {
        name: greeting.principal.name.clone(),
        owner: greeting.principal.owner.clone(),
        scopes: greeting.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        caps: greeting.caps.clone(),
        protocol: greeting.protocol,
        program: greeting.client.clone(),
        connection: greeting.conn_id.clone(),
        device: greeting.device.clone(),
    }
}
