//! A store in memory that can be made to fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use zero_core::{RunId, SessionId};
use zero_runtime::tool::BoxFuture;

use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::key::SessionKey;
use crate::message::ModelMessage;
use crate::store::*;

#[derive(Default)]
pub(crate) struct MemStore {
    state: Mutex<MemStoreState>,
}

#[derive(Default)]
struct MemStoreState {
    sessions: BTreeMap<SessionKey, SessionRecord>,
    ledgers: BTreeMap<SessionId, Vec<Event>>,
    transcripts: BTreeMap<SessionId, Vec<Vec<ModelMessage>>>,
    runs: BTreeMap<RunId, RunRecord>,
    grants: BTreeMap<SessionId, Vec<GrantRecord>>,
    claims: BTreeMap<SessionId, SessionClaim>,
    made: u128,
    writes: usize,
    fail: Vec<usize>,
    /// Entries that would survive a power cut.
    durable: Vec<EventKind>,
}

impl MemStore {
    /// Makes these writes fail, counted from now.
    pub(crate) fn fail_writes(&self, writes: impl IntoIterator<Item = usize>) {
        let mut state = self.state();
        let now = state.writes;
        state.fail = writes.into_iter().map(|write| now + write).collect();
    }

    pub(crate) fn ledger(&self, session: &SessionId) -> Vec<Event> {
        self.state().ledgers.get(session).cloned().unwrap_or_default()
    }

    /// The entries that would survive a power cut.
    pub(crate) fn durable_entries(&self) -> Vec<EventKind> {
        self.state().durable.clone()
    }

    pub(crate) fn last_message(&self, session: &SessionId) -> Option<ModelMessage> {
        let state = self.state();
        let messages = state.transcripts.get(session).and_then(|all| all.last());
        messages.and_then(|messages| messages.last()).cloned()
    }

    fn state(&self) -> MutexGuard<'_, MemStoreState> {
        self.state.lock().unwrap()
    }

    /// Performs a write after a moment, as a disk does, or fails it.
    fn write<T: Send + 'static>(
        &self,
        verb: &'static str,
        change: impl FnOnce(&mut MemStoreState) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let mut state = self.state();
            state.writes += 1;
            if state.fail.contains(&state.writes) {
                return Err(StoreError::Broken { verb, why: "the disk is full".to_owned() });
            }
            change(&mut state)
        })
    }

    fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&MemStoreState) -> T + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move { Ok(look(&self.state())) })
    }
}

impl MemStoreState {
    fn append(&mut self, session: &SessionId, entries: Vec<NewEvent>) -> Vec<Event> {
        let ledger = self.ledgers.entry(session.clone()).or_default();
        let mut written = Vec::new();
        for NewEvent { run, time_ms, what } in entries {
            let seq = u64::try_from(ledger.len()).unwrap() + 1;
            let event = Event { seq, run, time_ms, what };
            ledger.push(event.clone());
            written.push(event);
        }
        written
    }

    fn claim(
        &mut self,
        session: &SessionId,
        node: &str,
        dead: Option<ClaimEpoch>,
    ) -> Result<ClaimOutcome, StoreError> {
        self.by_id(session).ok_or_else(|| StoreError::NoSession(session.to_string()))?;
        let is_unfinished = |run: &RunRecord| run.session == *session && run.end.is_none();
        let now = self.claims.get(session).cloned();
        match now {
            Some(now) if now.node == node => return Ok(ClaimOutcome::Claimed(now.epoch)),
            Some(now) if dead != Some(now.epoch) && self.runs.values().any(is_unfinished) => {
                return Ok(ClaimOutcome::Held(now));
            }
            _ => {}
        }
        let epoch = ClaimEpoch(now.map_or(0, |now| now.epoch.0) + 1);
        self.claims.insert(session.clone(), SessionClaim { node: node.to_owned(), epoch });
        Ok(ClaimOutcome::Claimed(epoch))
    }

    fn check(&mut self, session: &SessionId, claim: ClaimEpoch) -> Result<(), StoreError> {
        self.by_id(session).ok_or_else(|| StoreError::NoSession(session.to_string()))?;
        match self.claims.get(session).is_some_and(|now| now.epoch == claim) {
            true => Ok(()),
            false => Err(StoreError::ClaimLost(session.to_string())),
        }
    }

    fn by_id(&mut self, id: &SessionId) -> Option<&mut SessionRecord> {
        self.sessions.values_mut().find(|record| record.id == *id)
    }
}

impl Store for MemStore {
    fn session(
        &self,
        key: &SessionKey,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let key = key.clone();
        self.read(move |state| state.sessions.get(&key).cloned())
    }

    fn session_by_id(
        &self,
        id: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let id = id.clone();
        self.read(move |state| state.sessions.values().find(|record| record.id == id).cloned())
    }

    fn create(&self, new: NewSession) -> BoxFuture<'_, Result<SessionRecord, StoreError>> {
        self.write("create", move |state| {
            if let Some(there) = state.sessions.get(&new.key) {
                return Ok(there.clone());
            }
            let owned = state.sessions.values().filter(|record| record.owner == new.owner);
            if u64::try_from(owned.count()).unwrap() >= new.owned_max {
                return Err(StoreError::TooMany(new.owned_max));
            }
            state.made += 1;
            let record = SessionRecord {
                id: SessionId::from_bits(state.made),
                agent: new.key.agent().to_owned(),
                key: new.key.clone(),
                label: new.label,
                title: None,
                model: new.model,
                mode: new.mode,
                thinking: None,
                cwd: new.cwd,
                owner: new.owner,
                tool_host: new.tool_host,
                created_ms: 0,
                updated_ms: 0,
                transcript: 1,
                usage: TokenUsage::default(),
                context_tokens: None,
            };
            state.transcripts.insert(record.id.clone(), vec![Vec::new()]);
            state.sessions.insert(new.key, record.clone());
            Ok(record)
        })
    }

    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<SessionPage, StoreError>> {
        self.read(move |state| {
            let fits =
                |record: &&SessionRecord| query.label.is_none() || record.label == query.label;
            let sessions: Vec<_> = state.sessions.values().filter(fits).cloned().collect();
            SessionPage { total: u64::try_from(sessions.len()).unwrap(), sessions }
        })
    }

    fn patch(
        &self,
        key: &SessionKey,
        patch: SessionPatch,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let key = key.clone();
        self.write("patch", move |state| {
            let Some(record) = state.sessions.get_mut(&key) else { return Ok(None) };
            if let Some(label) = patch.label {
                record.label = label;
            }
            if let Some(title) = patch.title {
                record.title = title;
            }
            if let Some(agent) = patch.agent {
                record.agent = agent;
            }
            if let Some(model) = patch.model {
                record.model = model;
            }
            if let Some(mode) = patch.mode {
                record.mode = mode;
            }
            if let Some(thinking) = patch.thinking {
                record.thinking = thinking;
            }
            if let Some(cwd) = patch.cwd {
                record.cwd = cwd;
            }
            if let Some(location) = patch.tool_host {
                record.tool_host = location;
            }
            if let Some(tokens) = patch.context_tokens {
                record.context_tokens = Some(tokens);
            }
            Ok(Some(record.clone()))
        })
    }

    fn claim(
        &self,
        session: &SessionId,
        node: &str,
        dead: Option<ClaimEpoch>,
    ) -> BoxFuture<'_, Result<ClaimOutcome, StoreError>> {
        let (session, node) = (session.clone(), node.to_owned());
        self.write("claim", move |state| state.claim(&session, &node, dead))
    }

    fn delete(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write("delete", move |state| {
            state.check(&session, claim)?;
            state.sessions.retain(|_, record| record.id != session);
            state.runs.retain(|_, run| run.session != session);
            state.ledgers.remove(&session);
            state.transcripts.remove(&session);
            state.grants.remove(&session);
            Ok(())
        })
    }

    fn append(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let session = session.clone();
        self.write("append", move |state| {
            claim.map_or(Ok(()), |claim| state.check(&session, claim))?;
            Ok(state.append(&session, entries))
        })
    }

    fn append_durable(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let appended = self.append(session, claim, entries);
        Box::pin(async move {
            let events = appended.await?;
            self.state().durable.extend(events.iter().map(|event| event.what.clone()));
            Ok(events)
        })
    }

    fn events(
        &self,
        session: &SessionId,
        after: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let session = session.clone();
        self.read(move |state| {
            let ledger = state.ledgers.get(&session).cloned().unwrap_or_default();
            let later: Vec<Event> = ledger.into_iter().filter(|event| event.seq > after).collect();
            let fitting = most.count_fitting(later.iter().map(weight));
            later.into_iter().take(fitting).collect()
        })
    }

    fn last_events(
        &self,
        session: &SessionId,
        before: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let session = session.clone();
        self.read(move |state| {
            let ledger = state.ledgers.get(&session).cloned().unwrap_or_default();
            let earlier: Vec<Event> =
                ledger.into_iter().filter(|event| event.seq < before).collect();
            let fitting = most.count_fitting(earlier.iter().rev().map(weight));
            let skip = earlier.len() - fitting;
            earlier.into_iter().skip(skip).collect()
        })
    }

    fn transcript(
        &self,
        session: &SessionId,
        number: Option<u64>,
    ) -> BoxFuture<'_, Result<Transcript, StoreError>> {
        let session = session.clone();
        self.read(move |state| {
            let all = state.transcripts.get(&session).cloned().unwrap_or_default();
            let number = number.unwrap_or(u64::try_from(all.len()).unwrap());
            let at = usize::try_from(number).unwrap().saturating_sub(1);
            Transcript { number, messages: all.get(at).cloned().unwrap_or_default() }
        })
    }

    fn add_messages(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write("add messages", move |state| {
            state.check(&session, claim)?;
            let all = state.transcripts.get_mut(&session);
            let all = all.ok_or(StoreError::NoSession(session.to_string()))?;
            all.last_mut().unwrap().extend(messages.into_iter().map(Arc::unwrap_or_clone));
            Ok(())
        })
    }

    fn start_transcript(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        _why: TranscriptStart,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        let session = session.clone();
        self.write("begin a transcript", move |state| {
            state.check(&session, claim)?;
            let all = state.transcripts.get_mut(&session).unwrap();
            all.push(messages.into_iter().map(Arc::unwrap_or_clone).collect());
            let number = u64::try_from(all.len()).unwrap();
            let record = state.by_id(&session).unwrap();
            (record.transcript, record.context_tokens) = (number, None);
            Ok(number)
        })
    }

    fn begin_run(&self, new: NewRun) -> BoxFuture<'_, Result<BeginRunOutcome, StoreError>> {
        self.write("begin a run", move |state| {
            if let Some(run) = state.runs.get(&new.id) {
                return Ok(BeginRunOutcome::AlreadyStarted(run.clone()));
            }
            let claim = match state.claim(&new.session, &new.node, None)? {
                ClaimOutcome::Claimed(claim) => claim,
                ClaimOutcome::Held(claim) => return Ok(BeginRunOutcome::Held(claim)),
            };
            let run = RunRecord {
                id: new.id.clone(),
                session: new.session.clone(),
                node: new.node,
                started_ms: new.started_ms,
                ended_ms: None,
                end: None,
                usage: TokenUsage::default(),
            };
            state.runs.insert(new.id, run);
            let events = state.append(&new.session, new.first);
            Ok(BeginRunOutcome::Started { events, claim })
        })
    }

    fn end_run(
        &self,
        run: &RunId,
        claim: ClaimEpoch,
        end: RunOutcome,
        usage: TokenUsage,
        last: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Option<Vec<Event>>, StoreError>> {
        let run = run.clone();
        self.write("end a run", move |state| {
            let Some(session) = state.runs.get(&run).map(|run| run.session.clone()) else {
                return Ok(None);
            };
            let record = state.runs.get(&run).filter(|run| run.end.is_none());
            if record.is_none() {
                return Ok(None);
            }
            state.check(&session, claim)?;
            let record = state.runs.get_mut(&run).unwrap();
            record.end = Some(end);
            record.ended_ms = Some(0);
            record.usage = usage;
            if let Some(session) = state.by_id(&session) {
                session.usage += usage;
            }
            Ok(Some(state.append(&session, last)))
        })
    }

    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let run = run.clone();
        self.read(move |state| state.runs.get(&run).cloned())
    }

    fn unfinished_runs(
        &self,
        session: Option<&SessionId>,
    ) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        let session = session.cloned();
        let is_of = move |run: &&RunRecord| session.as_ref().is_none_or(|it| run.session == *it);
        self.read(move |state| {
            let open = state.runs.values().filter(|run| run.end.is_none());
            open.filter(is_of).cloned().collect()
        })
    }

    fn grants(&self, session: &SessionId) -> BoxFuture<'_, Result<Vec<GrantRecord>, StoreError>> {
        let session = session.clone();
        self.read(move |state| state.grants.get(&session).cloned().unwrap_or_default())
    }

    fn set_grants(
        &self,
        session: &SessionId,
        grants: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write("keep grants", move |state| {
            state.grants.insert(session, grants);
            Ok(())
        })
    }

    fn change_grants(
        &self,
        session: &SessionId,
        before: Vec<GrantRecord>,
        after: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write("change grants", move |state| {
            let stored = state.grants.remove(&session).unwrap_or_default();
            state.grants.insert(session, crate::store::merge_grants(stored, &before, &after));
            Ok(())
        })
    }

    fn check_ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.read(|_| ())
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.read(|state| u64::try_from(state.sessions.len()).unwrap())
    }

    fn size(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let session = session.clone();
        self.read(move |state| {
            let ledger = state.ledgers.get(&session).into_iter().flatten();
            let entries = ledger.map(|event| serde_json::to_string(&event.what).unwrap().len());
            let messages = state.transcripts.get(&session).into_iter().flatten().flatten();
            let messages = messages.map(|message| serde_json::to_string(message).unwrap().len());
            u64::try_from(entries.chain(messages).sum::<usize>()).unwrap()
        })
    }
}

/// Size of an entry in a ledger.
fn weight(event: &Event) -> usize {
    serde_json::to_string(&event.what).unwrap().len()
}
