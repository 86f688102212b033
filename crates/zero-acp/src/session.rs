//! One session of the client: everything that is told about it is told from here, one thing after
//! another.
//!
//! What happens at the gateway, what the tools here say, what is asked and what the client wants
//! come as letters to one task. It waits for nothing but letters and for the client to read: what
//! takes time is done beside it, and comes back as a letter.

mod gateway_updates;
mod prompts;
mod run_cancellation;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use agent_client_protocol::v1::schema::{self, SessionUpdate, ToolCallUpdate};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;
use zero_client::{OverlapPolicy, SessionHandle};
use zero_runtime::tool_backend::ToolBackend;

use self::prompts::PendingPrompt;
use crate::cancelled_runs::CancelledRuns;
use crate::client_calls::CallTable;
use crate::client_handle::ClientHandle;
use crate::client_questions::{
    ClientQuestions, QuestionCanceller, QuestionSubject, WithdrawnQuestions,
};
use crate::config::DisconnectPolicy;
use crate::local_mode::LocalMode;
use crate::pending_servers::PendingServers;
use crate::session_message::{ApprovalMessage, SessionMessage, SessionSender};
use crate::session_options::SessionOptions;
use crate::update_presenter::UpdatePresenter;

/// Remarks that wait for a prompt; of more, the oldest are forgotten.
const PENDING_REMARKS_MAX: usize = 16;

/// A session that is open on this connection.
pub(crate) struct ActiveSession {
    /// What the client calls it.
    pub(crate) id: schema::SessionId,
    pub(crate) near: SessionHandle,
    pub(crate) hands: Arc<dyn ToolBackend>,
    pub(crate) mailbox: SessionSender,
    /// Takes back what is asked.
    pub(crate) stops: Arc<QuestionCanceller>,
    /// What can be chosen, and what is.
    pub(crate) choices: Mutex<SessionOptions>,
    pub(crate) own_mode: Arc<LocalMode>,
    /// What the first prompt waits for.
    pub(crate) awaited: PendingServers,
    /// Held by the prompt that is being sent: they reach the gateway in the order they came in.
    pub(crate) sending: Arc<tokio::sync::Mutex<()>>,
    /// Whether a prompt has to say the folder.
    pub(crate) says_folder: Option<std::path::PathBuf>,
    pub(crate) overlap: OverlapPolicy,
    /// Calls that the client makes itself.
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
    /// Entries up to this number were told by a replay.
    pub(crate) told_until: u64,
    waiting: HashMap<String, PendingPrompt>,
    stopped: CancelledRuns,
    /// What is said at the end of the run that chose a mode which does not hold.
    unheeded: Option<String>,
    /// What is said as soon as a prompt is at work.
    untold: VecDeque<String>,
}

impl SessionActor {
    pub(crate) fn new(
        active: Arc<ActiveSession>,
        to_client: ClientHandle,
        presenter: UpdatePresenter,
        questions: ClientQuestions,
        told_until: u64,
    ) -> Self {
        let (waiting, stopped, unheeded, untold) = Default::default();
        Self {
            active,
            to_client,
            presenter,
            questions,
            told_until,
            waiting,
            stopped,
            unheeded,
            untold,
        }
    }

    /// Works on letters until the session is closed, or nobody can write to it any more.
    pub(crate) async fn run(mut self, mut letters: mpsc::Receiver<SessionMessage>) {
        loop {
            // What a command printed is shown now and then; what is left when it pauses, after a while.
            let due = self.presenter.next_output_due();
            let pause = async move {
                match due {
                    Some(due) => sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let is_first = letters.is_empty();
            let letter = tokio::select! {
                letter = letters.recv() => letter,
                () = pause => {
                    let updates = self.presenter.present_held_output(Instant::now());
                    self.send_updates(updates).await;
                    continue;
                }
            };
            let Some(letter) = letter else { break };
            if is_first && letter.is_informational() {
                // What is shown waits for what is being done: for this thread to have nothing else to do,
                // or to have done much of it. What comes meanwhile is shown with it.
                tokio::task::yield_now().await;
            }
            match letter {
                SessionMessage::Prompt(prompted) => self.start_prompt(*prompted).await,
                SessionMessage::CancelAll => self.cancel_all().await,
                SessionMessage::CancelRun(run) => self.cancel_run(&run).await,
                SessionMessage::PromptFailed { run, how } => self.handle_send_failure(&run, *how),
                SessionMessage::CancelOverdue(run) => self.handle_overdue_cancel(&run).await,
                SessionMessage::GatewayUpdate(news) => self.handle_gateway_update(*news).await,
                SessionMessage::CallDescribed { call, title, kind, locations } => {
                    let updates =
                        self.presenter.present_description(&call, &title, kind, &locations);
                    self.send_updates(updates).await;
                }
                SessionMessage::CallStarted { call } => {
                    let updates = self.presenter.present_call_start(&call);
                    self.send_updates(updates).await;
                }
                SessionMessage::OutputAvailable { call, printed } => {
                    let updates =
                        self.presenter.present_output(&call, &printed.take(), Instant::now());
                    self.send_updates(updates).await;
                }
                SessionMessage::RequestApproval(asked) => self.ask_local_approval(*asked).await,
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
                SessionMessage::ClientCallEnded { call, end, told } => {
                    let updates = self.presenter.present_client_call_end(&call, &end);
                    self.send_updates(updates).await;
                    let _ = told.send(());
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

    /// Says something of zero's own. What is no notice belongs to a turn, and waits for one.
    async fn send_remark(&mut self, text: String) {
        if self.waiting.is_empty() && !self.presenter.supports_notices() {
            if self.untold.len() >= PENDING_REMARKS_MAX {
                self.untold.pop_front();
            }
            self.untold.push_back(text);
            return;
        }
        let update = self.presenter.present_remark(&text);
        self.send_updates(vec![update]).await;
    }

    /// Takes all questions back. A call that stood for one alone is settled.
    async fn withdraw_all_questions(&mut self) {
        let withdrawn = self.questions.withdraw_all();
        self.release_questions(withdrawn).await;
        let updates = self.presenter.end_lone_questions();
        self.send_updates(updates).await;
    }

    /// Takes the questions of runs back that were stopped: what they ask after that is not asked.
    async fn withdraw_stopped_questions(&mut self) {
        for run in self.stopped_runs() {
            self.withdraw_run_questions(&run).await;
        }
    }

    /// Takes the questions of one run back, and no others.
    async fn withdraw_run_questions(&mut self, run: &str) {
        let (presenter, stopping) = (&self.presenter, self.run_cancellation(run));
        let withdrawn = self.questions.withdraw_matching(|subject| match subject {
            QuestionSubject::Run(of) => stopping.covers_run(of.as_ref()),
            QuestionSubject::Call(call) => stopping.covers_call(call, presenter.call_run(call)),
            QuestionSubject::Unknown => stopping.covers_run(None),
        });
        self.release_questions(withdrawn).await;
    }

    /// Lets go of questions that were taken back, and shows that they are over.
    async fn release_questions(&mut self, withdrawn: WithdrawnQuestions) {
        let questions = withdrawn.ids();
        self.release_after_cancel(withdrawn);
        for question in questions {
            self.show_answer(&question, "cancelled").await;
        }
    }

    /// A question was answered, or is not asked any more.
    async fn show_answer(&mut self, question: &str, answer: &str) {
        let updates = self.presenter.resolve_question(question, answer);
        self.send_updates(updates).await;
    }

    async fn show_choice(
        &mut self,
        question: &str,
        message: &str,
        shown: oneshot::Sender<ToolCallUpdate>,
    ) {
        // One that was taken back meanwhile is not shown any more.
        if self.questions.is_waiting(question) {
            let (updates, call) = self.presenter.present_choice(question, message);
            self.send_updates(updates).await;
            let _ = shown.send(call);
        }
    }

    async fn ask_local_approval(&mut self, asked: ApprovalMessage) {
        let (updates, call) = self.presenter.present_approval(&asked.request);
        self.send_updates(updates).await;
        self.questions.ask_local_permission(asked, call);
        self.withdraw_stopped_questions().await;
    }
}
