//! The tools of a session, opened for one of its sub-agents.
//!
//! A sub-agent has a session of its own on the tool host, with the grants of its parent session and a
//! mode that is never freer. Its questions go to the users of the parent session, under the call that
//! started it and with its name.

use std::any::Any;
use std::sync::Arc;

use zero_core::event::ApprovalSubject;
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
}

/// How the text of a sub-agent's question begins.
pub(super) fn question_prefix(name: &str) -> String {
    format!("sub-agent `{}`: ", escape_line(name))
}

/// Asks the users of the parent session.
pub(super) struct SubagentApprover {
    pub(super) parent: Arc<dyn CallApprover>,
    /// The call of the parent session that started the sub-agent.
    pub(super) call: CallId,
    pub(super) name: String,
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
        _call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        let question = self.attribute(question);
        Box::pin(async move { self.parent.ask(self.call.as_str(), &question).await })
    }

    fn ask_for_reply<'a>(
        &'a self,
        _call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalReply> {
        let question = self.attribute(question);
        Box::pin(async move { self.parent.ask_for_reply(self.call.as_str(), &question).await })
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
    pub(super) name: String,
}

impl Elicitor for SubagentElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        let origin = match elicitation.origin == AGENT_ORIGIN {
            true => format!("the sub-agent `{}`", escape_line(&self.name)),
            false => {
                format!("{} (for the sub-agent `{}`)", elicitation.origin, escape_line(&self.name))
            }
        };
        let elicitation = Elicitation { origin, ..elicitation.clone() };
        Box::pin(async move { self.parent.elicit(&elicitation).await })
    }
}
