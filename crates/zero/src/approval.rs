//! Approvers: answer the approval questions of tool calls.

mod approval_dialog;
pub(crate) mod elicitation;
mod prompt_text;
mod rule_coverage;
mod rule_file;
mod trial_dialog;

use std::borrow::Cow;

use anstyle::Style;
use zero_core::{Effect, RiskLevel, ToolDefinitionState};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, ApprovalReply, ApprovalSubject, Approver, REJECTED_BY_USER,
    REJECTED_EARLIER, REJECTED_IN_SESSION, REJECTED_WITH_MESSAGE, TRIAL_DISCARDED,
    TRIAL_DISCARDED_IN_PART, TrialReview, TrialVerdict, USER_APPROVER,
};
use zero_sandbox::typed_input::SignalKeys;

use self::approval_dialog::ApprovalDialog;
pub(crate) use self::rule_file::RuleFile;
use self::trial_dialog::TrialDialog;
use crate::terminal::dialog::DialogRun;
use crate::terminal::{AnswerSource, BAD, NOTABLE, PromptTurn, Terminal};

/// Approves every call, because the user passed `--yes`. The user has not seen hosts beyond those
/// that were judged, so connections to them are refused.
pub(crate) struct AutoApprover {
    /// Name in the audit log.
    pub(crate) name: &'static str,
}

impl Approver for AutoApprover {
    fn name(&self) -> &str {
        self.name
    }

    fn is_person(&self) -> bool {
        false
    }

    fn unreachable_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        let is_connection = question.subject == ApprovalSubject::Connection;
        is_connection
            .then(|| format!("`{}` does not cover hosts that the user has not seen", self.name))
    }

    fn ask<'a>(&'a self, _question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

/// Rejects every question, because no user can be asked, and explains how to allow the call.
pub(crate) struct DenyAllApprover {
    /// Advice that applies to every call.
    pub(crate) how_to_allow: String,
}

impl Approver for DenyAllApprover {
    fn name(&self) -> &str {
        "nobody"
    }

    fn unreachable_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        let how = &self.how_to_allow;
        // A single call offers no session grants, but a rule in settings helps later calls.
        let is_remote = question.effects.iter().any(|effect| {
            matches!(effect, Effect::Mcp { definition: ToolDefinitionState::Steady, .. })
        });
        Some(match is_remote {
            // No rule that can be offered here covers it: zero asks every time.
            _ if question.risk == RiskLevel::Critical => how.clone(),
            true => format!("{how}, or add the allow rule `{}`", question.tool),
            // The host adds the rules that would allow it.
            false => how.clone(),
        })
    }

    fn ask<'a>(&'a self, _question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::RejectOnce))
    }
}

/// Asks the user on the terminal.
pub(crate) struct TerminalApprover {
    pub(crate) terminal: Terminal,
    pub(crate) answers: AnswerSource,
    pub(crate) turn: PromptTurn,
    /// Settings files that rules can be added to.
    pub(crate) rule_files: Vec<RuleFile>,
}

impl Approver for TerminalApprover {
    fn name(&self) -> &str {
        USER_APPROVER
    }

    fn can_leave_sandbox(&self) -> bool {
        true
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self.ask_for_reply(question).await {
                ApprovalReply::Answer(answer) => answer,
                ApprovalReply::AllowAlways { .. } => ApprovalAnswer::AllowOnce,
                ApprovalReply::RejectWithMessage(_)
                | ApprovalReply::EditCommand(_)
                | ApprovalReply::TryCommand => ApprovalAnswer::RejectOnce,
            }
        })
    }

    fn ask_for_reply<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalReply> {
        let stream = self.terminal.err.clone();
        Box::pin(async move {
            let turn = match question.subject.is_call() {
                true => self.turn.begin_for_call(question.call.as_str()).await,
                // The call runs, and asks about one of its connections.
                false => self.turn.begin().await,
            };
            let dialog = ApprovalDialog::new(&stream, question.clone(), self.rule_files.clone());
            let dialog_run = DialogRun {
                stream: &stream,
                answers: &self.answers,
                signal_keys: SignalKeys::SendSignals,
                withdrawal: &|| question.withdrawal_reason().to_string(),
            };
            let shown = dialog_run.run(&turn, move |keys| dialog.run(keys)).await;
            shown.unwrap_or(ApprovalAnswer::RejectOnce.into())
        })
    }

    fn can_review_trials(&self) -> bool {
        true
    }

    fn review_trial<'a>(&'a self, review: &'a TrialReview) -> BoxFuture<'a, TrialVerdict> {
        let stream = self.terminal.err.clone();
        Box::pin(async move {
            let turn = self.turn.begin_for_call(review.call.as_str()).await;
            let dialog = TrialDialog::new(&stream, review);
            let dialog_run = DialogRun {
                stream: &stream,
                answers: &self.answers,
                // Ctrl-C ends the run, which discards the changes.
                signal_keys: SignalKeys::SendSignals,
                withdrawal: &|| "the run was stopped; the changes are discarded".to_owned(),
            };
            let shown = dialog_run.run(&turn, move |keys| dialog.run(keys)).await;
            shown.unwrap_or(TrialVerdict::Discard)
        })
    }
}

/// Text of a call error for the user. The advice to the model about a rejected call becomes
/// `rejected`, since the user has just rejected it.
pub(crate) fn error_for_user(message: &str) -> Cow<'_, str> {
    if let Some(title) = message.strip_suffix(REJECTED_BY_USER) {
        return Cow::Owned(format!("{title}rejected"));
    }
    for (advice, text) in [
        (TRIAL_DISCARDED, "tried, and the changes were discarded"),
        (
            TRIAL_DISCARDED_IN_PART,
            "tried, and the changes were discarded, except for those that could not be recorded",
        ),
    ] {
        if let Some(title) = message.strip_suffix(advice) {
            return Cow::Owned(format!("{title}{text}"));
        }
    }
    let earlier = message.strip_suffix(REJECTED_IN_SESSION);
    if let Some((title, what)) = earlier.and_then(|it| it.rsplit_once(REJECTED_EARLIER)) {
        return Cow::Owned(format!("{title}rejected: you rejected {what} for this session"));
    }
    match message.split_once(REJECTED_WITH_MESSAGE) {
        Some((title, said)) => Cow::Owned(format!("{title}rejected: {said}")),
        None => Cow::Borrowed(message),
    }
}

/// Style of a risk level.
pub(crate) fn risk_style(risk: RiskLevel) -> Style {
    match risk {
        RiskLevel::Low => Style::new(),
        RiskLevel::Medium => NOTABLE,
        RiskLevel::High => BAD,
        RiskLevel::Critical => BAD.bold(),
    }
}

#[cfg(test)]
mod tests {
    use zero_core::{CallId, ToolName};
    use zero_runtime::GrantScope;

    use super::*;

    fn build_question(risk: RiskLevel, rules: &[&str]) -> ApprovalQuestion {
        let grant =
            |rule: &&str| GrantScope { rule: (*rule).to_owned(), folder: None, program: None };
        ApprovalQuestion {
            call: CallId::from_bits(1),
            tool: ToolName::new("Bash").unwrap(),
            title: String::new(),
            reason: String::new(),
            risk,
            effects: vec![],
            judged: vec![],
            grants: rules.iter().map(grant).collect(),
            rule_owners: Vec::new(),
            can_edit_command: false,
            can_try_command: false,
            can_reject_tool: !rules.is_empty(),
            preview: None,
            rewritten: None,
            withdrawal: Default::default(),
            subject: ApprovalSubject::Call,
            workspace: std::path::PathBuf::new(),
        }
    }

    #[test]
    fn advice_names_rule_only_if_one_helps() {
        let approver = DenyAllApprover { how_to_allow: "pass `--yes`".to_owned() };
        let advice = |risk| approver.unreachable_hint(&build_question(risk, &[])).unwrap();
        assert_eq!(advice(RiskLevel::High), "pass `--yes`");
        assert_eq!(advice(RiskLevel::Critical), "pass `--yes`");
    }

    #[test]
    fn rejection_is_short_for_user() {
        let message = format!("Write `a`: {REJECTED_BY_USER}");
        assert_eq!(error_for_user(&message), "Write `a`: rejected");
        let message = format!("Write `a`: {REJECTED_WITH_MESSAGE}use b");
        assert_eq!(error_for_user(&message), "Write `a`: rejected: use b");
        let message =
            format!("Write `a`: {REJECTED_EARLIER}every call of `Write`{REJECTED_IN_SESSION}");
        assert_eq!(
            error_for_user(&message),
            "Write `a`: rejected: you rejected every call of `Write` for this session"
        );
        let message = format!("Run `a`: {TRIAL_DISCARDED}");
        assert_eq!(error_for_user(&message), "Run `a`: tried, and the changes were discarded");
        assert_eq!(error_for_user("`a` does not exist"), "`a` does not exist");
    }
}
