//! The decision about a call, with its reasons.

use std::fmt;

use serde::{Deserialize, Serialize};
use zero_core::event::EffectOrigin;
use zero_core::{CommandLimitChange, RiskLevel};

use crate::command_access::CommandAccess;

/// The verdict on a call. Ordered: the strictest of several is their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call runs.
    Allow,
    /// The user decides.
    Ask,
    /// The call does not run.
    Deny,
}

impl Verdict {
    /// All verdicts, most permissive first.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Stable name for audit rows, settings and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A verdict with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDecision {
    /// The verdict on the call.
    pub verdict: Verdict,
    /// The reason, as text for the user.
    pub reason: String,
    /// The rule that decided, as written, if one did.
    pub rule: Option<String>,
    /// The origin of that rule: a file with its line, a flag, a grant.
    pub source: Option<String>,
    /// The risk of the call, with its arguments considered.
    pub risk: RiskLevel,
    /// The verdict on each effect.
    pub effects: Vec<EffectDecision>,
    /// What the answer "for this session" would grant; empty if no grant is possible.
    pub grants: Vec<GrantScope>,
    /// Command limits that are raised by the rules that decided.
    pub limits: CommandLimitChange,
    /// What the commands of the call may change and reach; absent if it runs none.
    pub access: Option<CommandAccess>,
}

/// The decision about one effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectDecision {
    /// `read`, `write`, `delete`, `exec`, `net`, `mcp`, `ask` or `state`;
    /// `secret` for a value that would be sent.
    pub kind: &'static str,
    /// The object of the effect.
    pub target: String,
    /// The verdict.
    pub decision: Verdict,
    /// The rule that decided, as written.
    pub rule: Option<String>,
    /// The origin of that rule.
    pub source: Option<String>,
    /// The reason, as text for the user.
    pub reason: String,
    /// What names the object.
    #[serde(skip_serializing_if = "EffectOrigin::is_call")]
    pub origin: EffectOrigin,
}

/// A permission that the user can give for the rest of a session: a rule, bound to its context.
///
/// Every ask and deny rule takes precedence over it, and it ends with the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantScope {
    /// The equivalent rule, such as `Bash(git push:*)`.
    pub rule: String,
    /// The folder that was shown; a command in another folder is not covered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The program file that was found; another file of the same name is not covered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl fmt::Display for GrantScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rule)
    }
}
