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
use agent_client_protocol::v1::schema::{self, PromptResponse, SessionUpdate, StopReason};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use zero_client::{Near, News, Overlap};
use zero_core::Kind;
use zero_core::event::{ApprovalRequest, Event, PersonQuestion, Place, RunEnd, What};
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
use crate::to_client::ToClient;

/// Letters that wait.
const LETTERS_MAX: usize = 1_024;
/// Prompts that are not answered yet.
const PROMPTS_MAX: usize = 16;
/// How long a run that was stopped may take to say so.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How long a gateway may take to stop a run of a session that is closed.
const ABORT_MAX: Duration = Duration::from_secs(2);

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
    /// Something to tell that nothing else brings.
    Tell(Vec<SessionUpdate>),
    /// Words of zero's own for the person.
    Announce(String),
    /// The client makes a call itself.
    OwnCall { call: String, tool: String, input: Value },
    /// Such a call is over; whoever waits hears when that was told.
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
    /// What the gateway was last heard to say of it; nothing is told after the answer.
    task: tokio::task::AbortHandle,
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
    /// What is said at the end of the run that chose a mode which does not hold.
    unheeded: Option<String>,
}

impl Desk {
    pub(crate) fn new(
        active: Arc<Active>,
        to_client: ToClient,
        presenter: Presenter,
        questions: Questions,
        told_until: u64,
    ) -> Self {
        let (waiting, unheeded) = (HashMap::new(), None);
        Self { active, to_client, presenter, questions, told_until, waiting, unheeded }
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
                Letter::Prompt(prompted) => self.begin(*prompted),
                Letter::Cancel => self.cancel_all(),
                Letter::CancelRun(run) => self.cancel(&run),
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

    fn begin(&mut self, prompted: Prompted) {
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
        let task = tokio::spawn(sending::carry(
            Arc::clone(&self.active),
            sending::Turn::next(&self.active),
            run.clone(),
            said,
            thinking,
            cancel.clone(),
            async move { stopped.cancelled().await },
        ));
        self.waiting.insert(run, Waiting { responder, cancel, task: task.abort_handle() });
    }

    fn cancel_all(&mut self) {
        let runs: Vec<String> = self.waiting.keys().cloned().collect();
        for run in runs {
            self.cancel(&run);
        }
        self.questions.withdraw_all();
    }

    /// Stops a run. Whoever stops it twice has stopped it once.
    fn cancel(&mut self, run: &str) {
        let Some(waiting) = self.waiting.get(run) else { return };
        if waiting.cancel.is_cancelled() {
            return;
        }
        waiting.cancel.cancel();
        self.questions.withdraw_all();
        let (mailbox, run) = (self.active.mailbox.clone(), run.to_owned());
        tokio::spawn(async move {
            sleep(STOP_MAX).await;
            mailbox.put(Letter::Overdue(run)).await;
        });
    }

    fn carried(&mut self, run: &str, how: Carried) {
        match how {
            Carried::Cancelled => self.answer(run, Ok(cancelled())),
            Carried::Failed(error) => {
                let was_cancelled =
                    self.waiting.get(run).is_some_and(|waiting| waiting.cancel.is_cancelled());
                let answer = if was_cancelled { Ok(cancelled()) } else { Err(error) };
                self.answer(run, answer);
            }
        }
    }

    async fn overdue(&mut self, run: &str) {
        if self.waiting.contains_key(run) {
            tracing::warn!(run, "a run was stopped and did not say so; its prompt is answered");
            let updates = self.presenter.abandon("it was stopped; what became of it is not known");
            self.tell(updates).await;
            self.answer(run, Ok(cancelled()));
        }
    }

    /// Answers a prompt, once. Nothing of its run is told after that.
    fn answer(&mut self, run: &str, answer: Result<PromptResponse, Error>) {
        let Some(waiting) = self.waiting.remove(run) else { return };
        waiting.task.abort();
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
            News::Gone(error) => {
                self.questions.withdraw_all();
                let updates =
                    self.presenter.abandon("the gateway is gone; what became of it is not known");
                self.tell(updates).await;
                let runs: Vec<String> = self.waiting.keys().cloned().collect();
                for run in runs {
                    self.answer(&run, Err(rpc::of_link(&error)));
                }
            }
        }
    }

    async fn entry(&mut self, event: Event) {
        if event.seq <= self.told_until {
            return;
        }
        self.told_until = event.seq;
        let ours = event.run.as_ref().is_some_and(|run| self.waiting.contains_key(run.as_str()));
        if let What::Changed { .. } = event.what {
            self.changed(&event).await;
            return;
        }
        if !ours {
            return;
        }
        match &event.what {
            What::ApprovalRequested(request) => {
                let (updates, call) = self.presenter.asked(request);
                self.tell(updates).await;
                self.questions.permission_for_gateway(request, call);
            }
            What::ApprovalResolved { id, answer, .. } => {
                self.questions.withdraw(id);
                let updates = self.presenter.answered(id, answer);
                self.tell(updates).await;
            }
            What::QuestionAsked(question) => self.question(question),
            What::QuestionAnswered { id, .. } => self.questions.withdraw(id),
            What::RunEnded { end, .. } => {
                let remark = self.unheeded.take();
                let remark = remark.map(|text| self.presenter.remark(event.run.as_ref(), &text));
                let mut updates: Vec<SessionUpdate> = remark.into_iter().collect();
                updates.extend(self.presenter.entry(&event, Moment::Live));
                self.tell(updates).await;
                if let Some(run) = &event.run {
                    self.run_ended(run.as_str(), end);
                }
            }
            _ => {
                let updates = self.presenter.entry(&event, Moment::Live);
                self.tell(updates).await;
            }
        }
    }

    fn run_ended(&mut self, run: &str, end: &RunEnd) {
        let answer = present::answer(end, run, self.active.near.place());
        self.answer(run, answer);
    }

    fn question(&mut self, question: &PersonQuestion) {
        self.questions.question_for_gateway(question);
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
        let runs: Vec<String> = self.waiting.keys().cloned().collect();
        for run in runs {
            if on_eof == OnEof::Abort {
                let _ = timeout(ABORT_MAX, self.active.near.abort(&run)).await;
            }
            self.answer(&run, Ok(cancelled()));
        }
        self.questions.withdraw_all();
        self.active.own_calls.cancel_all(&self.active.id.0);
        self.active.near.leave().await;
    }
}

/// The answer to a prompt that was stopped before anybody worked on it, or by closing its session.
fn cancelled() -> PromptResponse {
    PromptResponse::new(StopReason::Cancelled)
}
