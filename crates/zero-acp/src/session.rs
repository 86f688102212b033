//! One session of the client. Its task sends all updates about the session, in order.
//!
//! Gateway events, reports of the tools, questions and client requests all arrive as messages to
//! this task. It waits only for messages and for the client to read. Slow work runs in other tasks,
//! which send the result as a message.

mod gateway_updates;
mod prompts;
mod run_cancellation;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agent_client_protocol::v1::schema::{self, SessionUpdate, ToolCallUpdate};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;
use zero_client::{LocalMode, OverlapPolicy, SessionHandle};
use zero_core::RunId;
use zero_runtime::tool_backend::ToolBackend;

use self::prompts::PendingPrompt;
use crate::cancelled_runs::CancelledRuns;
use crate::client_calls::CallTable;
use crate::client_handle::ClientHandle;
use crate::client_questions::{
    ClientQuestions, QuestionCanceller, QuestionSubject, WithdrawnQuestions,
};
use crate::config::DisconnectPolicy;
use crate::own_runs::OwnRuns;
use crate::session_message::{ApprovalMessage, SessionMessage, SessionSender};
use crate::session_options::SessionOptions;
use crate::update_presenter::UpdatePresenter;

/// Remarks that wait for a prompt; beyond that, the oldest are dropped.
const PENDING_REMARKS_MAX: usize = 16;

/// An open session of this connection.
pub(crate) struct ActiveSession {
    /// Its id at the client.
    pub(crate) id: schema::SessionId,
    pub(crate) handle: SessionHandle,
    pub(crate) backend: Arc<dyn ToolBackend>,
    pub(crate) sender: SessionSender,
    /// Withdraws pending questions.
    pub(crate) stops: Arc<QuestionCanceller>,
    /// The available options and their current values.
    pub(crate) choices: Mutex<SessionOptions>,
    pub(crate) own_mode: Arc<LocalMode>,
    /// Held while a prompt is sent, so that prompts reach the gateway in order.
    pub(crate) sending: Arc<tokio::sync::Mutex<()>>,
    /// The folder that prompts have to name; `None` if the gateway knows it.
    pub(crate) prefix_folder: Option<std::path::PathBuf>,
    pub(crate) overlap: OverlapPolicy,
    /// Tool calls that the client makes itself.
    pub(crate) own_calls: Arc<CallTable>,
}

impl ActiveSession {
    pub(crate) fn options(&self) -> MutexGuard<'_, SessionOptions> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of a session.
pub(crate) struct SessionActor {
    pub(crate) active: Arc<ActiveSession>,
    pub(crate) to_client: ClientHandle,
    pub(crate) presenter: UpdatePresenter,
    pub(crate) questions: ClientQuestions,
    /// Entries up to this number were sent by a replay.
    pub(crate) sent_until: u64,
    waiting: HashMap<String, PendingPrompt>,
    own_runs: OwnRuns,
    /// The run of another client that is active, as far as its entries were received.
    observed_run: Option<RunId>,
    stopped: CancelledRuns,
    /// Remark for the end of the run that chose a mode which does not apply.
    unheeded: Option<String>,
    /// Remarks that are sent when the next prompt runs.
    unsent: VecDeque<String>,
}

impl SessionActor {
    pub(crate) fn new(
        active: Arc<ActiveSession>,
        to_client: ClientHandle,
        presenter: UpdatePresenter,
        questions: ClientQuestions,
        sent_until: u64,
    ) -> Self {
        let (waiting, own_runs, observed_run, stopped, unheeded, unsent) = Default::default();
        Self {
            active,
            to_client,
            presenter,
            questions,
            sent_until,
            waiting,
            own_runs,
            observed_run,
            stopped,
            unheeded,
            unsent,
        }
    }

    /// Handles messages until the session is closed or all senders are dropped.
    pub(crate) async fn run(mut self, mut messages: mpsc::Receiver<SessionMessage>) {
        loop {
            // Output is shown at intervals; the remainder is shown after a pause.
            let due = self.presenter.next_output_due();
            let pause = async move {
                match due {
                    Some(due) => sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let is_first = messages.is_empty();
            let message = tokio::select! {
                message = messages.recv() => message,
                () = pause => {
                    let updates = self.presenter.present_held_output(Instant::now());
                    self.send_call_updates(None, updates).await;
                    continue;
                }
            };
            let Some(message) = message else { break };
            if is_first && message.is_informational() {
                // Yield before showing updates: messages that arrive until this thread is idle are
                // shown together.
                tokio::task::yield_now().await;
            }
            match message {
                SessionMessage::Prompt(prompted) => self.start_prompt(*prompted).await,
                SessionMessage::CancelAll => self.cancel_all().await,
                SessionMessage::CancelRun(run) => self.cancel_run(&run).await,
                SessionMessage::PromptFailed { run, failure: how } => {
                    self.handle_send_failure(&run, *how)
                }
                SessionMessage::CancelOverdue(run) => self.handle_overdue_cancel(&run).await,
                SessionMessage::GatewayUpdate(update) => self.handle_gateway_update(*update).await,
                SessionMessage::CallDescribed { call, title, kind, locations } => {
                    let updates =
                        self.presenter.present_description(&call, &title, kind, &locations);
                    self.send_call_updates(Some(&call), updates).await;
                }
                SessionMessage::CallStarted { call } => {
                    let updates = self.presenter.present_call_start(&call);
                    self.send_call_updates(Some(&call), updates).await;
                }
                SessionMessage::TerminalOpened { call, terminal } => {
                    let updates = self.presenter.present_terminal(&call, terminal);
                    self.send_call_updates(Some(&call), updates).await;
                }
                SessionMessage::OutputAvailable { call, printed } => {
                    let updates =
                        self.presenter.present_output(&call, &printed.take(), Instant::now());
                    self.send_call_updates(Some(&call), updates).await;
                }
                SessionMessage::RequestApproval(approval) => {
                    self.ask_local_approval(*approval).await
                }
                SessionMessage::Elicit(elicited) => {
                    self.questions.elicit(*elicited);
                    self.withdraw_stopped_questions().await;
                }
                SessionMessage::ShowChoice { question, message, shown } => {
                    self.show_choice(&question, &message, shown).await;
                }
                SessionMessage::ChoiceEnded { question, answer } => {
                    self.show_answer(&question, answer).await
                }
                SessionMessage::SendUpdates(updates) => self.send_updates(updates).await,
                SessionMessage::Remark(text) => self.send_remark(text).await,
                SessionMessage::ClientCallStarted { call, tool, input } => {
                    let updates = self.presenter.present_client_call(&call, &tool, &input);
                    self.send_updates(updates).await;
                }
                SessionMessage::UnrecordedCallEnded { call, end, done } => {
                    let updates = self.presenter.present_client_call_end(&call, &end);
                    self.send_updates(updates).await;
                    let _ = done.send(());
                }
                SessionMessage::Close { done, runs } => {
                    self.close(runs).await;
                    let _ = done.send(());
                    return;
                }
            }
        }
        self.close(DisconnectPolicy::Abort).await;
    }

    async fn send_updates(&mut self, updates: Vec<SessionUpdate>) {
        self.to_client.send_updates(&self.active.id, updates).await;
    }

    /// Sends updates about a call of the tools here. The tools also run the calls of other clients of
    /// the session; these updates say so.
    async fn send_call_updates(&mut self, call: Option<&str>, updates: Vec<SessionUpdate>) {
        match self.observed_run_of(call) {
            Some(run) => {
                self.to_client.send_observed_updates(&self.active.id, &run, updates).await;
            }
            None => self.send_updates(updates).await,
        }
    }

    /// The run of another client that a call belongs to. A call whose run is not known yet belongs
    /// to the active one, unless this client has something to do.
    fn observed_run_of(&self, call: Option<&str>) -> Option<RunId> {
        let known = call.and_then(|call| self.presenter.call_run(call)).cloned();
        let is_own = |call: &str| self.active.own_calls.contains(&self.active.id.0, call);
        let may_be_others = self.waiting.is_empty() && !call.is_some_and(is_own);
        let active = || self.observed_run.clone().filter(|_| may_be_others);
        known.or_else(active).filter(|run| !self.own_runs.contains(run))
    }

    /// Sends a remark of zero. Without support for notices it belongs to a turn, so it waits for
    /// one.
    async fn send_remark(&mut self, text: String) {
        if self.waiting.is_empty() && !self.presenter.supports_notices() {
            if self.unsent.len() >= PENDING_REMARKS_MAX {
                self.unsent.pop_front();
            }
            self.unsent.push_back(text);
            return;
        }
        let update = self.presenter.present_remark(&text);
        self.send_updates(vec![update]).await;
    }

    /// Withdraws all questions. Calls that represent only a question end.
    async fn withdraw_all_questions(&mut self) {
        let withdrawn = self.questions.withdraw_all();
        self.release_questions(withdrawn).await;
        let updates = self.presenter.end_lone_questions();
        self.send_updates(updates).await;
    }

    /// Withdraws the questions of cancelled runs; their later questions are not asked either.
    async fn withdraw_stopped_questions(&mut self) {
        for run in self.stopped_runs() {
            self.withdraw_run_questions(&run).await;
        }
    }

    /// Withdraws the questions of one run.
    async fn withdraw_run_questions(&mut self, run: &str) {
        let (presenter, stopping) = (&self.presenter, self.run_cancellation(run));
        let withdrawn = self.questions.withdraw_matching(|subject| match subject {
            QuestionSubject::Run(of) => stopping.covers_run(of.as_ref()),
            QuestionSubject::Call(call) => stopping.covers_call(call, presenter.call_run(call)),
            QuestionSubject::Unknown => stopping.covers_run(None),
        });
        self.release_questions(withdrawn).await;
    }

    /// Releases withdrawn questions and shows that they have ended.
    async fn release_questions(&mut self, withdrawn: WithdrawnQuestions) {
        let questions = withdrawn.ids();
        self.release_after_cancel(withdrawn);
        for question in questions {
            self.show_answer(&question, "cancelled").await;
        }
    }

    /// Shows that a question was answered or withdrawn.
    async fn show_answer(&mut self, question: &str, answer: &str) {
        let updates = self.presenter.resolve_question(question, answer);
        self.send_call_updates(None, updates).await;
    }

    async fn show_choice(
        &mut self,
        question: &str,
        message: &str,
        shown: oneshot::Sender<ToolCallUpdate>,
    ) {
        // A question that was withdrawn in the meantime is not shown.
        if self.questions.is_waiting(question) {
            let (updates, call) = self.presenter.present_choice(question, message);
            self.send_updates(updates).await;
            let _ = shown.send(call);
        }
    }

    async fn ask_local_approval(&mut self, approval: ApprovalMessage) {
        let (updates, call) = self.presenter.present_approval(&approval.request);
        let shown = approval.request.call.clone();
        self.send_call_updates(Some(&shown), updates).await;
        self.questions.ask_local_permission(approval, call);
        self.withdraw_stopped_questions().await;
    }
}
