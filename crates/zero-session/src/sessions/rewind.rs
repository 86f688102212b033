//! Takes a session back to before a prompt: its files, its conversation, or both.
//!
//! Files come first, then the conversation with the entry about it, in one transaction. If zero is
//! killed in between, the session is where it was and some files are not; the same rewind made again
//! has the same id, finds the changes that were taken back, and completes the rest. Nothing is lost
//! either way: old transcripts stay, and the journal has what it replaced.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use zero_core::text_shortening::{one_line, shorten_end};
use zero_core::{ErrorReason, RunId, SessionId, ToolError, ToolKind};
use zero_runtime::file_rewind::{
    FileRewindAction, FileRewindReport, FileRewindRequest, RewindRequester,
};
use zero_runtime::tool_backend::FolderAccess;
use zero_sandbox::journal::sha256;

use crate::event::{Event, EventKind, RewindScope, ToolCallStatus};
use crate::key::SessionAddress;
use crate::rewind_arguments::RewindTarget;
use crate::sessions::checkpoint_rule::CheckpointRule;
use crate::sessions::ledger_recorder::new_event;
use crate::sessions::rewind_history::{FORKED, FORKED_DURING_RUN, is_in_effect};
use crate::sessions::session_state::SessionState;
use crate::sessions::{SessionError, SessionManagerInner};
use crate::store::{
    ForkPoint, LedgerReadLimit, RewindPoint, RewindPointKind, SessionQuery, SessionRecord, Store,
    StoreError, TranscriptPosition,
};

/// How much of the ledger is read at once.
const PAGE: LedgerReadLimit = LedgerReadLimit { entries: 1_000, bytes: 4_000_000 };
/// Most ledger entries that are read.
const ENTRIES_MAX: usize = 2_000_000;
/// Most characters of the calls that a note names, and of one of them.
const NAMED_CHARS_MAX: usize = 200;
const TITLE_CHARS_MAX: usize = 60;

/// A rewind of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RewindOptions {
    /// Where to.
    pub target: RewindTarget,
    /// What to take back.
    pub scope: RewindScope,
    /// Whether to overwrite what another program changed in files since.
    pub overwrite: bool,
    /// Folders of this machine that the caller may use.
    pub folder_access: FolderAccess,
}

/// What a rewind did.
#[derive(Clone, Debug, PartialEq)]
pub struct RewindOutcome {
    /// The session, as it is now.
    pub session: SessionRecord,
    /// The prompt before which it is, with its first words: an earlier one than was named, if that one ran
    /// later. `None` if a rewind was taken back.
    pub prompt: Option<(u64, String)>,
    /// What was to be taken back.
    pub scope: RewindScope,
    /// Whether it was. If not, there are conflicts, and nothing was touched.
    pub is_done: bool,
    /// What happened to files, if they were to be taken back.
    pub files: Option<FileRewindReport>,
    /// Which changes are not recorded and stay, in sentences.
    pub unrecorded: Vec<String>,
}

/// A prompt of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSummary {
    /// Its number, from 1.
    pub number: u64,
    /// Sequence number of its entry.
    pub seq: u64,
    /// When it was sent, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// Its first words, in one line.
    pub words: String,
    /// Whether it is part of the conversation: no rewind has taken it back.
    pub is_in_effect: bool,
    /// Whether the conversation can be taken back to before it.
    pub has_position: bool,
    /// Number of files that its tools changed.
    pub files: u64,
    /// Number of commands that ran for it.
    pub commands: u64,
}

/// A point that was chosen.
struct ChosenPoint {
    seq: u64,
    /// Sequence number from which on everything belongs to what is taken back: a prompt may have waited for
    /// the run before it.
    begin: u64,
    prompt: Option<(u64, String)>,
    position: Option<TranscriptPosition>,
}

/// A call of the ledger.
struct RecordedCall {
    name: String,
    title: String,
    kind: ToolKind,
    /// How it ended; `None` as long as it has not.
    status: Option<ToolCallStatus>,
    /// Whether a note says that its changes cannot be undone.
    has_loss: bool,
}

impl SessionManagerInner {
    /// Takes a session back. `own_run` is the run of a prompt that asks for it.
    pub(super) async fn rewind(
        self: &Arc<Self>,
        address: &SessionAddress,
        options: RewindOptions,
        own_run: Option<&RunId>,
    ) -> Result<RewindOutcome, SessionError> {
        let record = self.require_session(address).await?;
        self.check_home(&record).await?;
        self.check_executor(&record.id).await?;
        let state = self.session_state(&record.id);
        let rewound = async {
            let _nothing_new = state.sending.lock().await;
            self.rewind_idle(&state, &record, &options, own_run).await
        };
        let rewound = rewound.await;
        if own_run.is_none() {
            self.release_backend(&state).await;
        }
        rewound
    }

    async fn rewind_idle(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        record: &SessionRecord,
        options: &RewindOptions,
        own_run: Option<&RunId>,
    ) -> Result<RewindOutcome, SessionError> {
        let is_other = |run: &RunId| own_run != Some(run);
        if self.active_runs_in(&record.id).iter().any(|active| is_other(&active.run)) {
            return Err(SessionError::Busy(
                "a run is at work in this session, and a rewind would pull its files and its conversation away; wait for its end, or stop it, and rewind then"
                    .to_owned(),
            ));
        }
        let claim = match own_run {
            Some(run) => state.recorder.run_claim(run),
            None => {
                self.check_not_parked(&record.address()).await?;
                self.claim_session(&state.recorder).await?
            }
        };
        self.check_session_size(&record.id, &record.owner).await?;
        let store = &self.config.store;
        let points = store.rewind_points(&record.id).await?;
        let rule = match options.target {
            RewindTarget::LastPrompt => read_checkpoints(&**store, &record.id, &points).await?,
            RewindTarget::Prompt(_) | RewindTarget::LastRewind => CheckpointRule::default(),
        };
        let (chosen, scope) = choose_point(&points, &rule, options.target, options.scope)?;
        let chosen = self.with_overtaken(&record.id, &points, chosen).await?;
        let position = match scope.has_conversation() {
            true => Some(chosen.position.ok_or_else(|| no_position_error(&chosen))?),
            false => None,
        };
        let id = rewind_id(&record.id, &points);
        let (mut files, mut unrecorded) = (None, Vec::new());
        if scope.has_files() {
            let calls = read_calls(&**store, record, chosen.begin).await?;
            let report = self.rewind_files(state, record, options, &id, &calls).await?;
            unrecorded = describe_unrecorded(&calls, &report);
            if !report.conflicts.is_empty() && !options.overwrite {
                return Ok(RewindOutcome {
                    session: record.clone(),
                    prompt: chosen.prompt,
                    scope,
                    is_done: false,
                    files: Some(report),
                    unrecorded,
                });
            }
            files = Some(report);
        }
        let kind = EventKind::Rewound {
            rewind: id,
            prompt: chosen.prompt.as_ref().map(|(number, _)| *number),
            before: chosen.seq,
            scope,
            files: files.as_ref().map_or(0, |report| report.file_count),
        };
        state.recorder.rewind(claim, position, new_event(own_run, kind)).await?;
        Ok(RewindOutcome {
            session: self.require_session(&record.address()).await?,
            prompt: chosen.prompt,
            scope,
            is_done: true,
            files,
            unrecorded,
        })
    }

    /// The point before all prompts that have to be taken back with the chosen one: a prompt that was sent
    /// earlier and ran later, since another one went before it, has what that one left in its conversation.
    async fn with_overtaken(
        &self,
        session: &SessionId,
        points: &[RewindPoint],
        mut chosen: ChosenPoint,
    ) -> Result<ChosenPoint, SessionError> {
        if chosen.prompt.is_none() {
            return Ok(chosen);
        }
        loop {
            let mut order = RunOrder::default();
            let store = &*self.config.store;
            read_entries(store, session, chosen.seq, |event| order.add(&event)).await?;
            let is_earlier = |point: &&RewindPoint| {
                matches!(point.kind, RewindPointKind::Prompt { .. }) && point.seq < chosen.seq
            };
            match points.iter().rev().find(is_earlier) {
                Some(earlier) if order.has_overtaken() => {
                    chosen = ChosenPoint::from_point(earlier);
                }
                _ => {
                    chosen.begin = order.first_begin.unwrap_or(chosen.seq);
                    return Ok(chosen);
                }
            }
        }
    }

    async fn rewind_files(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        record: &SessionRecord,
        options: &RewindOptions,
        id: &str,
        calls: &LedgerCalls,
    ) -> Result<FileRewindReport, SessionError> {
        let agent = self.find_agent(&record.agent)?;
        let now = self.backend_for(state, agent, &options.folder_access).await?;
        let request = FileRewindRequest {
            rewind: id.to_owned(),
            calls: calls.ids(),
            action: match options.overwrite {
                true => FileRewindAction::Overwrite,
                false => FileRewindAction::Apply,
            },
        };
        now.backend.rewind_files(request, RewindRequester::User).await.map_err(file_error)
    }

    /// The prompts of a session, oldest first: those that went to a model, and others whose calls
    /// changed files or ran commands.
    pub(super) async fn list_prompts(
        &self,
        address: &SessionAddress,
    ) -> Result<Vec<PromptSummary>, SessionError> {
        let record = self.require_session(address).await?;
        let store = &self.config.store;
        let points = store.rewind_points(&record.id).await?;
        let mut prompts = Vec::new();
        for point in &points {
            let RewindPointKind::Prompt { number, words } = &point.kind else { continue };
            prompts.push(PromptSummary {
                number: *number,
                seq: point.seq,
                time_ms: point.time_ms,
                words: words.clone(),
                is_in_effect: is_in_effect(&points, point.seq),
                has_position: point.position.is_some(),
                files: 0,
                commands: 0,
            });
        }
        let Some(first) = prompts.first() else { return Ok(prompts) };
        let mut rule = CheckpointRule::default();
        let changes =
            read_changes(&**store, &record.id, first.seq, |event| rule.add(event)).await?;
        for prompt in &mut prompts {
            if let Some(change) = changes.get(&prompt.seq) {
                prompt.files = change.files.len() as u64;
                prompt.commands = change.commands;
            }
        }
        prompts.retain(|prompt| {
            rule.is_checkpoint(prompt.seq) || prompt.files > 0 || prompt.commands > 0
        });
        Ok(prompts)
    }

    /// The point before a prompt, for a copy.
    pub(super) async fn fork_point(
        &self,
        session: &SessionId,
        prompt: u64,
    ) -> Result<ForkPoint, SessionError> {
        let points = self.config.store.rewind_points(session).await?;
        let point = find_prompt(&points, prompt)?;
        let chosen = ChosenPoint::from_point(point);
        let chosen = self.with_overtaken(session, &points, chosen).await?;
        let position = chosen.position.ok_or_else(|| no_position_error(&chosen))?;
        Ok(ForkPoint::Before { seq: chosen.seq, position })
    }
}

impl ChosenPoint {
    fn from_point(point: &RewindPoint) -> Self {
        let prompt = match &point.kind {
            RewindPointKind::Prompt { number, words } => Some((*number, words.clone())),
            RewindPointKind::Rewind { .. } => None,
        };
        Self { seq: point.seq, begin: point.seq, prompt, position: point.position }
    }
}

/// Whether the runs since a prompt are those of prompts since then.
#[derive(Default)]
struct RunOrder {
    prompts: HashSet<RunId>,
    /// Where the first run of these prompts began.
    first_begin: Option<u64>,
    /// Where the last run of an earlier prompt began.
    last_earlier: Option<u64>,
}

impl RunOrder {
    fn add(&mut self, event: &Event) {
        let Some(run) = &event.run else { return };
        match event.kind {
            EventKind::Prompt { .. } => {
                self.prompts.insert(run.clone());
            }
            EventKind::RunStarted { .. } if self.prompts.contains(run) => {
                self.first_begin.get_or_insert(event.seq);
            }
            EventKind::RunStarted { .. } => self.last_earlier = Some(event.seq),
            _ => {}
        }
    }

    /// Whether a prompt that was sent earlier ran later.
    fn has_overtaken(&self) -> bool {
        self.first_begin.zip(self.last_earlier).is_some_and(|(first, last)| last > first)
    }
}

fn choose_point(
    points: &[RewindPoint],
    rule: &CheckpointRule,
    target: RewindTarget,
    scope: RewindScope,
) -> Result<(ChosenPoint, RewindScope), SessionError> {
    let in_effect = || points.iter().rev().filter(|point| is_in_effect(points, point.seq));
    let point = match target {
        RewindTarget::Prompt(number) => {
            let point = find_prompt(points, number)?;
            if scope.has_conversation() && !is_in_effect(points, point.seq) {
                return Err(SessionError::Invalid(format!(
                    "prompt {number} was taken back by a rewind and is not part of the conversation; take that rewind back first, or make a copy of the session before that prompt (fork)"
                )));
            }
            point
        }
        RewindTarget::LastPrompt => {
            let is_prompt =
                |point: &&RewindPoint| matches!(point.kind, RewindPointKind::Prompt { .. });
            let is_checkpoint =
                |point: &&RewindPoint| is_prompt(point) && rule.is_checkpoint(point.seq);
            in_effect().find(is_checkpoint).ok_or_else(|| match in_effect().find(is_prompt) {
                Some(_) => no_checkpoint_error(),
                None => no_prompts_error(),
            })?
        }
        RewindTarget::LastRewind => {
            let is_rewind =
                |point: &&RewindPoint| matches!(point.kind, RewindPointKind::Rewind { .. });
            in_effect().find(is_rewind).ok_or_else(|| {
                SessionError::Invalid("this session has no rewind to take back".to_owned())
            })?
        }
    };
    // What the rewind did not take back is left alone.
    let scope = match point.kind {
        RewindPointKind::Rewind { scope: taken, .. } if scope == RewindScope::Both => taken,
        _ => scope,
    };
    Ok((ChosenPoint::from_point(point), scope))
}

fn find_prompt(points: &[RewindPoint], wanted: u64) -> Result<&RewindPoint, SessionError> {
    let is_wanted = |point: &&RewindPoint| matches!(point.kind, RewindPointKind::Prompt { number, .. } if number == wanted);
    points.iter().find(is_wanted).ok_or_else(|| {
        let is_prompt =
            |point: &&RewindPoint| matches!(point.kind, RewindPointKind::Prompt { .. });
        match points.iter().filter(is_prompt).count() {
            0 => no_prompts_error(),
            1 => SessionError::Invalid(format!(
                "there is no prompt {wanted}; the session has only prompt 1"
            )),
            count => SessionError::Invalid(format!(
                "there is no prompt {wanted}; the prompts of this session have the numbers 1 to {count}"
            )),
        }
    })
}

fn no_prompts_error() -> SessionError {
    SessionError::Invalid(
        "there is no prompt to rewind to; prompts that an earlier version of zero ran have no number"
            .to_owned(),
    )
}

fn no_checkpoint_error() -> SessionError {
    SessionError::Invalid(
        "no prompt of this conversation went to a model; to go back to before a command such as `/read`, name its number"
            .to_owned(),
    )
}

fn no_position_error(chosen: &ChosenPoint) -> SessionError {
    SessionError::Invalid(match &chosen.prompt {
        Some((number, _)) => format!(
            "the conversation before prompt {number} is not known here: the prompt did not run, or the session is a copy that was made after a compaction or a rewind; only its files can be taken back"
        ),
        None => "the conversation before that rewind is not known here: the session is a copy that was made after it"
            .to_owned(),
    })
}

/// The id of the next rewind. It is the same until a rewind is completed, so that a repeated attempt
/// continues an interrupted one.
fn rewind_id(session: &SessionId, points: &[RewindPoint]) -> String {
    let is_rewind = |point: &&RewindPoint| matches!(point.kind, RewindPointKind::Rewind { .. });
    let number = points.iter().filter(is_rewind).count() + 1;
    let mut digest = sha256(format!("{session} {number}").as_bytes());
    digest.truncate(24);
    format!("rewind_{digest}")
}

fn file_error(error: ToolError) -> SessionError {
    match error.reason() {
        Some(ErrorReason::Busy | ErrorReason::ServerUnavailable | ErrorReason::QueueFull) => {
            SessionError::Busy(error.message)
        }
        _ => SessionError::Invalid(error.message),
    }
}

/// The calls and rewinds since a point.
#[derive(Default)]
struct LedgerCalls {
    calls: BTreeMap<String, RecordedCall>,
    rewinds: BTreeSet<String>,
    /// Number of calls that the session has from the one that it is a copy of.
    copied: usize,
}

impl LedgerCalls {
    fn ids(&self) -> Vec<String> {
        self.calls.keys().chain(&self.rewinds).cloned().collect()
    }

    fn add(&mut self, event: Event) {
        match event.kind {
            EventKind::ToolStarted { call, name, title, kind, .. } => {
                let (status, has_loss) = (None, false);
                self.calls.insert(call, RecordedCall { name, title, kind, status, has_loss });
            }
            EventKind::ToolUpdated { call, title, kind, .. } => {
                if let Some(known) = self.calls.get_mut(&call) {
                    known.title = title.unwrap_or_else(|| std::mem::take(&mut known.title));
                    known.kind = kind.unwrap_or(known.kind);
                }
            }
            EventKind::ToolEnded { call, status, outcome } => {
                if let Some(known) = self.calls.get_mut(&call) {
                    known.status = Some(status);
                    let notes = match &outcome {
                        zero_core::ToolOutcome::Result(result) => &result.metadata.notes[..],
                        zero_core::ToolOutcome::Error(_) => &[],
                    };
                    known.has_loss = notes.iter().any(|note| note.contains("cannot be undone"));
                }
            }
            EventKind::Rewound { rewind, .. } => {
                self.rewinds.insert(rewind);
            }
            // What the copied session changed is not this one's to take back.
            EventKind::Notice { topic, .. } if topic == FORKED || topic == FORKED_DURING_RUN => {
                self.copied += std::mem::take(&mut self.calls).len();
                self.rewinds.clear();
            }
            _ => {}
        }
    }
}

async fn read_calls(
    store: &dyn Store,
    session: &SessionRecord,
    from: u64,
) -> Result<LedgerCalls, StoreError> {
    let mut calls = LedgerCalls::default();
    read_entries(store, &session.id, from, |event| calls.add(event)).await?;
    let mut parents = vec![session.id.clone()];
    while let Some(parent) = parents.pop() {
        for child in list_subagents(store, session, &parent).await? {
            let (mut of_child, mut is_started_by_them) = (LedgerCalls::default(), false);
            read_entries(store, &child.id, 0, |event| {
                if let EventKind::RunStarted { parent: Some(parent), .. } = &event.kind {
                    is_started_by_them |= calls.calls.contains_key(parent.call.as_str());
                }
                of_child.add(event);
            })
            .await?;
            if is_started_by_them {
                calls.calls.append(&mut of_child.calls);
                parents.push(child.id);
            }
        }
    }
    Ok(calls)
}

/// The sessions of the sub-agents that a session started.
async fn list_subagents(
    store: &dyn Store,
    of: &SessionRecord,
    parent: &SessionId,
) -> Result<Vec<SessionRecord>, StoreError> {
    let mut found = Vec::new();
    loop {
        let query = SessionQuery {
            limit: Some(SessionQuery::LIMIT_MAX),
            offset: found.len(),
            owner: Some(of.owner.clone()),
            parent: Some(parent.clone()),
            ..SessionQuery::default()
        };
        let page = store.list(query).await?.sessions;
        if page.is_empty() {
            return Ok(found);
        }
        found.extend(page);
    }
}

/// What the tools of a prompt changed, as its calls say.
#[derive(Default)]
struct PromptChanges {
    files: BTreeSet<std::path::PathBuf>,
    commands: u64,
}

/// Reads which of the last prompts are checkpoints: back to the newest one that is no command.
async fn read_checkpoints(
    store: &dyn Store,
    session: &SessionId,
    points: &[RewindPoint],
) -> Result<CheckpointRule, StoreError> {
    let is_command = |point: &&RewindPoint| matches!(&point.kind, RewindPointKind::Prompt { words, .. } if words.starts_with('/'));
    let is_text = |point: &&RewindPoint| matches!(&point.kind, RewindPointKind::Prompt { words, .. } if !words.starts_with('/'));
    let newest_text = points
        .iter()
        .rev()
        .filter(|point| is_in_effect(points, point.seq))
        .find(is_text)
        .map_or(0, |point| point.seq);
    let mut rule = CheckpointRule::default();
    if let Some(first) = points.iter().filter(is_command).find(|point| point.seq > newest_text) {
        read_entries(store, session, first.seq, |event| rule.add(&event)).await?;
    }
    Ok(rule)
}

/// What tools changed, by the sequence number of the prompt. `watch` sees all entries.
async fn read_changes(
    store: &dyn Store,
    session: &SessionId,
    from: u64,
    mut watch: impl FnMut(&Event),
) -> Result<HashMap<u64, PromptChanges>, StoreError> {
    let mut prompts: HashMap<RunId, u64> = HashMap::new();
    let mut kinds: HashMap<String, (ToolKind, Vec<std::path::PathBuf>)> = HashMap::new();
    let mut changes: HashMap<u64, PromptChanges> = HashMap::new();
    let add = |event: Event| {
        watch(&event);
        let Some(run) = event.run else { return };
        match event.kind {
            EventKind::Prompt { .. } => {
                prompts.insert(run, event.seq);
            }
            EventKind::ToolStarted { call, kind, locations, .. } => {
                let paths = locations.into_iter().map(|location| location.path).collect();
                kinds.insert(call, (kind, paths));
            }
            EventKind::ToolUpdated { call, kind, locations, .. } => {
                if let Some(known) = kinds.get_mut(&call) {
                    known.0 = kind.unwrap_or(known.0);
                    known.1.extend(locations.into_iter().map(|location| location.path));
                }
            }
            EventKind::ToolEnded { call, status, outcome } => {
                let Some((kind, mut paths)) = kinds.remove(&call) else { return };
                // A host elsewhere names the files of a short call only with its result.
                let located = outcome.result().map(|result| &result.locations[..]);
                let located = located.unwrap_or_default().iter();
                paths.extend(located.map(|location| location.path.clone()));
                let Some(seq) = prompts.get(&run) else { return };
                let change = changes.entry(*seq).or_default();
                let has_run = !matches!(status, ToolCallStatus::Denied | ToolCallStatus::Cancelled);
                match kind {
                    ToolKind::Execute if has_run => change.commands += 1,
                    ToolKind::Edit | ToolKind::Delete | ToolKind::Move
                        if status == ToolCallStatus::Completed =>
                    {
                        change.files.extend(paths);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    };
    read_entries(store, session, from, add).await?;
    Ok(changes)
}

async fn read_entries(
    store: &dyn Store,
    session: &SessionId,
    from: u64,
    mut add: impl FnMut(Event),
) -> Result<(), StoreError> {
    let (mut after, mut count) = (from.saturating_sub(1), 0_usize);
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        count += page.len();
        if count > ENTRIES_MAX {
            let why = format!("there are more than {ENTRIES_MAX} entries since that prompt");
            return Err(StoreError::Broken { verb: "rewind a session", why });
        }
        page.into_iter().for_each(&mut add);
    }
}

/// Which calls may have changed something that is not recorded, in sentences.
fn describe_unrecorded(calls: &LedgerCalls, report: &FileRewindReport) -> Vec<String> {
    let (mut files, mut commands, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (id, call) in &calls.calls {
        let has_run =
            !matches!(call.status, Some(ToolCallStatus::Denied | ToolCallStatus::Cancelled));
        if !has_run || (report.recorded.contains(id) && !call.has_loss) {
            continue;
        }
        let title = one_line(&call.title, TITLE_CHARS_MAX);
        match call.kind {
            ToolKind::Edit | ToolKind::Delete | ToolKind::Move
                if call.status == Some(ToolCallStatus::Completed) =>
            {
                files.push(title);
            }
            ToolKind::Execute if !report.records_commands || call.has_loss => commands.push(title),
            ToolKind::Execute => {}
            // It changes nothing, whatever the answer is.
            ToolKind::Other if call.name == "AskUserQuestion" => {}
            ToolKind::Other => others.push(call.name.clone()),
            _ => {}
        }
    }
    let named = |calls: &[String]| shorten_end(&calls.join(", "), NAMED_CHARS_MAX);
    let count = |calls: &[String]| match calls.len() {
        1 => "one call".to_owned(),
        count => format!("{count} calls"),
    };
    let mut notes = Vec::new();
    match calls.copied {
        0 => {}
        1 => notes.push(
            "one call belongs to the session that this one was copied from, and its changes stay"
                .to_owned(),
        ),
        count => notes.push(format!(
            "{count} calls belong to the session that this one was copied from, and their changes stay"
        )),
    }
    if !files.is_empty() {
        notes.push(format!(
            "the changes of {} are not in the journal of this folder and stay: {}",
            count(&files),
            named(&files)
        ));
    }
    if !commands.is_empty() {
        let why = match report.records_commands {
            true => "zero could not record all changes",
            false => "`undo.commands` is off",
        };
        let ran = match commands.len() {
            1 => "one command ran".to_owned(),
            count => format!("{count} commands ran"),
        };
        notes.push(format!(
            "{ran} and may have changed files, which stay as they are because {why}: {}",
            named(&commands)
        ));
    }
    if !others.is_empty() {
        let ran = count(&others);
        others.sort_unstable();
        others.dedup();
        notes.push(format!(
            "{ran} of tools of which zero recorded no change in the workspace; what else they changed stays: {}",
            named(&others)
        ));
    }
    notes
}
