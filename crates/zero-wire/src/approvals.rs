//! The OpenClaw methods for approvals, `exec.approval.…`.
//!
//! OpenClaw asks for approval of commands only. zero presents every tool call that needs approval
//! as such a command; [`zero_sessions`](crate::zero_sessions) has methods without that restriction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::methods;

methods! {
    /// Returns a pending approval.
    ExecApprovalGet "exec.approval.get" Approvals ExecApprovalGetParams => ExecApproval;
    /// Answers a pending approval.
    ExecApprovalResolve "exec.approval.resolve" Approvals ExecApprovalResolveParams => Acknowledgement;
}

/// Parameters of `exec.approval.get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecApprovalGetParams {
    /// Id of the approval, from `exec.approval.requested`.
    #[schemars(length(min = 1))]
    pub id: String,
}

/// A tool call that waits for approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecApproval {
    /// Id of the approval.
    pub id: String,
    /// The command, or a description of the call.
    pub command_text: String,
    /// More detail, such as a diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_preview: Option<String>,
    /// The answers that are accepted.
    pub allowed_decisions: Vec<ExecApprovalDecision>,
    /// The machine on which the call would run.
    pub host: String,
    /// Always null: zero has no nodes.
    pub node_id: Option<String>,
    /// The agent that made the call.
    pub agent_id: Option<String>,
    /// When the approval expires, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// An answer to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExecApprovalDecision {
    /// Allow this call only.
    AllowOnce,
    /// Allow this call, and similar calls for the rest of the session.
    AllowAlways,
    /// Reject the call.
    Deny,
}

/// Parameters of `exec.approval.resolve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecApprovalResolveParams {
    /// Id of the approval.
    #[schemars(length(min = 1))]
    pub id: String,
    /// One of the approval's `allowedDecisions`.
    pub decision: ExecApprovalDecision,
    /// Not used: it names the user of a channel, and zero has no channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<Value>,
    /// Not used: a grant lasts for the rest of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3650))]
    pub grant_expires_in_days: Option<u32>,
}

/// The result of a method that returns nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// Always true.
    pub ok: bool,
}
