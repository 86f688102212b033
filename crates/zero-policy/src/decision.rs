//! What was decided about a call, and why.

use std::fmt;

use serde::{Deserialize, Serialize};
use zero_core::{CommandLimitChange, RiskLevel};

/// What is to become of a call. Ordered: the strictest of several is their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// All of them, mildest first.
    pub const ALL: [Self; 3] = [Self::Allow, Self::Ask, Self::Deny];

    /// Stable word for audit rows, settings and JSON.
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
    /// What is to become of the call.
    pub verdict: Verdict,
    /// Why, in words a person understands.
    pub reason: String,
    /// The rule that decided, as written, if one did.
    pub rule: Option<String>,
    /// Where that rule stands: a file with its line, a flag, a grant.
    pub source: Option<String>,
    /// How much harm the call can do, its arguments considered.
    pub risk: RiskLevel,
    /// The verdict on each effect.
    pub effects: Vec<EffectDecision>,
    /// What "for this session" would grant, when a person is asked; empty when it cannot be.
    pub grants: Vec<GrantScope>,
    /// Limits that the rules which decided about its commands raise, should it run.
    pub limits: CommandLimitChange,
}

/// One effect and what was decided about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectDecision {
    /// `read`, `write`, `delete`, `exec`, `net`, `mcp`, `ask` or `state`.
    pub kind: &'static str,
    /// On what.
    pub target: String,
    /// What was decided.
    pub decision: Verdict,
    /// The rule that decided, as written.
    pub rule: Option<String>,
    /// Where that rule stands.
    pub source: Option<String>,
    /// Why, in words a person understands.
    pub reason: String,
}

/// What a person can allow for the rest of a session: a rule, bound to where it was shown.
///
/// It sits below every ask and deny rule, and ends with the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantScope {
    /// The rule it amounts to, such as `Bash(git push:*)`.
    pub rule: String,
    /// The folder it was shown for; a command elsewhere is not covered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The file the program was found at; another of the same name is not covered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl fmt::Display for GrantScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rule)
    }
}
