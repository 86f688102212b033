//! Approvals, as the family's protocol has them: every call that asks looks like a command there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::methods;

methods! {
    /// A question that waits.
    ExecApprovalGet "exec.approval.get" Approvals ExecApprovalGetParams => ExecApproval;
    /// Answers it.
    ExecApprovalResolve "exec.approval.resolve" Approvals ExecApprovalResolveParams => Acknowledgement;
}

/// Parameters of `exec.approval.get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecApprovalGetParams {
    /// The question.
    #[schemars(length(min = 1))]
    pub id: String,
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecApproval {
    /// Names it.
    pub id: String,
    /// The command, or what the call will do.
    pub command_text: String,
    /// More of it, such as a diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_preview: Option<String>,
    /// What may be answered.
    pub allowed_decisions: Vec<ExecApprovalDecision>,
    /// Where it would run.
    pub host: String,
    /// Always null: zero has no nodes.
    pub node_id: Option<String>,
    /// The agent.
    pub agent_id: Option<String>,
    /// When nobody's answer counts any more, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// What may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExecApprovalDecision {
    /// This once.
    AllowOnce,
    /// This, and its like for the rest of the session.
    AllowAlways,
    /// No.
    Deny,
}

/// Parameters of `exec.approval.resolve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecApprovalResolveParams {
    /// The question.
    #[schemars(length(min = 1))]
    pub id: String,
    /// The answer.
    pub decision: ExecApprovalDecision,
    /// Who says so, in a channel; zero has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<Value>,
    /// Not used: what zero allows is allowed for the rest of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3650))]
    pub grant_expires_in_days: Option<u32>,
}

/// It is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// True.
    pub ok: bool,
}
