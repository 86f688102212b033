//! The step that decides whether a call runs: policy, then, where it says so, the person.
//!
//! Whatever is decided stands in the call's record before anything else happens, and a person's
//! answer is added to it once.

use tokio_util::sync::CancellationToken;
use zero_core::{
    CommandLimitChange, Effect, Effects, ErrorReason, PathZone, TargetPath, ToolError, ToolSpec,
};

use zero_policy::{HostName, PermissionMode};

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
use crate::tool::AnyPlan;
use crate::tool_host::ToolHost;

/// Most that one answer settles for a session: nobody reads through more before they answer.
const GRANTS_PER_ANSWER_MAX: usize = 16;

/// A call that wants to run.
pub(crate) struct AuthorizationRequest<'a> {
    pub(crate) spec: &'a ToolSpec,
    pub(crate) plan: &'a dyn AnyPlan,
    pub(crate) title: &'a str,
    pub(crate) effects: &'a Effects,
    /// What hooks said about it.
    pub(crate) say: &'a HookVerdict,
}

/// What a call may do that passed.
pub(crate) struct CallAuthorization {
    /// Limits that rules raise for it.
    pub(crate) limits: CommandLimitChange,
    /// The hosts that it was judged on: rules allow them, or the person who was asked does.
    pub(crate) hosts: Vec<HostName>,
}

impl CallAuthorization {
    /// Of a decision that lets the call pass, by itself or by the answer it led to.
    fn from_decision(decision: PolicyDecision) -> Self {
        let hosts = decision.effects.iter().filter(|effect| effect.kind == "net");
        // Only a host that was read with certainty can have been judged as one.
        let hosts = hosts.filter_map(|effect| {
            HostName::from_host(&effect.target)
                .ok()
                .filter(|host| host.to_string() == effect.target)
        });
        Self { hosts: hosts.collect(), limits: decision.limits }
    }
}

impl ToolHost {
    /// Lets a call pass, with what it may do then, or says why not.
    pub(crate) async fn authorize(
        &self,
        session: &ToolHostSession,
        asked: AuthorizationRequest<'_>,
        cx: &CallContext,
        cancel: &CancellationToken,
        ledger: &mut CallRecord<'_>,
    ) -> Result<CallAuthorization, ToolError> {
        let rejected = session.grants.list_grants(GrantDecision::Rejected);
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let judge = |mode: Option<PermissionMode>| self.decide(session, &asked, &granted, mode);
        let mode = session.mode();
        let decision = asked.say.apply_to(judge(mode)?);
        let noted = ledger.record_decision(&decision);
        if decision.verdict == Verdict::Deny {
            return Err(denial_error(
                &decision,
                ErrorReason::Denied,
                rule_denial_message(&asked, &decision),
            ));
        }
        let check = || catch_panics(|| asked.plan.check(cx));
        if decision.verdict == Verdict::Allow {
            return check().map(|()| CallAuthorization::from_decision(decision));
        }
        let title =
            format_title(&asked, find_decisive_path(&asked, &decision).map(|(path, _)| path));
        // That a call can only fail says what stands at its path: only who may look there hears it
        // before the person was asked.
        let may_look = self.can_read_paths(session, &asked);
        if may_look {
            check()?;
        }
        let offered = &decision.grants;
        let refused: Vec<GrantScope> =
            offered.iter().filter(|grant| rejected.contains(grant)).cloned().collect();
        if !refused.is_empty() {
            noted.answered = Some(format!(
                "{}: reject, earlier in this session",
                find_rejecter(session, &refused)
            ));
            let message = format!(
                "{title}: the user rejected {} for this session. Do not try it again; ask how they want to proceed.",
                format_grants(&refused)
            );
            return Err(denial_error(&decision, ErrorReason::Rejected, message));
        }
        let nobody = |how_to_allow: &str| {
            let message = format!(
                "{title}: denied, because {} and nobody can approve it here; to allow it, {how_to_allow}",
                decision.reason
            );
            denial_error(&decision, ErrorReason::NoApprover, message)
        };
        let Some(approver) = &session.approver else { return Err(nobody(&self.how_to_allow)) };
        let can_stand = session.is_persistent()
            && offered.len() <= GRANTS_PER_ANSWER_MAX
            && session.grants.has_room(offered.len());
        cx.prefetch_buffers(asked.effects).await;
        let question = ApprovalQuestion {
            call: cx.call().clone(),
            tool: asked.spec.name.clone(),
            title: asked.title.to_owned(),
            reason: decision.reason.clone(),
            risk: decision.risk,
            effects: asked.effects.clone(),
            judged: decision.effects.clone(),
            grants: if can_stand { offered.clone() } else { Vec::new() },
            preview: catch_panics(|| Ok(asked.plan.preview(cx)))?,
            rewritten: asked.say.rewritten_input().cloned(),
            workspace: session.workspace().cwd().to_owned(),
        };
        if let Some(how_to_allow) = approver.unreachable_hint(&question) {
            return Err(nobody(&how_to_allow));
        }
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolError::cancelled()),
            answer = approver.ask(&question) => answer,
        };
        if record_answer(session, &question, answer, &**approver, noted).is_allow() {
            // The mode may have become a stricter one while the person thought.
            let mode_now = session.mode();
            if mode_now != mode {
                let again = judge(mode_now)?;
                if again.verdict == Verdict::Deny {
                    let message = rule_denial_message(&asked, &again);
                    return Err(denial_error(&again, ErrorReason::Denied, message));
                }
            }
            if !may_look {
                check()?;
            }
            return Ok(CallAuthorization::from_decision(decision));
        }
        let message = format!("{title}: {REJECTED_BY_USER}");
        Err(denial_error(&decision, ErrorReason::Rejected, message))
    }

    /// The decision on a call by the rules alone. What they deny ends here.
    pub(crate) fn refuse_denied(
        &self,
        session: &ToolHostSession,
        asked: &AuthorizationRequest<'_>,
        ledger: &mut CallRecord<'_>,
    ) -> Result<PolicyDecision, ToolError> {
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let decision = self.decide(session, asked, &granted, session.mode())?;
        if decision.verdict == Verdict::Deny {
            ledger.record_decision(&decision);
            return Err(denial_error(
                &decision,
                ErrorReason::Denied,
                rule_denial_message(asked, &decision),
            ));
        }
        Ok(decision)
    }

    /// Rules meet whatever a model writes; a judge that fails has not allowed anything.
    fn decide(
        &self,
        session: &ToolHostSession,
        asked: &AuthorizationRequest<'_>,
        grants: &[GrantScope],
        mode: Option<PermissionMode>,
    ) -> Result<PolicyDecision, ToolError> {
        catch_panics(|| {
            Ok(self.policy.decide(PolicyRequest {
                spec: asked.spec,
                effects: asked.effects,
                workspace: session.workspace(),
                grants,
                mode,
            }))
        })
    }

    /// Whether a caller may know what stands at the call's paths, whatever becomes of the call.
    fn can_read_paths(&self, session: &ToolHostSession, asked: &AuthorizationRequest<'_>) -> bool {
        let tool = asked.spec.name.as_str();
        asked.effects.iter().filter_map(Effect::path).all(|path| {
            let written = session.workspace().cwd().join(path.written());
            path.zone() != PathZone::Outside
                && self.policy.may_read(tool, &written, path.canonical())
        })
    }
}

/// The first path that was judged as the whole call was.
fn find_decisive_path<'a>(
    asked: &'a AuthorizationRequest<'_>,
    decision: &'a PolicyDecision,
) -> Option<(&'a TargetPath, &'a EffectDecision)> {
    let judged = asked.effects.iter().zip(&decision.effects);
    judged
        .filter(|(_, judged)| judged.decision == decision.verdict)
        .find_map(|(effect, judged)| effect.path().map(|path| (path, judged)))
}

/// The call in the caller's own words: where a link leads is not for everybody to know.
fn format_title(asked: &AuthorizationRequest<'_>, path: Option<&TargetPath>) -> String {
    match path {
        Some(path) => failed_plan::call_title(asked.spec, path.written()),
        None => asked.title.to_owned(),
    }
}

/// Notes an answer and, where it stands for the rest of the session, keeps it. Gives back the
/// answer as it counts: one that was not offered counts for this one call.
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

/// Who said that these are not to be asked about again.
fn find_rejecter(session: &ToolHostSession, grants: &[GrantScope]) -> String {
    let mut rejections = session.rejections().into_iter();
    let theirs = rejections.find(|rejection| grants.contains(&rejection.grant));
    theirs.map_or_else(|| "person".to_owned(), |rejection| rejection.by)
}

/// Which rule denied, why, and what would have to change. Of a path it says only what its caller
/// wrote, and the same whether or not something stands there.
fn rule_denial_message(asked: &AuthorizationRequest<'_>, decision: &PolicyDecision) -> String {
    let PolicyDecision { rule, source, .. } = decision;
    let path = find_decisive_path(asked, decision);
    let title = format_title(asked, path.map(|(path, _)| path));
    // A rule's own reason repeats the path it denies.
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
    let title = format_title(asked, asked.effects.iter().find_map(Effect::path));
    denial_error(decision, ErrorReason::Denied, format!("{title}: denied by {why}"))
}
