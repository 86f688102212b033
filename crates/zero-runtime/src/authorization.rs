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
    SecretMask, TargetPath, ToolError, ToolKind, ToolSpec,
};

use zero_exec::{CommandLauncher, FailureEvidence, OutsideUse};
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
use crate::grants::{GrantDecision, SessionGrant};
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

    /// The launcher of the call's commands, with what the call may do.
    pub(crate) fn apply_to(self, launcher: CommandLauncher) -> CommandLauncher {
        let Self { limits, hosts, access, hidden_secrets, is_trial } = self;
        // Only what a trial changes in the workspace is recorded.
        let writable = match is_trial {
            true => Vec::new(),
            false => launcher.writable.iter().chain(&access.repositories).cloned().collect(),
        };
        CommandLauncher {
            limits: launcher.limits.with_raised(&limits),
            writable,
            hosts: hosts.into(),
            judged: access,
            hidden_secrets,
            is_trial,
            ..launcher
        }
    }

    /// The same for a trial, which reaches no host: its effects there could not be discarded.
    fn into_trial(self) -> Self {
        let access = CommandAccess { network: NetworkScope::Nothing, ..self.access };
        Self { hosts: Vec::new(), access, is_trial: true, ..self }
    }
}

/// The decision about a call, and the answers of the session that it was made with.
struct JudgedCall<'a> {
    session: &'a ToolHostSession,
    request: &'a AuthorizationRequest<'a>,
    decision: PolicyDecision,
    /// The secret files that are hidden from its commands if nobody is asked.
    hidden_secrets: Vec<PathBuf>,
    /// Whether only policy asks, so that a rule could answer.
    is_policy_question: bool,
    /// Its command, if that is to run outside the sandbox.
    outside: Option<&'a CommandExecution>,
    mode: Option<PermissionMode>,
    granted: Vec<GrantScope>,
    rejected: Vec<SessionGrant>,
}

impl JudgedCall<'_> {
    /// The call in the caller's own words.
    fn title(&self) -> String {
        let path = find_decisive_path(self.request, &self.decision).map(|(path, _)| path);
        format_title(self.request, path)
    }

    /// The error of the call if it may not run for this reason; `why` follows its title.
    fn refuse(&self, reason: ErrorReason, why: &str) -> ToolError {
        let message = format!("{}: {why}", self.title());
        denial_error(&self.decision, reason, message, self.request.file(&self.decision))
    }

    /// The error if no user can be asked.
    fn refuse_without_approver(&self, how_to_allow: &str) -> ToolError {
        let why = format!(
            "denied, because {} and no user can approve it here; to allow it, {}",
            self.decision.reason,
            add_rule_advice(how_to_allow, &self.decision)
        );
        self.refuse(ErrorReason::NoApprover, &why)
    }

    /// Whether the call could change what a failed command would do outside the sandbox.
    fn may_change_failed_command(&self) -> bool {
        let reads_only = matches!(
            self.request.spec.kind,
            ToolKind::Read | ToolKind::Search | ToolKind::Think | ToolKind::Fetch
        );
        self.outside.is_none() && !reads_only
    }

    /// Fails if the user rejected every call of the tool earlier in the session.
    fn check_tool_is_not_rejected(&self, noted: &mut AuditDecision) -> Result<(), ToolError> {
        let name = &self.request.spec.name;
        let whole_tool = tool_scope(name);
        let Some(rejection) = self.rejected.iter().find(|it| it.grant == whole_tool) else {
            return Ok(());
        };
        noted.answered =
            Some(format!("{}: reject the tool, earlier in this session", rejection.by));
        let why = format!("{REJECTED_EARLIER}every call of `{name}`{REJECTED_IN_SESSION}");
        Err(self.refuse(ErrorReason::Rejected, &why))
    }

    /// Fails if the user rejected one of the grants that the call needs earlier in the session.
    fn check_grants_are_not_rejected(&self, noted: &mut AuditDecision) -> Result<(), ToolError> {
        let is_rejected = |grant: &GrantScope| self.rejected.iter().any(|it| it.grant == *grant);
        let grants = self.decision.grants.iter();
        let refused: Vec<GrantScope> = grants.filter(|grant| is_rejected(grant)).cloned().collect();
        let Some(rejection) = self.rejected.iter().find(|it| refused.contains(&it.grant)) else {
            return Ok(());
        };
        noted.answered = Some(format!("{}: reject, earlier in this session", rejection.by));
        let why = format!("{REJECTED_EARLIER}{}{REJECTED_IN_SESSION}", format_grants(&refused));
        Err(self.refuse(ErrorReason::Rejected, &why))
    }

    /// Who answers a question about the call. Fails if nobody can.
    fn find_approver(&self, how_to_allow: &str) -> Result<&dyn Approver, ToolError> {
        let Some(approver) = &self.session.approver else {
            return Err(self.refuse_without_approver(how_to_allow));
        };
        if self.outside.is_some() && !approver.can_leave_sandbox() {
            return Err(self.refuse_without_approver(OUTSIDE_ADVICE));
        }
        Ok(&**approver)
    }

    /// The error if the user rejected the call.
    fn refuse_as_rejected(&self, reply: &ApprovalReply) -> ToolError {
        let message = match reply {
            ApprovalReply::RejectWithMessage(message) => {
                shorten_end(message.trim(), REJECTION_CHARS_MAX)
            }
            _ => String::new(),
        };
        let why = match message.is_empty() {
            true => REJECTED_BY_USER.to_owned(),
            false => format!("{REJECTED_WITH_MESSAGE}{message}"),
        };
        self.refuse(ErrorReason::Rejected, &why)
    }
}

impl ToolHost {
    /// Authorizes a call, or returns why it is denied.
    pub(crate) async fn authorize(
        &self,
        session: &ToolHostSession,
        request: AuthorizationRequest<'_>,
        cx: &CallContext,
        cancel: &CancellationToken,
        record: &mut CallRecord<'_>,
    ) -> Result<AuthorizationOutcome, ToolError> {
        use AuthorizationOutcome::{Authorized, CommandEdited};
        let judged = self.judge(session, &request).await?;
        // What the user is shown has no value of a file that is changed, either.
        record.add_learned_secrets();
        let secrets = Arc::clone(&record.secrets);
        let user_wait = Arc::clone(&record.user_wait);
        let noted = record.record_decision(&judged.decision);
        if request.command_edit.is_edited() {
            noted.answered = Some(format!("{USER_APPROVER}: edit the command"));
        }
        if judged.decision.verdict == Verdict::Deny {
            return Err(rule_denial_error(&request, &judged.decision));
        }
        if judged.may_change_failed_command() {
            session.commands.note_change();
        }
        let changes_before = session.commands.change_count();
        let evidence = self.find_outside_evidence(&judged)?;
        judged.check_tool_is_not_rejected(noted)?;
        if judged.decision.verdict == Verdict::Allow {
            check_plan(&request, cx)?;
            let JudgedCall { decision, hidden_secrets, .. } = judged;
            let authorization = CallAuthorization::from_decision(decision, false);
            let authorization = CallAuthorization { hidden_secrets, ..authorization };
            return Ok(Authorized(Box::new(authorization)));
        }
        let is_checked = self.check_before_question(&judged, cx).await?;
        judged.check_grants_are_not_rejected(noted)?;
        let approver = judged.find_approver(&self.how_to_allow)?;
        let question = self.build_question(&judged, approver, evidence, cx, &secrets).await?;
        if let Some(how_to_allow) = approver.unreachable_hint(&question) {
            let is_outside = judged.outside.is_some();
            let how_to_allow = if is_outside { OUTSIDE_ADVICE } else { &how_to_allow };
            return Err(judged.refuse_without_approver(how_to_allow));
        }
        let waiting = user_wait.start();
        let reply = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolError::cancelled()),
            reply = approver.ask_for_reply(&question) => reply,
        };
        drop(waiting);
        let reply = match reply {
            ApprovalReply::EditCommand(command) if question.can_edit_command => {
                noted.answered = Some(format!("{}: edit the command", approver.name()));
                return Ok(CommandEdited(command));
            }
            reply => reply,
        };
        if !record_reply(session, &question, &reply, approver, noted).is_allow() {
            return Err(judged.refuse_as_rejected(&reply));
        }
        self.check_mode_is_not_stricter(&judged).await?;
        if !is_checked {
            check_plan(&request, cx)?;
        }
        if judged.may_change_failed_command() {
            session.commands.note_change();
        }
        let is_changed = || session.commands.change_count() != changes_before;
        if judged.outside.is_some() && (is_changed() || session.commands.has_running()) {
            let message = format!("{}: {CHANGED_WHILE_ASKED}", judged.title());
            return Err(denial_error(&judged.decision, ErrorReason::Denied, message, None));
        }
        let is_person = approver.is_person();
        let authorization = CallAuthorization::from_decision(judged.decision, is_person);
        Ok(Authorized(Box::new(match reply {
            ApprovalReply::TryCommand => authorization.into_trial(),
            _ => authorization,
        })))
    }

    /// Decides about a call: by policy, then by whatever can only make the decision stricter.
    async fn judge<'a>(
        &self,
        session: &'a ToolHostSession,
        request: &'a AuthorizationRequest<'a>,
    ) -> Result<JudgedCall<'a>, ToolError> {
        let rejected = session.rejections();
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let mode = session.mode();
        let decision = self.decide(session, request, &granted, mode).await?;
        let sent = self.secrets.find_sent_secrets(&decision).await;
        let carried = self.secrets.find_carried(request.carried, &decision);
        // Only what policy itself asks about can be answered by a rule.
        let is_policy_question = decision.verdict == Verdict::Ask
            && !request.hooks.asks()
            && carried.is_empty()
            && sent.is_empty();
        let decision = request.hooks.apply_to(decision);
        let decision = self.secrets.tighten(decision, &carried, &sent);
        let outside = find_outside_command(request.effects);
        let decision = if outside.is_some() { tighten_outside(decision) } else { decision };
        let undo = self.commands.settings.undo;
        let decision = undo_outlook::tighten(decision, undo, &self.workspace).await;
        let (decision, hidden_secrets) =
            self.secrets.hide_files(decision, &*self.policy, &granted).await;
        Ok(JudgedCall {
            session,
            request,
            decision,
            hidden_secrets,
            is_policy_question,
            outside,
            mode,
            granted,
            rejected,
        })
    }

    /// Finds what makes the call fail whatever the user answers. Returns whether the plan was checked:
    /// that a call can only fail reveals what exists at its path, so that a caller that may not read
    /// the path learns it only after the user allowed the call.
    async fn check_before_question(
        &self,
        judged: &JudgedCall<'_>,
        cx: &CallContext,
    ) -> Result<bool, ToolError> {
        let JudgedCall { session, request, .. } = *judged;
        let can_read = self.can_read_paths(session, request);
        if can_read {
            check_plan(request, cx)?;
        }
        if judged.outside.is_none() {
            self.refuse_unwritable(session, request, &judged.title(), &judged.decision)?;
        }
        cx.prefetch_buffers(request.effects).await;
        if can_read {
            catch_panics(|| request.plan.rehearse(cx))?;
        }
        Ok(can_read)
    }

    /// The question about a call, without any secret value.
    async fn build_question(
        &self,
        judged: &JudgedCall<'_>,
        approver: &dyn Approver,
        evidence: Option<FailureEvidence>,
        cx: &CallContext,
        secrets: &SecretMask,
    ) -> Result<ApprovalQuestion, ToolError> {
        let JudgedCall { session, request, ref decision, mode, .. } = *judged;
        let offered = &decision.grants;
        let is_grantable = session.is_persistent()
            && offered.len() <= GRANTS_PER_ANSWER_MAX
            && session.grants.has_room(offered.len());
        let rule_owners = match is_grantable && judged.is_policy_question {
            true => self.find_rule_owners(session, request, offered, mode).await?,
            false => Vec::new(),
        };
        let mut shown = mask_decision(secrets, decision);
        if evidence == Some(FailureEvidence::Output) {
            shown.reason.push_str(UNCONFIRMED_FAILURE);
        }
        let (internet, commands) = (&self.internet, &self.commands);
        let notes = list_address_notes(internet, commands, &*self.policy, decision).await;
        add_address_notes(&notes, &mut shown);
        let is_inside = judged.outside.is_none();
        let mut question = ApprovalQuestion {
            subject: ApprovalSubject::Call,
            call: cx.call().clone(),
            tool: request.spec.name.clone(),
            title: secrets.mask_text(request.title).into_owned(),
            reason: shown.reason,
            risk: decision.risk,
            effects: request.effects.clone(),
            judged: shown.effects,
            grants: if is_grantable { offered.clone() } else { Vec::new() },
            rule_owners,
            can_edit_command: request.command_edit.is_offered() && is_inside,
            can_try_command: request.is_single_command
                && is_inside
                && approver.can_review_trials()
                && trial::is_possible(request.effects, decision, session.workspace()),
            can_reject_tool: session.is_persistent() && session.grants.has_room(1) && is_inside,
            preview: catch_panics(|| Ok(request.plan.preview(cx)))?,
            rewritten: request.hooks.rewritten_input().cloned(),
            withdrawal: WithdrawalNote::default(),
            workspace: session.workspace().cwd().to_owned(),
        };
        question.mask_secrets(secrets);
        Ok(question)
    }

    /// Fails if the mode became stricter while the user was asked, so that the call is denied now.
    async fn check_mode_is_not_stricter(&self, judged: &JudgedCall<'_>) -> Result<(), ToolError> {
        let JudgedCall { session, request, mode, .. } = *judged;
        let mode_now = session.mode();
        if mode_now == mode {
            return Ok(());
        }
        let decision = self.decide(session, request, &judged.granted, mode_now).await?;
        match decision.verdict {
            Verdict::Deny => Err(rule_denial_error(request, &decision)),
            Verdict::Allow | Verdict::Ask => Ok(()),
        }
    }

    /// How it is known that the sandbox made a command fail that is to run outside it; `None` if the
    /// call runs inside. Fails if the command may not be asked about: only the last command of the
    /// session can run outside, if it failed because of the sandbox.
    fn find_outside_evidence(
        &self,
        judged: &JudgedCall<'_>,
    ) -> Result<Option<FailureEvidence>, ToolError> {
        let Some(execution) = judged.outside else { return Ok(None) };
        let commands = &judged.session.commands;
        let why = if self.commands.settings.outside == OutsideUse::Never {
            "`sandbox.outside` is \"never\" in the settings; do without, or ask the user to run it"
        } else if commands.has_running() {
            "a job or another command of this session runs, which could change what the user is asked about; end it or wait for it, run the command inside again, then request it"
        } else if let Some(evidence) = commands.take_sandbox_failure(execution) {
            return Ok(Some(evidence));
        } else {
            "a command can run outside the sandbox only if it was the last command of this session and failed because of the sandbox; run it inside first, with the same text"
        };
        let message = format!("{}: denied, because {why}", judged.request.title);
        Err(denial_error(&judged.decision, ErrorReason::Denied, message, None))
    }

    /// Applies the rules alone; fails if they deny the call.
    pub(crate) async fn refuse_denied(
        &self,
        session: &ToolHostSession,
        request: &AuthorizationRequest<'_>,
        record: &mut CallRecord<'_>,
    ) -> Result<PolicyDecision, ToolError> {
        let granted = session.grants.list_grants(GrantDecision::Allowed);
        let decision = self.decide(session, request, &granted, session.mode()).await?;
        if decision.verdict == Verdict::Deny {
            record.record_decision(&decision);
            return Err(rule_denial_error(request, &decision));
        }
        Ok(decision)
    }

    /// Fails if a command of the call would change a file that the sandbox keeps it from changing,
    /// whatever the user answers. Like a command that failed because of that, it can be requested
    /// outside the sandbox then.
    fn refuse_unwritable(
        &self,
        session: &ToolHostSession,
        request: &AuthorizationRequest<'_>,
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
        let execution = request.effects.iter().find_map(Effect::execution);
        let is_offered_outside = request.is_single_command
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
        request: &AuthorizationRequest<'_>,
        grants: &[GrantScope],
        mode: Option<PermissionMode>,
    ) -> Result<PolicyDecision, ToolError> {
        self.consult_policy(session, request, grants, mode, |policy, request| {
            policy.decide(request)
        })
        .await
    }

    /// Whose settings would allow the call with the rules of these grants.
    async fn find_rule_owners(
        &self,
        session: &ToolHostSession,
        request: &AuthorizationRequest<'_>,
        offered: &[GrantScope],
        mode: Option<PermissionMode>,
    ) -> Result<Vec<RuleOwner>, ToolError> {
        let rules = offered.to_vec();
        self.consult_policy(session, request, &[], mode, move |policy, request| {
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
        request: &AuthorizationRequest<'_>,
        grants: &[GrantScope],
        mode: Option<PermissionMode>,
        question: impl FnOnce(&dyn Policy, PolicyRequest<'_>) -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let (spec, effects, workspace) = (request.spec, request.effects, session.workspace());
        let searches = |effect: &Effect| {
            matches!(effect, Effect::Exec(_) | Effect::Write(_) | Effect::Delete(_))
        };
        if !effects.iter().any(searches) {
            let (arguments, commands) = (request.plan.arguments(), Some(&*self.commands));
            let temp = None;
            let request =
                PolicyRequest { spec, effects, arguments, workspace, grants, mode, commands, temp };
            return catch_panics(|| Ok(question(&*self.policy, request)));
        }
        let (spec, effects, workspace) = (spec.clone(), effects.clone(), workspace.clone());
        let (policy, grants) = (Arc::clone(&self.policy), grants.to_vec());
        let commands = Arc::clone(&self.commands);
        // A command that runs outside the sandbox has the temporary folder of the machine.
        let is_inside = find_outside_command(&effects).is_none();
        let temp = is_inside.then(|| session.commands.temp_folder().to_owned());
        let arguments = request.plan.arguments().cloned();
        let judged = tokio::task::spawn_blocking(move || {
            let request = PolicyRequest {
                spec: &spec,
                effects: &effects,
                arguments: arguments.as_ref(),
                workspace: &workspace,
                grants: &grants,
                mode,
                commands: Some(&commands),
                temp: temp.as_deref(),
            };
            catch_panics(|| Ok(question(&*policy, request)))
        });
        judged.await.unwrap_or_else(|_| Err(ToolError::cancelled()))
    }

    /// Whether the caller may learn what exists at the call's paths, whatever happens to the call.
    fn can_read_paths(
        &self,
        session: &ToolHostSession,
        request: &AuthorizationRequest<'_>,
    ) -> bool {
        let tool = request.spec.name.as_str();
        request.effects.iter().filter_map(Effect::path).all(|path| {
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
    request: &'a AuthorizationRequest<'_>,
    decision: &'d PolicyDecision,
) -> Option<(&'a TargetPath, &'d EffectDecision)> {
    let judged = request.effects.iter().zip(&decision.effects);
    judged
        .filter(|(_, judged)| judged.decision == decision.verdict)
        .find_map(|(effect, judged)| effect.path().map(|path| (path, judged)))
}

/// The call in the caller's own words: the target of a link is not shown.
fn format_title(request: &AuthorizationRequest<'_>, path: Option<&TargetPath>) -> String {
    match path {
        Some(path) => failed_plan::call_title(request.spec, path.written()),
        None => request.title.to_owned(),
    }
}

/// Checks whether the plan of a call can only fail.
fn check_plan(request: &AuthorizationRequest<'_>, cx: &CallContext) -> Result<(), ToolError> {
    catch_panics(|| request.plan.check(cx))
}

/// Records the user's reply to the question about a call. Returns the answer that applies.
fn record_reply(
    session: &ToolHostSession,
    question: &ApprovalQuestion,
    reply: &ApprovalReply,
    approver: &dyn Approver,
    noted: &mut AuditDecision,
) -> ApprovalAnswer {
    let answer = match reply {
        ApprovalReply::Answer(answer) => *answer,
        ApprovalReply::AllowAlways { .. } => ApprovalAnswer::AllowSession,
        ApprovalReply::TryCommand if question.can_try_command => ApprovalAnswer::AllowOnce,
        // What was not offered counts as a rejection.
        ApprovalReply::RejectWithMessage(_)
        | ApprovalReply::EditCommand(_)
        | ApprovalReply::TryCommand => ApprovalAnswer::RejectOnce,
    };
    let applied = record_answer(session, question, answer, approver, noted);
    match reply {
        ApprovalReply::AllowAlways { file } => {
            noted.answered = Some(format!("{}: allow always, by {file}", approver.name()));
        }
        ApprovalReply::TryCommand if applied.is_allow() => {
            noted.answered = Some(format!("{}: try it", approver.name()));
        }
        _ => {}
    }
    applied
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
    let applied = if is_recorded { answer } else { answer.to_once() };
    noted.answered = Some(format!("{by}: {}", applied.audit_label()));
    if is_recorded {
        noted.grants =
            scopes.iter().map(|grant| redaction::redact_and_shorten(&grant.rule)).collect();
    }
    applied
}

/// The error of a call that a rule denies.
fn rule_denial_error(request: &AuthorizationRequest<'_>, decision: &PolicyDecision) -> ToolError {
    let message = rule_denial_message(request, decision);
    denial_error(decision, ErrorReason::Denied, message, request.file(decision))
}

/// Which rule denied the call, why, and what would have to change. Names only the path that the
/// caller wrote, whether or not it exists.
fn rule_denial_message(request: &AuthorizationRequest<'_>, decision: &PolicyDecision) -> String {
    let PolicyDecision { rule, source, .. } = decision;
    let path = find_decisive_path(request, decision);
    let title = format_title(request, path.map(|(path, _)| path));
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
    request: &AuthorizationRequest<'_>,
    decision: &PolicyDecision,
    why: &str,
) -> ToolError {
    let path = request.effects.iter().find_map(Effect::path);
    let message = format!("{}: denied by {why}", format_title(request, path));
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
