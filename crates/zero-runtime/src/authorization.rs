//! The step that decides whether a call runs: policy, then, where it says so, the person.
//!
//! Whatever is decided stands in the call's record before anything else happens, and a person's
//! answer is added to it once.

use tokio_util::sync::CancellationToken;
use zero_core::{
    CommandLimitChange, Effect, Effects, ErrorReason, ErrorType, PathZone, TargetPath, ToolError,
    ToolSpec,
};

use zero_policy::{HostName, PermissionMode};

use crate::approver::{ApprovalAnswer, ApprovalQuestion, Approver, shown};
use crate::audit::AuditDecision;
use crate::call_context::CallContext;
use crate::call_record::CallRecord;
use crate::execution::guarded;
use crate::failed_plan;
use crate::grants::GrantDecision;
use crate::hooks::HookVerdict;
use crate::host_session::ToolHostSession;
use crate::policy::{EffectDecision, GrantScope, PolicyDecision, PolicyRequest, Verdict};
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
    fn of(decision: PolicyDecision) -> Self {
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
        let rejected = session.grants.of(GrantDecision::Rejected);
        let granted = session.grants.of(GrantDecision::Allowed);
        let judge = |mode: Option<PermissionMode>| self.judge(session, &asked, &granted, mode);
        let mode = session.mode();
        let decision = asked.say.raise(judge(mode)?);
        let noted = ledger.judged(&decision);
        if decision.verdict == Verdict::Deny {
            return Err(denied(&decision, ErrorReason::Denied, denied_by_rule(&asked, &decision)));
        }
        let check = || guarded(|| asked.plan.check(cx));
        if decision.verdict == Verdict::Allow {
            return check().map(|()| CallAuthorization::of(decision));
        }
        let title = titled(&asked, decisive_path(&asked, &decision).map(|(path, _)| path));
        // That a call can only fail says what stands at its path: only who may look there hears it
        // before the person was asked.
        let may_look = self.may_look(session, &asked);
        if may_look {
            check()?;
        }
        let offered = &decision.grants;
        let refused: Vec<GrantScope> =
            offered.iter().filter(|grant| rejected.contains(grant)).cloned().collect();
        if !refused.is_empty() {
            noted.answered =
                Some(format!("{}: reject, earlier in this session", rejecter(session, &refused)));
            let message = format!(
                "{title}: rejected, the person does not want to be asked about {} again in this session; do without it, or ask what they would rather have",
                shown(&refused)
            );
            return Err(denied(&decision, ErrorReason::Rejected, message));
        }
        let nobody = |how_to_allow: &str| {
            let message = format!(
                "{title}: denied, because {} and nobody can be asked here; to allow it, {how_to_allow}",
                decision.reason
            );
            denied(&decision, ErrorReason::NoApprover, message)
        };
        let Some(approver) = &session.approver else { return Err(nobody(&self.how_to_allow)) };
        let can_stand = session.remembers()
            && offered.len() <= GRANTS_PER_ANSWER_MAX
            && session.grants.has_room(offered.len());
        cx.foresee(asked.effects).await;
        let question = ApprovalQuestion {
            call: cx.call().clone(),
            tool: asked.spec.name.clone(),
            title: asked.title.to_owned(),
            reason: decision.reason.clone(),
            risk: decision.risk,
            effects: asked.effects.clone(),
            judged: decision.effects.clone(),
            grants: if can_stand { offered.clone() } else { Vec::new() },
            preview: guarded(|| Ok(asked.plan.preview(cx)))?,
            rewritten: asked.say.new_input().cloned(),
            workspace: session.workspace().cwd().to_owned(),
        };
        if let Some(how_to_allow) = approver.unreachable(&question) {
            return Err(nobody(&how_to_allow));
        }
        let answer = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolError::cancelled()),
            answer = approver.ask(&question) => answer,
        };
        if settle(session, &question, answer, &**approver, noted).allows() {
            // The mode may have become a stricter one while the person thought.
            let mode_now = session.mode();
            if mode_now != mode {
                let again = judge(mode_now)?;
                if again.verdict == Verdict::Deny {
                    let message = denied_by_rule(&asked, &again);
                    return Err(denied(&again, ErrorReason::Denied, message));
                }
            }
            if !may_look {
                check()?;
            }
            return Ok(CallAuthorization::of(decision));
        }
        let message = format!("{title}: rejected by the person; ask what they would rather have");
        Err(denied(&decision, ErrorReason::Rejected, message))
    }

    /// The decision on a call by the rules alone. What they deny ends here.
    pub(crate) fn refuse_denied(
        &self,
        session: &ToolHostSession,
        asked: &AuthorizationRequest<'_>,
        ledger: &mut CallRecord<'_>,
    ) -> Result<PolicyDecision, ToolError> {
        let granted = session.grants.of(GrantDecision::Allowed);
        let decision = self.judge(session, asked, &granted, session.mode())?;
        if decision.verdict == Verdict::Deny {
            ledger.judged(&decision);
            return Err(denied(&decision, ErrorReason::Denied, denied_by_rule(asked, &decision)));
        }
        Ok(decision)
    }

    /// Rules meet whatever a model writes; a judge that fails has not allowed anything.
    fn judge(
        &self,
        session: &ToolHostSession,
        asked: &AuthorizationRequest<'_>,
        grants: &[GrantScope],
        mode: Option<PermissionMode>,
    ) -> Result<PolicyDecision, ToolError> {
        guarded(|| {
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
    fn may_look(&self, session: &ToolHostSession, asked: &AuthorizationRequest<'_>) -> bool {
        let tool = asked.spec.name.as_str();
        asked.effects.iter().filter_map(Effect::path).all(|path| {
            let written = session.workspace().cwd().join(path.written());
            path.whereabouts() != PathZone::Outside
                && self.policy.may_read(tool, &written, path.canonical())
        })
    }
}

/// The first path that was judged as the whole call was.
fn decisive_path<'a>(
    asked: &'a AuthorizationRequest<'_>,
    decision: &'a PolicyDecision,
) -> Option<(&'a TargetPath, &'a EffectDecision)> {
    let judged = asked.effects.iter().zip(&decision.effects);
    judged
        .filter(|(_, judged)| judged.decision == decision.verdict)
        .find_map(|(effect, judged)| effect.path().map(|path| (path, judged)))
}

/// The call in the caller's own words: where a link leads is not for everybody to know.
fn titled(asked: &AuthorizationRequest<'_>, path: Option<&TargetPath>) -> String {
    match path {
        Some(path) => failed_plan::title(asked.spec, path.written()),
        None => asked.title.to_owned(),
    }
}

/// Notes an answer and, where it stands for the rest of the session, keeps it. Gives back the
/// answer as it counts: one that was not offered counts for this one call.
fn settle(
    session: &ToolHostSession,
    question: &ApprovalQuestion,
    answer: ApprovalAnswer,
    approver: &dyn Approver,
    noted: &mut AuditDecision,
) -> ApprovalAnswer {
    let by = approver.name();
    let stands = question.offers(answer)
        && match answer {
            ApprovalAnswer::AllowSession => {
                session.grants.settle(GrantDecision::Allowed, &question.grants, by)
            }
            ApprovalAnswer::RejectSession => {
                session.grants.settle(GrantDecision::Rejected, &question.grants, by)
            }
            ApprovalAnswer::AllowOnce | ApprovalAnswer::RejectOnce => false,
        };
    let counts = if stands { answer } else { answer.once() };
    noted.answered = Some(format!("{by}: {}", counts.words()));
    if stands {
        noted.grants =
            question.grants.iter().map(|grant| redaction::short_text(&grant.rule)).collect();
    }
    counts
}

/// Who said that these are not to be asked about again.
fn rejecter(session: &ToolHostSession, grants: &[GrantScope]) -> String {
    let mut rejections = session.rejections().into_iter();
    let theirs = rejections.find(|rejection| grants.contains(&rejection.grant));
    theirs.map_or_else(|| "person".to_owned(), |rejection| rejection.by)
}

/// Which rule denied, why, and what would have to change. Of a path it says only what its caller
/// wrote, and the same whether or not something stands there.
fn denied_by_rule(asked: &AuthorizationRequest<'_>, decision: &PolicyDecision) -> String {
    let PolicyDecision { rule, source, .. } = decision;
    let path = decisive_path(asked, decision);
    let title = titled(asked, path.map(|(path, _)| path));
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
pub(crate) fn denied_by_hook(
    asked: &AuthorizationRequest<'_>,
    decision: &PolicyDecision,
    why: &str,
) -> ToolError {
    let title = titled(asked, asked.effects.iter().find_map(Effect::path));
    denied(decision, ErrorReason::Denied, format!("{title}: denied by {why}"))
}

/// The error of a call that may not be made, with what is to be known of the decision.
pub(crate) fn denied(decision: &PolicyDecision, reason: ErrorReason, message: String) -> ToolError {
    let error = ToolError::new(ErrorType::PermissionDenied, reason, message);
    let facts = [
        ("risk", Some(decision.risk.word())),
        ("matched_rule", decision.rule.as_deref()),
        ("rule_source", decision.source.as_deref()),
    ];
    facts.into_iter().fold(error, |error, (key, value)| match value {
        Some(value) => error.with(key, value),
        None => error,
    })
}
