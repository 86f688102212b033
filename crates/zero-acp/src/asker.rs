//! How the tools here reach the person: by letters to the session's task.

use tokio::sync::oneshot;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Answer, Elicitation, ElicitationAnswer, Elicitor, Question};
use zero_session::approvals::request_of;
use zero_session::hands::CallApprover;
use zero_session::store::StandingGrant;

use crate::letter::{Asked, Letter, Mailbox};
use crate::questions::{ANSWER_MAX, Elicited};

/// Asks the person of a session through its client.
pub(crate) struct Asker {
    pub(crate) mailbox: Mailbox,
}

impl CallApprover for Asker {
    fn ask<'a>(&'a self, call: &'a str, question: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let request = request_of(call, question, ANSWER_MAX);
            self.mailbox.put(Letter::Ask(Box::new(Asked { request, reply }))).await;
            answer.await.unwrap_or(Answer::RejectOnce)
        })
    }

    fn stands(&self, _standing: Vec<StandingGrant>) {
        // What is settled here lasts as long as the session is open.
    }
}

impl Elicitor for Asker {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let elicited = Elicited { elicitation: elicitation.clone(), reply };
            self.mailbox.put(Letter::Elicit(Box::new(elicited))).await;
            answer.await.unwrap_or(ElicitationAnswer::Cancel)
        })
    }
}
