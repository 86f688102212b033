//! Decides whether a call runs: policy first, then the user if policy requires approval.
//!
//! The decision is stored in the call's record before anything else happens; the user's answer is
//! added to it once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_core::text_shortening::shorten_end;
use zero_core::{
    CommandExecution, CommandLimitChange, Effect, Effects, ErrorReason, PathZone, RiskLevel,
    TargetPath, ToolError, ToolKind, ToolSpec,
};

use zero_exec::{FailureEvidence, OutsideUse};
use zero_policy::{CommandAccess, HostName, NetworkScope, PermissionMode};

use crate::address_notes::{add_address_notes, list_address_notes};
use crate::approver::{
    ApprovalAnswer, ApprovalQuestion, ApprovalReply, ApprovalSubject, Approver, REJECTED_BY_USER,
    REJECTED_EARLIER, REJECTED_IN_SESSION, REJECTED_WITH_MESSAGE, REJECTION_CHARS_MAX,
    USER_APPROVER, WithdrawalNote, format_grants, tool_scope,
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
    EffectDecision, GrantScope, Policy, PolicyDecision, PolicyRequest, RuleOwner, Verdict,
    denial_error,
};
use crate::redaction;
use crate::secret_guard::mask_decision;
use crate::tool::AnyPlan;
use crate::tool_host::ToolHost;
use crate::{trial, undo_outlook};

/// Why a command does not run outside the sandbox although the user said yes: it may be another one than
/// the user looked at.
const CHANGED_WHILE_ASKED: &str = "denied, because another call changed files or started a command while the user was asked; run it inside again, then request it while nothing else runs";

/// How a command could run outside the sandbox if no user can be asked.
const OUTSIDE_ADVICE: &str =
    "run it in a terminal or an editor, where you are asked; nothing else can allow it";

/// What the user must know if only the output of a command says that the sandbox made it fail.
const UNCONFIRMED_FAILURE: &str =
    "; only its own output says that the sandbox made it fail, and a command can print anything";

/// Most grants per answer: users do not review more before they answer.
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
    /// What the user may do, or has done, to its command.
    pub(crate) command_edit: CommandEdit,
    /// Whether it is one command of the shell that ends with the call.
    pub(crate) is_single_command: bool,
}

/// What the user may do, or has done, to the command of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEdit {
    /// It cannot be edited.
    Unavailable,
    /// It can be edited.
    Offered,
    /// It was edited before, and can be again.
    Repeated,
    /// It was edited as often as possible.
    Exhausted,
}

impl CommandEdit {
    fn is_offered(self) -> bool {
        matches!(self, Self::Offered | Self::Repeated)
    }

    fn is_edited(self) -> bool {
        matches!(self, Self::Repeated | Self::Exhausted)
    }
}

/// How the question whether a call may run ended, if nothing denied it.
pub(crate) enum AuthorizationOutcome {
    /// The call may run.
    Authorized(Box<CallAuthorization>),
    /// The user wants this command to be judged instead.
    CommandEdited(String),
}

impl AuthorizationRequest<'_> {
    /// The path that decided, as the caller wrote it: the target of a link is not disclosed.
    fn file(&self, decision: &PolicyDecision) -> Option<&str> {
        find_decisive_path(self, decision).map(|(path, _)| path.written())
    }
}

/// Adds the rules that would allow a call to an advice, unless it names them already.
fn add_rule_advice(how_to_allow: &str, decision: &PolicyDecision) -> String {
    let rules: Vec<String> = decision.grants.iter().map(|it| format!("`{}`", it.rule)).collect();
    let is_named = decision.grants.iter().all(|grant| how_to_allow.contains(&grant.rule));
    // No rule that can be offered covers a critical action: zero asks every time.
    match &rules[..] {
        _ if is_named || decision.risk == RiskLevel::Critical => how_to_allow.to_owned(),
        [rule] => {
            format!("{how_to_allow}, or add the rule {rule} to `permissions.allow` in the settings")
        }
        rules => format!(
            "{how_to_allow}, or add the rules {} to `permissions.allow` in the settings",
            rules.join(", ")
        ),
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
    /// The secret files that are hidden from its commands.
    pub(crate) hidden_secrets: Vec<PathBuf>,
    /// Whether the user tries it, and decides about its changes afterwards.
    pub(crate) is_trial: bool,
}

impl CallAuthorization {
    /// From a decision that allows the call, either itself or by an answer.
    fn from_decision(decision: PolicyDecision, is_answered_by_person: bool) -> Self {
        let mut access = decision.access.unwrap_or_default();
        let is_allowed = |path: &PathBuf| {
            let allowed = |effect: &&EffectDecision| effect.decision == Verdict::Allow;
            let mut allowed = decision.effects.iter().filter(allowed);
            allowed.any(|effect| effect.kind == "write" && Path::new(&effect.target) == path)
        };
        access.repositories.retain(|path| is_answered_by_person || is_allowed(path));
        let is_open = |host: &HostName| is_answered_by_person || !access.registries.contains(host);
        let hosts = decision.effects.iter().filter(|effect| effect.kind == "net");
        // Only a host that was parsed with certainty can have been authorized.
        let hosts = hosts.filter_map(|effect| {
            HostName::from_host(&effect.target)
                .ok()
                .filter(|host| host.to_string() == effect.target && is_open(host))
        });
        Self {
            hosts: hosts.collect(),
            limits: decision.limits,
            access,
            hidden_secrets: Vec::new(),
            is_trial: false,
        }
    }

    /// The same for a trial, which reaches no host: its effects there could not be discarded.
    fn into_trial(self) -> Self {
        let access = CommandAccess { network: NetworkScope::Nothing, ..self.access };
        Self { hosts: Vec::new(), access, is_trial: true, ..self }
    }
}

impl ToolHost {
    /// Authorizes a call, or returns why it is denied.
    pub(crate) async fn authorize(
        &self,
        session: &ToolHostSession,
        authorization_request: AuthorizationRequest<'_>,
        cx: &CallContext,
        cancel: &CancellationToken,
        record: &mut CallRecord<'_>,
    ) -> Result<AuthorizationOutcome, ToolError> {
        use AuthorizationOutcome::{Authorized, CommandEdited};
        let rejected = session.rejections();
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let mode = session.mode();
        let decision = self.decide(session, &authorization_request, &granted, mode).await?;
        let sent = self.secrets.find_sent_secrets(&decision).await;
        let carried = self.secrets.find_carried(authorization_request.carried, &decision);
        // Only what policy itself asks about can be answered by a rule.
        let is_policy_question = decision.verdict == Verdict::Ask
            && !authorization_request.hooks.asks()
            && carried.is_empty()
            && sent.is_empty();
        let decision = authorization_request.hooks.apply_to(decision);
        let decision = self.secrets.tighten(decision, &carried, &sent);
        let outside = find_outside_command(authorization_request.effects);
        let decision = if outside.is_some() { tighten_outside(decision) } else { decision };
        let undo = self.commands.settings.undo;
        let decision = undo_outlook::tighten(decision, undo, &self.workspace).await;
        let (decision, hidden_secrets) =
            self.secrets.hide_files(decision, &*self.policy, &granted).await;
        // What the user is shown has no value of a file that is changed, either.
        record.add_learned_secrets();
        let secrets = Arc::clone(&record.secrets);
        let user_wait = Arc::clone(&record.user_wait);
        let noted = record.record_decision(&decision);
        if authorization_request.command_edit.is_edited() {
            noted.answered = Some(format!("{USER_APPROVER}: edit the command"));
        }
        if decision.verdict == Verdict::Deny {
            let message = rule_denial_message(&authorization_request, &decision);
            return Err(denial_error(
                &decision,
                ErrorReason::Denied,
                message,
                authorization_request.file(&decision),
            ));
        }
        let looks = matches!(
            authorization_request.spec.kind,
            ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::Fetch
        );
        let may_change = outside.is_none() && !looks;
        if may_change {
            // What changes files can change what the failed command would do outside.
            session.commands.note_change();
        }
        let changes_before = session.commands.change_count();
        let evidence = match outside {
            Some(execution) => Some(self.find_outside_evidence(
                session,
                &authorization_request,
                execution,
                &decision,
            )?),
            None => None,
        };
        let whole_tool = tool_scope(&authorization_request.spec.name);
        if let Some(rejection) = rejected.iter().find(|rejection| rejection.grant == whole_tool) {
            noted.answered =
                Some(format!("{}: reject the tool, earlier in this session", rejection.by));
            let message = format!(
                "{}: {REJECTED_EARLIER}every call of `{}`{REJECTED_IN_SESSION}",
                format_title(
                    &authorization_request,
                    find_decisive_path(&authorization_request, &decision).map(|(path, _)| path)
                ),
                authorization_request.spec.name
            );
            let file = authorization_request.file(&decision);
            return Err(denial_error(&decision, ErrorReason::Rejected, message, file));
        }
        let check = || catch_panics(|| authorization_request.plan.check(cx));
        if decision.verdict == Verdict::Allow {
            check()?;
            let authorization = CallAuthorization::from_decision(decision, false);
            let authorization = CallAuthorization { hidden_secrets, ..authorization };
            return Ok(Authorized(Box::new(authorization)));
        }
        let title = format_title(
            &authorization_request,
            find_decisive_path(&authorization_request, &decision).map(|(path, _)| path),
        );
        // That a call can only fail reveals what exists at its path. Only a caller that may read
        // the path learns it before the user is asked.
        let may_look = self.can_read_paths(session, &authorization_request);
        if may_look {
            check()?;
        }
        if outside.is_none() {
            self.refuse_unwritable(session, &authorization_request, &title, &decision)?;
        }
        cx.prefetch_buffers(authorization_request.effects).await;
        if may_look {
            catch_panics(|| authorization_request.plan.rehearse(cx))?;
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
                "{title}: {REJECTED_EARLIER}{}{REJECTED_IN_SESSION}",
                format_grants(&refused)
            );
            let file = authorization_request.file(&decision);
            return Err(denial_error(&decision, ErrorReason::Rejected, message, file));
        }
        let deny = |how_to_allow: &str| {
            let message = format!(
                "{title}: denied, because {} and no user can approve it here; to allow it, {}",
                decision.reason,
                add_rule_advice(how_to_allow, &decision)
            );
            denial_error(
                &decision,
                ErrorReason::NoApprover,
                message,
                authorization_request.file(&decision),
            )
        };
        let Some(approver) = &session.approver else { return Err(deny(&self.how_to_allow)) };
        if outside.is_some() && !approver.can_leave_sandbox() {
            return Err(deny(OUTSIDE_ADVICE));
        }
        let is_grantable = session.is_persistent()
            && offered.len() <= GRANTS_PER_ANSWER_MAX
            && session.grants.has_room(offered.len());
        let rule_owners = match is_grantable && is_policy_question {
            true => self.find_rule_owners(session, &authorization_request, offered, mode).await?,
            false => Vec::new(),
        };
        let mut shown = mask_decision(&secrets, &decision);
        if evidence == Some(FailureEvidence::Output) {
            shown.reason.push_str(UNCONFIRMED_FAILURE);
        }
        let (internet, commands) = (&self.internet, &self.commands);
        let notes = list_address_notes(internet, commands, &*self.policy, &decision).await;
        add_address_notes(&notes, &mut shown);
        let mut question = ApprovalQuestion {
            subject: ApprovalSubject::Call,
            call: cx.call().clone(),
            tool: authorization_request.spec.name.clone(),
            title: secrets.mask_text(authorization_request.title).into_owned(),
            reason: shown.reason,
            risk: decision.risk,
            effects: authorization_request.effects.clone(),
            judged: shown.effects,
            grants: if is_grantable { offered.clone() } else { Vec::new() },
            rule_owners,
            can_edit_command: authorization_request.command_edit.is_offered() && outside.is_none(),
            can_try_command: authorization_request.is_single_command
                && outside.is_none()
                && approver.can_review_trials()
                && trial::is_possible(
                    authorization_request.effects,
                    &decision,
                    session.workspace(),
                ),
            can_reject_tool: session.is_persistent()
                && session.grants.has_room(1)
                && outside.is_none(),
            preview: catch_panics(|| Ok(authorization_request.plan.preview(cx)))?,
            rewritten: authorization_request.hooks.rewritten_input().cloned(),
            withdrawal: WithdrawalNote::default(),
            workspace: session.workspace().cwd().to_owned(),
        };
        question.mask_secrets(&secrets);
        if let Some(how_to_allow) = approver.unreachable_hint(&question) {
            return Err(deny(if outside.is_some() { OUTSIDE_ADVICE } else { &how_to_allow }));
        }
        let waiting = user_wait.start();
        let reply = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolError::cancelled()),
            reply = approver.ask_for_reply(&question) => reply,
        };
        drop(waiting);
        let mut rejection = None;
        let answer = match reply {
            ApprovalReply::Answer(answer) => answer,
            ApprovalReply::AllowAlways { .. } => ApprovalAnswer::AllowSession,
            ApprovalReply::RejectWithMessage(ref message) => {
                rejection = Some(shorten_end(message.trim(), REJECTION_CHARS_MAX));
                ApprovalAnswer::RejectOnce
            }
            ApprovalReply::EditCommand(command) if question.can_edit_command => {
                noted.answered = Some(format!("{}: edit the command", approver.name()));
                return Ok(CommandEdited(command));
            }
            ApprovalReply::TryCommand if question.can_try_command => ApprovalAnswer::AllowOnce,
            ApprovalReply::EditCommand(_) | ApprovalReply::TryCommand => ApprovalAnswer::RejectOnce,
        };
        let is_trial = matches!(reply, ApprovalReply::TryCommand);
        let counts = record_answer(session, &question, answer, &**approver, noted);
        if let ApprovalReply::AllowAlways { file } = &reply {
            noted.answered = Some(format!("{}: allow always, by {file}", approver.name()));
        }
        if is_trial && counts.is_allow() {
            noted.answered = Some(format!("{}: try it", approver.name()));
        }
        if counts.is_allow() {
            // The mode may have become stricter while the user was asked.
            let mode_now = session.mode();
            if mode_now != mode {
                let second_decision =
                    self.decide(session, &authorization_request, &granted, mode_now).await?;
                if second_decision.verdict == Verdict::Deny {
                    let message = rule_denial_message(&authorization_request, &second_decision);
                    let file = authorization_request.file(&second_decision);
                    return Err(denial_error(&second_decision, ErrorReason::Denied, message, file));
                }
            }
            if !may_look {
                check()?;
            }
            if may_change {
                session.commands.note_change();
            }
            let changed = || session.commands.change_count() != changes_before;
            if outside.is_some() && (changed() || session.commands.has_running()) {
                let message = format!("{title}: {CHANGED_WHILE_ASKED}");
                return Err(denial_error(&decision, ErrorReason::Denied, message, None));
            }
            let authorization = CallAuthorization::from_decision(decision, approver.is_person());
            let authorization = if is_trial { authorization.into_trial() } else { authorization };
            return Ok(Authorized(Box::new(authorization)));
        }
        let message = match rejection.filter(|message| !message.is_empty()) {
            Some(said) => format!("{title}: {REJECTED_WITH_MESSAGE}{said}"),
            None => format!("{title}: {REJECTED_BY_USER}"),
        };
        Err(denial_error(
            &decision,
            ErrorReason::Rejected,
            message,
            authorization_request.file(&decision),
        ))
    }

    /// How it is known that the sandbox made a command fail that is to run outside it. Fails if the
    /// command may not be asked about: only the last command of the session can run outside, if it
    /// failed because of the sandbox.
    fn find_outside_evidence(
        &self,
        session: &ToolHostSession,
        authorization_request: &AuthorizationRequest<'_>,
        execution: &CommandExecution,
        decision: &PolicyDecision,
    ) -> Result<FailureEvidence, ToolError> {
        let why = if self.commands.settings.outside == OutsideUse::Never {
            "`sandbox.outside` is \"never\" in the settings; do without, or ask the user to run it"
        } else if session.commands.has_running() {
            "a job or another command of this session runs, which could change what the user is asked about; end it or wait for it, run the command inside again, then request it"
        } else if let Some(evidence) = session.commands.take_sandbox_failure(execution) {
            return Ok(evidence);
        } else {
            "a command can run outside the sandbox only if it was the last command of this session and failed because of the sandbox; run it inside first, with the same text"
        };
        let message = format!("{}: denied, because {why}", authorization_request.title);
        Err(denial_error(decision, ErrorReason::Denied, message, None))
    }

    /// Applies the rules alone; fails if they deny the call.
    pub(crate) async fn refuse_denied(
        &self,
        session: &ToolHostSession,
        authorization_request: &AuthorizationRequest<'_>,
        record: &mut CallRecord<'_>,
    ) -> Result<PolicyDecision, ToolError> {
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let decision =
            self.decide(session, authorization_request, &granted, session.mode()).await?;
        if decision.verdict == Verdict::Deny {
            record.record_decision(&decision);
            let message = rule_denial_message(authorization_request, &decision);
            return Err(denial_error(
                &decision,
                ErrorReason::Denied,
                message,
                authorization_request.file(&decision),
            ));
        }
        Ok(decision)
    }

    /// Fails if a command of the call would change a file that the sandbox keeps it from changing,
    /// whatever the user answers. Like a command that failed because of that, it can be requested
    /// outside the sandbox then.
    fn refuse_unwritable(
        &self,
        session: &ToolHostSession,
        authorization_request: &AuthorizationRequest<'_>,
        title: &str,
        decision: &PolicyDecision,
    ) -> Result<(), ToolError> {
        // Only decisions about commands have it.
        let Some(access) = &decision.access else { return Ok(()) };
        let changes = decision.effects.iter().filter(|effect| {
            matches!(effect.kind, "write" | "delete") && effect.decision == Verdict::Ask
        });
        let roots: Vec<&Path> = session.workspace().roots().collect();
        let closed = changes
            .map(|effect| Path::new(&effect.target))
            // An answer opens these.
            .filter(|path| !access.repositories.contains(*path))
            .find(|path| !self.commands.may_write(path, &roots));
        let Some(path) = closed else { return Ok(()) };
        let execution = authorization_request.effects.iter().find_map(Effect::execution);
        let is_offered_outside = authorization_request.is_single_command
            && session.is_persistent()
            && self.commands.settings.outside != OutsideUse::Never
            && session.approver.as_ref().is_some_and(|approver| approver.can_leave_sandbox());
        let outside = match execution.filter(|_| is_offered_outside) {
            Some(execution) => {
                let failed = (execution.clone(), FailureEvidence::Prediction);
                session.commands.record_sandbox_failure(Some(failed));
                ", request it outside the sandbox (`\"outside_sandbox\": true`)"
            }
            None => "",
        };
        let message = format!(
            "{title}: commands cannot write to `{}`, which is outside the workspace; use Write{outside}, or ask the user to add the folder to `sandbox.writable`",
            path.display(),
        );
        Err(denial_error(decision, ErrorReason::ReadOnly, message, None))
    }

    async fn decide(
        &self,
        session: &ToolHostSession,
        authorization_request: &AuthorizationRequest<'_>,
        grants: &[GrantScope],
        mode: Option<PermissionMode>,
    ) -> Result<PolicyDecision, ToolError> {
        self.consult_policy(session, authorization_request, grants, mode, |policy, request| {
            policy.decide(request)
        })
        .await
    }

    /// Whose settings would allow the call with the rules of these grants.
    async fn find_rule_owners(
        &self,
        session: &ToolHostSession,
        authorization_request: &AuthorizationRequest<'_>,
        offered: &[GrantScope],
        mode: Option<PermissionMode>,
    ) -> Result<Vec<RuleOwner>, ToolError> {
        let rules = offered.to_vec();
        self.consult_policy(session, authorization_request, &[], mode, move |policy, request| {
            let helps = |owner: &RuleOwner| policy.would_allow(request, &rules, *owner);
            [RuleOwner::User, RuleOwner::Project].into_iter().filter(helps).collect()
        })
        .await
    }

    /// Rules match arbitrary model input; if the engine panics, nothing is allowed.
    ///
    /// Commands and changes are judged on a thread of their own, because searching folders takes time in
    /// which other sessions must go on.
    async fn consult_policy<T: Send + 'static>(
        &self,
        session: &ToolHostSession,
        authorization_request: &AuthorizationRequest<'_>,
        grants: &[GrantScope],
        mode: Option<PermissionMode>,
        question: impl FnOnce(&dyn Policy, PolicyRequest<'_>) -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let (spec, effects, workspace) =
            (authorization_request.spec, authorization_request.effects, session.workspace());
        let searches = |effect: &Effect| {
            matches!(effect, Effect::Exec(_) | Effect::Write(_) | Effect::Delete(_))
        };
        if !effects.iter().any(searches) {
            let (arguments, commands) =
                (authorization_request.plan.arguments(), Some(&*self.commands));
            let temp = None;
            let request =
                PolicyRequest { spec, effects, arguments, workspace, grants, mode, commands, temp };
            return catch_panics(|| Ok(question(&*self.policy, request)));
        }
        let (spec, effects, workspace) = (spec.clone(), effects.clone(), workspace.clone());
        let (policy, grants) = (Arc::clone(&self.policy), grants.to_vec());
        let commands = Arc::clone(&self.commands);
        let temp = session.commands.temp_folder().to_owned();
        let arguments = authorization_request.plan.arguments().cloned();
        let judged = tokio::task::spawn_blocking(move || {
            let request = PolicyRequest {
                spec: &spec,
                effects: &effects,
                arguments: arguments.as_ref(),
                workspace: &workspace,
                grants: &grants,
                mode,
                commands: Some(&commands),
                temp: Some(&temp),
            };
            catch_panics(|| Ok(question(&*policy, request)))
        });
        judged.await.unwrap_or_else(|_| Err(ToolError::cancelled()))
    }

    /// Whether the caller may learn what exists at the call's paths, whatever happens to the call.
    fn can_read_paths(
        &self,
        session: &ToolHostSession,
        authorization_request: &AuthorizationRequest<'_>,
    ) -> bool {
        let tool = authorization_request.spec.name.as_str();
        authorization_request.effects.iter().filter_map(Effect::path).all(|path| {
            let written = session.workspace().cwd().join(path.written());
            path.zone() != PathZone::Outside
                && self.policy.may_read(tool, &written, path.canonical())
        })
    }
}

/// The command of a call that is to run outside the sandbox.
fn find_outside_command(effects: &Effects) -> Option<&CommandExecution> {
    effects.iter().filter_map(Effect::execution).find(|execution| execution.outside_sandbox)
}

/// Whatever a policy says, a command that is to run outside the sandbox is a critical question, and
/// no answer to it is stored.
fn tighten_outside(decision: PolicyDecision) -> PolicyDecision {
    let verdict = decision.verdict.max(Verdict::Ask);
    PolicyDecision { verdict, risk: RiskLevel::Critical, grants: Vec::new(), ..decision }
}

/// The first path whose decision equals that of the whole call.
fn find_decisive_path<'a, 'd>(
    authorization_request: &'a AuthorizationRequest<'_>,
    decision: &'d PolicyDecision,
) -> Option<(&'a TargetPath, &'d EffectDecision)> {
    let judged = authorization_request.effects.iter().zip(&decision.effects);
    judged
        .filter(|(_, judged)| judged.decision == decision.verdict)
        .find_map(|(effect, judged)| effect.path().map(|path| (path, judged)))
}

/// The call in the caller's own words: the target of a link is not shown.
fn format_title(
    authorization_request: &AuthorizationRequest<'_>,
    path: Option<&TargetPath>,
) -> String {
    match path {
        Some(path) => failed_plan::call_title(authorization_request.spec, path.written()),
        None => authorization_request.title.to_owned(),
    }
}

/// Records an answer and stores its grants for the session. Returns the answer that applies: one
/// that was not offered applies to this call only.
pub(crate) fn record_answer(
    session: &ToolHostSession,
    question: &ApprovalQuestion,
    answer: ApprovalAnswer,
    approver: &dyn Approver,
    noted: &mut AuditDecision,
) -> ApprovalAnswer {
    let by = approver.name();
    let scopes = question.answer_scopes(answer);
    let decision = if answer.is_allow() { GrantDecision::Allowed } else { GrantDecision::Rejected };
    let is_recorded = question.has_option(answer)
        && !scopes.is_empty()
        && session.grants.record(decision, &scopes, by);
    let counts = if is_recorded { answer } else { answer.to_once() };
    noted.answered = Some(format!("{by}: {}", counts.audit_label()));
    if is_recorded {
        noted.grants =
            scopes.iter().map(|grant| redaction::redact_and_shorten(&grant.rule)).collect();
    }
    counts
}

/// Which rule denied the call, why, and what would have to change. Names only the path that the
/// caller wrote, whether or not it exists.
fn rule_denial_message(
    authorization_request: &AuthorizationRequest<'_>,
    decision: &PolicyDecision,
) -> String {
    let PolicyDecision { rule, source, .. } = decision;
    let path = find_decisive_path(authorization_request, decision);
    let title = format_title(authorization_request, path.map(|(path, _)| path));
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
    authorization_request: &AuthorizationRequest<'_>,
    decision: &PolicyDecision,
    why: &str,
) -> ToolError {
    let path = authorization_request.effects.iter().find_map(Effect::path);
    let message = format!("{}: denied by {why}", format_title(authorization_request, path));
    denial_error(decision, ErrorReason::Denied, message, path.map(TargetPath::written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_rules_that_help() {
        let decision = |risk, rules: &[&str]| PolicyDecision {
            verdict: Verdict::Ask,
            reason: String::new(),
            rule: None,
            source: None,
            risk,
            effects: Vec::new(),
            grants: rules
                .iter()
                .map(|rule| GrantScope { rule: (*rule).to_owned(), folder: None, program: None })
                .collect(),
            limits: CommandLimitChange::default(),
            access: None,
        };
        let check = |risk, rules: &[&str], expected: &str| {
            assert_eq!(add_rule_advice("pass `--yes`", &decision(risk, rules)), expected);
        };
        check(RiskLevel::High, &[], "pass `--yes`");
        check(RiskLevel::Critical, &["Bash(rm x)"], "pass `--yes`");
        check(
            RiskLevel::High,
            &["Bash(make)"],
            "pass `--yes`, or add the rule `Bash(make)` to `permissions.allow` in the settings",
        );
        let two = add_rule_advice("x", &decision(RiskLevel::High, &["Bash(a)", "Bash(b)"]));
        assert!(two.contains("the rules `Bash(a)`, `Bash(b)`"), "{two}");
        let named = "add the rule \"Bash(make)\"";
        assert_eq!(add_rule_advice(named, &decision(RiskLevel::High, &["Bash(make)"])), named);
    }
}
