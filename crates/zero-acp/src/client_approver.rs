//! Asks the user for permissions of the tools hosted here, through the session's task.

use tokio::sync::oneshot;
use zero_runtime::GrantRecord;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::CallApprover;
use zero_runtime::tool_backend::approval_request;
use zero_runtime::{ApprovalAnswer, ApprovalQuestion, Elicitation, ElicitationAnswer, Elicitor};

use crate::client_questions::ElicitationMessage;
use crate::session_message::{ApprovalMessage, SessionMessage, SessionSender};

/// Asks the user of a session through its client.
pub(crate) struct ClientApprover {
    pub(crate) sender: SessionSender,
}

impl CallApprover for ClientApprover {
    /// The editor started zero, and could run the command itself.
    fn can_leave_sandbox(&self) -> bool {
        true
    }

    fn ask<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let request = approval_request(call, question);
            self.sender
                .send(SessionMessage::RequestApproval(Box::new(ApprovalMessage { request, reply })))
                .await;
            answer.await.unwrap_or(ApprovalAnswer::RejectOnce)
        })
    }

    fn store_grants(&self, _grants: Vec<GrantRecord>) {
        // A grant made here lasts as long as the session is open.
    }
}

impl Elicitor for ClientApprover {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let elicited = ElicitationMessage { elicitation: elicitation.clone(), reply };
            self.sender.send(SessionMessage::Elicit(Box::new(elicited))).await;
            answer.await.unwrap_or(ElicitationAnswer::Cancel)
        })
    }
}
