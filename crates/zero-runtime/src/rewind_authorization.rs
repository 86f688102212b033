//! Judges a rewind that a gateway elsewhere asks for, as the changes of files that it is.
//!
//! A user who rewinds a session on their own machine needs no permission: the journal takes back only
//! what the session's calls changed. A gateway elsewhere is not that user. Its requests are checked
//! against the rules and the mode and, where these ask, by the user of this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_core::text_shortening::shorten_end;
use zero_core::{CallId, Effect, Effects, ErrorReason, ToolError, ToolSpec};
use zero_policy::PermissionMode;
use zero_sandbox::FinalLinkMode;
use zero_sandbox::journal::PathRewind;

use crate::approver::{
    ApprovalQuestion, ApprovalReply, ApprovalSubject, REJECTED_BY_USER, REJECTED_EARLIER,
    REJECTED_IN_SESSION, WithdrawalNote, tool_scope,
};
use crate::execution::catch_panics;
use crate::file_rewind::{FileRewindAction, FileRewindReport, FileRewindRequest, FileRewinder};
use crate::grants::GrantDecision;
use crate::host_session::ToolHostSession;
use crate::policy::{PolicyDecision, PolicyRequest, Verdict, denial_error};
use crate::tool_host::ToolHost;

/// The tool whose rules apply: a rewind writes files.
const WRITE_TOOL: &str = "Write";
/// Most paths of a rewind that a gateway elsewhere can ask for.
const PATHS_MAX: usize = 2_000;
/// Most characters of the paths in a title.
const TITLE_CHARS_MAX: usize = 200;

impl ToolHost {
    /// Takes back changes for a gateway elsewhere, if the rules, the mode and the user allow the
    /// changes that this makes. `call` names the request in a question.
    pub async fn rewind_for_gateway(
        &self,
        session: &ToolHostSession,
        call: &CallId,
        request: FileRewindRequest,
        cancel: &CancellationToken,
    ) -> Result<FileRewindReport, ToolError> {
        let rewinder = FileRewinder::for_host(self);
        if request.action == FileRewindAction::Check {
            return rewinder.run(request).await;
        }
        let paths = rewinder.clone().plan_paths(request.clone()).await?;
        if !paths.is_empty()
            && let Err(error) = self.authorize_rewind(session, call, &paths, cancel).await
        {
            rewinder.record_refusal(request, paths, error.clone()).await;
            return Err(error);
        }
        rewinder.run_within(request, paths).await
    }

    async fn authorize_rewind(
        &self,
        session: &ToolHostSession,
        call: &CallId,
        paths: &BTreeMap<PathBuf, PathRewind>,
        cancel: &CancellationToken,
    ) -> Result<(), ToolError> {
        let names: Vec<String> =
            paths.keys().map(|path| self.workspace.display_path(path)).collect();
        let title = format!(
            "Take back changes of {} files for the gateway: {}",
            paths.len(),
            shorten_end(&names.join(", "), TITLE_CHARS_MAX)
        );
        if paths.len() > PATHS_MAX {
            let message = format!(
                "{title}: these are more than {PATHS_MAX}; run `zero sessions rewind` on this machine, or rewind to a later prompt"
            );
            return Err(ToolError::invalid(ErrorReason::TooLarge, message));
        }
        let Some(tool) = self.registry.get(WRITE_TOOL) else {
            let message = format!("{title}: there is no tool here that may write files");
            return Err(ToolError::failed(ErrorReason::ReadOnly, message));
        };
        let spec = tool.tool.spec();
        let effects = self.rewind_effects(paths)?;
        let mode = session.mode();
        let decision = self.judge_rewind(session, spec, &effects, mode).await?;
        if decision.verdict == Verdict::Deny {
            return Err(rewind_denial(&title, &decision));
        }
        let whole_tool = tool_scope(&spec.name);
        if session.rejections().iter().any(|rejection| rejection.grant == whole_tool) {
            let message = format!(
                "{title}: {REJECTED_EARLIER}every call of `{}`{REJECTED_IN_SESSION}",
                spec.name
            );
            return Err(denial_error(&decision, ErrorReason::Rejected, message, None));
        }
        if decision.verdict == Verdict::Allow {
            return Ok(());
        }
        let deny = |how_to_allow: &str| {
            let message = format!(
                "{title}: denied, because {} and no user can approve it here; to allow it, {how_to_allow}",
                decision.reason
            );
            denial_error(&decision, ErrorReason::NoApprover, message, None)
        };
        let Some(approver) = &session.approver else { return Err(deny(&self.how_to_allow)) };
        let mut question = ApprovalQuestion {
            subject: ApprovalSubject::Call,
            call: call.clone(),
            tool: spec.name.clone(),
            title: title.clone(),
            reason: decision.reason.clone(),
            risk: decision.risk,
            effects: effects.clone(),
            judged: decision.effects.clone(),
            grants: Vec::new(),
            rule_owners: Vec::new(),
            can_edit_command: false,
            can_try_command: false,
            can_reject_tool: false,
            preview: None,
            rewritten: None,
            workspace: session.workspace().cwd().to_owned(),
            withdrawal: WithdrawalNote::default(),
        };
        question.mask_secrets(&*self.secrets.current_mask().await);
        if let Some(how_to_allow) = approver.unreachable_hint(&question) {
            return Err(deny(&how_to_allow));
        }
        let reply = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ToolError::cancelled()),
            reply = approver.ask_for_reply(&question) => reply,
        };
        if !matches!(reply, ApprovalReply::Answer(answer) if answer.is_allow()) {
            let message = format!("{title}: {REJECTED_BY_USER}");
            return Err(denial_error(&decision, ErrorReason::Rejected, message, None));
        }
        // The mode may have become stricter while the user was asked.
        let second_decision = self.judge_rewind(session, spec, &effects, session.mode()).await?;
        match second_decision.verdict {
            Verdict::Deny => Err(rewind_denial(&title, &second_decision)),
            Verdict::Ask | Verdict::Allow => Ok(()),
        }
    }

    fn rewind_effects(&self, paths: &BTreeMap<PathBuf, PathRewind>) -> Result<Effects, ToolError> {
        let effect = |(path, what): (&PathBuf, &PathRewind)| {
            let target = self.workspace.resolve_path(path, FinalLinkMode::Keep)?.target().clone();
            Ok(match what {
                PathRewind::Restore => Effect::Write(target),
                PathRewind::Remove => Effect::Delete(target),
            })
        };
        paths.iter().map(effect).collect()
    }

    async fn judge_rewind(
        &self,
        session: &ToolHostSession,
        spec: &ToolSpec,
        effects: &Effects,
        mode: Option<PermissionMode>,
    ) -> Result<PolicyDecision, ToolError> {
        let (spec, effects, workspace) =
            (spec.clone(), effects.clone(), session.workspace().clone());
        let (policy, commands) = (Arc::clone(&self.policy), Arc::clone(&self.commands));
        let grants = session.grants.list_grants(GrantDecision::Allowed);
        let judged = tokio::task::spawn_blocking(move || {
            let request = PolicyRequest {
                spec: &spec,
                effects: &effects,
                arguments: None,
                workspace: &workspace,
                grants: &grants,
                mode,
                commands: Some(&commands),
                temp: None,
            };
            catch_panics(|| Ok(policy.decide(request)))
        });
        judged.await.unwrap_or_else(|_| Err(ToolError::cancelled()))
    }
}

fn rewind_denial(title: &str, decision: &PolicyDecision) -> ToolError {
    let message = match &decision.rule {
        Some(rule) => format!("{title}: denied by rule `{rule}`, {}", decision.reason),
        None => format!("{title}: denied, {}", decision.reason),
    };
    denial_error(decision, ErrorReason::Denied, message, None)
}
