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
use zero_session::tool_backend::ToolBackend;

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
const UNTOLD_MAX: usize = 16;

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
    pub(crate) fn choices(&self) -> MutexGuard<'_, SessionOptions> {
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
    pub(crate) async fn work(mut self, mut letters: mpsc::Receiver<SessionMessage>) {
        loop {
            // What a command printed is shown now and then; what is left when it pauses, after a while.
            let due = self.presenter.due();
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
                    let updates = self.presenter.overdue(Instant::now());
                    self.tell(updates).await;
                    continue;
                }
            };
            let Some(letter) = letter else { break };
            if is_first && letter.only_tells() {
                // What is shown waits for what is being done: for this thread to have nothing else to do,
                // or to have done much of it. What comes meanwhile is shown with it.
                tokio::task::yield_now().await;
            }
            match letter {
                SessionMessage::Prompt(prompted) => self.begin(*prompted).await,
                SessionMessage::Cancel => self.cancel_all().await,
                SessionMessage::CancelRun(run) => self.cancel(&run).await,
                SessionMessage::Carried { run, how } => self.carried(&run, *how),
                SessionMessage::Overdue(run) => self.overdue(&run).await,
                SessionMessage::News(news) => self.news(*news).await,
                SessionMessage::Described { call, title, kind, locations } => {
                    let updates = self.presenter.described(&call, &title, kind, &locations);
                    self.tell(updates).await;
                }
                SessionMessage::Begun { call } => {
                    let updates = self.presenter.begun(&call);
                    self.tell(updates).await;
                }
                SessionMessage::Printed { call, printed } => {
                    let updates = self.presenter.printed(&call, &printed.take(), Instant::now());
                    self.tell(updates).await;
                }
                SessionMessage::Ask(asked) => self.ask_here(*asked).await,
                SessionMessage::Elicit(elicited) => {
                    self.questions.elicit(*elicited);
                    self.withdraw_of_stopped().await;
                }
                SessionMessage::Choose { question, message, shown } => {
                    self.choose(&question, &message, shown).await;
                }
                SessionMessage::Chosen { question, answer } => {
                    self.answered(&question, answer).await
                }
                SessionMessage::Tell(updates) => self.tell(updates).await,
                SessionMessage::Remark(text) => self.remark(text).await,
                SessionMessage::OwnCall { call, tool, input } => {
                    let updates = self.presenter.started(&call, &tool, &input);
                    self.tell(updates).await;
                }
                SessionMessage::OwnEnded { call, end, told } => {
                    let updates = self.presenter.ended(&call, &end);
                    self.tell(updates).await;
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

    async fn tell(&mut self, updates: Vec<SessionUpdate>) {
        self.to_client.updates(&self.active.id, updates).await;
    }

    /// Says something of zero's own. What is no notice belongs to a turn, and waits for one.
    async fn remark(&mut self, text: String) {
        if self.waiting.is_empty() && !self.presenter.takes_notices() {
            if self.untold.len() >= UNTOLD_MAX {
                self.untold.pop_front();
            }
            self.untold.push_back(text);
            return;
        }
        let update = self.presenter.remark(&text);
        self.tell(vec![update]).await;
    }

    /// Takes all questions back. A call that stood for one alone is settled.
    async fn withdraw_all(&mut self) {
        let withdrawn = self.questions.withdraw_all();
        self.let_go(withdrawn).await;
        let updates = self.presenter.withdrawn();
        self.tell(updates).await;
    }

    /// Takes the questions of runs back that were stopped: what they ask after that is not asked.
    async fn withdraw_of_stopped(&mut self) {
        for run in self.stopped_runs() {
            self.withdraw_of(&run).await;
        }
    }

    /// Takes the questions of one run back, and no others.
    async fn withdraw_of(&mut self, run: &str) {
        let (presenter, stopping) = (&self.presenter, self.stopping(run));
        let withdrawn = self.questions.withdraw_those(|subject| match subject {
            QuestionSubject::Run(of) => stopping.takes(of.as_ref()),
            QuestionSubject::Call(call) => stopping.takes_call(call, presenter.run_of(call)),
            QuestionSubject::Unknown => stopping.takes(None),
        });
        self.let_go(withdrawn).await;
    }

    /// Lets go of questions that were taken back, and shows that they are over.
    async fn let_go(&mut self, withdrawn: WithdrawnQuestions) {
        let questions = withdrawn.ids();
        self.let_go_when_heard(withdrawn);
        for question in questions {
            self.answered(&question, "cancelled").await;
        }
    }

    /// A question was answered, or is not asked any more.
    async fn answered(&mut self, question: &str, answer: &str) {
        let updates = self.presenter.answered(question, answer);
        self.tell(updates).await;
    }

    async fn choose(
        &mut self,
        question: &str,
        message: &str,
        shown: oneshot::Sender<ToolCallUpdate>,
    ) {
        // One that was taken back meanwhile is not shown any more.
        if self.questions.is_waiting(question) {
            let (updates, call) = self.presenter.choice(question, message);
            self.tell(updates).await;
            let _ = shown.send(call);
        }
    }

    async fn ask_here(&mut self, asked: ApprovalMessage) {
        let (updates, call) = self.presenter.asked(&asked.request);
        self.tell(updates).await;
        self.questions.permission_here(asked, call);
        self.withdraw_of_stopped().await;
    }
}
