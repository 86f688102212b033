//! One session of the client: everything that is told about it is told from here, one thing after
//! another.
//!
//! What happens at the gateway, what the tools here say, what is asked and what the client wants
//! come as letters to one task. It waits for nothing but letters and for the client to read: what
//! takes time is done beside it, and comes back as a letter.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    self, PromptResponse, SessionUpdate, StopReason, ToolCallUpdate,
};
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use zero_client::{Near, News, Overlap};
use zero_core::Kind;
use zero_core::event::{ApprovalRequest, Event, Place, What};
use zero_runtime::Answer;
use zero_session::hands::{CallEnd, Hands};

use crate::awaited::Awaited;
use crate::choices::Choices;
use crate::config::OnEof;
use crate::own_calls::Book;
use crate::own_mode::OwnMode;
use crate::present::{self, Moment, Presenter};
use crate::printed::Printed;
use crate::prompt::Said;
use crate::questions::{self, Questions};
use crate::rpc;
use crate::sending::{self, Carried};
use crate::stopped::Stopped;
use crate::to_client::ToClient;
use crate::wording;

/// Letters that wait.
const LETTERS_MAX: usize = 1_024;
/// Prompts that are not answered yet.
const PROMPTS_MAX: usize = 16;
/// How long a run that was stopped may take to say so.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How long a gateway may take to stop the runs of a session that is closed.
const ABORT_MAX: Duration = Duration::from_secs(2);

/// How much is shown of the name of another host.
const HOST_CHARS_MAX: usize = 128;

/// What comes to the task of a session.
pub(crate) enum Letter {
    /// The client says something to the agent.
    Prompt(Box<Prompted>),
    /// It wants everything stopped.
    Cancel,
    /// It wants one prompt stopped.
    CancelRun(String),
    /// A prompt came to the gateway, or did not.
    Carried { run: String, how: Box<Carried> },
    /// A run was stopped and has not said so in time.
    Overdue(String),
    /// Something happened at the gateway.
    News(Box<News>),
    /// The tools here know what a call will do.
    Described { call: String, title: String, kind: Kind, locations: Vec<Place> },
    /// A call was allowed and runs.
    Begun { call: String },
    /// A command printed something.
    Printed { call: String, printed: Arc<Printed> },
    /// The tools here ask whether a call may run.
    Ask(Box<Asked>),
    /// Something is asked on behalf of a tool here.
    Elicit(Box<questions::Elicited>),
    /// A question is put as a choice; it is asked once the call is told that stands for it.
    Choose { question: String, message: String, shown: oneshot::Sender<ToolCallUpdate> },
    /// Such a question is over: `allow_once`, `reject_once` or `cancelled`.
    Chosen { question: String, answer: &'static str },
    /// Something to tell that nothing else brings.
    Tell(Vec<SessionUpdate>),
    /// Words of zero's own for the person.
    Announce(String),
    /// The client makes a call itself.
    OwnCall { call: String, tool: String, input: Value },
    /// A call is over that the ledger does not know of; whoever waits hears when that was told.
    OwnEnded { call: String, end: Arc<CallEnd>, told: oneshot::Sender<()> },
    /// It is over with this session.
    Close { done: oneshot::Sender<()>, runs: OnEof },
}

/// A prompt, and who waits for its end.
pub(crate) struct Prompted {
    pub(crate) run: String,
    pub(crate) said: Said,
    pub(crate) thinking: Option<String>,
    pub(crate) responder: Responder<Value>,
}

/// A question of the tools here, and who waits for the answer.
pub(crate) struct Asked {
    pub(crate) request: ApprovalRequest,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// Where letters go.
#[derive(Clone)]
pub(crate) struct Mailbox {
    letters: mpsc::Sender<Letter>,
}

impl Mailbox {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Letter>) {
        let (letters, received) = mpsc::channel(LETTERS_MAX);
        (Self { letters }, received)
    }

    /// Puts a letter in; waits for room.
    pub(crate) async fn put(&self, letter: Letter) {
        let _ = self.letters.send(letter).await;
    }

    /// Puts a letter in if there is room; gives it back otherwise.
    pub(crate) fn try_put(&self, letter: Letter) -> Result<(), Letter> {
        use tokio::sync::mpsc::error::TrySendError;
        self.letters.try_send(letter).map_err(|error| match error {
            TrySendError::Full(letter) | TrySendError::Closed(letter) => letter,
        })
    }
}

/// A session that is open on this connection.
pub(crate) struct Active {
    /// What the client calls it.
    pub(crate) id: schema::SessionId,
    pub(crate) near: Near,
    pub(crate) hands: Arc<dyn Hands>,
    pub(crate) mailbox: Mailbox,
    /// What can be chosen, and what is.
    pub(crate) choices: Mutex<Choices>,
    pub(crate) own_mode: Arc<OwnMode>,
    /// What the first prompt waits for.
    pub(crate) awaited: Awaited,
    /// Held by the prompt that is being sent: they reach the gateway in the order they came in.
    pub(crate) sending: Arc<tokio::sync::Mutex<()>>,
    /// Whether a prompt has to say the folder.
    pub(crate) says_folder: Option<std::path::PathBuf>,
    pub(crate) overlap: Overlap,
    /// Calls that the client makes itself.
    pub(crate) own_calls: Arc<Book>,
}

impl Active {
    pub(crate) fn choices(&self) -> MutexGuard<'_, Choices> {
        self.choices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A prompt that is not answered yet.
struct Waiting {
    responder: Responder<Value>,
    cancel: CancellationToken,
    /// Carries it to the gateway, and the wish to stop it.
    carrier: JoinHandle<()>,
}

/// What is known of a run when its prompt is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nothing has to be done about it any more.
    Settled,
    /// It was stopped, and may not have heard of it.
    Unheard,
}

/// The task of a session.
pub(crate) struct Desk {
    pub(crate) active: Arc<Active>,
    pub(crate) to_client: ToClient,
    pub(crate) presenter: Presenter,
    pub(crate) questions: Questions,
    /// Entries up to this number were told by a replay.
    pub(crate) told_until: u64,
    waiting: HashMap<String, Waiting>,
    stopped: Stopped,
    /// What is said at the end of the run that chose a mode which does not hold.
    unheeded: Option<String>,
    /// Something to tell as soon as a prompt is at work.
    untold: Option<String>,
}

impl Desk {
    pub(crate) fn new(
        active: Arc<Active>,
        to_client: ToClient,
        presenter: Presenter,
        questions: Questions,
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
    pub(crate) async fn work(mut self, mut letters: mpsc::Receiver<Letter>) {
        loop {
            // What a command printed is shown now and then; what is left when it pauses, after a while.
            let due = self.presenter.due();
            let pause = async move {
                match due {
                    Some(due) => sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let letter = tokio::select! {
                letter = letters.recv() => letter,
                () = pause => {
                    let updates = self.presenter.overdue(Instant::now());
                    self.tell(updates).await;
                    continue;
                }
            };
            let Some(letter) = letter else { break };
            match letter {
                Letter::Prompt(prompted) => self.begin(*prompted).await,
                Letter::Cancel => self.cancel_all().await,
                Letter::CancelRun(run) => self.cancel(&run).await,
                Letter::Carried { run, how } => self.carried(&run, *how),
                Letter::Overdue(run) => self.overdue(&run).await,
                Letter::News(news) => self.news(*news).await,
                Letter::Described { call, title, kind, locations } => {
                    let updates = self.presenter.described(&call, &title, kind, &locations);
                    self.tell(updates).await;
                }
                Letter::Begun { call } => {
                    let updates = self.presenter.begun(&call);
                    self.tell(updates).await;
                }
                Letter::Printed { call, printed } => {
                    let updates = self.presenter.printed(&call, &printed.take(), Instant::now());
                    self.tell(updates).await;
                }
                Letter::Ask(asked) => self.ask_here(*asked).await,
                Letter::Elicit(elicited) => self.questions.elicit(*elicited),
                Letter::Choose { question, message, shown } => {
                    self.choose(&question, &message, shown).await;
                }
                Letter::Chosen { question, answer } => self.answered(&question, answer).await,
                Letter::Tell(updates) => self.tell(updates).await,
                Letter::Announce(text) => {
                    let update = self.presenter.announced(&text);
                    self.tell(vec![update]).await;
                }
                Letter::OwnCall { call, tool, input } => {
                    let updates = self.presenter.started(&call, &tool, &input);
                    self.tell(updates).await;
                }
                Letter::OwnEnded { call, end, told } => {
                    let updates = self.presenter.ended(&call, &end);
                    self.tell(updates).await;
                    let _ = told.send(());
                }
                Letter::Close { done, runs } => {
                    self.close(runs).await;
                    let _ = done.send(());
                    return;
                }
            }
        }
        self.close(OnEof::Abort).await;
    }

    async fn tell(&mut self, updates: Vec<SessionUpdate>) {
        self.to_client.updates(&self.active.id, updates).await;
    }

    async fn begin(&mut self, prompted: Prompted) {
        let Prompted { run, said, thinking, responder } = prompted;
        if self.waiting.len() >= PROMPTS_MAX {
            let error = rpc::bad_request(format!(
                "{PROMPTS_MAX} prompts wait in this session already; wait for one, or cancel"
            ));
            let _ = responder.respond_with_error(error);
            return;
        }
        let cancel = CancellationToken::new();
        let stopped = responder.cancellation();
        let carrier = tokio::spawn(sending::carry(
            Arc::clone(&self.active),
            sending::Turn::next(&self.active),
            run.clone(),
            said,
            thinking,
            cancel.clone(),
            async move { stopped.cancelled().await },
        ));
        self.waiting.insert(run, Waiting { responder, cancel, carrier });
        if let Some(text) = self.untold.take() {
            let updates = self.presenter.remark(&text);
            self.tell(updates).await;
        }
    }

    /// The prompts that are not answered yet.
    fn runs(&self) -> Vec<String> {
        self.waiting.keys().cloned().collect()
    }

    async fn cancel_all(&mut self) {
        for run in self.runs() {
            self.cancel(&run).await;
        }
        self.withdraw_all().await;
    }

    /// Stops a run. Whoever stops it twice has stopped it once.
    async fn cancel(&mut self, run: &str) {
        let Some(waiting) = self.waiting.get(run) else { return };
        if waiting.cancel.is_cancelled() {
            return;
        }
        waiting.cancel.cancel();
        // The question of another prompt is still asked; one of this is taken back with its call.
        if self.waiting.values().all(|waiting| waiting.cancel.is_cancelled()) {
            self.withdraw_all().await;
        }
        let (mailbox, run) = (self.active.mailbox.clone(), run.to_owned());
        tokio::spawn(async move {
            sleep(STOP_MAX).await;
            mailbox.put(Letter::Overdue(run)).await;
        });
    }

    fn carried(&mut self, run: &str, how: Carried) {
        match how {
            Carried::Cancelled => self.answer(run, Ok(cancelled()), Fate::Settled),
            Carried::Failed(error) => self.fail(run, error),
        }
    }

    /// Answers a prompt of whose run nothing more is known. Whoever has stopped it is told that.
    fn fail(&mut self, run: &str, error: Error) {
        match self.waiting.get(run).is_some_and(|waiting| waiting.cancel.is_cancelled()) {
            true => self.answer(run, Ok(cancelled()), Fate::Unheard),
            false => self.answer(run, Err(error), Fate::Settled),
        }
    }

    async fn overdue(&mut self, run: &str) {
        if self.waiting.contains_key(run) {
            tracing::warn!(run, "a run was stopped and did not say so; its prompt is answered");
            self.questions.withdraw_all();
            let updates = self.presenter.abandon("it was stopped; what became of it is not known");
            self.tell(updates).await;
            self.answer(run, Ok(cancelled()), Fate::Unheard);
        }
    }

    /// Answers a prompt, once. Nothing of its run is told after that.
    fn answer(&mut self, run: &str, answer: Result<PromptResponse, Error>, fate: Fate) {
        let Some(waiting) = self.waiting.remove(run) else { return };
        match fate {
            Fate::Settled => waiting.carrier.abort(),
            Fate::Unheard => self.stopped.add(run.to_owned(), waiting.carrier),
        }
        match &answer {
            Ok(response) => tracing::debug!(run, stop = ?response.stop_reason, "a prompt is over"),
            Err(error) => tracing::debug!(run, error = error.message, "a prompt failed"),
        }
        let answer = answer.and_then(|response| {
            serde_json::to_value(response)
                .map_err(|_| rpc::failed("internal", "zero made a mistake of its own", false))
        });
        let _ = waiting.responder.respond_with_result(answer);
    }

    async fn news(&mut self, news: News) {
        match news {
            News::Entry(event) => self.entry(event).await,
            News::Away => {
                tracing::warn!(session = %self.active.id, "the gateway is away; connecting again");
            }
            News::Back => tracing::info!(session = %self.active.id, "the gateway is back"),
            News::Displaced { host } => {
                tracing::warn!(session = %self.active.id, host, "the tools are hosted elsewhere");
                self.displaced(&host).await;
            }
            News::Gone(error) => {
                self.withdraw_all().await;
                let updates =
                    self.presenter.abandon("the gateway is gone; what became of it is not known");
                self.tell(updates).await;
                for run in self.runs() {
                    self.fail(&run, rpc::of_link(&error));
                }
            }
        }
    }

    /// Says that the tools of this session are not here any more. What is no notice belongs to a
    /// turn, and waits for one.
    async fn displaced(&mut self, host: &str) {
        let text = format!(
            "`{}` has opened this session, too, and has its tools now: what the agent does, it does \
             there; open the session again to have them here",
            wording::one_line(host, HOST_CHARS_MAX)
        );
        if self.waiting.is_empty() && !self.presenter.takes_notices() {
            self.untold = Some(text);
            return;
        }
        let updates = self.presenter.remark(&text);
        self.tell(updates).await;
    }

    async fn entry(&mut self, event: Event) {
        // A replay does not tell of changes: what was changed meanwhile is told now.
        if event.seq <= self.told_until && !matches!(event.what, What::Changed { .. }) {
            return;
        }
        self.told_until = self.told_until.max(event.seq);
        let ours = event.run.as_ref().is_some_and(|run| self.waiting.contains_key(run.as_str()));
        match (&event.run, &event.what) {
            (Some(run), What::RunEnded { .. }) => self.stopped.ended(run.as_str()),
            (Some(run), _) => self.stopped.heard(run.as_str(), &self.active.near),
            (None, _) => {}
        }
        if let What::Changed { .. } = event.what {
            self.changed(&event).await;
            return;
        }
        // Of others' runs nothing is told but the end of calls that were made here, and so were shown.
        let is_shown =
            matches!(&event.what, What::ToolEnded { call, .. } if self.presenter.shows(call));
        if !ours && !is_shown {
            return;
        }
        match &event.what {
            What::ApprovalRequested(request) => {
                let (updates, call) = self.presenter.asked_by(event.run.as_ref(), request);
                self.tell(updates).await;
                self.questions.permission_for_gateway(request, call);
            }
            What::ApprovalResolved { id, answer, .. } => {
                self.questions.withdraw(id);
                self.answered(id, answer).await;
            }
            What::QuestionAsked(question) => self.questions.question_for_gateway(question),
            What::QuestionAnswered { id, .. } => {
                self.questions.withdraw(id);
                self.answered(id, "cancelled").await;
            }
            What::RunEnded { end, .. } => {
                let remark = self.unheeded.take();
                let remark =
                    remark.map(|text| self.presenter.closing_remark(event.run.as_ref(), &text));
                let mut updates: Vec<SessionUpdate> = remark.into_iter().collect();
                updates.extend(self.presenter.entry(&event, Moment::Live));
                self.tell(updates).await;
                if let Some(run) = &event.run {
                    let place = self.active.near.place();
                    let answer = present::answer(end, run.as_str(), place);
                    self.answer(run.as_str(), answer, Fate::Settled);
                }
            }
            _ => {
                let updates = self.presenter.entry(&event, Moment::Live);
                self.tell(updates).await;
            }
        }
    }

    /// Takes all questions back. A call that stood for one alone is settled.
    async fn withdraw_all(&mut self) {
        self.questions.withdraw_all();
        let updates = self.presenter.withdrawn();
        self.tell(updates).await;
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

    async fn ask_here(&mut self, asked: Asked) {
        let (updates, call) = self.presenter.asked(&asked.request);
        self.tell(updates).await;
        self.questions.permission_here(asked, call);
    }

    /// Mode, model or title changed, whoever changed it.
    async fn changed(&mut self, event: &Event) {
        let mut updates = self.presenter.entry(event, Moment::Live);
        if let What::Changed { field, value } = &event.what
            && field == "mode"
        {
            self.mode_changed(value.as_deref(), event.seq).await;
        }
        {
            let mut choices = self.active.choices();
            choices.own_mode = self.active.own_mode.own();
            let mut info = choices.info.clone();
            if let What::Changed { field, value } = &event.what {
                match field.as_str() {
                    "mode" => info.mode.clone_from(value),
                    "model" => info.model = value.clone().unwrap_or(info.model),
                    "title" => info.title.clone_from(value),
                    _ => {}
                }
            }
            choices.info = info;
            for update in &mut updates {
                if let SessionUpdate::CurrentModeUpdate(told) = update {
                    told.current_mode_id = schema::SessionModeId::new(choices.mode().as_str());
                }
            }
            updates.push(SessionUpdate::ConfigOptionUpdate(schema::ConfigOptionUpdate::new(
                choices.options(),
            )));
        }
        self.tell(updates).await;
    }

    /// The tools follow what the person chose; where they do not, that is said.
    async fn mode_changed(&mut self, mode: Option<&str>, seq: u64) {
        let (own_mode, hands) = (&self.active.own_mode, &self.active.hands);
        let chosen = mode.and_then(|mode| mode.parse().ok());
        own_mode.heard(chosen, seq);
        if let Err(error) = own_mode.tell(&**hands).await {
            tracing::warn!(%error, "the mode could not be changed");
        }
        self.unheeded = own_mode.unheeded(chosen).filter(|_| !self.waiting.is_empty());
    }

    /// Stops everything, and lets go of the session.
    async fn close(&mut self, on_eof: OnEof) {
        self.questions.withdraw_all();
        self.active.own_calls.cancel_all(&self.active.id.0);
        let fate = match on_eof {
            OnEof::Abort => {
                self.stop_all().await;
                Fate::Unheard
            }
            OnEof::Detach => Fate::Settled,
        };
        let updates = self.presenter.abandon("the session was closed");
        self.tell(updates).await;
        for run in self.runs() {
            self.answer(&run, Ok(cancelled()), fate);
        }
        self.active.near.leave().await;
    }

    /// Stops all runs at once. A gateway that takes too long is not waited for, and hears it later.
    async fn stop_all(&mut self) {
        self.waiting.values().for_each(|waiting| waiting.cancel.cancel());
        let waiting = self.waiting.values_mut().map(|waiting| &mut waiting.carrier);
        let carriers = waiting.chain(self.stopped.carriers());
        if timeout(ABORT_MAX, join_all(carriers)).await.is_err() {
            tracing::warn!(session = %self.active.id, "runs were stopped and did not say so");
        }
    }
}

/// The answer to a prompt that was stopped before anybody worked on it, or by closing its session.
fn cancelled() -> PromptResponse {
    PromptResponse::new(StopReason::Cancelled)
}
