//! Asks the user about hosts that a command connects to while it runs.
//!
//! The proxy holds such a connection and sends its question here, where the call that runs the
//! command asks it like any other: the same approver, the same grants, the same answers. The receiver
//! belongs to the call. When the call ends, however it ends, an open question is withdrawn and what
//! still waits is refused.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use zero_core::event::EffectOrigin;
use zero_core::text_shortening::shorten_end;
use zero_core::{CallId, Effect, RiskLevel, SecretMask, ToolName};
use zero_exec::egress::{
    ConnectTarget, ConnectionAnswer, ConnectionApprover, ConnectionQuestion, HeldConnections,
};
use zero_policy::PermissionMode;

use crate::approver::{
    ApprovalAnswer, ApprovalQuestion, ApprovalReply, ApprovalSubject, Approver, QuestionWithdrawal,
    REJECTION_CHARS_MAX, WithdrawalNote, tool_scope,
};
use crate::audit::AuditDecision;
use crate::authorization::record_answer;
use crate::host_session::ToolHostSession;
use crate::policy::{ConnectDeniedError, EffectDecision, GrantScope, RuleOwner, Verdict};
use crate::tool_host::ToolHost;
use crate::user_wait::UserWaitClock;

/// Most questions that wait for the one that is shown.
const QUEUED_MAX: usize = 16;

/// Receives the questions about one call.
pub(crate) struct ConnectionQuestions {
    approver: Arc<dyn Approver>,
    received: mpsc::Receiver<HeldQuestion>,
}

struct HeldQuestion {
    question: ConnectionQuestion,
    reply: oneshot::Sender<ConnectionAnswer>,
}

/// The call whose commands connect.
pub(crate) struct ConnectingCall<'a> {
    pub(crate) host: &'a ToolHost,
    pub(crate) session: &'a ToolHostSession,
    pub(crate) id: &'a CallId,
    pub(crate) tool: &'a ToolName,
    pub(crate) effects: &'a [Effect],
    pub(crate) secrets: Arc<SecretMask>,
    pub(crate) user_wait: Arc<UserWaitClock>,
}

impl ConnectingCall<'_> {
    /// Opens the way for questions about this call. `None` if it runs no command, or if no user can
    /// answer: then connections to hosts that were not judged are refused at once.
    pub(crate) fn open_questions(&self) -> Option<(Arc<HeldConnections>, ConnectionQuestions)> {
        let approver = Arc::clone(self.session.approver.as_ref()?);
        let runs_command = self.effects.iter().any(|effect| effect.execution().is_some());
        if !runs_command || self.is_plan_mode() {
            return None;
        }
        let example = self.build_question("a host", String::new(), None);
        if approver.unreachable_hint(&example).is_some() {
            return None;
        }
        let (sender, received) = mpsc::channel(QUEUED_MAX);
        let connections = HeldConnections::new(Arc::new(QueuedApprover { sender }));
        Some((Arc::new(connections), ConnectionQuestions { approver, received }))
    }

    fn is_plan_mode(&self) -> bool {
        let mode = self.session.mode().unwrap_or_else(|| self.host.policy.default_mode());
        mode == PermissionMode::Plan
    }

    fn build_question(
        &self,
        target: &str,
        reason: String,
        grant: Option<GrantScope>,
    ) -> ApprovalQuestion {
        let commands = self.effects.iter().filter(|effect| effect.execution().is_some()).cloned();
        let judged = EffectDecision {
            kind: "net",
            target: target.to_owned(),
            decision: Verdict::Ask,
            rule: None,
            source: None,
            reason: reason.clone(),
            origin: EffectOrigin::Call,
        };
        let rule_owners = match &grant {
            Some(_) => vec![RuleOwner::User, RuleOwner::Project],
            None => Vec::new(),
        };
        let mut question = ApprovalQuestion {
            subject: ApprovalSubject::Connection,
            call: self.id.clone(),
            tool: self.tool.clone(),
            title: format!("Connect to {target}"),
            reason,
            risk: RiskLevel::Medium,
            effects: commands.chain([Effect::Net(target.to_owned())]).collect(),
            judged: vec![judged],
            grants: grant.into_iter().collect(),
            rule_owners,
            can_edit_command: false,
            can_try_command: false,
            can_reject_tool: false,
            preview: None,
            rewritten: None,
            withdrawal: WithdrawalNote::default(),
            workspace: self.session.workspace().cwd().to_owned(),
        };
        question.mask_secrets(&self.secrets);
        question
    }

    /// Asks about one connection.
    async fn ask(&self, approver: &dyn Approver, held: &ConnectionQuestion) -> ConnectionAnswer {
        let ConnectionQuestion { target, refusal, is_grantable, other_calls } = held;
        let unasked = || ConnectionAnswer::unasked(refusal.clone());
        // The mode may have changed since the command started.
        if self.is_plan_mode() {
            return unasked();
        }
        let ConnectTarget { host, port } = target;
        let rule = format!("WebFetch(domain:{host})");
        let grant = GrantScope { rule, folder: None, program: None };
        let earlier =
            self.session.rejections().into_iter().find(|rejection| {
                rejection.grant == grant || rejection.grant == tool_scope(self.tool)
            });
        if let Some(rejection) = earlier {
            return ConnectionAnswer {
                decision: Err(ConnectDeniedError::Rejected { message: None }),
                answer_source: Some(format!("{}: reject, earlier in this session", rejection.by)),
                grants: Vec::new(),
            };
        }
        let target = format!("{host}:{port}");
        let shown = self.secrets.mask_text(&target);
        let is_secret = *shown != *target;
        let is_grantable = *is_grantable
            && !is_secret
            && self.session.is_persistent()
            && self.session.grants.has_room(1);
        let who = match other_calls {
            0 => "the command that runs connects to it".to_owned(),
            1 => "this command, or another that runs in this session, connects to it".to_owned(),
            others => format!(
                "this command, or one of {others} others that run in this session, connects to it"
            ),
        };
        let secret = if is_secret { "; its name contains a secret" } else { "" };
        let reason = format!("{who}, and {refusal}{secret}");
        let question = self.build_question(&shown, reason, is_grantable.then_some(grant));
        if approver.unreachable_hint(&question).is_some() {
            return unasked();
        }
        let limit = self.host.limits.connection_question_timeout;
        let waiting = self.user_wait.start();
        let mut pending_reply = approver.ask_for_reply(&question);
        let reply = timeout(limit, &mut pending_reply).await;
        drop(waiting);
        let Ok(reply) = reply else {
            question.withdrawal.set(QuestionWithdrawal::TimedOut(limit));
            return ConnectionAnswer {
                decision: Err(ConnectDeniedError::Unanswered { waited: limit }),
                answer_source: Some(format!(
                    "{}: no answer in {} s",
                    approver.name(),
                    limit.as_secs()
                )),
                grants: Vec::new(),
            };
        };
        let (answer, message) = match &reply {
            ApprovalReply::Answer(answer) => (*answer, None),
            ApprovalReply::AllowAlways { .. } => (ApprovalAnswer::AllowSession, None),
            ApprovalReply::RejectWithMessage(message) => {
                let message = shorten_end(message.trim(), REJECTION_CHARS_MAX);
                (ApprovalAnswer::RejectOnce, Some(message).filter(|text| !text.is_empty()))
            }
            // The command runs already.
            ApprovalReply::EditCommand(_) | ApprovalReply::TryCommand => {
                (ApprovalAnswer::RejectOnce, None)
            }
        };
        let mut noted = AuditDecision::default();
        let applied = record_answer(self.session, &question, answer, approver, &mut noted);
        if let ApprovalReply::AllowAlways { file } = &reply {
            noted.answered = Some(format!("{}: allow always, by {file}", approver.name()));
        }
        let decision = match applied.is_allow() && !self.is_plan_mode() {
            true => Ok(()),
            false => Err(ConnectDeniedError::Rejected { message }),
        };
        ConnectionAnswer { decision, answer_source: noted.answered, grants: noted.grants }
    }
}

impl ConnectionQuestions {
    /// Runs the call, and asks one question after the other meanwhile.
    pub(crate) async fn answer_while<T>(
        mut self,
        call: &ConnectingCall<'_>,
        work: impl Future<Output = T>,
    ) -> T {
        let answer_all = async {
            while let Some(HeldQuestion { question, mut reply }) = self.received.recv().await {
                let answer = tokio::select! {
                    biased;
                    () = reply.closed() => continue,
                    answer = call.ask(&*self.approver, &question) => answer,
                };
                // If this fails, the connection no longer waits.
                let _ = reply.send(answer);
            }
            // No command of the call can connect any more.
            std::future::pending().await
        };
        tokio::select! {
            biased;
            done = work => done,
            never = answer_all => never,
        }
    }
}

/// Passes questions of the proxy's thread to the call.
struct QueuedApprover {
    sender: mpsc::Sender<HeldQuestion>,
}

impl ConnectionApprover for QueuedApprover {
    fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    fn ask(&self, question: ConnectionQuestion) -> BoxFuture<'static, ConnectionAnswer> {
        let refusal = question.refusal.clone();
        let (reply, answer) = oneshot::channel();
        let sent = self.sender.try_send(HeldQuestion { question, reply });
        async move {
            let answer = match sent {
                Ok(()) => answer.await.ok(),
                // The call has ended, or too many questions wait.
                Err(_) => None,
            };
            answer.unwrap_or_else(|| ConnectionAnswer::unasked(refusal))
        }
        .boxed()
    }
}
