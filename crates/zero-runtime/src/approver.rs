//! How to reach the person: what they are asked, and what they can answer.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use zero_core::sanitize::escape_chars;
use zero_core::{CallId, CommandExecution, Effect, Effects, ResultDisplay, RiskLevel, ToolName};
use zero_policy::{EffectDecision, GrantScope};

use crate::tool::BoxFuture;

/// What a person is asked.
#[derive(Clone, Debug)]
pub struct ApprovalQuestion {
    /// The call that waits for the answer.
    pub call: CallId,
    /// The tool, canonically.
    pub tool: ToolName,
    /// What the call will do, in one line.
    pub title: String,
    /// Why it is asked.
    pub reason: String,
    /// How much harm it can do.
    pub risk: RiskLevel,
    /// What it will touch.
    pub effects: Effects,
    /// The verdict on each part of it, so that it can be shown which part asks.
    pub judged: Vec<EffectDecision>,
    /// What "for this session" would settle, exactly; empty when only this call can be.
    pub grants: Vec<GrantScope>,
    /// The change it would make, where there is one to show.
    pub preview: Option<ResultDisplay>,
    /// The input as it would run, where hooks made it another than the one that came.
    pub rewritten: Option<Value>,
    /// The workspace's first folder, where a command runs that names none.
    pub workspace: PathBuf,
}

/// What the person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// The call may run, and its like is asked again.
    AllowOnce,
    /// This, and its like for the rest of the session.
    #[serde(rename = "allow_always")]
    AllowSession,
    /// No.
    RejectOnce,
    /// No, and its like is not asked again in this session.
    #[serde(rename = "reject_always")]
    RejectSession,
}

impl ApprovalAnswer {
    /// All of them, in the order they are offered.
    pub const ALL: [Self; 4] =
        [Self::AllowOnce, Self::AllowSession, Self::RejectOnce, Self::RejectSession];

    /// Stable word for protocols.
    pub fn id(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowSession => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectSession => "reject_always",
        }
    }

    /// The answer of that word.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.id() == id)
    }

    /// Whether the call goes on.
    pub fn is_allow(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowSession)
    }

    /// The same answer about this one call.
    #[must_use]
    pub fn to_once(self) -> Self {
        if self.is_allow() { Self::AllowOnce } else { Self::RejectOnce }
    }

    /// Words for the audit log.
    pub(crate) fn audit_label(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow once",
            Self::AllowSession => "allow in this session",
            Self::RejectOnce => "reject",
            Self::RejectSession => "reject in this session",
        }
    }
}

/// End of the message to the model about a call that the user rejected. Front ends that show the error
/// to the user replace it.
pub const REJECTED_BY_USER: &str = "the user rejected this call. Ask how they want to proceed.";

/// An answer that the user can choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnswerOption {
    /// What it is chosen by.
    pub id: &'static str,
    /// What kind of answer it is.
    pub kind: ApprovalAnswer,
    /// What it does, for a button or a line.
    pub name: String,
}

impl ApprovalQuestion {
    /// The answers that make sense here, each with what exactly it settles.
    pub fn options(&self) -> Vec<AnswerOption> {
        let option = |kind: ApprovalAnswer| AnswerOption {
            id: kind.id(),
            kind,
            name: self.option_name(kind),
        };
        ApprovalAnswer::ALL
            .into_iter()
            .filter(|answer| self.has_option(*answer))
            .map(option)
            .collect()
    }

    /// Whether this answer is among the options. What can do the greatest harm is asked every time.
    pub fn has_option(&self, answer: ApprovalAnswer) -> bool {
        match answer {
            ApprovalAnswer::AllowOnce | ApprovalAnswer::RejectOnce => true,
            ApprovalAnswer::AllowSession => {
                !self.grants.is_empty() && self.risk != RiskLevel::Critical
            }
            ApprovalAnswer::RejectSession => !self.grants.is_empty(),
        }
    }

    /// The commands it is about. They are shown on their own, before anything else.
    pub fn commands(&self) -> impl Iterator<Item = &CommandExecution> {
        self.effects.iter().filter_map(Effect::execution)
    }

    /// A preview without what it begins with, where that is only the command that was shown.
    pub fn strip_command_preview<'a>(&self, preview: &'a str) -> &'a str {
        let mut commands = self.commands();
        let (Some(command), None) = (commands.next(), commands.next()) else { return preview };
        let folder = command.folder.as_ref().map_or(&*self.workspace, |folder| folder.canonical());
        let mut said = format!("{command}\n\nin {}", folder.display());
        for (variable, value) in &command.variables {
            said.push_str(&format!("\nwith {variable}={value}"));
        }
        match preview.strip_prefix(&said) {
            Some(rest) if rest.is_empty() || rest.starts_with('\n') => {
                rest.trim_start_matches('\n')
            }
            _ => preview,
        }
    }

    fn option_name(&self, answer: ApprovalAnswer) -> String {
        match answer {
            ApprovalAnswer::AllowOnce => "Allow once".to_owned(),
            ApprovalAnswer::AllowSession => {
                format!("Allow {} in this session", format_grants(&self.grants))
            }
            ApprovalAnswer::RejectOnce => "Reject".to_owned(),
            ApprovalAnswer::RejectSession => {
                format!("Reject {} in this session", format_grants(&self.grants))
            }
        }
    }
}

/// Grants as a person reads them: a command by its pattern, anything else by its rule.
pub(crate) fn format_grants(grants: &[GrantScope]) -> String {
    let quoted: Vec<String> =
        grants.iter().map(|grant| format!("`{}`", format_grant_pattern(grant))).collect();
    match quoted.split_last() {
        Some((last, others @ [_, ..])) => format!("{} and {last}", others.join(", ")),
        Some((last, [])) => last.clone(),
        None => String::new(),
    }
}

/// A line break or a control character in a pattern must not look like the end of an option.
fn format_grant_pattern(grant: &GrantScope) -> String {
    let rule = grant.rule.as_str();
    let command = rule.strip_prefix("Bash(").and_then(|rest| rest.strip_suffix(')'));
    escape_chars(command.unwrap_or(rule), char::is_control).into_owned()
}

/// How to reach the person. A host without one denies what it would have to ask.
pub trait Approver: Send + Sync {
    /// Who answers, for the audit log: `person`, `--yes`, …
    fn name(&self) -> &str;

    /// How a person would allow this, where nobody can be reached who could be asked about this
    /// very call: it is denied with these words. One approver may serve callers some of whom can be
    /// asked and some cannot.
    fn unreachable_hint(&self, _question: &ApprovalQuestion) -> Option<String> {
        None
    }

    /// Asks. May take as long as a person takes; the call can be cancelled meanwhile. An answer
    /// that the question does not offer counts for this one call.
    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer>;
}

/// A question that several can answer, such as two clients attached to one session: the first
/// answer counts, every other one comes too late.
#[derive(Debug)]
pub struct PendingAnswer {
    sender: Mutex<Option<oneshot::Sender<ApprovalAnswer>>>,
}

impl PendingAnswer {
    /// The side that is answered, and the side that waits. When nobody is left who could answer,
    /// the answer is no.
    pub fn new() -> (Self, impl Future<Output = ApprovalAnswer> + Send + use<>) {
        let (sender, receiver) = oneshot::channel();
        let first = async move { receiver.await.unwrap_or(ApprovalAnswer::RejectOnce) };
        (Self { sender: Mutex::new(Some(sender)) }, first)
    }

    /// Answers. True for the answer that counts: the first, while somebody still waits for it.
    pub fn answer(&self, answer: ApprovalAnswer) -> bool {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        sender.is_some_and(|sender| sender.send(answer).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::grants::rule_grant;

    fn question(risk: RiskLevel, rules: &[&str]) -> ApprovalQuestion {
        ApprovalQuestion {
            call: CallId::from_bits(1),
            tool: ToolName::new("Bash").unwrap(),
            title: "Run".to_owned(),
            reason: "it must be asked".to_owned(),
            risk,
            effects: vec![],
            judged: vec![],
            grants: rules.iter().map(|text| rule_grant(text)).collect(),
            preview: None,
            rewritten: None,
            workspace: PathBuf::new(),
        }
    }

    #[track_caller]
    fn check(risk: RiskLevel, rules: &[&str], expected: &[&str]) {
        let options = question(risk, rules).options();
        let lines: Vec<String> =
            options.iter().map(|option| format!("{}: {}", option.id, option.name)).collect();
        assert_eq!(lines, expected, "{risk} {rules:?}");
        for option in options {
            assert_eq!(ApprovalAnswer::from_id(option.id), Some(option.kind));
            assert_eq!(serde_json::to_value(option.kind).unwrap(), option.id);
        }
    }

    #[test]
    fn session_option_names_exact_grants() {
        check(RiskLevel::Medium, &[], &["allow_once: Allow once", "reject_once: Reject"]);
        check(
            RiskLevel::High,
            &["Bash(git push:*)"],
            &[
                "allow_once: Allow once",
                "allow_always: Allow `git push:*` in this session",
                "reject_once: Reject",
                "reject_always: Reject `git push:*` in this session",
            ],
        );
        check(
            RiskLevel::Medium,
            &["Edit(src/a.rs)", "Bash(a\n)", "Read(~/b)"],
            &[
                "allow_once: Allow once",
                r"allow_always: Allow `Edit(src/a.rs)`, `a\n` and `Read(~/b)` in this session",
                "reject_once: Reject",
                r"reject_always: Reject `Edit(src/a.rs)`, `a\n` and `Read(~/b)` in this session",
            ],
        );
        check(
            RiskLevel::Critical,
            &["Bash(rm -rf /srv)"],
            &[
                "allow_once: Allow once",
                "reject_once: Reject",
                "reject_always: Reject `rm -rf /srv` in this session",
            ],
        );
    }

    #[tokio::test]
    async fn first_of_several_answers_wins() {
        let (pending, first) = PendingAnswer::new();
        let pending = Arc::new(pending);
        let clients: Vec<_> = (0..8)
            .map(|number| {
                let pending = Arc::clone(&pending);
                let answer = ApprovalAnswer::ALL[number % 4];
                std::thread::spawn(move || pending.answer(answer).then_some(answer))
            })
            .collect();
        let counted: Vec<ApprovalAnswer> =
            clients.into_iter().filter_map(|client| client.join().unwrap()).collect();
        assert_eq!(counted, [first.await]);
    }

    #[tokio::test]
    async fn dropped_answer_or_waiter_allows_nothing() {
        let (pending, first) = PendingAnswer::new();
        drop(pending);
        assert_eq!(first.await, ApprovalAnswer::RejectOnce);
        let (pending, first) = PendingAnswer::new();
        drop(first);
        assert!(!pending.answer(ApprovalAnswer::AllowOnce), "the call was given up");
    }
}
