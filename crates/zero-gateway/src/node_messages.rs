//! What the gateways of a cluster ask of each other, and how they answer.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, timeout};
use zero_session::cluster_node::home_of;
use zero_session::node_bus::NodeBusError;
use zero_session::sessions::SessionManager;
use zero_wire::ErrorPayload;
use zero_wire::handshake::ClientInfo;
use zero_wire::nodes::NodeStatus;

use crate::error_payloads::unavailable_error;

/// How long a gateway may take to say how it is.
const STATUS_TIME_MAX: Duration = Duration::from_secs(3);
/// How long a gateway that ends waits until others know that it has handed its sessions over.
const ANNOUNCE_TIME_MAX: Duration = Duration::from_secs(1);

/// What a gateway asks of another one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeRequest {
    /// To execute a request of a client.
    Call(Box<ForwardedCall>),
    /// To say how it is.
    Status,
    /// To hand its sessions over and end.
    Drain,
    /// To continue the runs that the sender has just handed over.
    TakeOver,
}

/// A request of a client that is connected to another gateway.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ForwardedCall {
    pub(crate) method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) params: Option<Value>,
    pub(crate) client: ForwardedClient,
}

/// A client, as the gateway that it is connected to has authenticated it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ForwardedClient {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) caps: Vec<String>,
    pub(crate) protocol: u32,
    pub(crate) program: ClientInfo,
    pub(crate) connection: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
}

/// The answer of a gateway.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeAnswer {
    /// The payload of the response, as JSON.
    Payload(String),
    /// How the gateway is.
    Status(Box<NodeStatus>),
    /// It does what it was asked for.
    Accepted,
    /// The request is refused.
    Refused(ErrorPayload),
    /// Nothing was done: the session is not here, or not for long.
    Moved,
}

/// Why there is no answer.
pub(crate) enum NodeRequestFailure {
    /// The bus did not deliver it, or not the request.
    Bus(NodeBusError),
    /// There is no bus, or the answer cannot be read.
    Other(ErrorPayload),
}

impl From<NodeRequestFailure> for ErrorPayload {
    fn from(failure: NodeRequestFailure) -> Self {
        match failure {
            NodeRequestFailure::Bus(error) => unavailable_error(error.to_string()),
            NodeRequestFailure::Other(error) => error,
        }
    }
}

impl NodeRequest {
    /// Its form on the bus.
    pub(crate) fn encode(&self) -> Result<Bytes, ErrorPayload> {
        let body = serde_json::to_vec(self);
        body.map(Bytes::from).map_err(|error| unavailable_error(error.to_string()))
    }
}

/// Sends a request to a gateway.
pub(crate) async fn ask(
    sessions: &SessionManager,
    node: &str,
    body: Bytes,
    within: Duration,
) -> Result<NodeAnswer, NodeRequestFailure> {
    let no_bus = || unavailable_error("other gateways cannot be reached".to_owned());
    let bus = sessions.node_bus().ok_or_else(|| NodeRequestFailure::Other(no_bus()))?;
    let answer = bus.request(node, body, within).await.map_err(NodeRequestFailure::Bus)?;
    serde_json::from_slice(&answer).map_err(|_| NodeRequestFailure::Other(wrong_answer_error(node)))
}

/// Asks a gateway how it is. Returns how long the answer took, too.
pub(crate) async fn ask_status(
    sessions: &SessionManager,
    node: &str,
) -> Result<(NodeStatus, Duration), ErrorPayload> {
    let begun = Instant::now();
    match ask(sessions, node, NodeRequest::Status.encode()?, STATUS_TIME_MAX).await? {
        NodeAnswer::Status(status) => Ok((*status, begun.elapsed())),
        _ => Err(wrong_answer_error(node)),
    }
}

/// Asks a gateway to hand its sessions over and end.
pub(crate) async fn ask_to_drain(
    sessions: &SessionManager,
    node: &str,
) -> Result<(), ErrorPayload> {
    match ask(sessions, node, NodeRequest::Drain.encode()?, STATUS_TIME_MAX).await? {
        NodeAnswer::Accepted => Ok(()),
        _ => Err(wrong_answer_error(node)),
    }
}

/// Lets the others know that this gateway has handed its sessions over. Otherwise they notice soon.
pub(crate) async fn announce_handover(sessions: &SessionManager) {
    let Ok(Some(members)) = sessions.cluster_members().await else { return };
    let Ok(body) = NodeRequest::TakeOver.encode() else { return };
    let others = members.nodes.iter().filter(|node| node.name != members.local);
    let told = others.map(|node| async {
        if ask(sessions, &node.name, body.clone(), ANNOUNCE_TIME_MAX).await.is_err() {
            tracing::debug!(node = node.name, "not told of the handover");
        }
    });
    let _ = timeout(ANNOUNCE_TIME_MAX, join_all(told)).await;
}

/// Error for an answer that this version does not know.
pub(crate) fn wrong_answer_error(node: &str) -> ErrorPayload {
    tracing::warn!(node, "another gateway answered wrongly");
    unavailable_error(format!(
        "the gateway `{}` has another version of zero; update all gateways",
        home_of(node)
    ))
}
