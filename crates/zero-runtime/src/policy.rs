//! The port through which a call is judged, and the judge of a host without rules.

use zero_core::{Effect, Risk, ToolSpec};

/// What is to become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// A person decides.
    Ask,
    /// It does not run.
    Deny,
}

impl Verdict {
    /// Stable word for audit rows and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A verdict with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is to become of the call.
    pub verdict: Verdict,
    /// Why, in words a person understands.
    pub reason: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
}

/// What a policy looks at.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// The tool.
    pub spec: &'a ToolSpec,
    /// What the call will touch.
    pub effects: &'a [Effect],
}

/// Judges calls on their effects.
pub trait Policy: Send + Sync {
    /// Judges one call.
    fn decide(&self, request: PolicyRequest<'_>) -> Decision;
}

/// Judges by risk alone: looking around inside the workspace is allowed, anything more is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct RiskPolicy;

impl Policy for RiskPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> Decision {
        let risk = request.spec.risk;
        let stray = request.effects.iter().find(|effect| !effect.is_contained());
        let (verdict, reason) = match (risk, stray) {
            (Risk::Low, None) => (Verdict::Allow, "low risk inside the workspace".to_owned()),
            (_, Some(effect)) => {
                (Verdict::Ask, format!("it would {effect}, which is outside the workspace"))
            }
            (risk, None) => (Verdict::Ask, format!("its risk is {risk}")),
        };
        Decision { verdict, reason, rule: None }
    }
}
