//! The prompts of a session: each is sent to the gateway, cancelled on request, and answered
//! exactly once.

use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, StopReason};
use futures_util::future::join_all;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use zero_core::RunId;

use super::SessionActor;
use super::run_cancellation::RunCancellation;
use crate::client_questions::WithdrawnQuestions;
use crate::config::DisconnectPolicy;
use crate::prompt_sender;
use crate::rpc_error;
use crate::session_message::{PromptMessage, PromptSendFailure, SessionMessage};

/// Prompts that may wait for their answer.
const PROMPTS_MAX: usize = 16;
/// Longest wait for a cancelled run to end and for its gateway to confirm. After that the prompt is
/// answered and its questions are released.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a gateway to stop the runs of a closed session.
const ABORT_MAX: Duration = Duration::from_secs(2);

/// A prompt that is not answered yet.
pub(super) struct PendingPrompt {
    responder: Responder<Value>,
    cancel: CancellationToken,
    /// The task that sends it and aborts its run on cancellation.
    carrier: JoinHandle<()>,
    /// Cancelled once the gateway has received the abort, or cannot receive it.
    delivered: CancellationToken,
}

/// State of a run when its prompt is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunDisposition {
    /// Nothing is left to do.
    Finished,
    /// It was cancelled, and the gateway may not have received the abort.
    CancelUnconfirmed,
}

impl SessionActor {
    pub(super) async fn start_prompt(&mut self, prompted: PromptMessage) {
        let PromptMessage { run, content, thinking, responder } = prompted;
        if self.waiting.len() >= PROMPTS_MAX {
            let error = rpc_error::bad_request(format!(
                "{PROMPTS_MAX} prompts wait in this session already; wait for one, or cancel"
            ));
            let _ = responder.respond_with_error(error);
            return;
        }
        let (cancel, delivered) = (CancellationToken::new(), CancellationToken::new());
        let stopped = responder.cancellation();
        let carrying = prompt_sender::deliver_prompt(
            Arc::clone(&self.active),
            prompt_sender::SendQueueTicket::enqueue(&self.active),
            run.clone(),
            content,
            thinking,
            cancel.clone(),
            async move { stopped.cancelled().await },
        );
        let carried = delivered.clone().drop_guard();
        let carrier = tokio::spawn(async move {
            carrying.await;
            drop(carried);
        });
        self.own_runs.add(&run);
        self.waiting.insert(run, PendingPrompt { responder, cancel, carrier, delivered });
        for text in std::mem::take(&mut self.unsent) {
            self.send_remark(text).await;
        }
    }

    /// Runs of the prompts that are not answered yet.
    pub(super) fn pending_runs(&self) -> Vec<String> {
        self.waiting.keys().cloned().collect()
    }

    /// Runs of the prompts that were cancelled and are not answered yet.
    pub(super) fn stopped_runs(&self) -> Vec<String> {
        let stopped = self.waiting.iter().filter(|(_, waiting)| waiting.cancel.is_cancelled());
        stopped.map(|(run, _)| run.clone()).collect()
    }

    pub(super) async fn cancel_all(&mut self) {
        self.pending_runs().iter().for_each(|run| self.stop_run(run));
        self.withdraw_all_questions().await;
    }

    pub(super) async fn cancel_run(&mut self, run: &str) {
        self.stop_run(run);
        // Only questions of this run are withdrawn, and only while its prompt is pending.
        if self.waiting.contains_key(run) {
            self.withdraw_run_questions(run).await;
        }
    }

    /// Cancels a run; a second call has no effect.
    fn stop_run(&self, run: &str) {
        let Some(waiting) = self.waiting.get(run) else { return };
        if waiting.cancel.is_cancelled() {
            return;
        }
        waiting.cancel.cancel();
        let (sender, run) = (self.active.sender.clone(), run.to_owned());
        tokio::spawn(async move {
            sleep(STOP_MAX).await;
            sender.send(SessionMessage::CancelOverdue(run)).await;
        });
    }

    /// Releases withdrawn questions after the gateway knows which runs are cancelled. Released
    /// earlier, their askers would report a rejection, and a cancelled run would continue.
    pub(super) fn release_after_cancel(&self, withdrawn: WithdrawnQuestions) {
        let stopped = self.waiting.values().filter(|waiting| waiting.cancel.is_cancelled());
        let delivered: Vec<_> = stopped.map(|waiting| waiting.delivered.clone()).collect();
        if withdrawn.is_empty() || delivered.is_empty() {
            return;
        }
        tokio::spawn(async move {
            let all_delivered = join_all(delivered.iter().map(CancellationToken::cancelled));
            if timeout(STOP_MAX, all_delivered).await.is_err() {
                tracing::debug!("a gateway has not confirmed an abort");
            }
            drop(withdrawn);
        });
    }

    pub(super) fn handle_send_failure(&mut self, run: &str, failure: PromptSendFailure) {
        match failure {
            PromptSendFailure::Cancelled => {
                self.answer_prompt(run, Ok(cancelled_response()), RunDisposition::Finished)
            }
            PromptSendFailure::Failed(error) => self.fail_prompt(run, error),
        }
    }

    /// Answers a prompt whose run cannot be followed any more; a cancelled one is answered
    /// `cancelled`.
    pub(super) fn fail_prompt(&mut self, run: &str, error: Error) {
        match self.is_stopped(run) {
            true => {
                self.answer_prompt(run, Ok(cancelled_response()), RunDisposition::CancelUnconfirmed)
            }
            false => self.answer_prompt(run, Err(error), RunDisposition::Finished),
        }
    }

    /// Answers a prompt whose run has ended. If it was cancelled, the answer is `cancelled`, even
    /// if the run ended before the gateway received the abort.
    pub(super) fn finish_prompt(&mut self, run: &str, answer: Result<PromptResponse, Error>) {
        let answer = match (self.is_stopped(run), answer) {
            (true, Ok(response)) => {
                let mut stopped = response;
                stopped.stop_reason = StopReason::Cancelled;
                Ok(stopped)
            }
            (true, Err(_)) => Ok(cancelled_response()),
            (false, answer) => answer,
        };
        self.answer_prompt(run, answer, RunDisposition::Finished);
    }

    fn is_stopped(&self, run: &str) -> bool {
        self.waiting.get(run).is_some_and(|waiting| waiting.cancel.is_cancelled())
    }

    pub(super) async fn handle_overdue_cancel(&mut self, run: &str) {
        if self.waiting.contains_key(run) {
            tracing::warn!(run, "a run was stopped and did not say so; its prompt is answered");
            self.withdraw_run_questions(run).await;
            let words = "it was cancelled; the outcome is unknown";
            let stopping = self.run_cancellation(run);
            let which = |call: &str, of: Option<&RunId>| stopping.covers_call(call, of);
            let updates = self.presenter.abandon_matching(words, which);
            self.send_updates(updates).await;
            self.answer_prompt(run, Ok(cancelled_response()), RunDisposition::CancelUnconfirmed);
        }
    }

    /// What ends together with a cancelled run.
    pub(super) fn run_cancellation<'a>(&self, run: &'a str) -> RunCancellation<'a> {
        RunCancellation {
            run,
            is_last: self.waiting.values().all(|waiting| waiting.cancel.is_cancelled()),
            session: Arc::clone(&self.active.id.0),
            own_calls: Arc::clone(&self.active.own_calls),
        }
    }

    /// Answers a prompt, once. No update of its run is sent after that.
    pub(super) fn answer_prompt(
        &mut self,
        run: &str,
        answer: Result<PromptResponse, Error>,
        disposition: RunDisposition,
    ) {
        let Some(waiting) = self.waiting.remove(run) else { return };
        match disposition {
            RunDisposition::Finished => waiting.carrier.abort(),
            RunDisposition::CancelUnconfirmed => self.stopped.add(run.to_owned(), waiting.carrier),
        }
        match &answer {
            Ok(response) => tracing::debug!(run, stop = ?response.stop_reason, "a prompt is over"),
            Err(error) => tracing::debug!(run, error = error.message, "a prompt failed"),
        }
        let answer = answer.and_then(|response| {
            serde_json::to_value(response)
                .map_err(|_| rpc_error::operation_failed("internal", "internal error", false))
        });
        let _ = waiting.responder.respond_with_result(answer);
    }

    /// Stops everything and leaves the session.
    pub(super) async fn close(&mut self, on_eof: DisconnectPolicy) {
        let withdrawn = self.questions.withdraw_all();
        self.active.own_calls.cancel_all(&self.active.id.0);
        let disposition = match on_eof {
            DisconnectPolicy::Abort => {
                self.stop_all_runs().await;
                RunDisposition::CancelUnconfirmed
            }
            DisconnectPolicy::Detach => RunDisposition::Finished,
        };
        drop(withdrawn);
        let updates = self.presenter.abandon_all("the session was closed");
        self.send_updates(updates).await;
        for run in self.pending_runs() {
            self.answer_prompt(&run, Ok(cancelled_response()), disposition);
        }
        self.active.handle.leave().await;
    }

    /// Cancels all runs at once. Waits for the gateway for `ABORT_MAX` at most; the abort continues
    /// in the background.
    async fn stop_all_runs(&mut self) {
        self.waiting.values().for_each(|waiting| waiting.cancel.cancel());
        let waiting = self.waiting.values_mut().map(|waiting| &mut waiting.carrier);
        let carriers = waiting.chain(self.stopped.stop_tasks());
        if timeout(ABORT_MAX, join_all(carriers)).await.is_err() {
            tracing::warn!(session = %self.active.id, "runs were stopped and did not say so");
        }
    }
}

/// The answer to a prompt that was cancelled before it ran, or because its session was closed.
fn cancelled_response() -> PromptResponse {
    PromptResponse::new(StopReason::Cancelled)
}
