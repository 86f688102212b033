//! How a prompt becomes a run, how runs are stopped, and how others wait for them.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zero_core::{RunId, SessionId};

use crate::agent::AgentProfile;
use crate::direct_model::is_direct;
use crate::event::{EventKind, RunOutcome, TokenUsage};
use crate::key::SessionKey;
use crate::model::ModelClient;
use crate::sessions::ledger_outbox::LedgerOutbox;
use crate::sessions::ledger_recorder::{entry, now_ms};
use crate::sessions::run_driver::RunCompletion;
use crate::sessions::session_state::{
    ActiveRun, QueuedPrompt, SessionState, WorkerPresence, all_done,
};
use crate::sessions::{
    Prompt, SendOutcome, SessionError, SessionManagerInner, SlashHandling, interrupted_runs,
    prompts, session_worker,
};
use crate::slash_commands;
use crate::store::{BeginRunOutcome, NewRun, RunRecord, SessionPatch, SessionRecord};

/// How long runs have to be settled that were stopped for good.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a run of another process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl SessionManagerInner {
    pub(super) async fn send(
        self: &Arc<Self>,
        key: &SessionKey,
        run: RunId,
        prompt: Prompt,
    ) -> Result<SendOutcome, SessionError> {
        prompts::check(&prompt, &self.config.limits)?;
        let record = self.found(key).await?;
        let agent = self.agent(&record.agent)?;
        let desk = self.desk(&record.id);
        let _order = desk.sending.lock().await;
        if let Some(before) = self.config.store.run(&run).await? {
            return sent_before(before, &record.id);
        }
        self.check_reach(&record, &prompt.reach)?;
        self.check_model_for(record.model.as_deref(), agent, &prompt)?;
        self.check_room(&record.id).await?;
        self.clear_the_way(&record.id).await?;
        let (waiting, at_work) = desk.load();
        if waiting >= self.config.limits.queued_max {
            return Err(SessionError::Busy(format!(
                "{waiting} prompts wait in this session already; wait for one to end, or abort some"
            )));
        }
        let Some(active) = self.activate(&run, &record)? else { return Ok(SendOutcome::InFlight) };
        let first = first_entries(&run, &prompt, waiting.saturating_add(at_work));
        let new = NewRun {
            id: run.clone(),
            session: record.id.clone(),
            node: self.config.nodes.name().to_owned(),
            started_ms: now_ms(),
            first,
        };
        match desk.recorder.begin(new).await {
            Ok(BeginRunOutcome::Now(_)) => {}
            Ok(BeginRunOutcome::Before(before)) => {
                self.deactivate(&active);
                return sent_before(before, &record.id);
            }
            Err(error) => {
                self.deactivate(&active);
                return Err(error.into());
            }
        }
        self.give_title(&desk, &record, agent, &prompt).await;
        if desk.push(QueuedPrompt { prompt, active }) == WorkerPresence::Needed {
            let closing = self.closing.clone();
            tokio::spawn(session_worker::work(Arc::downgrade(self), Arc::clone(&desk), closing));
        }
        Ok(SendOutcome::Started)
    }

    /// Settles what other processes left in a session and are gone. Two at work in one session would
    /// mix up its transcript, so that one waits for the other.
    pub(super) async fn clear_the_way(&self, session: &SessionId) -> Result<(), SessionError> {
        let (store, nodes) = (&self.config.store, &self.config.nodes);
        let of_others = |run: &RunRecord| run.node != nodes.name();
        for run in store.unsettled_runs(Some(session)).await?.into_iter().filter(of_others) {
            if nodes.is_alive(&run.node) {
                return Err(SessionError::Busy(
                    "another process of zero is at work in this session; wait for its end, or use another session"
                        .to_owned(),
                ));
            }
            interrupted_runs::interrupted(&**store, &self.recorder(session), &run).await?;
        }
        Ok(())
    }

    /// Notes that a run is under way; nothing when it is already. What is noted here is waited for
    /// when zero shuts down.
    fn activate(
        &self,
        run: &RunId,
        record: &SessionRecord,
    ) -> Result<Option<Arc<ActiveRun>>, SessionError> {
        let active = ActiveRun::new(run.clone(), record.id.clone(), record.owner.clone());
        match self.active().entry(run.clone()) {
            Entry::Occupied(there) if there.get().session == record.id => return Ok(None),
            Entry::Occupied(_) => return Err(elsewhere(run)),
            Entry::Vacant(free) => {
                free.insert(Arc::clone(&active));
            }
        }
        if self.closing.is_cancelled() {
            self.deactivate(&active);
            return Err(SessionError::ShuttingDown);
        }
        Ok(Some(active))
    }

    fn deactivate(&self, active: &ActiveRun) {
        self.active().remove(&active.run);
        active.done.cancel();
    }

    /// What [`Self::send`] refuses, as far as it is known before there is a session.
    pub(super) fn would_take(&self, key: &SessionKey, prompt: &Prompt) -> Result<(), SessionError> {
        prompts::check(prompt, &self.config.limits)?;
        self.check_model_for(None, self.agent(key.agent())?, prompt)
    }

    /// A session that is full takes no more prompts, and its runs do not go on.
    pub(super) async fn check_room(&self, session: &SessionId) -> Result<(), SessionError> {
        let (store, most) = (&self.config.store, self.config.limits.session_bytes_max);
        let bytes = store.size(session).await?;
        if bytes < most {
            return Ok(());
        }
        let record = store.session_by_id(session).await?;
        let named = record.map_or_else(|| session.to_string(), |record| record.key.to_string());
        Err(SessionError::Full(format!(
            "this session takes {bytes} bytes, and {most} are the most; go on in a new session, and remove this one with `zero sessions delete {named}`"
        )))
    }

    /// Whether the model that is chosen is there and takes what comes with the prompt.
    fn check_model_for(
        &self,
        chosen: Option<&str>,
        agent: &AgentProfile,
        prompt: &Prompt,
    ) -> Result<(), SessionError> {
        // A command may be what chooses another model, so only what needs a model asks for one.
        let is_command = prompt.reading == SlashHandling::Commands && prompt.text.starts_with('/');
        if is_command && prompt.attachments.is_empty() {
            return Ok(());
        }
        let model = self.config.models.get(chosen.or(agent.model.as_deref()))?;
        let info = model.info();
        if prompt.attachments.is_empty() || info.takes_images {
            return Ok(());
        }
        Err(SessionError::Invalid(format!(
            "the model `{}` takes no pictures; send the message without them, or choose another model",
            info.name
        )))
    }

    /// The model that answers in a session.
    pub(super) fn model(
        &self,
        record: &SessionRecord,
        agent: &AgentProfile,
    ) -> Result<Arc<dyn ModelClient>, SessionError> {
        let name = record.model.as_deref().or(agent.model.as_deref());
        Ok(self.config.models.get(name)?)
    }

    async fn give_title(
        &self,
        desk: &SessionState,
        record: &SessionRecord,
        agent: &AgentProfile,
        prompt: &Prompt,
    ) {
        if record.title.is_some() {
            return;
        }
        // A command says nothing of what the session is about, except where all are commands.
        let direct = self.model(record, agent).is_ok_and(|model| is_direct(model.as_ref()));
        let is_command = || slash_commands::parse(&prompt.text, &[], direct).is_some();
        if prompt.reading == SlashHandling::Commands && is_command() {
            return;
        }
        let Some(title) = prompts::title(&prompt.text) else { return };
        let patch = SessionPatch { title: Some(Some(title.clone())), ..SessionPatch::default() };
        let shown = EventKind::Changed { field: "title".to_owned(), value: Some(title) };
        let titled = match self.config.store.patch(&record.key, patch).await {
            Ok(_) => desk.recorder.write(vec![entry(None, shown)]).await,
            Err(error) => Err(error),
        };
        if let Err(error) = titled {
            tracing::warn!(session = %record.id, %error, "the session has no title");
        }
    }

    /// Stops the run at work and settles those that wait: of one id, or all. Returns at once.
    pub(super) fn stop(
        self: &Arc<Self>,
        desk: &Arc<SessionState>,
        run: Option<&RunId>,
        end: &RunOutcome,
    ) -> Vec<Arc<ActiveRun>> {
        let mut stopped = Vec::new();
        for QueuedPrompt { active, .. } in desk.take_waiting(run) {
            let (inner, desk) = (Arc::clone(self), Arc::clone(desk));
            let (job, end) = (Arc::clone(&active), end.clone());
            tokio::spawn(async move {
                let outbox = LedgerOutbox::new(desk.recorder.clone(), job.run.clone());
                inner
                    .settle(
                        &desk,
                        &job,
                        RunCompletion { end, usage: TokenUsage::default() },
                        outbox,
                    )
                    .await;
            });
            stopped.push(active);
        }
        // The one at work, and one that is on its way into the queue.
        for active in self.active_in(desk.recorder.session()) {
            let taken = stopped.iter().any(|stopped| stopped.run == active.run);
            let wanted = run.is_none_or(|run| *run == active.run);
            if wanted && !taken && !active.is_over() {
                active.stop(end.clone());
                stopped.push(active);
            }
        }
        stopped
    }

    /// Runs of a session that are not settled yet.
    pub(super) fn active_in(&self, session: &SessionId) -> Vec<Arc<ActiveRun>> {
        let active = self.active();
        active.values().filter(|active| active.session == *session).cloned().collect()
    }

    pub(super) async fn wait(
        &self,
        run: &RunId,
        most: Duration,
    ) -> Result<Option<RunRecord>, SessionError> {
        let store = &self.config.store;
        let until = Instant::now().checked_add(most);
        loop {
            // Looked up before the store, so that an end in between is not missed.
            let active = self.active().get(run).cloned();
            let Some(record) = store.run(run).await? else { return Ok(None) };
            let left = until.map_or(most, |until| until.saturating_duration_since(Instant::now()));
            if record.end.is_some() || left.is_zero() {
                return Ok(Some(record));
            }
            match active {
                // Either is a reason to look again.
                Some(active) => {
                    let _ = tokio::time::timeout(left, active.done.cancelled()).await;
                }
                None => tokio::time::sleep(left.min(LOOK_EVERY)).await,
            }
        }
    }

    pub(super) async fn shut_down(self: &Arc<Self>, grace: Duration) {
        self.closing.cancel();
        let end = RunOutcome::Aborted { by: "shutdown".to_owned() };
        let desks: Vec<Arc<SessionState>> = self.desks().values().cloned().collect();
        for desk in &desks {
            // What waits would only begin to be stopped.
            for QueuedPrompt { active, .. } in desk.take_waiting(None) {
                let outbox = LedgerOutbox::new(desk.recorder.clone(), active.run.clone());
                let ended = RunCompletion { end: end.clone(), usage: TokenUsage::default() };
                self.settle(desk, &active, ended, outbox).await;
            }
        }
        let all = || self.active().values().cloned().collect::<Vec<_>>();
        if all_done(all(), grace).await.is_err() {
            for active in all() {
                active.stop(end.clone());
            }
            if all_done(all(), SETTLE_TIMEOUT).await.is_err() {
                tracing::error!("some runs could not be settled; the next start does it");
            }
        }
        for desk in desks {
            desk.drop_hands().await;
        }
    }
}

/// What is known of a prompt that was sent before.
fn sent_before(run: RunRecord, session: &SessionId) -> Result<SendOutcome, SessionError> {
    if run.session != *session {
        return Err(elsewhere(&run.id));
    }
    Ok(if run.end.is_some() { SendOutcome::Ended(run) } else { SendOutcome::InFlight })
}

fn elsewhere(run: &RunId) -> SessionError {
    SessionError::Invalid(format!(
        "the run `{run}` belongs to another session; choose a new idempotency key"
    ))
}

fn first_entries(run: &RunId, prompt: &Prompt, before: usize) -> Vec<crate::store::NewEvent> {
    let said =
        EventKind::Prompt { text: prompt.text.clone(), attachments: prompt.attachments.clone() };
    let mut first = vec![entry(Some(run), said)];
    if before > 0 {
        let others = if before == 1 { "one other".to_owned() } else { format!("{before} others") };
        let text = format!("waits for {others} in this session");
        let notice = EventKind::Notice { topic: "queued".to_owned(), text };
        first.push(entry(Some(run), notice));
    }
    first
}
