//! `zero.nodes.…`: the gateways that share a database.

use std::sync::Arc;

use futures_util::future::join_all;
use zero_session::cluster_node::home_of;
use zero_wire::ErrorPayload;
use zero_wire::nodes::{
    NodeInfo, NodesDrainParams, NodesDrainResult, NodesListParams, NodesListResult,
};

use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::{quote_input, to_error_shape};
use crate::node_messages::{ask_status, ask_to_drain};

pub(super) async fn list(
    peer: &Arc<AuthenticatedConnection>,
    _: NodesListParams,
) -> Result<NodesListResult, ErrorPayload> {
    let members = peer.sessions().cluster_members().await.map_err(to_error_shape)?;
    let Some(members) = members else { return Ok(NodesListResult::default()) };
    let sessions = peer.sessions();
    let nodes = members.nodes.into_iter().map(|node| async move {
        let status = ask_status(sessions, &node.name).await;
        let (answer, problem) = match status {
            Ok((status, took)) => (Some((status, took.as_secs_f64() * 1_000.0)), None),
            Err(error) => (None, Some(error.message)),
        };
        let (status, answer_ms) = answer.unzip();
        NodeInfo {
            name: node.name,
            lease_left_ms: u64::try_from(node.lease_left.as_millis()).unwrap_or(u64::MAX),
            sessions: node.sessions,
            answer_ms,
            status,
            problem,
        }
    });
    Ok(NodesListResult {
        node: Some(members.local),
        nodes: join_all(nodes).await,
        abandoned_sessions: members.abandoned_sessions,
    })
}

pub(super) async fn drain(
    peer: &Arc<AuthenticatedConnection>,
    params: NodesDrainParams,
) -> Result<NodesDrainResult, ErrorPayload> {
    let members = peer.sessions().cluster_members().await.map_err(to_error_shape)?;
    let members = members.ok_or_else(|| {
        ErrorPayload::invalid(
            "this gateway shares its sessions with no other gateway, so none can take them over; stop it with Ctrl-C or SIGTERM",
        )
    })?;
    let node = match params.node {
        None => members.local.clone(),
        Some(written) => {
            let is_meant = |name: &str| name == written || home_of(name) == written;
            let found = members.nodes.into_iter().map(|node| node.name).find(|name| is_meant(name));
            found.ok_or_else(|| {
                ErrorPayload::invalid(format!(
                    "there is no gateway `{}`; `zero gateway nodes` lists them",
                    quote_input(&written)
                ))
            })?
        }
    };
    match node == members.local {
        true => peer.gateway().start_drain(),
        false => ask_to_drain(peer.sessions(), &node).await?,
    }
    Ok(NodesDrainResult { node })
}
