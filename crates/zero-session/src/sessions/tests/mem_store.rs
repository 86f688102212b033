//! A store in memory that can be made to fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;
use zero_runtime::tool::BoxFuture;

use crate::claim_rule::{ClaimDecision, StoredClaim};
use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::key::SessionAddress;
use crate::message::ModelMessage;
use crate::open_question::{OpenQuestion, QuestionContent, QuestionEntry, QuestionScope};
use crate::run_usage::{RunUsage, RunUsageOwner, RunUsageQuery, UsageEntry, UsageTotal};
use crate::store::*;

use super::store_conformance;
use crate::store::RunAddress;

#[derive(Default)]
pub(crate) struct MemStore {
    state: Mutex<MemStoreState>,
}

#[derive(Default)]
struct MemStoreState {
    /// In order of creation.
    sessions: Vec<SessionRecord>,
    ledgers: BTreeMap<SessionId, Vec<Event>>,
    transcripts: BTreeMap<SessionId, Vec<Vec<ModelMessage>>>,
    /// In order of their beginning.
    runs: Vec<RunRecord>,
    grants: BTreeMap<SessionId, Vec<GrantRecord>>,
    usages: Vec<RunUsage>,
    /// In the order in which they were asked.
    questions: Vec<OpenQuestion>,
    claims: BTreeMap<SessionId, SessionClaim>,
    /// Transcript and number of its messages before the oldest unfinished run.
    completed: BTreeMap<SessionId, (usize, usize)>,
    /// With the run of each prompt.
    points: BTreeMap<SessionId, Vec<(Option<RunId>, RewindPoint)>>,
    made: u128,
    writes: usize,
    fail: Vec<usize>,
    /// Writes that are done, and reported as failed.
    unanswered: Vec<usize>,
    fails_as_damaged: bool,
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

    /// Makes these writes happen without an answer, counted from now.
    pub(crate) fn lose_answers(&self, writes: impl IntoIterator<Item = usize>) {
        let mut state = self.state();
        let now = state.writes;
        state.unanswered = writes.into_iter().map(|write| now + write).collect();
    }

    /// Makes writes that fail say that the store is damaged, not that its disk is full.
    pub(crate) fn fail_as_damaged(&self) {
        self.state().fails_as_damaged = true;
    }

    /// Moves the last activity of a session into the past.
    pub(crate) fn set_age(&self, session: &SessionId, age_ms: i64) {
        self.state().by_id(session).unwrap().updated_ms = now_ms() - age_ms;
    }

    pub(crate) fn ledger(&self, session: &SessionId) -> Vec<Event> {
        self.state().ledgers.get(session).cloned().unwrap_or_default()
    }

    /// Changes the entries of all sessions.
    pub(crate) fn change_events(&self, change: impl FnMut(&mut Event)) {
        self.state().ledgers.values_mut().flatten().for_each(change);
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
                return Err(match state.fails_as_damaged {
                    true => StoreError::Damaged { verb, why: "a page is damaged".to_owned() },
                    false => StoreError::Broken { verb, why: "the disk is full".to_owned() },
                });
            }
            let changed = change(&mut state)?;
            match state.unanswered.contains(&state.writes) {
                true => Err(StoreError::Broken { verb, why: "the connection was cut".to_owned() }),
                false => Ok(changed),
            }
        })
    }

    fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&MemStoreState) -> T + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        Box::pin(async move { Ok(look(&self.state())) })
    }

    /// Reads what belongs to a session.
    fn read_of<T: Send + 'static>(
        &self,
        session: &SessionId,
        look: impl FnOnce(&MemStoreState, &SessionId) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'_, Result<T, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            let state = self.state();
            state.require(&session)?;
            look(&state, &session)
        })
    }
}

impl MemStoreState {
    fn require(&self, session: &SessionId) -> Result<&SessionRecord, StoreError> {
        let found = self.sessions.iter().find(|record| record.id == *session);
        found.ok_or_else(|| StoreError::NoSession(session.to_string()))
    }

    fn at(&self, address: &SessionAddress) -> Option<&SessionRecord> {
        self.sessions.iter().find(|record| record.address() == *address)
    }

    /// The run of an owner with that id; without an owner, the newest of all.
    fn find_run(&self, owner: Option<&str>, run: &RunId) -> Option<RunRecord> {
        let is_of = |session: &SessionId| {
            let mut owners = self.sessions.iter().filter(|it| it.id == *session);
            owner.is_none() || owners.any(|it| owner == Some(&*it.owner))
        };
        let mut found = self.runs.iter().rev();
        found.find(|known| known.id == *run && is_of(&known.session)).cloned()
    }

    fn unfinished(&self, session: &SessionId) -> impl Iterator<Item = &RunRecord> {
        self.runs.iter().filter(move |run| run.session == *session && run.end.is_none())
    }

    fn mark_completed(&mut self, session: &SessionId) {
        let all = self.transcripts.get(session).map_or(&[][..], Vec::as_slice);
        let point = (all.len().saturating_sub(1), all.last().map_or(0, Vec::len));
        self.completed.insert(session.clone(), point);
    }

    fn position(&self, session: &SessionId) -> TranscriptPosition {
        let all = self.transcripts.get(session).map_or(&[][..], Vec::as_slice);
        let count = |length: usize| u64::try_from(length).unwrap();
        TranscriptPosition {
            transcript: count(all.len()),
            messages: count(all.last().map_or(0, Vec::len)),
        }
    }

    /// Stores the position of the oldest unfinished run.
    fn set_position(&mut self, session: &SessionId) {
        let (position, oldest) =
            (self.position(session), self.unfinished(session).next().map(|run| run.id.clone()));
        for (run, point) in self.points.entry(session.clone()).or_default() {
            if run.is_some() && *run == oldest && point.position.is_none() {
                point.position = Some(position);
            }
        }
    }

    fn size(&self, session: &SessionId) -> u64 {
        let entries = self.ledgers.get(session).into_iter().flatten().map(weight);
        let messages = self.transcripts.get(session).into_iter().flatten().flatten();
        let messages = messages.map(|message| serde_json::to_string(message).unwrap().len());
        u64::try_from(entries.chain(messages).sum::<usize>()).unwrap()
    }

    /// Sessions without a label and without unfinished runs, and whose ancestors are such, too.
    fn idle(&self) -> impl Iterator<Item = &SessionRecord> {
        let is_busy = |record: &SessionRecord| {
            self.runs.iter().any(|run| run.session == record.id && run.end.is_none())
        };
        let is_idle = move |record: &SessionRecord| record.label.is_none() && !is_busy(record);
        self.sessions.iter().filter(move |record| self.family(record).all(&is_idle))
    }

    /// A session and those that led to it.
    fn family<'a>(&'a self, of: &'a SessionRecord) -> impl Iterator<Item = &'a SessionRecord> {
        std::iter::successors(Some(of), |record| {
            let parent = record.parent.as_ref()?;
            self.sessions.iter().find(|record| record.id == *parent)
        })
    }

    /// The last activity in a session or in one that led to it.
    fn active_ms(&self, record: &SessionRecord) -> i64 {
        self.family(record).map(|record| record.updated_ms).max().unwrap()
    }

    fn describe_idle(&self, record: &SessionRecord) -> IdleSession {
        IdleSession {
            id: record.id.clone(),
            address: record.address(),
            updated_ms: record.updated_ms,
            bytes: self.size(&record.id),
            claim: self.claims.get(&record.id).map_or(ClaimEpoch(0), |claim| claim.epoch),
        }
    }

    fn delete(&mut self, session: &SessionId) {
        self.sessions.retain(|record| record.id != *session);
        self.runs.retain(|run| run.session != *session);
        self.questions.retain(|question| question.session != *session);
        self.ledgers.remove(session);
        self.transcripts.remove(session);
        self.grants.remove(session);
        self.claims.remove(session);
        self.points.remove(session);
    }

    /// Refuses a label that another session of the owner has.
    fn check_label(
        &self,
        label: Option<&String>,
        address: &SessionAddress,
    ) -> Result<(), StoreError> {
        let Some(label) = label else { return Ok(()) };
        let of_owner = self.sessions.iter().filter(|record| record.owner == address.owner);
        let other = of_owner.filter(|record| record.key != address.key);
        match { other }.find(|record| record.label.as_ref() == Some(label)) {
            Some(other) => {
                Err(StoreError::LabelTaken { label: label.clone(), key: other.key.clone() })
            }
            None => Ok(()),
        }
    }

    fn append(&mut self, session: &SessionId, entries: Vec<NewEvent>) -> Vec<Event> {
        let newest = entries.iter().map(|entry| entry.time_ms).max();
        if let (Some(record), Some(newest)) = (self.by_id(session), newest) {
            record.updated_ms = record.updated_ms.max(newest);
        }
        for entry in entries.iter().filter_map(UsageEntry::from_event) {
            self.apply_usage(session, &entry);
        }
        for entry in QuestionEntry::from_events(&entries) {
            self.apply_question(session, entry, &entries);
        }
        let ledger = self.ledgers.entry(session.clone()).or_default();
        let mut written = Vec::new();
        for NewEvent { run, time_ms, kind } in entries {
            let seq = u64::try_from(ledger.len()).unwrap() + 1;
            let event = Event { seq, run, time_ms, kind };
            ledger.push(event.clone());
            written.push(event);
        }
        written
    }

    fn apply_question(&mut self, session: &SessionId, entry: QuestionEntry, entries: &[NewEvent]) {
        match entry {
            QuestionEntry::Asked { at, run, .. } => {
                let is_here = self.require(session).is_ok_and(|record| {
                    record.tool_host == ToolHostLocation::Gateway && record.parent.is_none()
                });
                let content = QuestionContent::from_event(&entries[at].kind);
                let (asked_ms, session) = (entries[at].time_ms, session.clone());
                let question =
                    content.map(|content| OpenQuestion { session, run, asked_ms, content });
                self.questions.extend(question.filter(|_| is_here));
            }
            QuestionEntry::Resolved { id } => {
                self.questions.retain(|question| question.content.id() != id);
            }
            QuestionEntry::RunEnded { run } => {
                self.questions
                    .retain(|question| question.session != *session || question.run != run);
            }
        }
        for run in &mut self.runs {
            let is_of =
                |question: &OpenQuestion| question.session == run.session && question.run == run.id;
            run.has_open_question = self.questions.iter().any(is_of);
        }
    }

    fn apply_usage(&mut self, session: &SessionId, entry: &UsageEntry) {
        let is_of = |usage: &&mut RunUsage| usage.session == *session && usage.run == entry.run;
        if let Some(usage) = self.usages.iter_mut().find(is_of) {
            return usage.apply(entry);
        }
        let Ok(record) = self.require(session) else { return };
        let of = RunUsageOwner {
            session: session.clone(),
            session_key: record.key.to_string(),
            owner: record.owner.clone(),
        };
        self.usages.extend(RunUsage::begin(entry, of));
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
        let stored = StoredClaim {
            holder: now.as_ref().map(|now| now.node.as_str()),
            epoch: now.as_ref().map_or(ClaimEpoch(0), |now| now.epoch),
            has_unfinished_runs: self.runs.iter().any(is_unfinished),
        };
        let before = stored.epoch;
        match (stored.decide(node, dead), now) {
            (ClaimDecision::Keep, _) => return Ok(ClaimOutcome::Claimed(before)),
            (ClaimDecision::Refuse, Some(now)) => return Ok(ClaimOutcome::Held(now)),
            _ => {}
        }
        let epoch = ClaimEpoch(before.0 + 1);
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
        self.sessions.iter_mut().find(|record| record.id == *id)
    }
}

impl Store for MemStore {
    fn session(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let address = address.clone();
        self.read(move |state| state.at(&address).cloned())
    }

    fn session_by_id(
        &self,
        id: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let id = id.clone();
        self.read(move |state| state.require(&id).ok().cloned())
    }

    fn create(&self, new: NewSession) -> BoxFuture<'_, Result<SessionRecord, StoreError>> {
        self.write("create", move |state| {
            let address = SessionAddress::new(&new.owner, new.key.clone());
            if let Some(there) = state.at(&address) {
                return Ok(there.clone());
            }
            let is_beside = |record: &&SessionRecord| match &new.parent {
                Some(_) => record.parent == new.parent,
                None => record.owner == new.owner && record.parent.is_none(),
            };
            let owned = state.sessions.iter().filter(is_beside);
            if u64::try_from(owned.count()).unwrap() >= new.owned_max {
                return Err(StoreError::TooMany(new.owned_max));
            }
            state.check_label(new.label.as_ref(), &address)?;
            state.made += 1;
            let now = now_ms();
            let record = SessionRecord {
                id: SessionId::from_bits(state.made),
                agent: new.key.agent().to_owned(),
                key: new.key,
                label: new.label,
                title: None,
                model: new.model,
                mode: new.mode,
                thinking: None,
                cwd: new.cwd,
                owner: new.owner,
                tool_host: new.tool_host,
                created_ms: now,
                updated_ms: now,
                transcript: 1,
                usage: TokenUsage::default(),
                context_tokens: None,
                parent: new.parent,
            };
            state.transcripts.insert(record.id.clone(), vec![Vec::new()]);
            state.sessions.push(record.clone());
            Ok(record)
        })
    }

    fn fork(
        &self,
        session: &SessionId,
        point: ForkPoint,
        fork: NewFork,
        last: NewEvent,
    ) -> BoxFuture<'_, Result<SessionRecord, StoreError>> {
        let session = session.clone();
        self.write("fork", move |state| {
            if let ForkPoint::End(claim) = point {
                state.check(&session, claim)?;
            }
            let open: Vec<RunId> = state.unfinished(&session).map(|run| run.id.clone()).collect();
            let is_at_end = match point {
                ForkPoint::End(_) => true,
                ForkPoint::LastCompleted => open.is_empty(),
                ForkPoint::Before { .. } => false,
            };
            let end_seq = match point {
                ForkPoint::Before { seq, .. } => seq,
                ForkPoint::End(_) | ForkPoint::LastCompleted => u64::MAX,
            };
            let source = state.require(&session)?.clone();
            let address = SessionAddress::new(&source.owner, fork.key.clone());
            if state.at(&address).is_some() {
                return Err(StoreError::KeyTaken(fork.key));
            }
            let is_owned =
                |record: &&SessionRecord| record.owner == source.owner && record.parent.is_none();
            let owned = state.sessions.iter().filter(is_owned);
            if u64::try_from(owned.count()).unwrap() >= fork.owned_max {
                return Err(StoreError::TooMany(fork.owned_max));
            }
            let (old, new) = (session.as_str().to_owned(), fork.id.as_str().to_owned());
            let all = state.transcripts.get(&session).cloned().unwrap_or_default();
            let before = match point {
                ForkPoint::Before { position, .. } => Some((
                    usize::try_from(position.transcript).unwrap() - 1,
                    usize::try_from(position.messages).unwrap(),
                )),
                ForkPoint::End(_) | ForkPoint::LastCompleted => None,
            };
            let completed = before.or(state.completed.get(&session).copied());
            let last_transcript = all.len().saturating_sub(1);
            let (copied, end) = match is_at_end {
                true => (last_transcript, usize::MAX),
                false => completed.unwrap_or((last_transcript, usize::MAX)),
            };
            let messages = match (is_at_end, &completed) {
                (false, Some((transcript, count))) => {
                    let mut messages = all.into_iter().nth(*transcript).unwrap_or_default();
                    messages.truncate(*count);
                    messages
                }
                _ => all.into_iter().next_back().unwrap_or_default(),
            };
            let messages = messages.iter().map(|message| rename(message, &old, &new)).collect();
            let mut ledger = state.ledgers.get(&session).cloned().unwrap_or_default();
            ledger.retain(|event| event.seq < end_seq);
            let is_reset = |event: &Event| matches!(event.kind, EventKind::Reset { .. });
            let kept = ledger.iter().rposition(is_reset).map_or(0, |at| at + 1);
            let is_open = |event: &Event| event.run.as_ref().is_some_and(|run| open.contains(run));
            let kept = ledger.into_iter().skip(kept).filter(|event| !is_open(event)).zip(1..);
            let kept: Vec<(Event, u64)> = kept.collect();
            let new_seq = |seq: u64| {
                kept.iter().find(|(event, _)| event.seq == seq).map(|(_, new_seq)| *new_seq)
            };
            let points = state.points.get(&session).cloned().unwrap_or_default();
            let mut numbers = 1..;
            let points = points.into_iter().filter_map(|(run, mut point)| {
                point.seq = new_seq(point.seq)?;
                match &mut point.kind {
                    RewindPointKind::Prompt { number, .. } => *number = numbers.next().unwrap(),
                    RewindPointKind::Rewind { before, .. } => *before = before.and_then(new_seq),
                }
                let is_copied = |position: &TranscriptPosition| {
                    usize::try_from(position.transcript).unwrap() - 1 == copied
                        && usize::try_from(position.messages).unwrap() <= end
                };
                let position = point.position.filter(is_copied);
                point.position =
                    position.map(|position| TranscriptPosition { transcript: 1, ..position });
                Some((run, point))
            });
            let points = points.collect();
            let kept = kept.into_iter().map(|(event, seq)| Event {
                seq,
                kind: rename(&event.kind, &old, &new),
                ..event
            });
            let now = now_ms();
            let record = SessionRecord {
                id: fork.id.clone(),
                key: fork.key,
                label: None,
                title: fork.title,
                created_ms: now,
                updated_ms: now,
                transcript: 1,
                usage: TokenUsage::default(),
                context_tokens: source.context_tokens.filter(|_| is_at_end),
                parent: None,
                ..source
            };
            state.ledgers.insert(fork.id.clone(), kept.collect());
            state.points.insert(fork.id.clone(), points);
            state.transcripts.insert(fork.id.clone(), vec![messages]);
            state.sessions.push(record);
            state.append(&fork.id, vec![last]);
            state.require(&fork.id).cloned()
        })
    }

    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<SessionPage, StoreError>> {
        self.read(move |state| {
            let fits = |record: &&SessionRecord| is_match(record, &query);
            let mut sessions: Vec<_> = state.sessions.iter().rev().filter(fits).cloned().collect();
            // Stable, so of two with the same time the one created later comes first.
            sessions.sort_by_key(|record| std::cmp::Reverse(record.updated_ms));
            let total = u64::try_from(sessions.len()).unwrap();
            let sessions =
                sessions.into_iter().skip(query.offset).take(query.page_size()).collect();
            SessionPage { total, sessions }
        })
    }

    fn patch(
        &self,
        address: &SessionAddress,
        patch: SessionPatch,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let address = address.clone();
        self.write("patch", move |state| {
            let Some(id) = state.at(&address).map(|record| record.id.clone()) else {
                return Ok(None);
            };
            state.check_label(patch.label.as_ref().and_then(Option::as_ref), &address)?;
            let Some(record) = state.by_id(&id) else { return Ok(None) };
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
            record.updated_ms = record.updated_ms.max(patch.used_ms.unwrap_or(i64::MIN));
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
            state.delete(&session);
            Ok(())
        })
    }

    fn delete_idle(&self, listed: &IdleSession) -> BoxFuture<'_, Result<bool, StoreError>> {
        let listed = listed.clone();
        self.write("delete", move |state| {
            let is_same = state.idle().any(|now| state.describe_idle(now) == listed);
            if is_same {
                state.delete(&listed.id);
            }
            Ok(is_same)
        })
    }

    fn delete_unreadable(&self, _: &SessionAddress) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.read(|_| false)
    }

    fn unnamed_sessions(&self) -> BoxFuture<'_, Result<Vec<UnnamedSession>, StoreError>> {
        self.read(|_| Vec::new())
    }

    fn delete_unnamed(&self, _: i64) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.read(|_| false)
    }

    fn reclaim(&self) -> BoxFuture<'_, Result<Vec<UnremovedSession>, StoreError>> {
        self.read(|_| Vec::new())
    }

    fn idle_sessions(
        &self,
        query: IdleSessionQuery,
    ) -> BoxFuture<'_, Result<Vec<IdleSession>, StoreError>> {
        self.read(move |state| {
            let fits = |record: &&SessionRecord| {
                state.active_ms(record) < query.updated_before_ms
                    && query.owner.as_ref().is_none_or(|owner| record.owner == *owner)
            };
            let mut idle: Vec<_> = state.idle().filter(fits).collect();
            idle.sort_by_key(|record| state.active_ms(record));
            let idle = idle.into_iter().take(query.limit);
            idle.map(|record| state.describe_idle(record)).collect()
        })
    }

    fn large_owners(
        &self,
        sessions_min: u64,
    ) -> BoxFuture<'_, Result<Vec<OwnerUsage>, StoreError>> {
        self.read(move |state| {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            for record in state.sessions.iter().filter(|record| record.parent.is_none()) {
                *counts.entry(&record.owner).or_default() += 1;
            }
            let mut owners: Vec<OwnerUsage> = counts
                .into_iter()
                .filter(|(_, sessions)| *sessions >= sessions_min)
                .map(|(owner, sessions)| OwnerUsage { owner: owner.to_owned(), sessions })
                .collect();
            owners.sort_by_key(|owner| std::cmp::Reverse(owner.sessions));
            owners.truncate(OwnerUsage::LIST_MAX);
            owners
        })
    }

    fn owner_sizes(&self) -> BoxFuture<'_, Result<Vec<OwnerSize>, StoreError>> {
        self.read(|state| {
            let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
            for record in &state.sessions {
                *sizes.entry(&record.owner).or_default() += state.size(&record.id);
            }
            let sizes = sizes.into_iter();
            let mut sizes: Vec<OwnerSize> =
                sizes.map(|(owner, bytes)| OwnerSize { owner: owner.to_owned(), bytes }).collect();
            sizes.sort_by_key(|owner| std::cmp::Reverse(owner.bytes));
            sizes
        })
    }

    fn usage(&self) -> BoxFuture<'_, Result<StoreUsage, StoreError>> {
        self.read(|state| StoreUsage {
            sessions: u64::try_from(state.sessions.len()).unwrap(),
            bytes: state.sessions.iter().map(|record| state.size(&record.id)).sum(),
            free_bytes: 0,
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
            state.require(&session)?;
            claim.map_or(Ok(()), |claim| state.check(&session, claim))?;
            for run in entries.iter().filter_map(|entry| entry.run.as_ref()) {
                if state.unfinished(&session).all(|open| open.id != *run) {
                    return Err(StoreError::RunNotOpen(run.to_string()));
                }
            }
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
            self.state().durable.extend(events.iter().map(|event| event.kind.clone()));
            Ok(events)
        })
    }

    fn events(
        &self,
        session: &SessionId,
        after: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        self.read_of(session, move |state, session| {
            let ledger = state.ledgers.get(session).cloned().unwrap_or_default();
            let later: Vec<Event> = ledger.into_iter().filter(|event| event.seq > after).collect();
            let fitting = most.count_fitting(later.iter().map(weight));
            Ok(later.into_iter().take(fitting).collect())
        })
    }

    fn last_events(
        &self,
        session: &SessionId,
        before: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        self.read_of(session, move |state, session| {
            let ledger = state.ledgers.get(session).cloned().unwrap_or_default();
            let earlier: Vec<Event> =
                ledger.into_iter().filter(|event| event.seq < before).collect();
            let fitting = most.count_fitting(earlier.iter().rev().map(weight));
            let skip = earlier.len() - fitting;
            Ok(earlier.into_iter().skip(skip).collect())
        })
    }

    fn transcript(
        &self,
        session: &SessionId,
        number: Option<u64>,
    ) -> BoxFuture<'_, Result<Transcript, StoreError>> {
        self.read_of(session, move |state, session| {
            let all = state.transcripts.get(session).cloned().unwrap_or_default();
            let number = number.unwrap_or(u64::try_from(all.len()).unwrap());
            let messages = number.checked_sub(1).and_then(|at| all.get(usize::try_from(at).ok()?));
            let none = || StoreError::NoTranscript { session: session.to_string(), number };
            Ok(Transcript { number, messages: messages.cloned().ok_or_else(none)? })
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
            let owner = state.by_id(&new.session).map(|session| session.owner.clone());
            if let Some(run) = state.find_run(owner.as_deref(), &new.id) {
                return Ok(BeginRunOutcome::AlreadyStarted(run));
            }
            let claim = match state.claim(&new.session, &new.node, None)? {
                ClaimOutcome::Claimed(claim) => claim,
                ClaimOutcome::Held(claim) => return Ok(BeginRunOutcome::Held(claim)),
            };
            if state.unfinished(&new.session).next().is_none() {
                state.mark_completed(&new.session);
            }
            let run = RunRecord {
                id: new.id,
                session: new.session.clone(),
                node: new.node,
                started_ms: new.started_ms,
                ended_ms: None,
                end: None,
                usage: TokenUsage::default(),
                options: new.options,
                has_open_question: false,
            };
            state.runs.push(run);
            let id = state.runs.last().map(|run| run.id.clone());
            let words = new.first.iter().find_map(|event| match &event.kind {
                EventKind::Prompt { text, .. } => Some(text.clone()),
                _ => None,
            });
            let events = state.append(&new.session, new.first);
            if let Some(words) = words {
                let points = state.points.entry(new.session.clone()).or_default();
                let prompts = points.iter().filter(|(run, _)| run.is_some()).count();
                let number = u64::try_from(prompts).unwrap() + 1;
                let point = RewindPoint {
                    seq: events[0].seq,
                    time_ms: new.started_ms,
                    kind: RewindPointKind::Prompt { number, words },
                    position: None,
                };
                points.push((id, point));
                state.set_position(&new.session);
            }
            Ok(BeginRunOutcome::Started { events, claim })
        })
    }

    fn end_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        end: RunOutcome,
        usage: TokenUsage,
        last: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Option<Vec<Event>>, StoreError>> {
        let run = run.clone();
        self.write("end a run", move |state| {
            let RunAddress { session, run } = run;
            if state.unfinished(&session).all(|known| known.id != run) {
                return Ok(None);
            }
            state.check(&session, claim)?;
            if state.unfinished(&session).next().is_some_and(|oldest| oldest.id == run) {
                state.mark_completed(&session);
            }
            let is_it = |known: &&mut RunRecord| known.session == session && known.id == run;
            let record = state.runs.iter_mut().find(is_it).unwrap();
            record.end = Some(end);
            record.ended_ms = Some(last.last().map_or_else(now_ms, |event| event.time_ms));
            record.usage = usage;
            state.set_position(&session);
            if let Some(session) = state.by_id(&session) {
                session.usage += usage;
            }
            Ok(Some(state.append(&session, last)))
        })
    }

    fn run(&self, run: &RunAddress) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let run = run.clone();
        self.read(move |state| state.runs.iter().find(|known| known.address() == run).cloned())
    }

    fn find_run(
        &self,
        owner: Option<&str>,
        run: &RunId,
    ) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let (owner, run) = (owner.map(str::to_owned), run.clone());
        self.read(move |state| state.find_run(owner.as_deref(), &run))
    }

    fn unfinished_runs(
        &self,
        session: Option<&SessionId>,
    ) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        let session = session.cloned();
        let is_of = move |run: &&RunRecord| session.as_ref().is_none_or(|it| run.session == *it);
        self.read(move |state| {
            let open = state.runs.iter().filter(|run| run.end.is_none());
            let mut open: Vec<RunRecord> = open.filter(is_of).cloned().collect();
            open.sort_by_key(|run| run.started_ms);
            open
        })
    }

    fn rewind_points(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<RewindPoint>, StoreError>> {
        self.read_of(session, |state, session| {
            let points = state.points.get(session).into_iter().flatten();
            Ok(points.map(|(_, point)| point.clone()).collect())
        })
    }

    fn rewind(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        position: Option<TranscriptPosition>,
        entry: NewEvent,
    ) -> BoxFuture<'_, Result<Event, StoreError>> {
        let session = session.clone();
        self.write("rewind", move |state| {
            state.check(&session, claim)?;
            let kind = entry.rewind().ok_or_else(NewEvent::not_a_rewind)?;
            let now = state.position(&session);
            if let Some(TranscriptPosition { transcript, messages }) = position {
                let all = state.transcripts.get_mut(&session).unwrap();
                let at = usize::try_from(transcript).unwrap() - 1;
                let Some(mut kept) = all.get(at).cloned() else {
                    let (session, number) = (session.to_string(), transcript);
                    return Err(StoreError::NoTranscript { session, number });
                };
                kept.truncate(usize::try_from(messages).unwrap());
                all.push(kept);
                let number = u64::try_from(all.len()).unwrap();
                let record = state.by_id(&session).unwrap();
                (record.transcript, record.context_tokens) = (number, None);
            }
            let event = state.append(&session, vec![entry]).remove(0);
            let point =
                RewindPoint { seq: event.seq, time_ms: event.time_ms, kind, position: Some(now) };
            state.points.entry(session.clone()).or_default().push((None, point));
            Ok(event)
        })
    }

    fn open_questions(
        &self,
        scope: QuestionScope<'_>,
    ) -> BoxFuture<'_, Result<Vec<OpenQuestion>, StoreError>> {
        let (session, owner) = (scope.session().cloned(), scope.owner().map(str::to_owned));
        self.read(move |state| {
            let owner_of = |id: &SessionId| {
                let record = state.sessions.iter().find(|record| record.id == *id);
                record.map(|record| record.owner.clone()).unwrap_or_default()
            };
            let is_of = |it: &&OpenQuestion| {
                session.as_ref().is_none_or(|session| it.session == *session)
                    && owner.as_ref().is_none_or(|owner| owner_of(&it.session) == *owner)
            };
            let mut counts = std::collections::HashMap::<String, usize>::new();
            let has_room = |it: &&OpenQuestion| {
                let count = counts.entry(owner_of(&it.session)).or_default();
                *count += 1;
                *count <= OpenQuestion::OWNER_LIST_MAX
            };
            state.questions.iter().filter(is_of).filter(has_room).cloned().collect()
        })
    }

    fn open_question(&self, id: &str) -> BoxFuture<'_, Result<Option<OpenQuestion>, StoreError>> {
        let id = id.to_owned();
        self.read(move |state| {
            state.questions.iter().find(|question| question.content.id() == id).cloned()
        })
    }

    fn release_claim(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write("release a session", move |state| {
            state.check(&session, claim)?;
            state.claims.get_mut(&session).unwrap().node.clear();
            for run in state.runs.iter_mut().filter(|run| run.session == session) {
                if run.end.is_none() {
                    run.node.clear();
                }
            }
            Ok(())
        })
    }

    fn adopt_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, node) = (run.clone(), node.to_owned());
        self.write("continue a run", move |state| {
            let Some(at) = state.runs.iter().position(|known| known.address() == run) else {
                return Ok(());
            };
            let session = state.runs[at].session.clone();
            state.check(&session, claim)?;
            if state.runs[at].end.is_none() {
                state.runs[at].node = node;
            }
            Ok(())
        })
    }

    fn run_usages(&self, query: RunUsageQuery) -> BoxFuture<'_, Result<Vec<RunUsage>, StoreError>> {
        self.read(move |state| {
            let found = state.usages.iter().filter(|usage| query.matches(usage));
            let mut found: Vec<RunUsage> = found.cloned().collect();
            found.sort_by(|a, b| {
                let order =
                    |it: &RunUsage| (it.started_ms, it.run.to_string(), it.session.to_string());
                order(a).cmp(&order(b))
            });
            found.truncate(RunUsageQuery::PAGE_MAX);
            found
        })
    }

    fn usage_total(
        &self,
        query: RunUsageQuery,
        except: Option<RunAddress>,
    ) -> BoxFuture<'_, Result<UsageTotal, StoreError>> {
        self.read(move |state| {
            let mut total = UsageTotal::default();
            let found = state.usages.iter().filter(|usage| query.matches(usage));
            let others = found.filter(|usage| except.as_ref() != Some(&usage.address()));
            others.for_each(|usage| total.add(usage));
            total
        })
    }

    fn grants(&self, session: &SessionId) -> BoxFuture<'_, Result<Vec<GrantRecord>, StoreError>> {
        self.read_of(session, |state, session| {
            Ok(state.grants.get(session).cloned().unwrap_or_default())
        })
    }

    fn set_grants(
        &self,
        session: &SessionId,
        grants: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        self.write("keep grants", move |state| {
            state.require(&session)?;
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
            state.require(&session)?;
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
        self.read_of(session, |state, session| Ok(state.size(session)))
    }
}

/// Whether a query selects a session.
fn is_match(record: &SessionRecord, query: &SessionQuery) -> bool {
    let fold = |text: &str| -> String {
        text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
    };
    let is_named = |search: &String| {
        let texts = [Some(record.key.as_str()), record.label.as_deref(), record.title.as_deref()];
        let is_long = search.chars().count() > SessionQuery::SEARCH_CHARS_MAX;
        !is_long && texts.into_iter().flatten().any(|text| fold(text).contains(&fold(search)))
    };
    query.search.as_ref().is_none_or(is_named)
        && query.label.as_ref().is_none_or(|label| record.label.as_ref() == Some(label))
        && query.agent.as_ref().is_none_or(|agent| record.agent == *agent)
        && query.owner.as_ref().is_none_or(|owner| record.owner == *owner)
        && query.updated_since_ms.is_none_or(|since| record.updated_ms >= since)
        && record.parent == query.parent
        && query.cwd.as_ref().is_none_or(|cwd| record.cwd.as_ref() == Some(cwd))
}

/// The same with another id in its texts.
fn rename<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T, old: &str, new: &str) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap().replace(old, new)).unwrap()
}

/// Size of an entry in a ledger.
fn weight(event: &Event) -> usize {
    serde_json::to_string(&event.kind).unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mem_store_passes_conformance() {
    store_conformance::check_store(|| async { Arc::new(MemStore::default()) as Arc<dyn Store> })
        .await;
}
