//! The tools of a session, opened for one of its sub-agents.
//!
//! A sub-agent has a session of its own on the tool host, with the grants of its parent session and a
//! mode that is never freer. Its questions go to the users of the parent session, under the call that
//! started it and with its name.

use std::any::Any;
use std::sync::Arc;

use zero_core::event::{ApprovalSubject, QuestionOrigin, SubagentStep};
use zero_core::sanitize::escape_line;
use zero_core::{CallId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{CallApprover, ToolBackendError, WorktreeReport};
use zero_runtime::{
    AGENT_ORIGIN, ApprovalAnswer, ApprovalQuestion, ApprovalReply, Elicitation, ElicitationAnswer,
    Elicitor, GrantRecord, ToolHost,
};

/// Makes git worktrees for sub-agents of the sessions in one folder.
pub trait WorktreeProvider: Send + Sync {
    /// Makes a worktree for a sub-agent with this session and name, and a tool host that confines it to
    /// that.
    fn open(
        &self,
        session: &SessionId,
        name: &str,
    ) -> BoxFuture<'_, Result<WorktreeTools, ToolBackendError>>;

    /// Opens the worktree of a sub-agent that waited for an answer and goes on.
    fn reopen(&self, session: &SessionId)
    -> BoxFuture<'_, Result<WorktreeTools, ToolBackendError>>;
}

/// The tools of a worktree.
pub struct WorktreeTools {
    /// The host, with the rules of the parent's host.
    pub host: Arc<ToolHost>,
    /// Resources that must live as long as the host.
    pub keep: Box<dyn Any + Send + Sync>,
    /// The worktree.
    pub worktree: Arc<dyn Worktree>,
}

/// The git worktree of one sub-agent.
pub trait Worktree: Send + Sync {
    /// Adds a branch with what the sub-agent changed to the repository of its parent, once no command
    /// works in the worktree any more, and removes the worktree. Returns nothing if nothing was changed.
    fn close(&self) -> BoxFuture<'_, Result<Option<WorktreeReport>, ToolBackendError>>;

    /// Notes whether the sub-agent waits for an answer. While it does, its worktree outlives its process.
    fn set_waiting(&self, waits: bool) -> BoxFuture<'_, ()>;
}

/// How the text of a sub-agent's question begins.
pub(super) fn question_prefix(name: &str) -> String {
    format!("sub-agent `{}`: ", escape_line(name))
}

/// Asks the users of the parent session.
pub(crate) struct SubagentApprover {
    pub(crate) parent: Arc<dyn CallApprover>,
    /// The call of the parent session that started the sub-agent.
    pub(crate) call: CallId,
    /// The session of the sub-agent.
    pub(crate) session: SessionId,
    pub(crate) name: String,
    /// The worktree in which it works, if it has one of its own.
    pub(crate) worktree: Option<WaitingWorktree>,
}

impl SubagentApprover {
    fn attribute(&self, question: &ApprovalQuestion) -> ApprovalQuestion {
        let title = format!("{}{}", question_prefix(&self.name), question.title);
        let subject = match question.subject {
            ApprovalSubject::Call | ApprovalSubject::SubagentCall => ApprovalSubject::SubagentCall,
            ApprovalSubject::Connection => ApprovalSubject::Connection,
        };
        ApprovalQuestion { title, subject, ..question.clone() }
    }

    async fn ask_parent(
        &self,
        question: &ApprovalQuestion,
        mut origin: QuestionOrigin,
    ) -> ApprovalReply {
        let question = self.attribute(question);
        let (task, session) = (self.call.as_str().to_owned(), self.session.to_string());
        origin.path.insert(0, SubagentStep { task, session });
        let can_wait = question.subject == ApprovalSubject::SubagentCall;
        let worktree = self.worktree.as_ref().filter(|_| can_wait);
        if let Some(worktree) = worktree {
            worktree.begin_wait().await;
        }
        let reply = self.parent.ask_for_subagent(self.call.as_str(), &question, origin).await;
        // Not if this is dropped: then the run is parked or has ended.
        if let Some(worktree) = worktree {
            worktree.end_wait().await;
        }
        reply
    }
}

/// The worktree of a sub-agent, which must outlive its process while a question waits.
#[derive(Clone)]
pub(crate) struct WaitingWorktree {
    worktree: Arc<dyn Worktree>,
    /// The number of questions that wait.
    waits: Arc<tokio::sync::Mutex<usize>>,
}

impl WaitingWorktree {
    pub(super) fn new(worktree: Arc<dyn Worktree>) -> Self {
        Self { worktree, waits: Arc::default() }
    }

    async fn begin_wait(&self) {
        let mut waits = self.waits.lock().await;
        if *waits == 0 {
            self.worktree.set_waiting(true).await;
        }
        *waits += 1;
    }

    async fn end_wait(&self) {
        let mut waits = self.waits.lock().await;
        *waits = waits.saturating_sub(1);
        if *waits == 0 {
            self.worktree.set_waiting(false).await;
        }
    }
}

impl CallApprover for SubagentApprover {
    fn name(&self) -> &str {
        self.parent.name()
    }

    fn is_person(&self) -> bool {
        self.parent.is_person()
    }

    fn can_leave_sandbox(&self) -> bool {
        // The sandbox is all that keeps a sub-agent in its worktree.
        false
    }

    fn unattended_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        self.parent.unattended_hint(question)
    }

    fn ask<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self.ask_for_reply(call, question).await {
                ApprovalReply::Answer(answer) => answer,
                ApprovalReply::AllowAlways { .. } => ApprovalAnswer::AllowSession,
                ApprovalReply::RejectWithMessage(_)
                | ApprovalReply::EditCommand(_)
                | ApprovalReply::TryCommand => ApprovalAnswer::RejectOnce,
            }
        })
    }

    fn ask_for_reply<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalReply> {
        let origin = QuestionOrigin { path: Vec::new(), call: call.to_owned() };
        Box::pin(self.ask_parent(question, origin))
    }

    fn ask_for_subagent<'a>(
        &'a self,
        _call: &'a str,
        question: &'a ApprovalQuestion,
        origin: QuestionOrigin,
    ) -> BoxFuture<'a, ApprovalReply> {
        Box::pin(self.ask_parent(question, origin))
    }

    fn store_grants(&self, grants: Vec<GrantRecord>) {
        self.parent.store_grants(grants);
    }

    fn take_revoked_grants(&self) -> BoxFuture<'_, Vec<GrantRecord>> {
        self.parent.take_revoked_grants()
    }
}

/// Asks the users of the parent session.
pub(super) struct SubagentElicitor {
    pub(super) parent: Arc<dyn Elicitor>,
    /// The call of the parent session that started the sub-agent.
    pub(super) call: CallId,
    /// The session of the sub-agent.
    pub(super) session: SessionId,
    pub(super) name: String,
    /// The worktree in which it works, if it has one of its own.
    pub(super) worktree: Option<WaitingWorktree>,
}

impl SubagentElicitor {
    async fn ask_parent(
        &self,
        elicitation: &Elicitation,
        mut origin: QuestionOrigin,
    ) -> ElicitationAnswer {
        let elicitation = self.attribute(elicitation);
        let (task, session) = (self.call.as_str().to_owned(), self.session.to_string());
        origin.path.insert(0, SubagentStep { task, session });
        if let Some(worktree) = &self.worktree {
            worktree.begin_wait().await;
        }
        let answer = self.parent.elicit_for_subagent(&elicitation, origin).await;
        if let Some(worktree) = &self.worktree {
            worktree.end_wait().await;
        }
        answer
    }

    fn attribute(&self, elicitation: &Elicitation) -> Elicitation {
        let origin = match elicitation.origin == AGENT_ORIGIN {
            true => format!("the sub-agent `{}`", escape_line(&self.name)),
            false => {
                format!("{} (for the sub-agent `{}`)", elicitation.origin, escape_line(&self.name))
            }
        };
        Elicitation { origin, ..elicitation.clone() }
    }
}

impl Elicitor for SubagentElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async move {
            // The question of a server ends with its call.
            if elicitation.origin != AGENT_ORIGIN {
                return self.parent.elicit(&self.attribute(elicitation)).await;
            }
            let origin = QuestionOrigin { path: Vec::new(), call: String::new() };
            self.ask_parent(elicitation, origin).await
        })
    }

    fn elicit_for_subagent<'a>(
        &'a self,
        elicitation: &'a Elicitation,
        origin: QuestionOrigin,
    ) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(self.ask_parent(elicitation, origin))
    }
}
