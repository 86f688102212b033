//! The policy interface, and the policy of a host without rules.

use std::path::Path;

use zero_core::event::EffectOrigin;
use zero_core::{
    CommandLimitChange, Effect, ErrorReason, ErrorType, RiskLevel, ToolArguments, ToolError,
    ToolSpec,
};
use zero_exec::HostCommands;
use zero_policy::PermissionMode;
use zero_sandbox::Workspace;

pub use zero_exec::{CommandPolicy, DeniedChanges, DeniedFiles};
pub use zero_policy::{
    ConnectDeniedError, ConnectPermission, ConnectRequest, EffectDecision, GrantScope,
    PolicyDecision, RuleOwner, Verdict,
};

/// What a policy decides about.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRequest<'a> {
    /// The tool.
    pub spec: &'a ToolSpec,
    /// The effects of the call.
    pub effects: &'a [Effect],
    /// The arguments of a tool that is not zero's own; `None` if they are not known.
    pub arguments: Option<&'a ToolArguments>,
    /// The folders it works in, as its session sees them.
    pub workspace: &'a Workspace,
    /// The user's grants for the session.
    pub grants: &'a [GrantScope],
    /// The session's own mode, if it has one.
    pub mode: Option<PermissionMode>,
    /// The commands of the host, whose scan of the workspace the policy shares.
    pub commands: Option<&'a HostCommands>,
    /// The folder that is mounted as the temporary folder of its commands; `None` if that is not known.
    pub temp: Option<&'a Path>,
}

/// Decides about calls by their effects. [`CommandPolicy`] decides what commands may use while they
/// run.
pub trait Policy: CommandPolicy {
    /// Decides about one call.
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision;

    /// Whether the call would be allowed, without grants, if settings of `owner` had these rules.
    fn would_allow(
        &self,
        _request: PolicyRequest<'_>,
        _rules: &[GrantScope],
        _owner: RuleOwner,
    ) -> bool {
        false
    }

    /// The mode of sessions that have none of their own.
    fn default_mode(&self) -> PermissionMode {
        PermissionMode::default()
    }

    /// Whether `tool` may read a path found in a search or listing: true unless a rule denies it.
    /// `written` is the path as the caller would write it, `canonical` the resolved path.
    fn may_read(&self, _tool: &str, _written: &Path, _canonical: &Path) -> bool {
        true
    }

    /// Whether a rule or one of these grants allows commands to read a file, given by its canonical
    /// path.
    fn allows_read(&self, _canonical: &Path, _grants: &[GrantScope]) -> bool {
        false
    }

    /// Whether [`Policy::may_read`] can deny anything; if not, searches skip the check.
    fn filters_reads(&self) -> bool {
        false
    }

    /// Whether [`Policy::may_read`] can deny anything in a folder, inside or outside the workspace.
    fn filters_reads_in(&self, _folder: &Path) -> bool {
        self.filters_reads()
    }
}

/// The error of a denied call, with the details of the decision. `file` is the path that decided, as
/// the caller wrote it.
pub(crate) fn denial_error(
    decision: &PolicyDecision,
    reason: ErrorReason,
    message: String,
    file: Option<&str>,
) -> ToolError {
    let error = ToolError::new(ErrorType::PermissionDenied, reason, message);
    let facts = [
        ("file", file),
        ("risk", Some(decision.risk.as_str())),
        ("matched_rule", decision.rule.as_deref()),
        ("rule_source", decision.source.as_deref()),
    ];
    facts.into_iter().fold(error, |error, (key, value)| match value {
        Some(value) => error.with_detail(key, value),
        None => error,
    })
}

/// Decides by risk alone: reading inside the workspace is allowed, anything else needs approval,
/// and is denied in plan mode. Without rules, no other mode allows more.
#[derive(Clone, Copy, Debug, Default)]
pub struct RiskPolicy;

impl CommandPolicy for RiskPolicy {}

impl Policy for RiskPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        let risk = request.spec.risk;
        let stray = request.effects.iter().find(|effect| !effect.is_contained());
        let only_looks = request.mode == Some(PermissionMode::Plan);
        let (verdict, reason) = match stray {
            _ if only_looks && risk > RiskLevel::Low => deny_in_plan_mode(),
            Some(effect) => (Verdict::Ask, outside_workspace_reason(effect)),
            None => decide_by_risk(risk),
        };
        let mut effects: Vec<EffectDecision> =
            request.effects.iter().map(|effect| decide_effect(effect, risk)).collect();
        if verdict == Verdict::Deny {
            for effect in &mut effects {
                (effect.decision, effect.reason) = deny_in_plan_mode();
            }
        }
        PolicyDecision {
            verdict,
            reason,
            rule: None,
            source: None,
            risk,
            effects,
            grants: Vec::new(),
            limits: CommandLimitChange::default(),
            access: None,
        }
    }
}

fn decide_effect(effect: &Effect, risk: RiskLevel) -> EffectDecision {
    let (decision, reason) = match effect.is_contained() {
        true => decide_by_risk(risk),
        false => (Verdict::Ask, outside_workspace_reason(effect)),
    };
    let (kind, target) = (effect.kind(), effect.target());
    EffectDecision {
        kind,
        target,
        decision,
        rule: None,
        source: None,
        reason,
        origin: EffectOrigin::Call,
    }
}

fn decide_by_risk(risk: RiskLevel) -> (Verdict, String) {
    match risk {
        RiskLevel::Low => (Verdict::Allow, "low risk inside the workspace".to_owned()),
        risk => (Verdict::Ask, format!("its risk is {risk}")),
    }
}

fn deny_in_plan_mode() -> (Verdict, String) {
    (Verdict::Deny, "plan mode does not allow changes or commands".to_owned())
}

fn outside_workspace_reason(effect: &Effect) -> String {
    format!("it would {effect}, which is outside the workspace")
}
