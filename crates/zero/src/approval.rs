//! Approvers: answer the approval questions of tool calls.

pub(crate) mod elicitation;
mod prompt_text;

use std::borrow::Cow;
use std::fmt::Write as _;

use self::prompt_text::PromptText;
use anstyle::Style;
use zero_core::{Effect, RiskLevel, ToolDefinitionState};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    AnswerOption, ApprovalAnswer, ApprovalQuestion, Approver, REJECTED_BY_USER, USER_APPROVER,
};

use crate::terminal::{AnswerSource, BAD, NOTABLE, STRONG, Terminal, TerminalStream, escape_line};

/// Approves every question, because the user passed `--yes`.
pub(crate) struct AutoApprover {
    /// Name in the audit log.
    pub(crate) name: &'static str,
}

impl Approver for AutoApprover {
    fn name(&self) -> &str {
        self.name
    }

    fn ask<'a>(&'a self, _question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

/// Rejects every question, because nobody can be asked, and explains how to allow the call.
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
            false => format!("{how}, or add an allow rule to your settings"),
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
}

impl Approver for TerminalApprover {
    fn name(&self) -> &str {
        USER_APPROVER
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        let PromptText { text, whole_preview } = prompt_text::render(&self.terminal.err, question);
        let choices =
            AnswerChoices { options: question.options(), can_view: whole_preview.is_some() };
        let explanations = choices.render_explanations(&self.terminal.err);
        let (terminal, answers) = (self.terminal.clone(), self.answers.clone());
        Box::pin(async move {
            // Reading blocks until the user answers; the call can be cancelled in the meantime.
            let mut line = PromptLineGuard { stream: self.terminal.err.clone(), open: true };
            let asked = tokio::task::spawn_blocking(move || {
                terminal.err.write(&(text + &explanations)).ok()?;
                loop {
                    let typed = terminal.ask(&answers, "Allow?", &choices.key_hint())?;
                    match &whole_preview {
                        Some(preview) if matches!(typed.as_str(), "v" | "view") => {
                            terminal.err.write(&format!("{preview}{explanations}")).ok()?;
                        }
                        _ => return Some(choices.parse_answer(&typed)),
                    }
                }
            });
            let answer = asked.await.ok().flatten();
            line.open = false;
            answer.unwrap_or(ApprovalAnswer::RejectOnce)
        })
    }
}

/// The answers that the user can type, each with its key.
struct AnswerChoices {
    options: Vec<AnswerOption>,
    /// Whether a key shows the rest of the preview.
    can_view: bool,
}

impl AnswerChoices {
    /// `y/N`, or `y/s/N/d/t/v`. The capital letter is the default for Enter.
    fn key_hint(&self) -> String {
        let answers = self.options.iter().map(|option| answer_key(option.kind));
        answers.chain(self.can_view.then_some("v")).collect::<Vec<_>>().join("/")
    }

    /// Parses an answer; everything that is not offered means reject.
    fn parse_answer(&self, typed: &str) -> ApprovalAnswer {
        let answer = match typed {
            "y" | "yes" => ApprovalAnswer::AllowOnce,
            "s" | "session" => ApprovalAnswer::AllowSession,
            "d" | "don't" | "dont" => ApprovalAnswer::RejectSession,
            "t" | "tool" => ApprovalAnswer::RejectTool,
            _ => ApprovalAnswer::RejectOnce,
        };
        let offered = self.options.iter().any(|option| option.kind == answer);
        if offered { answer } else { ApprovalAnswer::RejectOnce }
    }

    /// One line per key, if there are more answers than yes and no.
    fn render_explanations(&self, stream: &TerminalStream) -> String {
        let mut text = String::new();
        if self.options.len() > 2 {
            for option in &self.options {
                let key = answer_key(option.kind).to_ascii_lowercase();
                let name = escape_line(&option.name);
                let _ = writeln!(text, "  {}  {name}", stream.paint(STRONG, &key));
            }
            if self.can_view {
                let _ = writeln!(text, "  {}  Show all lines", stream.paint(STRONG, "v"));
            }
        }
        text
    }
}

fn answer_key(answer: ApprovalAnswer) -> &'static str {
    match answer {
        ApprovalAnswer::AllowOnce => "y",
        ApprovalAnswer::AllowSession => "s",
        ApprovalAnswer::RejectOnce => "N",
        ApprovalAnswer::RejectSession => "d",
        ApprovalAnswer::RejectTool => "t",
    }
}

/// Ends the line of a question that was cancelled before the user pressed Enter.
struct PromptLineGuard {
    stream: TerminalStream,
    open: bool,
}

impl Drop for PromptLineGuard {
    fn drop(&mut self) {
        if self.open {
            let _ = self.stream.write("\n");
        }
    }
}

/// Text of a call error for the user. The advice to the model about a rejected call becomes
/// `rejected`, since the user has just rejected it.
pub(crate) fn error_for_user(message: &str) -> Cow<'_, str> {
    match message.strip_suffix(REJECTED_BY_USER) {
        Some(title) => Cow::Owned(format!("{title}rejected")),
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
            can_reject_tool: !rules.is_empty(),
            preview: None,
            rewritten: None,
            workspace: std::path::PathBuf::new(),
        }
    }

    #[track_caller]
    fn check_choices(
        risk: RiskLevel,
        rules: &[&str],
        keys: &str,
        typed: &[(&str, ApprovalAnswer)],
    ) {
        let question = build_question(risk, rules);
        let choices = AnswerChoices { options: question.options(), can_view: false };
        assert_eq!(choices.key_hint(), keys);
        for (typed, answer) in typed {
            assert_eq!(choices.parse_answer(typed), *answer, "{typed}");
        }
    }

    #[test]
    fn advice_names_rule_only_if_one_helps() {
        let approver = DenyAllApprover { how_to_allow: "pass `--yes`".to_owned() };
        let advice = |risk| approver.unreachable_hint(&build_question(risk, &[])).unwrap();
        let with_rule = "pass `--yes`, or add an allow rule to your settings";
        assert_eq!(advice(RiskLevel::High), with_rule);
        assert_eq!(advice(RiskLevel::Critical), "pass `--yes`");
    }

    #[test]
    fn rejection_is_short_for_user() {
        let message = format!("Write `a`: {REJECTED_BY_USER}");
        assert_eq!(error_for_user(&message), "Write `a`: rejected");
        assert_eq!(error_for_user("`a` does not exist"), "`a` does not exist");
    }

    #[test]
    fn prompt_accepts_only_offered_answers() {
        use ApprovalAnswer::{AllowOnce, AllowSession, RejectOnce, RejectSession, RejectTool};
        let plain = [
            ("y", AllowOnce),
            ("s", RejectOnce),
            ("d", RejectOnce),
            ("t", RejectOnce),
            ("", RejectOnce),
        ];
        check_choices(RiskLevel::Medium, &[], "y/N", &plain);
        let all = [
            ("yes", AllowOnce),
            ("s", AllowSession),
            ("session", AllowSession),
            ("n", RejectOnce),
            ("d", RejectSession),
            ("t", RejectTool),
            ("x", RejectOnce),
        ];
        check_choices(RiskLevel::Medium, &["Bash(ls)"], "y/s/N/d/t", &all);
        let critical =
            [("y", AllowOnce), ("s", RejectOnce), ("d", RejectSession), ("t", RejectTool)];
        check_choices(RiskLevel::Critical, &["Bash(ls)"], "y/N/d/t", &critical);
    }
}
