//! Leases, claims, writes and takeovers of several processes: in tens of thousands of states that a search
//! reaches, and in many random histories.
//!
//! The database, the network, the clocks and the tools are a model. What is decided is decided by the
//! product: [`NodeLease`] about the lease and what may begin, [`StoredClaim`] about claims,
//! `closing_events`, `missing_messages` and `find_continuation` about how a run goes on. Requests are
//! executed late, twice after another or never, answers are lost, processes are paused (they do nothing)
//! and killed.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use zero_core::{ErrorReason, RunId, ToolError, ToolKind, ToolResult};

use crate::claim_rule::{ClaimDecision, StoredClaim};
use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput};
use crate::node_lease::{LeaseRules, LeaseStep, NodeLease};
use crate::sessions::interrupted_runs::closing_events;
use crate::sessions::takeover::{CONTINUE, Continuation, TOPIC, find_continuation};
use crate::sessions::transcript_recovery::missing_messages;
use crate::store::ClaimEpoch;
use crate::turn::transcript_repair::tool_calls;

/// Names of processes, in the order of their starts. The first one is that of nobody.
const NAMES: [&str; 16] =
    ["", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"];
const RELEASED: usize = 0;
/// Most calls of a run.
const CALLS_MAX: usize = 3;

/// The processes, what is under way between them and the database, and the database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ClusterModel {
    rules: LeaseRules,
    /// Calls that each run makes.
    calls: usize,
    /// Time of the database, in milliseconds.
    now_ms: u64,
    /// Of each name.
    leases_until_ms: Vec<u64>,
    sessions: Vec<ModelledSession>,
    machines: Vec<ModelledNode>,
    wire: Vec<Request>,
}

/// A session with one run, in the database and beside its tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelledSession {
    holder: usize,
    epoch: u64,
    ledger: Vec<Entry>,
    transcript: Vec<Message>,
    /// How often each call had its effect.
    effects: [u8; CALLS_MAX],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry {
    Began,
    Said,
    Used,
    CallStarted(usize),
    CallEnded(usize, CallEnd),
    TakenOver,
    RunEnded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CallEnd {
    Done,
    NotRun,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Prompt,
    Call(usize),
    Result(usize),
    Reply,
    Continue,
}

/// A machine with at most one process at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelledNode {
    /// The name of its process; `None` if that was killed.
    name: Option<usize>,
    lease: NodeLease,
    /// How fast its clock is, in parts of a thousand.
    clock_permille: u64,
    awaits_lease: bool,
    /// What its process does in each session.
    tasks: Vec<Option<RunTask>>,
}

/// A process at work on a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RunTask {
    claim: u64,
    phase: TaskPhase,
    /// Writes that come before [`Self::then`].
    writes: VecDeque<Write>,
    then: NextStep,
    /// The transcript, as this process knows it.
    messages: Vec<Message>,
    /// The generation of the lease when the last write was sent.
    generation: u64,
    is_waiting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TaskPhase {
    Claim { dead: u64 },
    Read,
    Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NextStep {
    AskModel,
    Call(usize),
    Leave,
}

/// What is stored in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Write {
    entries: Vec<Entry>,
    messages: Vec<Message>,
    releases: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Request {
    machine: usize,
    /// The process that sent it.
    name: usize,
    kind: RequestKind,
    generation: u64,
    sent_at: Duration,
    /// `None` until the database has executed it.
    answer: Option<Answer>,
    /// Whether its sender waits for the answer.
    is_awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RequestKind {
    Renew,
    Confirm,
    Claim { session: usize, dead: u64 },
    Read { session: usize },
    Write { session: usize, claim: u64, write: Write },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Done,
    Refused,
    Claimed(u64),
    Run(Vec<Entry>, Vec<Message>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterAction {
    /// Time passes.
    Tick(u64),
    /// A process does what its lease asks for.
    KeepLease(usize),
    /// A process goes on with a run, if it waits for no answer.
    Work(usize, usize),
    /// A process looks whether a run needs it.
    TakeOver(usize, usize),
    /// A process gives up a run that it executes.
    HandOver(usize, usize),
    /// The database executes a request.
    Execute(usize),
    /// An answer arrives.
    Deliver(usize),
    /// A request or its answer is lost.
    Lose(usize),
    /// A process no longer waits for an answer, which may still come into being.
    GiveUp(usize),
    /// A process is killed.
    Kill(usize),
    /// Another process starts on a machine.
    Start(usize),
}

impl ModelledSession {
    fn has_ended(&self) -> bool {
        self.ledger.contains(&Entry::RunEnded)
    }
}

impl Entry {
    fn to_event_kind(self) -> EventKind {
        let call_id = |call: usize| format!("call-{call}");
        match self {
            Self::Began => EventKind::RunStarted {
                agent: "main".to_owned(),
                model: "model".to_owned(),
                parent: None,
            },
            Self::Said => EventKind::Text { text: "said".to_owned() },
            Self::Used => EventKind::UsageReported {
                run_usage: TokenUsage::default(),
                context_tokens: 0,
                context_window: 0,
            },
            Self::CallStarted(call) => EventKind::ToolStarted {
                call: call_id(call),
                name: "Write".to_owned(),
                title: String::new(),
                kind: ToolKind::Edit,
                input: serde_json::Value::Null,
                locations: Vec::new(),
                waits: false,
                transcript_id: Some(call.to_string()),
            },
            Self::CallEnded(call, end) => {
                let failed = |reason| ToolError::failed(reason, "not done").into();
                let outcome = match end {
                    CallEnd::Done => ToolResult::text("done").into(),
                    CallEnd::NotRun => failed(ErrorReason::Cancelled),
                    CallEnd::Unknown => failed(ErrorReason::Interrupted),
                };
                EventKind::tool_ended(call_id(call), outcome)
            }
            Self::TakenOver => EventKind::Notice { topic: TOPIC.to_owned(), text: String::new() },
            Self::RunEnded => {
                EventKind::RunEnded { end: RunOutcome::Completed, usage: TokenUsage::default() }
            }
        }
    }

    /// The end of a call that a takeover adds.
    fn from_closing(kind: &EventKind) -> Self {
        let EventKind::ToolEnded { call, outcome, .. } = kind else { panic!("{kind:?}") };
        let call = call.strip_prefix("call-").unwrap().parse().unwrap();
        let zero_core::ToolOutcome::Error(error) = outcome else { panic!("{outcome:?}") };
        match error.reason() {
            Some(ErrorReason::Interrupted) => Self::CallEnded(call, CallEnd::Unknown),
            _ => Self::CallEnded(call, CallEnd::NotRun),
        }
    }
}

impl Message {
    fn to_model_message(self) -> ModelMessage {
        match self {
            Self::Prompt => ModelMessage::user("do it"),
            Self::Call(call) => ModelMessage::assistant(vec![MessageBlock::ToolUse {
                id: call.to_string(),
                name: "Write".to_owned(),
                input: ToolInput::parse(""),
                opaque: serde_json::Value::Null,
            }]),
            Self::Result(call) => ModelMessage {
                role: MessageRole::User,
                blocks: vec![MessageBlock::ToolResult {
                    id: call.to_string(),
                    name: "Write".to_owned(),
                    content: Vec::new(),
                    is_error: false,
                }],
            },
            Self::Reply => ModelMessage::assistant(vec![MessageBlock::text("said")]),
            Self::Continue => ModelMessage::user(CONTINUE),
        }
    }

    fn from_model_message(message: &ModelMessage) -> Self {
        let result = message.blocks.iter().find_map(|block| match block {
            MessageBlock::ToolResult { id, .. } => Some(id.parse().unwrap()),
            _ => None,
        });
        match (message.role, result) {
            (MessageRole::User, Some(call)) => Self::Result(call),
            (MessageRole::User, None) if message.text() == CONTINUE => Self::Continue,
            (MessageRole::User, None) => Self::Prompt,
            (MessageRole::Assistant, _) => match tool_calls(message).first() {
                Some((call, _)) => Self::Call(call.parse().unwrap()),
                None => Self::Reply,
            },
        }
    }
}

impl Write {
    fn entries(entries: impl Into<Vec<Entry>>) -> Self {
        Self { entries: entries.into(), ..Self::default() }
    }

    fn messages(messages: impl Into<Vec<Message>>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }
}

impl RunTask {
    fn new(phase: TaskPhase) -> Self {
        Self {
            claim: 0,
            phase,
            writes: VecDeque::new(),
            then: NextStep::AskModel,
            messages: Vec::new(),
            generation: 0,
            is_waiting: false,
        }
    }

    /// From the beginning.
    fn restart(&mut self) {
        self.messages = vec![Message::Prompt];
        self.writes.push_back(Write::messages([Message::Prompt]));
        self.then = NextStep::AskModel;
    }

    /// The model makes one call after another, and then replies.
    fn ask_model(&mut self, calls: usize) {
        let is_new = |call: &usize| !self.messages.contains(&Message::Call(*call));
        if let Some(call) = (0..calls).find(is_new) {
            self.messages.push(Message::Call(call));
            self.writes.push_back(Write::messages([Message::Call(call)]));
            self.writes.push_back(Write::entries([Entry::Used, Entry::CallStarted(call)]));
            self.then = NextStep::Call(call);
        } else {
            self.writes.push_back(Write::entries([Entry::Said]));
            self.writes.push_back(Write::entries([Entry::Used]));
            self.writes.push_back(Write::messages([Message::Reply]));
            self.writes.push_back(Write::entries([Entry::RunEnded]));
            self.then = NextStep::Leave;
        }
    }

    /// Goes on with a run of another process, as the product decides; `false` if it has ended.
    fn resume(&mut self, ledger: &[Entry], transcript: &[Message]) -> bool {
        if ledger.contains(&Entry::RunEnded) {
            return false;
        }
        let prompt = EventKind::Prompt { text: "do it".to_owned(), attachments: Vec::new() };
        let kinds = ledger.iter().map(|entry| entry.to_event_kind());
        let events: Vec<Event> = std::iter::once(prompt)
            .chain(kinds)
            .zip(1..)
            .map(|(kind, seq)| Event { seq, run: Some(RunId::from_bits(1)), time_ms: 0, kind })
            .collect();
        let stored: Vec<ModelMessage> = transcript.iter().map(|it| it.to_model_message()).collect();
        let (closing, _) = closing_events(&events);
        let kinds = events.iter().map(|event| &event.kind).chain(&closing);
        let missing = missing_messages(&stored, kinds, None);
        let continuation = find_continuation(&events, &stored, &missing);
        let mut entries: Vec<Entry> = closing.iter().map(Entry::from_closing).collect();
        let mut added: Vec<Message> = missing.iter().map(Message::from_model_message).collect();
        self.phase = TaskPhase::Work;
        self.messages = transcript.to_vec();
        match continuation {
            Continuation::End(_) => {
                self.writes.push_back(Write::messages(added));
                entries.push(Entry::RunEnded);
                self.writes.push_back(Write::entries(entries));
                self.then = NextStep::Leave;
            }
            Continuation::Restart => {
                entries.push(Entry::TakenOver);
                self.writes.push_back(Write::entries(entries));
                self.restart();
            }
            Continuation::AskModel(next) => {
                entries.push(Entry::TakenOver);
                self.writes.push_back(Write::entries(entries));
                added.extend(next.as_ref().map(Message::from_model_message));
                self.messages.extend(added.clone());
                self.writes.push_back(Write::messages(added));
                self.then = NextStep::AskModel;
            }
        }
        true
    }

    /// Ends the run after a write that may have failed: what was not stored comes first.
    fn fail(&mut self) {
        let Some(mut last) = self.writes.pop_front() else { return };
        self.writes.clear();
        if !last.entries.contains(&Entry::RunEnded) {
            let started = last.entries.iter().find_map(|entry| match entry {
                Entry::CallStarted(call) => Some(*call),
                _ => None,
            });
            last.entries.extend(started.map(|call| Entry::CallEnded(call, CallEnd::Unknown)));
            last.entries.push(Entry::RunEnded);
        }
        (last.messages, last.releases) = (Vec::new(), false);
        self.writes.push_back(last);
        self.then = NextStep::Leave;
    }
}

impl ClusterModel {
    /// Each session has a run that has begun on one of the machines.
    fn new(rules: LeaseRules, clocks_permille: &[u64], sessions: usize, calls: usize) -> Self {
        let count = clocks_permille.len();
        let machine = |(at, &clock_permille): (usize, &u64)| {
            let mut tasks = vec![None; sessions];
            for (_, task) in tasks.iter_mut().enumerate().filter(|(it, _)| it % count == at) {
                let mut begun = RunTask::new(TaskPhase::Work);
                begun.claim = 1;
                begun.restart();
                *task = Some(begun);
            }
            ModelledNode {
                name: Some(at + 1),
                lease: NodeLease::granted(rules, Duration::ZERO),
                clock_permille,
                awaits_lease: false,
                tasks,
            }
        };
        let session = |at: usize| ModelledSession {
            holder: at % count + 1,
            epoch: 1,
            ledger: vec![Entry::Began],
            transcript: Vec::new(),
            effects: [0; CALLS_MAX],
        };
        let mut leases_until_ms = vec![millis(rules.duration); count + 1];
        leases_until_ms[RELEASED] = 0;
        Self {
            rules,
            calls,
            now_ms: 0,
            leases_until_ms,
            sessions: (0..sessions).map(session).collect(),
            machines: clocks_permille.iter().enumerate().map(machine).collect(),
            wire: Vec::new(),
        }
    }

    /// The time of the clock of a machine.
    fn clock(&self, machine: usize) -> Duration {
        Duration::from_millis(self.now_ms * self.machines[machine].clock_permille / 1000)
    }

    fn has_ended(&self) -> bool {
        self.sessions.iter().all(ModelledSession::has_ended)
    }

    fn send(&mut self, machine: usize, kind: RequestKind) -> bool {
        let sent_at = self.clock(machine);
        let ModelledNode { name: Some(name), ref lease, .. } = self.machines[machine] else {
            return false;
        };
        let generation = lease.generation();
        let (answer, is_awaited) = (None, true);
        self.wire.push(Request { machine, name, kind, generation, sent_at, answer, is_awaited });
        true
    }

    /// Performs an action; `false` if it is not possible now.
    fn perform(&mut self, action: ClusterAction) -> bool {
        match action {
            ClusterAction::Tick(step_ms) => {
                self.now_ms += step_ms;
                true
            }
            ClusterAction::KeepLease(at) => {
                let now = self.clock(at);
                let machine = &mut self.machines[at];
                if machine.name.is_none() || machine.awaits_lease {
                    return false;
                }
                let kind = match machine.lease.next_step(now) {
                    LeaseStep::Renew => RequestKind::Renew,
                    LeaseStep::ConfirmClaims => RequestKind::Confirm,
                    LeaseStep::Wait(_) | LeaseStep::Stop => return false,
                };
                machine.awaits_lease = true;
                self.send(at, kind)
            }
            ClusterAction::Work(at, session) => self.work(at, session),
            ClusterAction::TakeOver(at, session) => {
                let now = self.clock(at);
                let machine = &self.machines[at];
                let stored = &self.sessions[session];
                let is_held = self.now_ms < self.leases_until_ms[stored.holder];
                // What it sees of the database may be out of date when the claim is executed.
                let is_needed = !is_held || machine.name == Some(stored.holder);
                if machine.name.is_none()
                    || machine.tasks[session].is_some()
                    || !machine.lease.can_act(now)
                    || stored.has_ended()
                    || !is_needed
                {
                    return false;
                }
                let task = RunTask::new(TaskPhase::Claim { dead: stored.epoch });
                self.machines[at].tasks[session] = Some(task);
                true
            }
            ClusterAction::HandOver(at, session) => {
                let Some(task) = &mut self.machines[at].tasks[session] else { return false };
                // Between two steps, when all is stored.
                let is_between = task.phase == TaskPhase::Work && task.then == NextStep::AskModel;
                if task.is_waiting || !task.writes.is_empty() || !is_between {
                    return false;
                }
                task.writes.push_back(Write { releases: true, ..Write::default() });
                task.then = NextStep::Leave;
                true
            }
            ClusterAction::Execute(at) => self.execute(at),
            ClusterAction::Deliver(at) => self.deliver(at),
            ClusterAction::Lose(at) => {
                if at >= self.wire.len() {
                    return false;
                }
                let lost = self.wire.remove(at);
                self.stop_waiting(&lost);
                true
            }
            ClusterAction::GiveUp(at) => {
                let is_awaited = |request: &&mut Request| request.is_awaited;
                let Some(request) = self.wire.get_mut(at).filter(is_awaited) else { return false };
                let given_up = request.clone();
                request.is_awaited = false;
                if given_up.answer.is_some() {
                    self.wire.remove(at);
                }
                self.stop_waiting(&given_up);
                true
            }
            ClusterAction::Kill(at) => {
                let machine = &mut self.machines[at];
                let was_alive = machine.name.take().is_some();
                machine.tasks.fill(None);
                machine.awaits_lease = false;
                // What it had sent may still be executed.
                for request in self.wire.iter_mut().filter(|request| request.machine == at) {
                    request.is_awaited = false;
                }
                self.wire.retain(|request| request.is_awaited || request.answer.is_none());
                was_alive
            }
            ClusterAction::Start(at) => {
                let name = self.leases_until_ms.len();
                if self.machines[at].name.is_some() || name >= NAMES.len() {
                    return false;
                }
                self.leases_until_ms.push(self.now_ms + millis(self.rules.duration));
                let lease = NodeLease::granted(self.rules, self.clock(at));
                let machine = &mut self.machines[at];
                (machine.name, machine.lease) = (Some(name), lease);
                true
            }
        }
    }

    fn work(&mut self, at: usize, session: usize) -> bool {
        let (now, calls) = (self.clock(at), self.calls);
        let machine = &mut self.machines[at];
        let Some(task) = machine.tasks[session].as_mut().filter(|task| !task.is_waiting) else {
            return false;
        };
        let kind = match task.phase {
            TaskPhase::Claim { dead } => RequestKind::Claim { session, dead },
            TaskPhase::Read => RequestKind::Read { session },
            TaskPhase::Work => match (task.writes.front(), task.then) {
                (Some(write), _) => {
                    RequestKind::Write { session, claim: task.claim, write: write.clone() }
                }
                (None, NextStep::AskModel) => {
                    task.ask_model(calls);
                    return true;
                }
                (None, NextStep::Call(call)) => {
                    let may_act = machine.lease.can_act_since(task.generation, now);
                    let end = if may_act { CallEnd::Done } else { CallEnd::NotRun };
                    task.writes.push_back(Write::entries([Entry::CallEnded(call, end)]));
                    task.writes.push_back(Write::messages([Message::Result(call)]));
                    task.messages.push(Message::Result(call));
                    task.then = NextStep::AskModel;
                    if may_act {
                        let held = (machine.name, Some(task.claim));
                        let stored = &mut self.sessions[session];
                        stored.effects[call] += 1;
                        let holder = (Some(stored.holder), Some(stored.epoch));
                        assert_eq!(held, holder, "acts for a session of another process");
                    }
                    return true;
                }
                (None, NextStep::Leave) => {
                    machine.tasks[session] = None;
                    return true;
                }
            },
        };
        task.is_waiting = true;
        task.generation = machine.lease.generation();
        self.send(at, kind)
    }

    /// The sender of a request takes it for lost.
    fn stop_waiting(&mut self, request: &Request) {
        let now = self.clock(request.machine);
        let machine = &mut self.machines[request.machine];
        if !request.is_awaited || machine.name != Some(request.name) {
            return;
        }
        match request.kind {
            RequestKind::Renew => {
                machine.awaits_lease = false;
                machine.lease.record_failed_renewal(now);
            }
            RequestKind::Confirm => machine.awaits_lease = false,
            RequestKind::Claim { session, .. } | RequestKind::Read { session } => {
                machine.tasks[session] = None;
            }
            // Somebody takes it over once more.
            RequestKind::Write { session, ref write, .. }
                if write.entries.contains(&Entry::TakenOver) =>
            {
                machine.tasks[session] = None;
            }
            RequestKind::Write { session, .. } => {
                if let Some(task) = &mut machine.tasks[session] {
                    task.is_waiting = false;
                    task.fail();
                }
            }
        }
    }

    fn execute(&mut self, at: usize) -> bool {
        let Some(request) = self.wire.get(at).filter(|request| request.answer.is_none()) else {
            return false;
        };
        let name = request.name;
        let answer = match request.kind.clone() {
            RequestKind::Renew => {
                self.leases_until_ms[name] = self.now_ms + millis(self.rules.duration);
                Answer::Done
            }
            RequestKind::Confirm => Answer::Done,
            RequestKind::Claim { session, dead } => {
                let stored = &mut self.sessions[session];
                let known = StoredClaim {
                    holder: Some(NAMES[stored.holder]),
                    epoch: ClaimEpoch(stored.epoch),
                    has_unfinished_runs: !stored.has_ended(),
                };
                let is_live = self.now_ms < self.leases_until_ms[stored.holder];
                match known.decide(NAMES[name], Some(ClaimEpoch(dead))) {
                    ClaimDecision::Keep => Answer::Claimed(stored.epoch),
                    ClaimDecision::Refuse => Answer::Refused,
                    ClaimDecision::ReplaceIfDead if is_live => Answer::Refused,
                    ClaimDecision::ReplaceIfDead | ClaimDecision::Replace => {
                        (stored.holder, stored.epoch) = (name, stored.epoch + 1);
                        Answer::Claimed(stored.epoch)
                    }
                }
            }
            RequestKind::Read { session } => {
                let stored = &self.sessions[session];
                Answer::Run(stored.ledger.clone(), stored.transcript.clone())
            }
            RequestKind::Write { session, claim, write } => {
                let stored = &mut self.sessions[session];
                let has_ended = stored.has_ended();
                if has_ended && write.entries.contains(&Entry::RunEnded) {
                    Answer::Done
                } else if claim != stored.epoch {
                    Answer::Refused
                } else {
                    // What its sender gave up may come late. It has begun nothing.
                    let is_late = !request.is_awaited || write.entries.is_empty();
                    assert!(!has_ended || is_late, "{write:?} after the end");
                    stored.ledger.extend(write.entries);
                    stored.transcript.extend(write.messages);
                    if write.releases {
                        stored.holder = RELEASED;
                    }
                    Answer::Done
                }
            }
        };
        let request = &mut self.wire[at];
        request.answer = Some(answer);
        if !request.is_awaited {
            // It changed the database, and nobody hears of it.
            self.wire.remove(at);
        }
        true
    }

    fn deliver(&mut self, at: usize) -> bool {
        if self.wire.get(at).is_none_or(|request| request.answer.is_none()) {
            return false;
        }
        let request = self.wire.remove(at);
        let now = self.clock(request.machine);
        let machine = &mut self.machines[request.machine];
        let Some(answer) = request.answer else { return false };
        match request.kind {
            RequestKind::Renew => {
                machine.awaits_lease = false;
                machine.lease.record_renewal(request.sent_at, now);
            }
            RequestKind::Confirm => {
                machine.awaits_lease = false;
                machine.lease.confirm_claims(request.generation, now);
            }
            RequestKind::Claim { session, .. }
            | RequestKind::Read { session }
            | RequestKind::Write { session, .. } => {
                let Some(task) = &mut machine.tasks[session] else { return true };
                task.is_waiting = false;
                let goes_on = match answer {
                    Answer::Refused => false,
                    Answer::Claimed(epoch) => {
                        (task.claim, task.phase) = (epoch, TaskPhase::Read);
                        true
                    }
                    Answer::Run(ledger, transcript) => task.resume(&ledger, &transcript),
                    Answer::Done => {
                        task.writes.pop_front();
                        true
                    }
                };
                if !goes_on {
                    machine.tasks[session] = None;
                }
            }
        }
        true
    }

    /// What must hold at any time.
    fn check(&self) {
        for session in &self.sessions {
            assert!(session.effects.iter().all(|&count| count <= 1), "a repeated effect");
            let ends = session.ledger.iter().filter(|entry| **entry == Entry::RunEnded).count();
            assert!(ends <= 1, "a run that ends twice");
        }
    }

    /// What must hold when all is over: each run has ended, and each call that began has an end.
    fn check_end(&self) {
        assert!(self.has_ended(), "a run that does not end: {self:#?}");
        for session in &self.sessions {
            let count = |wanted: &dyn Fn(&Entry) -> bool| {
                session.ledger.iter().filter(|entry| wanted(entry)).count()
            };
            for call in 0..self.calls {
                let started = count(&|entry| *entry == Entry::CallStarted(call));
                let ended = count(&|entry| matches!(entry, Entry::CallEnded(it, _) if *it == call));
                assert_eq!(started > 0, ended > 0, "call {call} has no end: {session:#?}");
                let is_done = session.ledger.contains(&Entry::CallEnded(call, CallEnd::Done));
                assert!(!is_done || session.effects[call] == 1, "a result without an effect");
            }
        }
    }

    /// Lets everything happen that is under way, without further faults, until all runs have ended.
    fn settle(&mut self) {
        for at in 0..self.machines.len() {
            self.perform(ClusterAction::Start(at));
        }
        for _ in 0..2_000 {
            if self.has_ended() {
                return;
            }
            for at in (0..self.wire.len()).rev() {
                self.perform(ClusterAction::Execute(at));
            }
            for at in (0..self.wire.len()).rev() {
                self.perform(ClusterAction::Deliver(at));
            }
            for at in 0..self.machines.len() {
                self.perform(ClusterAction::KeepLease(at));
                for session in 0..self.sessions.len() {
                    self.perform(ClusterAction::TakeOver(at, session));
                    self.perform(ClusterAction::Work(at, session));
                }
            }
            self.perform(ClusterAction::Tick(50));
            self.check();
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

/// How often something happened in simulations.
#[derive(Debug, Default)]
struct SimulationCounts {
    takeovers: u64,
    unknown: u64,
    not_run: u64,
    done: u64,
}

/// Random events of three processes with the product's times, clocks that differ, pauses and kills.
fn simulate(seed: u64, counts: &mut SimulationCounts) {
    let mut random = fastrand::Rng::with_seed(seed);
    let clocks: Vec<u64> = (0..3).map(|_| random.u64(990..=1010)).collect();
    let mut cluster = ClusterModel::new(LeaseRules::default(), &clocks, 2, CALLS_MAX);
    // A machine that is paused does nothing until this time.
    let mut paused_until_ms = [0; 3];
    for _ in 0..400 {
        let (machine, at) = (random.usize(..3), random.usize(..=cluster.wire.len()));
        let session = random.usize(..2);
        let is_awake = |machine: usize| paused_until_ms[machine] <= cluster.now_ms;
        let action = match random.u16(..1000) {
            0..200 => ClusterAction::Tick(random.u64(1..400)),
            200..210 => {
                paused_until_ms[machine] = cluster.now_ms + random.u64(..12_000);
                continue;
            }
            210..215 => ClusterAction::Kill(machine),
            215..225 => ClusterAction::Start(machine),
            225..375 if is_awake(machine) => ClusterAction::KeepLease(machine),
            375..500 if is_awake(machine) => ClusterAction::Work(machine, session),
            500..550 if is_awake(machine) => ClusterAction::TakeOver(machine, session),
            550..555 if is_awake(machine) => ClusterAction::HandOver(machine, session),
            555..755 => ClusterAction::Execute(at),
            755..970 if cluster.wire.get(at).is_some_and(|request| is_awake(request.machine)) => {
                ClusterAction::Deliver(at)
            }
            970..980 => ClusterAction::Lose(at),
            980..1000 => ClusterAction::GiveUp(at),
            _ => continue,
        };
        cluster.perform(action);
        cluster.check();
    }
    cluster.settle();
    cluster.check_end();
    for entry in cluster.sessions.iter().flat_map(|session| &session.ledger) {
        match entry {
            Entry::TakenOver => counts.takeovers += 1,
            Entry::CallEnded(_, CallEnd::Unknown) => counts.unknown += 1,
            Entry::CallEnded(_, CallEnd::NotRun) => counts.not_run += 1,
            Entry::CallEnded(_, CallEnd::Done) => counts.done += 1,
            _ => {}
        }
    }
}

#[test]
fn runs_in_random_orders_of_events_end_once_without_repeated_effects() {
    let mut counts = SimulationCounts::default();
    for seed in 0..10_000 {
        let simulated = std::panic::AssertUnwindSafe(|| simulate(seed, &mut counts));
        if let Err(failure) = std::panic::catch_unwind(simulated) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(failure);
        }
    }
    let SimulationCounts { takeovers, unknown, not_run, done } = counts;
    let least = takeovers.min(unknown).min(not_run).min(done);
    assert!(least > 500, "too little happened: {counts:?}");
}

/// Faults that a history may have in an exhaustive search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FaultBudget {
    kills: u8,
    losses: u8,
    handovers: u8,
}

/// All that can happen in a state, with what is left of the faults.
fn successors(
    cluster: &ClusterModel,
    faults: FaultBudget,
    end_ms: u64,
) -> Vec<(ClusterModel, FaultBudget)> {
    let mut actions = Vec::new();
    if cluster.now_ms < end_ms {
        actions.push((ClusterAction::Tick(1_000), faults));
    }
    for at in 0..cluster.machines.len() {
        actions.push((ClusterAction::KeepLease(at), faults));
        if let Some(kills) = faults.kills.checked_sub(1) {
            actions.push((ClusterAction::Kill(at), FaultBudget { kills, ..faults }));
        }
        for session in 0..cluster.sessions.len() {
            actions.push((ClusterAction::Work(at, session), faults));
            actions.push((ClusterAction::TakeOver(at, session), faults));
            if let Some(handovers) = faults.handovers.checked_sub(1) {
                let left = FaultBudget { handovers, ..faults };
                actions.push((ClusterAction::HandOver(at, session), left));
            }
        }
    }
    for at in 0..cluster.wire.len() {
        actions.push((ClusterAction::Execute(at), faults));
        actions.push((ClusterAction::Deliver(at), faults));
        if let Some(losses) = faults.losses.checked_sub(1) {
            let left = FaultBudget { losses, ..faults };
            actions.push((ClusterAction::Lose(at), left));
            actions.push((ClusterAction::GiveUp(at), left));
        }
    }
    let next = |(action, left): (ClusterAction, FaultBudget)| {
        let mut next = cluster.clone();
        next.perform(action).then_some((next, left))
    };
    actions.into_iter().filter_map(next).collect()
}

/// Checks the states that can be reached, at most so many, and returns how many there are.
fn explore(first: ClusterModel, faults: FaultBudget, end_ms: u64, states_max: usize) -> usize {
    let mut seen = HashSet::new();
    let mut open = vec![(first, faults)];
    while let Some((cluster, left)) = open.pop() {
        for next in successors(&cluster, left, end_ms) {
            next.0.check();
            if seen.len() < states_max && seen.insert(digest(&next)) {
                open.push(next);
            }
        }
        if cluster.wire.is_empty() && cluster.now_ms >= end_ms && !cluster.has_ended() {
            let mut cluster = cluster;
            cluster.settle();
            cluster.check_end();
        }
    }
    seen.len()
}

/// 64 bits in place of a state of a kilobyte: of a million states, two that differ have the same digest
/// with a probability of 1 to 10 million.
fn digest(state: &(ClusterModel, FaultBudget)) -> u64 {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(state)
}

/// A lease of one step of the clock.
const SHORT_RULES: LeaseRules = LeaseRules {
    duration: Duration::from_millis(1_000),
    renewal_interval: Duration::from_millis(1_000),
    margin: Duration::from_millis(1),
};
/// Bound of a search, which takes some seconds in a debug build.
const STATES_MAX: usize = 30_000;

#[test]
fn run_in_many_thousand_states_ends_once_without_repeated_effects() {
    for (kills, losses, handovers) in [(1, 0, 0), (0, 1, 0), (0, 0, 1)] {
        let first = ClusterModel::new(SHORT_RULES, &[1000, 1000], 1, 1);
        let faults = FaultBudget { kills, losses, handovers };
        let count = explore(first, faults, 1_000, STATES_MAX);
        assert!(count > 1_000, "{faults:?}: only {count} states");
    }
}
