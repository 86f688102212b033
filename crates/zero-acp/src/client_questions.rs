//! Questions to the user through the client: permissions and elicitations.
//!
//! Each question waits in a task of its own and is withdrawn when its asker no longer waits. The
//! questions of a session are sent one at a time, in the order of arrival, because some clients
//! show only one of two concurrent questions.

mod pending_questions;

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SessionId,
    ToolCallUpdate,
};
use serde_json::Map;
use tokio::sync::{Mutex, mpsc, oneshot};
use zero_client::SessionHandle;
use zero_core::RunId;
use zero_core::event::{ApprovalRequest, UserQuestion};
use zero_runtime::ordered_lock::queue_for_lock;
use zero_runtime::{ApprovalAnswer, Elicitation, ElicitationAnswer, ElicitationMode};

use self::pending_questions::{PendingQuestions, QuestionAdmission, QueuedQuestion};
pub(crate) use self::pending_questions::{QuestionCanceller, QuestionSubject, WithdrawnQuestions};
use crate::client_features::ClientFeatures;
use crate::client_handle::ClientHandle;
use crate::elicitation_dialog::ElicitationDialog;
use crate::session_message::{ApprovalMessage, SessionMessage, SessionSender};
use crate::update_presenter::permission_options;

/// Longest wait for the user's answer: time answers no question.
pub(crate) const ANSWER_MAX: Duration = Duration::MAX;
/// Refusals that may wait to be sent to the gateway.
const REFUSED_MAX: usize = 1_024;

/// An elicitation of a tool hosted here, and the channel for its answer.
pub(crate) struct ElicitationMessage {
    pub(crate) elicitation: Elicitation,
    pub(crate) reply: oneshot::Sender<ElicitationAnswer>,
}

/// The pending questions of a session.
pub(crate) struct ClientQuestions {
    session: SessionId,
    /// The session at the gateway, if there is one.
    handle: Option<SessionHandle>,
    to_client: ClientHandle,
    caps: ClientFeatures,
    sender: SessionSender,
    turn: Arc<Mutex<()>>,
    pending: PendingQuestions,
    /// Queue of refusals for the gateway; created by the first refusal.
    refusing: Option<mpsc::Sender<RefusedQuestion>>,
}

/// A gateway question that is refused without asking the user.
enum RefusedQuestion {
    Approval(String),
    Question(String),
}

impl ClientQuestions {
    pub(crate) fn new(
        session: SessionId,
        handle: Option<SessionHandle>,
        to_client: ClientHandle,
        caps: ClientFeatures,
        sender: SessionSender,
        stops: Arc<QuestionCanceller>,
    ) -> Self {
        let (turn, refusing) = Default::default();
        let pending = PendingQuestions::new(stops);
        Self { session, handle, to_client, caps, sender, turn, pending, refusing }
    }

    /// Asks for permission on behalf of a tool hosted here.
    pub(crate) fn ask_local_permission(&mut self, message: ApprovalMessage, call: ToolCallUpdate) {
        let ApprovalMessage { request, mut reply } = message;
        let id = request.id.clone();
        let subject = QuestionSubject::Call(request.call.clone());
        let permission = self.request_permission(&request, call);
        self.pending.spawn_question(id, subject, |taken_back| async move {
            let answer = tokio::select! {
                biased;
                // The call has ended in the meantime.
                () = reply.closed() => return,
                answer = taken_back.run_unless_withdrawn(permission) => answer,
            };
            let _ = reply.send(answer);
        });
    }

    /// Asks the user on the gateway's behalf and sends it the answer; refuses if too many questions
    /// wait.
    pub(crate) fn ask_gateway_permission(
        &mut self,
        run: Option<RunId>,
        request: &ApprovalRequest,
        call: ToolCallUpdate,
    ) {
        let Some(handle) = self.handle.clone() else { return };
        let permission = self.request_permission(request, call);
        let id = request.id.clone();
        let admission = self.pending.spawn_question(
            request.id.clone(),
            QuestionSubject::Run(run),
            |taken_back| async move {
                let answer = taken_back.run_unless_withdrawn(permission).await;
                if let Err(error) = handle.resolve_approval(&id, answer).await {
                    tracing::warn!(%error, "an answer did not reach the gateway");
                }
            },
        );
        if admission == QuestionAdmission::Full {
            self.refuse(RefusedQuestion::Approval(request.id.clone()));
        }
    }

    /// Asks another question on the gateway's behalf.
    pub(crate) fn ask_gateway_question(&mut self, run: Option<RunId>, question: &UserQuestion) {
        let mode = match (&question.schema, &question.url) {
            (_, Some(url)) => ElicitationMode::Url(url.clone()),
            (Some(schema), None) => ElicitationMode::Form(schema.clone()),
            (None, None) => ElicitationMode::Form(serde_json::json!({"type": "object"})),
        };
        let (origin, message) = (question.origin.clone(), question.message.clone());
        let elicitation = Elicitation { origin, call: None, message, mode };
        let Some(handle) = self.handle.clone() else { return };
        let queued_question = self.request_elicitation(&question.id, elicitation);
        let id = question.id.clone();
        let admission = self.pending.spawn_question(
            question.id.clone(),
            QuestionSubject::Run(run),
            |taken_back| async move {
                let (action, content) = match taken_back.run_unless_withdrawn(queued_question).await
                {
                    ElicitationAnswer::Accept(content) => ("accept", content),
                    ElicitationAnswer::Decline => ("decline", Map::new()),
                    ElicitationAnswer::Cancel => ("cancel", Map::new()),
                };
                if let Err(error) = handle.resolve_question(&id, action, content).await {
                    tracing::warn!(%error, "an answer did not reach the gateway");
                }
            },
        );
        if admission == QuestionAdmission::Full {
            self.refuse(RefusedQuestion::Question(question.id.clone()));
        }
    }

    /// Asks a question on behalf of a tool hosted here.
    pub(crate) fn elicit(&mut self, elicited: ElicitationMessage) {
        let ElicitationMessage { elicitation, mut reply } = elicited;
        let id = format!("elicitation_{:032x}", fastrand::u128(..));
        let subject = match &elicitation.call {
            Some(call) => QuestionSubject::Call(call.to_string()),
            None => QuestionSubject::Unknown,
        };
        let queued_question = self.request_elicitation(&id, elicitation);
        let (sender, question) = (self.sender.clone(), id.clone());
        self.pending.spawn_question(id, subject, |taken_back| async move {
            let answer = tokio::select! {
                answer = taken_back.run_unless_withdrawn(queued_question) => answer,
                () = reply.closed() => {
                    sender.send(SessionMessage::ChoiceEnded { question, answer: "cancelled" }).await;
                    return;
                }
            };
            let _ = reply.send(answer);
        });
    }

    /// Whether a question waits for its answer.
    pub(crate) fn is_waiting(&self, id: &str) -> bool {
        self.pending.contains(id)
    }

    /// Withdraws a question.
    pub(crate) fn withdraw(&mut self, id: &str) {
        drop(self.pending.withdraw_matching(|known, _| known == id));
    }

    /// Withdraws the questions with a matching subject.
    pub(crate) fn withdraw_matching(
        &mut self,
        about: impl Fn(&QuestionSubject) -> bool,
    ) -> WithdrawnQuestions {
        self.pending.withdraw_matching(|_, subject| about(subject))
    }

    /// Withdraws all questions.
    pub(crate) fn withdraw_all(&mut self) -> WithdrawnQuestions {
        self.pending.withdraw_matching(|_, _| true)
    }

    /// Sends a refusal to the gateway, which would wait for an answer otherwise.
    fn refuse(&mut self, refused: RefusedQuestion) {
        let Some(handle) = &self.handle else { return };
        let refusing = self.refusing.get_or_insert_with(|| {
            let (refusing, refused) = mpsc::channel(REFUSED_MAX);
            tokio::spawn(send_refusals(handle.clone(), refused));
            refusing
        });
        if refusing.try_send(refused).is_err() {
            tracing::warn!("the gateway sends more questions than can be refused");
        }
    }

    fn request_permission(
        &self,
        request: &ApprovalRequest,
        call: ToolCallUpdate,
    ) -> QueuedQuestion<
        impl Future<Output: Send> + Send + use<>,
        impl Future<Output = ApprovalAnswer> + Send + use<>,
    > {
        let (to_client, sender) = (self.to_client.clone(), self.sender.clone());
        let turn = queue_for_lock(&self.turn);
        let question =
            RequestPermissionRequest::new(self.session.clone(), call, permission_options(request));
        let offered: Vec<ApprovalAnswer> = request
            .options
            .iter()
            .filter_map(|option| ApprovalAnswer::from_id(&option.id))
            .collect();
        let answer_future = async move {
            let outcome = to_client.request(question, ANSWER_MAX).await;
            match parse_permission_outcome(outcome, &offered) {
                Some(answer) => answer,
                None => {
                    // The user cancelled the whole turn. A refusal of this one question would let
                    // the turn continue. The question is withdrawn after the gateway has confirmed
                    // the cancellation.
                    sender.send(SessionMessage::CancelAll).await;
                    std::future::pending().await
                }
            }
        };
        QueuedQuestion { turn, pending_question: answer_future }
    }

    fn request_elicitation(
        &self,
        id: &str,
        elicitation: Elicitation,
    ) -> QueuedQuestion<
        impl Future<Output: Send> + Send + use<>,
        impl Future<Output = ElicitationAnswer> + Send + use<>,
    > {
        let turn = queue_for_lock(&self.turn);
        let asking = ElicitationDialog {
            to_client: self.to_client.clone(),
            session: self.session.clone(),
            caps: self.caps.clone(),
            sender: self.sender.clone(),
            question: id.to_owned(),
        };
        QueuedQuestion { turn, pending_question: async move { asking.ask(&elicitation).await } }
    }
}

/// Sends refusals to the gateway, one at a time, while the session is open.
async fn send_refusals(handle: SessionHandle, mut refused: mpsc::Receiver<RefusedQuestion>) {
    while let Some(refused) = refused.recv().await {
        let sent = match refused {
            RefusedQuestion::Approval(id) => {
                handle.resolve_approval(&id, ApprovalAnswer::RejectOnce).await
            }
            RefusedQuestion::Question(id) => {
                handle.resolve_question(&id, "decline", Map::new()).await
            }
        };
        if let Err(error) = sent {
            tracing::warn!(%error, "a refusal did not reach the gateway");
        }
    }
}

/// Parses the client's answer; `None` if the turn was cancelled. An unknown option or a missing
/// answer is a rejection.
fn parse_permission_outcome(
    outcome: Result<RequestPermissionResponse, Error>,
    offered: &[ApprovalAnswer],
) -> Option<ApprovalAnswer> {
    match outcome {
        Ok(response) => match response.outcome {
            RequestPermissionOutcome::Cancelled => None,
            RequestPermissionOutcome::Selected(selected) => {
                let answer = ApprovalAnswer::from_id(&selected.option_id.0);
                Some(
                    answer
                        .filter(|answer| offered.contains(answer))
                        .unwrap_or(ApprovalAnswer::RejectOnce),
                )
            }
            _ => Some(ApprovalAnswer::RejectOnce),
        },
        Err(error) => {
            tracing::warn!(code = error.code.value(), "a permission was not answered");
            Some(ApprovalAnswer::RejectOnce)
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::SelectedPermissionOutcome;

    use super::*;

    #[track_caller]
    fn check(outcome: RequestPermissionOutcome, expected: Option<ApprovalAnswer>) {
        let offered = [ApprovalAnswer::AllowOnce, ApprovalAnswer::RejectOnce];
        assert_eq!(
            parse_permission_outcome(Ok(RequestPermissionResponse::new(outcome)), &offered),
            expected
        );
    }

    fn selected(option: &str) -> RequestPermissionOutcome {
        RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.to_owned()))
    }

    #[test]
    fn unoffered_permission_option_counts_as_rejection() {
        check(selected("allow_once"), Some(ApprovalAnswer::AllowOnce));
        check(selected("reject_once"), Some(ApprovalAnswer::RejectOnce));
        check(selected("allow_always"), Some(ApprovalAnswer::RejectOnce));
        check(selected("yes please"), Some(ApprovalAnswer::RejectOnce));
        check(RequestPermissionOutcome::Cancelled, None);
        let error = Err(Error::method_not_found());
        assert_eq!(
            parse_permission_outcome(error, &[ApprovalAnswer::AllowOnce]),
            Some(ApprovalAnswer::RejectOnce)
        );
    }
}
