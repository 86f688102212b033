//! zero's own methods for gateways that share a database. They need the scope `operator.admin`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::methods;

methods! {
    /// Lists the gateways that share a database with this one.
    ZeroNodesList "zero.nodes.list" Admin NodesListParams => NodesListResult;
    /// Lets a gateway hand its sessions over to the others and end.
    ZeroNodesDrain "zero.nodes.drain" Admin NodesDrainParams => NodesDrainResult;
}

/// Parameters of `zero.nodes.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodesListParams {}

/// Result of `zero.nodes.list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesListResult {
    /// Name of the gateway that answers; null if it shares its sessions with no other.
    pub node: Option<String>,
    /// The gateways whose leases have not run out.
    pub nodes: Vec<NodeInfo>,
    /// Sessions with unfinished runs of gateways that are gone, which nobody has continued yet.
    pub abandoned_sessions: u64,
}

/// A gateway that shares a database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Its name: that of its machine, `/`, and some characters that change with each start.
    pub name: String,
    /// How long its lease is still valid.
    pub lease_left_ms: u64,
    /// Sessions with unfinished runs that it owns.
    pub sessions: u64,
    /// How long it took to answer the gateway that was asked, in milliseconds; null if it did not.
    pub answer_ms: Option<f64>,
    /// What it says about itself; null if it did not answer.
    pub status: Option<NodeStatus>,
    /// Why it did not answer.
    pub problem: Option<String>,
}

/// What a gateway says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its version.
    pub version: String,
    /// Open connections of clients.
    pub connections: u64,
    /// Active runs.
    pub running: u64,
    /// Queued prompts.
    pub queued: u64,
    /// Runs of others that it has continued since its start.
    pub takeovers: u64,
    /// Whether it is handing its sessions over.
    pub draining: bool,
    /// What does not work at the moment.
    pub problem: Option<String>,
}

/// Parameters of `zero.nodes.drain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodesDrainParams {
    /// The gateway: its name, or the part before `/`; the one that is asked if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub node: Option<String>,
}

/// Result of `zero.nodes.drain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesDrainResult {
    /// Name of the gateway that hands its sessions over and ends.
    pub node: String,
}
