//! Asks the user for approval: the questions and the possible answers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
pub use zero_core::event::ApprovalSubject;
use zero_core::sanitize::escape_line;
use zero_core::{
    CallId, CommandExecution, Effect, Effects, ResultDisplay, RiskLevel, SecretMask, ToolName,
};
use zero_policy::{EffectDecision, GrantScope, RuleOwner};
use zero_sandbox::journal::ChangedFile;

use crate::tool::BoxFuture;

/// A question whether a call may run, or whether its command may connect to a host.
#[derive(Clone, Debug)]
pub struct ApprovalQuestion {
    /// What it is about.
    pub subject: ApprovalSubject,
    /// The call that waits for the answer.
    pub call: CallId,
    /// The tool by its canonical name.
    pub tool: ToolName,
    /// What the call will do, in one line.
    pub title: String,
    /// Why approval is needed.
    pub reason: String,
    /// The risk of the call.
    pub risk: RiskLevel,
    /// The effects of the call.
    pub effects: Effects,
    /// The decision on each effect, so that front ends can show which one needs approval.
    pub judged: Vec<EffectDecision>,
    /// The grants that "for this session" would create; empty if only this call can be approved.
    pub grants: Vec<GrantScope>,
    /// Whose settings would allow the call if they had the rules of the grants. Empty if a rule
    /// does not help.
    pub rule_owners: Vec<RuleOwner>,
    /// Whether the user may change the command before it is judged again.
    pub can_edit_command: bool,
    /// Whether the user may try the command: everything that it can change could be taken back.
    pub can_try_command: bool,
    /// Whether every call of the tool can be rejected for the session.
    pub can_reject_tool: bool,
    /// The change that the call would make, if it can be shown.
    pub preview: Option<ResultDisplay>,
    /// The input as it would run, if hooks rewrote it.
    pub rewritten: Option<Value>,
    /// The workspace's first folder, in which a command without a folder runs.
    pub workspace: PathBuf,
    /// Why an answer is no longer needed, once that is so.
    pub withdrawal: WithdrawalNote,
}

/// Why a question is withdrawn before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionWithdrawal {
    /// The call was cancelled.
    #[error("the call was cancelled")]
    CallCancelled,
    /// The command that waited for the answer has ended.
    #[error("the command has ended")]
    CommandEnded,
    /// The user did not answer in time.
    #[error("the user did not answer within {} s", .0.as_secs().max(1))]
    TimedOut(Duration),
    /// The gateway waited long enough.
    #[error("its time was over")]
    Expired,
    /// Another client answered.
    #[error("it was answered elsewhere")]
    AnsweredElsewhere,
}

/// Says to those who show a question why it is withdrawn. Its caller sets the reason before they
/// drop the future that asks.
#[derive(Clone, Debug, Default)]
pub struct WithdrawalNote(Arc<OnceLock<QuestionWithdrawal>>);

impl WithdrawalNote {
    /// Sets the reason. The first one counts.
    pub fn set(&self, reason: QuestionWithdrawal) {
        let _ = self.0.set(reason);
    }

    /// The reason, if it is known.
    pub fn reason(&self) -> Option<QuestionWithdrawal> {
        self.0.get().copied()
    }
}

/// The user's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAnswer {
    /// This call may run; similar ones are asked about again.
    AllowOnce,
    /// This call and similar ones may run for the rest of the session.
    #[serde(rename = "allow_always")]
    AllowSession,
    /// This call may not run.
    RejectOnce,
    /// This call may not run, and similar ones are rejected without asking for the rest of the
    /// session.
    #[serde(rename = "reject_always")]
    RejectSession,
    /// This call may not run, and every call of its tool is rejected without asking, until that is
    /// revoked or the session ends.
    RejectTool,
}

impl ApprovalAnswer {
    /// All answers, in the order in which they are offered.
    pub const ALL: [Self; 5] = [
        Self::AllowOnce,
        Self::AllowSession,
        Self::RejectOnce,
        Self::RejectSession,
        Self::RejectTool,
    ];

    /// Stable word for protocols.
    pub fn id(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow_once",
            Self::AllowSession => "allow_always",
            Self::RejectOnce => "reject_once",
            Self::RejectSession => "reject_always",
            Self::RejectTool => "reject_tool",
        }
    }

    /// The answer with this word.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|answer| answer.id() == id)
    }

    /// Whether the call may run.
    pub fn is_allow(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowSession)
    }

    /// The corresponding answer for this call only.
    #[must_use]
    pub fn to_once(self) -> Self {
        if self.is_allow() { Self::AllowOnce } else { Self::RejectOnce }
    }

    /// Text for the audit log.
    pub(crate) fn audit_label(self) -> &'static str {
        match self {
            Self::AllowOnce => "allow once",
            Self::AllowSession => "allow in this session",
            Self::RejectOnce => "reject",
            Self::RejectSession => "reject in this session",
            Self::RejectTool => "reject the tool in this session",
        }
    }
}

/// What the user decided about a call: one of the answers, or more than an answer can carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalReply {
    /// One of the answers.
    Answer(ApprovalAnswer),
    /// The call may run, and the rules of its grants were added to a settings file.
    AllowAlways {
        /// The file, as shown to the user.
        file: String,
    },
    /// The call may not run, and the model is to know why.
    RejectWithMessage(String),
    /// Another command is to be judged instead, as if the model had called the tool with it.
    EditCommand(String),
    /// The call may run once, and the user decides about its changes when they have seen them.
    TryCommand,
}

/// What a command changed that the user tries, for them to decide about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialReview {
    /// The call that was tried.
    pub call: CallId,
    /// What the call did, in one line.
    pub title: String,
    /// What the command printed, or why it failed.
    pub output: String,
    /// The files that it changed; only the first of many.
    pub files: Vec<ChangedFile>,
    /// Number of all files that it changed.
    pub file_count: usize,
    /// What cannot be discarded, in sentences.
    pub losses: Vec<String>,
}

/// What the user decided about the changes of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialVerdict {
    /// They stay, and the model gets the result.
    Keep,
    /// They are taken back, and the model gets no result.
    Discard,
}

impl From<ApprovalAnswer> for ApprovalReply {
    fn from(answer: ApprovalAnswer) -> Self {
        Self::Answer(answer)
    }
}

/// Longest message of the user about a rejected call, in characters.
pub const REJECTION_CHARS_MAX: usize = 2_000;

/// End of the message to the model about a call that the user rejected. Front ends that show the error
/// to the user replace it.
pub const REJECTED_BY_USER: &str = "the user rejected this call. Ask how they want to proceed.";

/// What precedes the user's own words in the message to the model about a call that they rejected.
/// Front ends that show the error to the user replace it.
pub const REJECTED_WITH_MESSAGE: &str = "the user rejected this call and says: ";

/// The message to the model about a call that the user rejected earlier: what is rejected comes between
/// the two. Front ends that show the error to the user replace both.
pub const REJECTED_EARLIER: &str = "the user rejected ";
/// See [`REJECTED_EARLIER`].
pub const REJECTED_IN_SESSION: &str =
    " for this session. Do not try it again; ask how they want to proceed.";

/// The message to the model about a command that the user tried, and whose changes they discarded. Front
/// ends that show the error to the user replace it.
pub const TRIAL_DISCARDED: &str = "the user tried this command, saw what it changed and discarded the changes. The workspace is as it was before. Ask how they want to proceed.";

/// The same if not every change could be recorded.
pub const TRIAL_DISCARDED_IN_PART: &str = "the user tried this command, saw what it changed and discarded the changes. Some changes could not be recorded and remain. Ask how they want to proceed.";

/// An answer that the user can choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnswerOption {
    /// The stable word of the answer.
    pub id: &'static str,
    /// The answer.
    pub kind: ApprovalAnswer,
    /// Label for a button or a menu line.
    pub name: String,
}

impl ApprovalQuestion {
    /// Why the question is withdrawn, if the future that asks it is dropped.
    pub fn withdrawal_reason(&self) -> QuestionWithdrawal {
        self.withdrawal.reason().unwrap_or(match self.subject {
            ApprovalSubject::Call | ApprovalSubject::SubagentCall => {
                QuestionWithdrawal::CallCancelled
            }
            ApprovalSubject::Connection => QuestionWithdrawal::CommandEnded,
        })
    }

    /// Replaces secret values in what is shown of the call.
    pub(crate) fn mask_secrets(&mut self, secrets: &SecretMask) {
        if secrets.is_empty() {
            return;
        }
        self.effects.iter_mut().for_each(|effect| secrets.mask_effect(effect));
        self.preview.iter_mut().for_each(|preview| secrets.mask_display(preview));
        self.rewritten.iter_mut().for_each(|input| secrets.mask_json(input));
    }

    /// The answers that this question offers, with the grants in their labels.
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

    /// Whether the rules of the grants can be added to settings of this owner. Calls with critical
    /// risk need approval every time.
    pub fn can_allow_always(&self, owner: RuleOwner) -> bool {
        self.rule_owners.contains(&owner)
            && !self.grants.is_empty()
            && self.risk != RiskLevel::Critical
    }

    /// Whether this answer is offered. Calls with critical risk need approval every time.
    pub fn has_option(&self, answer: ApprovalAnswer) -> bool {
        match answer {
            ApprovalAnswer::AllowOnce | ApprovalAnswer::RejectOnce => true,
            ApprovalAnswer::AllowSession => {
                !self.grants.is_empty() && self.risk != RiskLevel::Critical
            }
            ApprovalAnswer::RejectSession => !self.grants.is_empty(),
            ApprovalAnswer::RejectTool => self.can_reject_tool,
        }
    }

    /// What this answer stores for the session.
    pub(crate) fn answer_scopes(&self, answer: ApprovalAnswer) -> Vec<GrantScope> {
        match answer {
            ApprovalAnswer::AllowOnce | ApprovalAnswer::RejectOnce => Vec::new(),
            ApprovalAnswer::AllowSession | ApprovalAnswer::RejectSession => self.grants.clone(),
            ApprovalAnswer::RejectTool => vec![tool_scope(&self.tool)],
        }
    }

    /// The commands of the call. Front ends show them first and separately.
    pub fn commands(&self) -> impl Iterator<Item = &CommandExecution> {
        self.effects.iter().filter_map(Effect::execution)
    }

    /// A preview without its first part, if that only repeats the command.
    pub fn strip_command_preview<'a>(&self, preview: &'a str) -> &'a str {
        let mut commands = self.commands();
        let (Some(command), None) = (commands.next(), commands.next()) else { return preview };
        let folder = command.folder.as_ref().map_or(&*self.workspace, |folder| folder.canonical());
        let mut shown = format!("{command}\n\nin {}", folder.display());
        for (variable, value) in &command.variables {
            shown.push_str(&format!("\nwith {variable}={value}"));
        }
        match preview.strip_prefix(&shown) {
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
            ApprovalAnswer::RejectTool => {
                format!(
                    "Reject every call of `{}` in this session",
                    escape_line(self.tool.as_str())
                )
            }
        }
    }
}

/// The scope of every call of a tool.
pub(crate) fn tool_scope(tool: &ToolName) -> GrantScope {
    GrantScope { rule: tool.to_string(), folder: None, program: None }
}

/// Grants for display: a command by its pattern, anything else by its rule.
pub(crate) fn format_grants(grants: &[GrantScope]) -> String {
    let quoted: Vec<String> =
        grants.iter().map(|grant| format!("`{}`", format_grant_pattern(grant))).collect();
    match quoted.split_last() {
        Some((last, others @ [_, ..])) => format!("{} and {last}", others.join(", ")),
        Some((last, [])) => last.clone(),
        None => String::new(),
    }
}

/// Escapes line breaks and hidden characters, which could imitate the end of an option or another
/// name.
fn format_grant_pattern(grant: &GrantScope) -> String {
    let rule = grant.rule.as_str();
    let command = rule.strip_prefix("Bash(").and_then(|rest| rest.strip_suffix(')'));
    escape_line(command.unwrap_or(rule)).into_owned()
}

/// Name of the user in audit rows and stored grants. Existing logs contain it, so it must not change.
pub const USER_APPROVER: &str = "person";

/// Asks the user. A host without an approver denies calls that need approval.
pub trait Approver: Send + Sync {
    /// Who answers, for the audit log: [`USER_APPROVER`], `--yes`, …
    fn name(&self) -> &str;

    /// Whether the answers come from a user who has seen the question.
    fn is_person(&self) -> bool {
        true
    }

    /// Whether its answer can let a command run outside the sandbox: the user answers at the machine
    /// on which it runs. A client of a gateway may be a program, and may be somewhere else.
    fn can_leave_sandbox(&self) -> bool {
        false
    }

    /// How the user could allow this call if there is no user to ask about it; the call is denied with
    /// this text. One approver may serve callers of which only some can be asked.
    fn unreachable_hint(&self, _question: &ApprovalQuestion) -> Option<String> {
        None
    }

    /// Asks the question. May take as long as the user needs; the call can be cancelled meanwhile.
    /// An answer that the question does not offer applies to this call only.
    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer>;

    /// Asks the question of a user who may reply with more than an answer. A reply that the question
    /// does not offer counts as a rejection.
    fn ask_for_reply<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalReply> {
        Box::pin(async move { self.ask(question).await.into() })
    }

    /// Whether it can show the user what a tried command changed, and ask about it.
    fn can_review_trials(&self) -> bool {
        false
    }

    /// Asks whether the changes of a tried command stay. Without a user to ask, they do
    /// not.
    fn review_trial<'a>(&'a self, _review: &'a TrialReview) -> BoxFuture<'a, TrialVerdict> {
        Box::pin(std::future::ready(TrialVerdict::Discard))
    }
}

/// A question that several clients of a session can answer. The first answer applies; later ones
/// are ignored.
#[derive(Debug)]
pub struct PendingAnswer {
    sender: Mutex<Option<oneshot::Sender<ApprovalAnswer>>>,
}

impl PendingAnswer {
    /// The side that answers and the side that waits. If all answering sides are dropped, the
    /// answer is a rejection.
    pub fn new() -> (Self, impl Future<Output = ApprovalAnswer> + Send + use<>) {
        let (sender, receiver) = oneshot::channel();
        let first = async move { receiver.await.unwrap_or(ApprovalAnswer::RejectOnce) };
        (Self { sender: Mutex::new(Some(sender)) }, first)
    }

    /// Answers. Returns true for the answer that applies: the first one, while the call still
    /// waits.
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
            can_reject_tool: false,
            grants: rules.iter().map(|text| rule_grant(text)).collect(),
            rule_owners: Vec::new(),
            can_edit_command: false,
            can_try_command: false,
            preview: None,
            rewritten: None,
            withdrawal: Default::default(),
            subject: ApprovalSubject::Call,
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
        let persistent =
            ApprovalQuestion { can_reject_tool: true, ..question(RiskLevel::Low, &[]) };
        let last = persistent.options().pop().unwrap();
        assert_eq!(last.name, "Reject every call of `Bash` in this session");
        assert_eq!(ApprovalAnswer::from_id(last.id), Some(ApprovalAnswer::RejectTool));
        assert_eq!(serde_json::to_value(last.kind).unwrap(), last.id);
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
        let hidden = "mcp__\u{202e}a\u{3164}__\u{ad}b\u{e0041}";
        check(
            RiskLevel::Medium,
            &[hidden],
            &[
                "allow_once: Allow once",
                r"allow_always: Allow `mcp__\u{202e}a\u{3164}__\u{ad}b\u{e0041}` in this session",
                "reject_once: Reject",
                r"reject_always: Reject `mcp__\u{202e}a\u{3164}__\u{ad}b\u{e0041}` in this session",
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
        assert!(!pending.answer(ApprovalAnswer::AllowOnce), "the call no longer waits");
    }
}
