//! Decides whether a call runs: policy first, then the user if policy requires approval.
//!
//! The decision is stored in the call's record before anything else happens; the user's answer is
//! added to it once.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_core::{
    CommandLimitChange, Effect, Effects, ErrorReason, PathZone, TargetPath, ToolError, ToolSpec,
};

use zero_policy::{CommandAccess, HostName, PermissionMode};

use crate::approver::{
    ApprovalAnswer, ApprovalQuestion, Approver, REJECTED_BY_USER, format_grants,
};
use crate::audit::AuditDecision;
use crate::call_context::CallContext;
use crate::call_record::CallRecord;
use crate::execution::catch_panics;
use crate::failed_plan;
use crate::grants::GrantDecision;
use crate::hooks::HookVerdict;
use crate::host_session::ToolHostSession;
use crate::policy::{
    EffectDecision, GrantScope, PolicyDecision, PolicyRequest, Verdict, denial_error,
};
use crate::redaction;
use crate::secret_guard::mask_decision;
use crate::tool::AnyPlan;
use crate::tool_host::ToolHost;

/// Most grants per answer: nobody reviews more before they answer.
const GRANTS_PER_ANSWER_MAX: usize = 16;

/// A call that is to be authorized.
pub(crate) struct AuthorizationRequest<'a> {
    pub(crate) spec: &'a ToolSpec,
    pub(crate) plan: &'a dyn AnyPlan,
    pub(crate) title: &'a str,
    pub(crate) effects: &'a Effects,
    /// The secrets whose values it would send out.
    pub(crate) carried: &'a [String],
    /// The verdict of the hooks.
    pub(crate) hooks: &'a HookVerdict,
}

impl AuthorizationRequest<'_> {
    /// The path that decided, as the caller wrote it: the target of a link is not disclosed.
    fn file(&self, decision: &PolicyDecision) -> Option<&str> {
        find_decisive_path(self, decision).map(|(path, _)| path.written())
    }
}

/// What an authorized call may do.
pub(crate) struct CallAuthorization {
    /// Limits that rules raise for it.
    pub(crate) limits: CommandLimitChange,
    /// The hosts that rules or the user allowed for it.
    pub(crate) hosts: Vec<HostName>,
    /// What its commands may change and reach.
    pub(crate) access: CommandAccess,
}

impl CallAuthorization {
    /// From a decision that allows the call, either itself or by the user's answer.
    fn from_decision(decision: PolicyDecision) -> Self {
        let hosts = decision.effects.iter().filter(|effect| effect.kind == "net");
        // Only a host that was parsed with certainty can have been authorized.
        let hosts = hosts.filter_map(|effect| {
            HostName::from_host(&effect.target)
                .ok()
                .filter(|host| host.to_string() == effect.target)
        });
        Self {
            hosts: hosts.collect(),
            limits: decision.limits,
            access: decision.access.unwrap_or_default(),
        }
    }
}

impl ToolHost {
    /// Authorizes a call, or returns why it is denied.
    pub(crate) async fn authorize(
        &self,
        session: &ToolHostSession,
        asked: AuthorizationRequest<'_>,
        cx: &CallContext,
        cancel: &CancellationToken,
        ledger: &mut CallRecord<'_>,
    ) -> Result<CallAuthorization, ToolError> {
        let rejected = session.rejections();
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let mode = session.mode();
        let decision = self.decide(session, &asked, &granted, mode).await?;
        let decision = asked.hooks.apply_to(decision);
        let decision = self.secrets.tighten(decision, asked.carried);
        // What the user is shown has no value of a file that is changed, either.
        ledger.add_learned_secrets();
        let secrets = Arc::clone(&ledger.secrets);
        let user_wait = Arc::clone(&ledger.user_wait);
        let noted = ledger.record_decision(&decision);
        if decision.verdict == Verdict::Deny {
            let message = rule_denial_message(&asked, &decision);
            return Err(denial_error(
                &decision,
                ErrorReason::Denied,
                message,
                asked.file(&decision),
            ));
        }
        let check = || catch_panics(|| asked.plan.check(cx));
        if decision.verdict == Verdict::Allow {
            return check().map(|()| CallAuthorization::from_decision(decision));
        }
        let title =
            format_title(&asked, find_decisive_path(&asked, &decision).map(|(path, _)| path));
        // That a call can only fail reveals what exists at its path. Only a caller that may read
        // the path learns it before the user is asked.
        let may_look = self.can_read_paths(session, &asked);
        if may_look {
            check()?;
        }
        let offered = &decision.grants;
        let is_rejected =
            |grant: &GrantScope| rejected.iter().any(|rejection| rejection.grant == *grant);
        let refused: Vec<GrantScope> =
            offered.iter().filter(|grant| is_rejected(grant)).cloned().collect();
        if let Some(rejection) =
            rejected.iter().find(|rejection| refused.contains(&rejection.grant))
        {
            noted.answered = Some(format!("{}: reject, earlier in this session", rejection.by));
            let message = format!(
                "{title}: the user rejected {} for this session. Do not try it again; ask how they want to proceed.",
                format_grants(&refused)
            );
            let file = asked.file(&decision);
            return Err(denial_error(&decision, ErrorReason::Rejected, message, file));
        }
        let nobody = |how_to_allow: &str| {
            let message = format!(
                "{title}: denied, because {} and nobody can approve it here; to allow it, {how_to_allow}",
                decision.reason
            );
            denial_error(&decision, ErrorReason::NoApprover, message, asked.file(&decision))
        };
        let Some(approver) = &session.approver else { return Err(nobody(&self.how_to_allow)) };
        let can_stand = session.is_persistent()
            && offered.len() <= GRANTS_PER_ANSWER_MAX
            && session.grants.has_room(offered.len());
        cx.prefetch_buffers(asked.effects).await;
        let shown = mask_decision(&secrets, &decision);
        let mut question = ApprovalQuestion {
            call: cx.call().clone(),
            tool: asked.spec.name.clone(),
            title: secrets.mask_text(asked.title).into_owned(),
            reason: shown.reason,
            risk: decision.risk,
            effects: asked.effects.clone(),
            judged: shown.effects,
            grants: if can_stand { offered.clone() } else { Vec::new() },
            preview: catch_panics(|| Ok(asked.plan.preview(cx)))?,
            rewritten: asked.hooks.rewritten_input().cloned(),
            workspace: session.workspace().cwd().to_owned(),
        };
        question.mask_secrets(&secrets);
        if let Some(how_to_allow) = approver.unreachable_hint(&question) {
            return Err(nobody(&how_to_allow));
        }
        let waiting = user_wait.start();
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolError::cancelled()),
            answer = approver.ask(&question) => answer,
        };
        drop(waiting);
        if record_answer(session, &question, answer, &**approver, noted).is_allow() {
            // The mode may have become stricter while the user was asked.
            let mode_now = session.mode();
            if mode_now != mode {
                let again = self.decide(session, &asked, &granted, mode_now).await?;
                if again.verdict == Verdict::Deny {
                    let message = rule_denial_message(&asked, &again);
                    let file = asked.file(&again);
                    return Err(denial_error(&again, ErrorReason::Denied, message, file));
                }
            }
            if !may_look {
                check()?;
            }
            return Ok(CallAuthorization::from_decision(decision));
        }
        let message = format!("{title}: {REJECTED_BY_USER}");
        Err(denial_error(&decision, ErrorReason::Rejected, message, asked.file(&decision)))
    }

    /// Applies the rules alone; fails if they deny the call.
    pub(crate) async fn refuse_denied(
        &self,
        session: &ToolHostSession,
        asked: &AuthorizationRequest<'_>,
        ledger: &mut CallRecord<'_>,
    ) -> Result<PolicyDecision, ToolError> {
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let decision = self.decide(session, asked, &granted, session.mode()).await?;
        if decision.verdict == Verdict::Deny {
            ledger.record_decision(&decision);
            let message = rule_denial_message(asked, &decision);
            return Err(denial_error(
                &decision,
                ErrorReason::Denied,
                message,
                asked.file(&decision),
            ));
        }
        Ok(decision)
    }

    /// Rules match arbitrary model input; if the engine panics, nothing is allowed.
    ///
    /// Commands are judged on a thread of their own, because searching the folders that a line names
    /// takes time in which other sessions must go on.
    async fn decide(
        &self,
        session: &ToolHostSession,
        asked: &AuthorizationRequest<'_>,
        grants: &[GrantScope],
        mode: Option<PermissionMode>,
    ) -> Result<PolicyDecision, ToolError> {
        let (spec, effects, workspace) = (asked.spec, asked.effects, session.workspace());
        if !effects.iter().any(|effect| matches!(effect, Effect::Exec(_))) {
            let arguments = asked.plan.arguments();
            let request = PolicyRequest { spec, effects, arguments, workspace, grants, mode };
            return catch_panics(|| Ok(self.policy.decide(request)));
        }
        let (spec, effects, workspace) = (spec.clone(), effects.clone(), workspace.clone());
        let (policy, grants) = (Arc::clone(&self.policy), grants.to_vec());
        let arguments = asked.plan.arguments().cloned();
        let judged = tokio::task::spawn_blocking(move || {
            let request = PolicyRequest {
                spec: &spec,
                effects: &effects,
                arguments: arguments.as_ref(),
                workspace: &workspace,
                grants: &grants,
                mode,
            };
            catch_panics(|| Ok(policy.decide(request)))
        });
        judged.await.unwrap_or_else(|_| Err(ToolError::cancelled()))
    }

    /// Whether the caller may learn what exists at the call's paths, whatever happens to the call.
    fn can_read_paths(&self, session: &ToolHostSession, asked: &AuthorizationRequest<'_>) -> bool {
        let tool = asked.spec.name.as_str();
        asked.effects.iter().filter_map(Effect::path).all(|path| {
            let written = session.workspace().cwd().join(path.written());
            path.zone() != PathZone::Outside
                && self.policy.may_read(tool, &written, path.canonical())
        })
    }
}

/// The first path whose decision equals that of the whole call.
fn find_decisive_path<'a, 'd>(
    asked: &'a AuthorizationRequest<'_>,
    decision: &'d PolicyDecision,
) -> Option<(&'a TargetPath, &'d EffectDecision)> {
    let judged = asked.effects.iter().zip(&decision.effects);
    judged
        .filter(|(_, judged)| judged.decision == decision.verdict)
        .find_map(|(effect, judged)| effect.path().map(|path| (path, judged)))
}

/// The call in the caller's own words: the target of a link is not shown.
fn format_title(asked: &AuthorizationRequest<'_>, path: Option<&TargetPath>) -> String {
    match path {
        Some(path) => failed_plan::call_title(asked.spec, path.written()),
        None => asked.title.to_owned(),
    }
}

/// Records an answer and stores its grants for the session. Returns the answer that applies: one
/// that was not offered applies to this call only.
fn record_answer(
    session: &ToolHostSession,
    question: &ApprovalQuestion,
    answer: ApprovalAnswer,
    approver: &dyn Approver,
    noted: &mut AuditDecision,
) -> ApprovalAnswer {
    let by = approver.name();
    let stands = question.has_option(answer)
        && match answer {
            ApprovalAnswer::AllowSession => {
                session.grants.record(GrantDecision::Allowed, &question.grants, by)
            }
            ApprovalAnswer::RejectSession => {
                session.grants.record(GrantDecision::Rejected, &question.grants, by)
            }
            ApprovalAnswer::AllowOnce | ApprovalAnswer::RejectOnce => false,
        };
    let counts = if stands { answer } else { answer.to_once() };
    noted.answered = Some(format!("{by}: {}", counts.audit_label()));
    if stands {
        noted.grants = question
            .grants
            .iter()
            .map(|grant| redaction::redact_and_shorten(&grant.rule))
            .collect();
    }
    counts
}

/// Which rule denied the call, why, and what would have to change. Names only the path that the
/// caller wrote, whether or not it exists.
fn rule_denial_message(asked: &AuthorizationRequest<'_>, decision: &PolicyDecision) -> String {
    let PolicyDecision { rule, source, .. } = decision;
    let path = find_decisive_path(asked, decision);
    let title = format_title(asked, path.map(|(path, _)| path));
    // The rule's own reason repeats the path.
    let reason = match path {
        Some((_, judged)) => &judged.reason,
        None => &decision.reason,
    };
    let advice = match source {
        Some(source) => format!("to allow it, remove or narrow that rule in {source}"),
        None => "to allow it, remove or narrow that rule".to_owned(),
    };
    match rule {
        Some(rule) if path.is_some() => format!("{title}: denied by rule `{rule}`; {advice}"),
        Some(rule) => format!("{title}: denied by rule `{rule}`, {reason}; {advice}"),
        None => format!("{title}: denied, {reason}"),
    }
}

/// The error of a call that a hook denies, in the caller's own words.
pub(crate) fn hook_denial_error(
    asked: &AuthorizationRequest<'_>,
    decision: &PolicyDecision,
    why: &str,
) -> ToolError {
    let path = asked.effects.iter().find_map(Effect::path);
    let message = format!("{}: denied by {why}", format_title(asked, path));
    denial_error(decision, ErrorReason::Denied, message, path.map(TargetPath::written))
}
