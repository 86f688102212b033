//! Turns prompts into runs, stops runs, and waits for their end.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;
use zero_runtime::tool_backend::FolderAccess;

use crate::agent::AgentProfile;
use crate::cluster_node::ClusterNode;
use crate::direct_model::is_direct;
use crate::event::{EventKind, RunOutcome, TokenUsage};
use crate::key::{SessionAddress, SessionKey};
use crate::model::ModelClient;
use crate::sessions::ledger_outbox::LedgerOutbox;
use crate::sessions::ledger_recorder::{LedgerRecorder, new_event};
use crate::sessions::recorded_prompt::{self, RecordedPrompt};
use crate::sessions::run_driver::RunCompletion;
use crate::sessions::session_state::{
    ActiveRun, QueuedPrompt, SessionState, WorkerPresence, wait_until_finished,
};
use crate::sessions::subagent_run::SubagentRun;
use crate::sessions::{
    Prompt, PromptAuthority, PromptPrecedence, SendOutcome, SessionError, SessionManagerInner,
    SlashHandling, prompts, session_worker,
};
use crate::slash_commands;
use crate::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, NewRun, RunAddress, RunFolders, RunOptions,
    RunRecord, SessionPatch, SessionRecord, StoreError,
};

/// Time limit for stopped runs to be recorded during shutdown.
const FINISH_TIMEOUT: Duration = Duration::from_secs(20);
/// How often to try to take over the session of a dead process.
const CLAIM_ATTEMPTS_MAX: u32 = 3;
/// Interval at which a run of another process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

impl SessionManagerInner {
    pub(super) async fn send(
        self: &Arc<Self>,
        address: &SessionAddress,
        run: RunId,
        prompt: Prompt,
        subagent: Option<Arc<SubagentRun>>,
    ) -> Result<SendOutcome, SessionError> {
        prompts::validate(&prompt, &self.config.limits)?;
        let record = self.require_session(address).await?;
        let agent = match &subagent {
            Some(subagent) => &subagent.profile,
            None => self.find_agent(&record.agent)?,
        };
        if subagent.is_none() && record.parent.is_some() {
            self.check_not_parked(address).await?;
        }
        let state = self.session_state(&record.id);
        let _order = state.sending.lock().await;
        if let Some(before) = self.config.store.find_run(Some(&record.owner), &run).await? {
            let is_lost_begin = self.is_lost_begin(&state, &before);
            let known = self.existing_run_outcome(&state.recorder, before, &prompt).await?;
            if !(is_lost_begin && matches!(known, SendOutcome::InFlight)) {
                return Ok(known);
            }
        }
        self.check_place(&record).await?;
        self.check_folder_access(&record, &prompt.folder_access)?;
        self.check_prompt_model(record.model.as_deref(), agent, &prompt)?;
        self.check_session_size(&record.id, &record.owner).await?;
        let (waiting, at_work) = state.queue_load();
        if waiting >= self.config.limits.queued_max {
            return Err(SessionError::Busy(format!(
                "{waiting} prompts wait in this session already; wait for one to end, or abort some"
            )));
        }
        let Some(active) = self.register_run(&run, &record, subagent.clone())? else {
            return Ok(SendOutcome::InFlight);
        };
        let new = NewRun {
            id: run.clone(),
            session: record.id.clone(),
            node: self.config.nodes.local_name().to_owned(),
            started_ms: now_ms(),
            options: self.run_options(&prompt),
            first: initial_events(&run, &prompt, waiting, at_work),
        };
        match self.begin_run(&state, new, &prompt).await {
            Ok(BeginRunOutcome::Started { .. }) => {
                self.counted.claims.fetch_add(1, Ordering::Relaxed);
            }
            Ok(BeginRunOutcome::AlreadyStarted(before)) => {
                self.unregister_run(&active);
                return self.existing_run_outcome(&state.recorder, before, &prompt).await;
            }
            Ok(BeginRunOutcome::Held(holder)) => {
                self.unregister_run(&active);
                return Err(self.held_error(holder.node));
            }
            Err(error) => {
                self.unregister_run(&active);
                return Err(error);
            }
        }
        self.set_title(&state, &record, agent, &prompt).await;
        let precedence = prompt.precedence;
        let job = QueuedPrompt { prompt, active, resumed: None };
        match precedence {
            PromptPrecedence::Last => {
                let presence = state.enqueue(job);
                self.ensure_worker(&state, presence);
            }
            PromptPrecedence::Steering { by } => {
                let (presence, answering) = state.enqueue_steering(job);
                if let Some(answering) = answering {
                    let end = RunOutcome::Aborted { by: by.to_owned() };
                    self.stop_runs(&state, Some(&answering), &end);
                }
                self.ensure_worker(&state, presence);
            }
        }
        Ok(SendOutcome::Started)
    }

    /// What a prompt sets for its run, and what another machine needs to continue it.
    fn run_options(&self, prompt: &Prompt) -> RunOptions {
        let options = run_options(prompt);
        match self.config.nodes.cluster() {
            None => options,
            Some(_) => RunOptions {
                folders: Some(run_folders(&prompt.folder_access)),
                is_verbatim: prompt.reading == SlashHandling::Verbatim,
                can_approve: prompt.leave == PromptAuthority::CanApprove,
                ..options
            },
        }
    }

    /// Starts the worker of a session if there is none.
    pub(super) fn ensure_worker(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        presence: WorkerPresence,
    ) {
        if presence == WorkerPresence::Needed {
            let (inner, closing) = (Arc::downgrade(self), self.closing.clone());
            tokio::spawn(session_worker::run_worker(inner, Arc::clone(state), closing));
        }
    }

    /// The result for a prompt that was sent before. A run of a dead process is ended first: no
    /// process works on it, so it must not be reported as active.
    async fn existing_run_outcome(
        self: &Arc<Self>,
        recorder: &LedgerRecorder,
        mut run: RunRecord,
        prompt: &Prompt,
    ) -> Result<SendOutcome, SessionError> {
        let (store, nodes) = (&self.config.store, &self.config.nodes);
        if run.session != *recorder.session() {
            return Err(SessionError::RunIdTaken(run.id.clone()));
        }
        let recorded = recorded_prompt::find_prompt(&**store, &run.session, &run.id).await?;
        let is_other = |known: RecordedPrompt| {
            known.text != prompt.text || known.attachments != prompt.attachments
        };
        if recorded.is_some_and(is_other) {
            return Err(SessionError::RunIdTaken(run.id));
        }
        // A parked run has no process and can continue, and so can one that another machine
        // continues.
        if nodes.cluster().is_none()
            && run.end.is_none()
            && !run.has_open_question
            && !nodes.is_alive(&run.node).await
        {
            self.claim_session(recorder).await?;
            run = store.run(&run.address()).await?.unwrap_or(run);
        }
        Ok(if run.end.is_some() { SendOutcome::Ended(run) } else { SendOutcome::InFlight })
    }

    /// Whether this process has begun the run without being told, so that nothing works on it.
    fn is_lost_begin(&self, state: &SessionState, run: &RunRecord) -> bool {
        self.config.nodes.cluster().is_none()
            && !run.has_open_question
            && state.recorder.is_lost_begin(run, self.config.nodes.local_name())
            && !self.lock_active_runs().contains_key(&run.address())
    }

    /// Begins a run, and claims its session with it. The session of a dead process is taken over; a
    /// run that is parked in it comes first.
    async fn begin_run(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        new: NewRun,
        prompt: &Prompt,
    ) -> Result<BeginRunOutcome, SessionError> {
        match state.recorder.begin_run(new.clone()).await? {
            BeginRunOutcome::Held(_) => {
                self.resume_parked_run(state, &prompt.folder_access).await?;
                let (waiting, at_work) = state.queue_load();
                let first = initial_events(&new.id, prompt, waiting, at_work);
                Ok(state.recorder.begin_run(NewRun { first, ..new }).await?)
            }
            begun => Ok(begun),
        }
    }

    /// Claims a session and ends the runs that a dead process left in it. Fails with
    /// [`SessionError::Busy`] if a live process has runs there, since two concurrent runs would mix
    /// up the transcript.
    pub(super) async fn claim_session(
        self: &Arc<Self>,
        recorder: &LedgerRecorder,
    ) -> Result<ClaimEpoch, SessionError> {
        let claim = self.take_claim(recorder).await?;
        self.finish_interrupted_runs(recorder, claim).await?;
        Ok(claim)
    }

    /// Like [`Self::claim_session`], for a session that is deleted next: its runs may be damaged.
    pub(super) async fn claim_for_deletion(
        self: &Arc<Self>,
        recorder: &LedgerRecorder,
    ) -> Result<ClaimEpoch, SessionError> {
        let claim = self.take_claim(recorder).await?;
        match self.finish_interrupted_runs(recorder, claim).await {
            Err(SessionError::Store(StoreError::Damaged { .. })) => Ok(claim),
            finished => finished.map(|()| claim),
        }
    }

    pub(super) async fn take_claim(
        &self,
        recorder: &LedgerRecorder,
    ) -> Result<ClaimEpoch, SessionError> {
        let nodes = &self.config.nodes;
        let (mut dead, mut node) = (None, String::new());
        // Another process may be faster each time.
        for _ in 0..CLAIM_ATTEMPTS_MAX {
            let holder = match recorder.claim(nodes.local_name(), dead).await? {
                ClaimOutcome::Claimed(claim) => {
                    self.counted.claims.fetch_add(1, Ordering::Relaxed);
                    return Ok(claim);
                }
                ClaimOutcome::Held(holder) => holder,
            };
            dead = Some(holder.epoch);
            node = holder.node;
            if nodes.is_alive(&node).await {
                break;
            }
        }
        Err(self.held_error(node))
    }

    /// Why a session cannot be claimed: another process is at work in it.
    fn held_error(&self, node: String) -> SessionError {
        match self.config.nodes.cluster() {
            // A session that was handed over has no holder until a process takes it over.
            Some(_) if !node.is_empty() => SessionError::Elsewhere { node },
            _ => SessionError::Busy(
                "another process of zero is at work in this session; wait for its end, or use another session"
                    .to_owned(),
            ),
        }
    }

    /// Ends the runs that dead processes left in a session.
    async fn finish_interrupted_runs(
        self: &Arc<Self>,
        recorder: &LedgerRecorder,
        claim: ClaimEpoch,
    ) -> Result<(), SessionError> {
        let of_others = |run: &RunRecord| run.node != self.config.nodes.local_name();
        let unfinished = self.config.store.unfinished_runs(Some(recorder.session())).await?;
        for run in unfinished.into_iter().filter(of_others) {
            let end = RunOutcome::Interrupted;
            self.finish_interrupted_run(recorder, claim, &run, end).await?;
        }
        Ok(())
    }

    /// Registers a run; `None` if it is already registered. Shutdown waits for registered runs.
    pub(super) fn register_run(
        &self,
        run: &RunId,
        record: &SessionRecord,
        subagent: Option<Arc<SubagentRun>>,
    ) -> Result<Option<Arc<ActiveRun>>, SessionError> {
        let active = ActiveRun::new(run.clone(), record.id.clone(), record.owner.clone(), subagent);
        match self.lock_active_runs().entry(active.address()) {
            Entry::Occupied(_) => return Ok(None),
            Entry::Vacant(free) => {
                free.insert(Arc::clone(&active));
            }
        }
        if self.closing.is_cancelled() {
            self.unregister_run(&active);
            return Err(SessionError::ShuttingDown);
        }
        Ok(Some(active))
    }

    pub(super) fn unregister_run(&self, active: &ActiveRun) {
        self.lock_active_runs().remove(&active.address());
        active.done.cancel();
    }

    /// The checks of [`Self::send`] that need no session.
    pub(super) fn check_prompt(
        &self,
        key: &SessionKey,
        prompt: &Prompt,
    ) -> Result<(), SessionError> {
        prompts::validate(prompt, &self.config.limits)?;
        self.check_prompt_model(None, self.find_agent(key.agent())?, prompt)
    }

    /// Checks the limits on the size of a session and of all sessions of its owner. A full one accepts
    /// no prompts, and its runs end.
    pub(super) async fn check_session_size(
        &self,
        session: &SessionId,
        owner: &str,
    ) -> Result<(), SessionError> {
        let (store, limits) = (&self.config.store, &self.config.limits);
        let (bytes, most) = (store.size(session).await?, limits.session_bytes_max);
        if bytes < most {
            let most = limits.owner_bytes_max;
            return match self.owner_sizes.excess(&**store, owner, most).await? {
                Some(bytes) => Err(SessionError::Full(format!(
                    "your sessions take {bytes} bytes together, and {most} are the most; remove old ones with `zero prune --days 90`, single ones with `zero sessions delete`, or raise `gateway.maxOwnerBytes` in the settings"
                ))),
                None => Ok(()),
            };
        }
        let record = store.session_by_id(session).await?;
        let named = record.map_or_else(|| session.to_string(), |record| record.key.to_string());
        Err(SessionError::Full(format!(
            "this session takes {bytes} bytes, and {most} are the most; go on in a new session, and remove this one with `zero sessions delete {named}`"
        )))
    }

    /// Checks that the selected model exists, and that there is one for the attachments.
    fn check_prompt_model(
        &self,
        chosen: Option<&str>,
        agent: &AgentProfile,
        prompt: &Prompt,
    ) -> Result<(), SessionError> {
        // A command may select another model, so only prompts for the model require one.
        let is_command = prompt.reading == SlashHandling::Commands && prompt.text.starts_with('/');
        if is_command && prompt.attachments.is_empty() {
            return Ok(());
        }
        let model = self.config.models.get(chosen.or(agent.model.as_deref()))?;
        // A model that sees no images gets a text in their place, and the user a notice. Without a
        // model, images are refused.
        if prompt.attachments.is_empty() || !is_direct(&*model) {
            return Ok(());
        }
        Err(SessionError::Invalid(format!(
            "the model `{}` does not accept images; send the message without them, or choose another model",
            model.info().name
        )))
    }

    /// The model of a session.
    pub(super) fn model_for(
        &self,
        record: &SessionRecord,
        agent: &AgentProfile,
    ) -> Result<Arc<dyn ModelClient>, SessionError> {
        self.model_from(record, agent, None)
    }

    /// Like [`Self::model_for`], for a run that may have fallen back to the model `current`.
    pub(super) fn model_from(
        &self,
        record: &SessionRecord,
        agent: &AgentProfile,
        current: Option<&str>,
    ) -> Result<Arc<dyn ModelClient>, SessionError> {
        let name = record.model.as_deref().or(agent.model.as_deref());
        let fallback = agent.fallback.as_deref();
        Ok(self.config.models.get_with_fallback(name, fallback, current)?)
    }

    async fn set_title(
        &self,
        state: &SessionState,
        record: &SessionRecord,
        agent: &AgentProfile,
        prompt: &Prompt,
    ) {
        if record.title.is_some() {
            return;
        }
        // A command does not describe the topic of a session, unless all prompts are commands.
        let direct = self.model_for(record, agent).is_ok_and(|model| is_direct(model.as_ref()));
        let is_command = || slash_commands::parse(&prompt.text, &[], direct).is_some();
        if prompt.reading == SlashHandling::Commands && is_command() {
            return;
        }
        let Some(title) = prompts::make_title(&prompt.text) else { return };
        let patch = SessionPatch { title: Some(Some(title.clone())), ..SessionPatch::default() };
        let shown = EventKind::Changed { field: "title".to_owned(), value: Some(title) };
        let titled = match self.config.store.patch(&record.address(), patch).await {
            Ok(_) => state.recorder.write(vec![new_event(None, shown)]).await,
            Err(error) => Err(error),
        };
        if let Err(error) = titled {
            tracing::warn!(session = %record.id, %error, "the session has no title");
        }
    }

    /// Stops the active run and ends queued ones: the one with the id, or all. Returns immediately.
    pub(super) fn stop_runs(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        run: Option<&RunId>,
        end: &RunOutcome,
    ) -> Vec<Arc<ActiveRun>> {
        let mut stopped = Vec::new();
        for QueuedPrompt { active, resumed, .. } in state.take_queued(run) {
            let (inner, state) = (Arc::clone(self), Arc::clone(state));
            let (job, end) = (Arc::clone(&active), end.clone());
            tokio::spawn(async move {
                if resumed.is_some() {
                    return inner.end_unstarted_resumption(&state, &job, end).await;
                }
                let outbox =
                    LedgerOutbox::new(state.recorder.clone(), job.run.clone(), &inner.config.nodes);
                inner
                    .finish_run(
                        &state,
                        &job,
                        RunCompletion::new(end, TokenUsage::default()),
                        outbox,
                    )
                    .await;
            });
            stopped.push(active);
        }
        // The active run, and one that is being queued.
        for active in self.active_runs_in(state.recorder.session()) {
            let taken = stopped.iter().any(|stopped| stopped.run == active.run);
            let wanted = run.is_none_or(|run| *run == active.run);
            if wanted && !taken && !active.is_over() {
                active.stop(end.clone());
                stopped.push(active);
            }
        }
        stopped
    }

    /// Runs of a session that have not ended.
    pub(super) fn active_runs_in(&self, session: &SessionId) -> Vec<Arc<ActiveRun>> {
        let active = self.lock_active_runs();
        active.values().filter(|active| active.session == *session).cloned().collect()
    }

    pub(super) async fn wait_for_run(
        &self,
        run: &RunAddress,
        most: Duration,
    ) -> Result<Option<RunRecord>, SessionError> {
        let store = &self.config.store;
        let until = Instant::now().checked_add(most);
        loop {
            // Looked up before the store, so that an end in between is not missed.
            let active = self.lock_active_runs().get(run).cloned();
            let Some(record) = store.run(run).await? else { return Ok(None) };
            let left = until.map_or(most, |until| until.saturating_duration_since(Instant::now()));
            if record.end.is_some() || left.is_zero() {
                return Ok(Some(record));
            }
            match active {
                // After either one, the store is read again.
                Some(active) => {
                    let _ = tokio::time::timeout(left, active.done.cancelled()).await;
                }
                None => tokio::time::sleep(left.min(POLL_INTERVAL)).await,
            }
        }
    }

    pub(super) async fn shut_down(self: &Arc<Self>, grace: Duration) {
        self.closing.cancel();
        if let Some(cluster) = self.config.nodes.cluster() {
            return self.hand_over_all(cluster, grace).await;
        }
        let end = RunOutcome::Aborted { by: "shutdown".to_owned() };
        let states: Vec<Arc<SessionState>> = self.lock_states().values().cloned().collect();
        for state in &states {
            // Queued runs would only start in order to be stopped.
            for QueuedPrompt { active, resumed, .. } in state.take_queued(None) {
                // In a task of its own, because a store that fails is tried again for as long as it
                // takes.
                let (inner, state, end) = (Arc::clone(self), Arc::clone(state), end.clone());
                tokio::spawn(async move {
                    if resumed.is_some() {
                        return inner.release_parked_run(&state, &active).await;
                    }
                    let outbox = LedgerOutbox::new(
                        state.recorder.clone(),
                        active.run.clone(),
                        &inner.config.nodes,
                    );
                    let completion = RunCompletion::new(end, TokenUsage::default());
                    inner.finish_run(&state, &active, completion, outbox).await;
                });
            }
        }
        let all = || self.lock_active_runs().values().cloned().collect::<Vec<_>>();
        for active in all() {
            active.request_park();
        }
        if wait_until_finished(all(), grace).await.is_err() {
            for active in all() {
                active.stop(end.clone());
            }
            if wait_until_finished(all(), FINISH_TIMEOUT).await.is_err() {
                tracing::error!(
                    "the end of some runs could not be recorded; the next start does it"
                );
            }
        }
        for state in states {
            state.drop_backend().await;
        }
    }
}

impl SessionManagerInner {
    /// Hands all runs over to other processes, once their calls have ended or `grace` is over. Runs that
    /// only wait for the user are parked.
    async fn hand_over_all(self: &Arc<Self>, cluster: &ClusterNode, grace: Duration) {
        let states: Vec<Arc<SessionState>> = self.lock_states().values().cloned().collect();
        futures_util::future::join_all(states.iter().map(|state| self.hand_over(state, grace)))
            .await;
        for state in states {
            state.drop_backend().await;
        }
        if let Err(error) = cluster.end().await {
            tracing::warn!(%error, "the lease of this gateway could not be ended; it runs out soon");
        }
    }
}

/// Folders in their stored form; those whose names are not text are left out.
fn run_folders(access: &FolderAccess) -> RunFolders {
    match access {
        FolderAccess::Anywhere => RunFolders::Anywhere,
        FolderAccess::Folders(folders) => RunFolders::Below(
            folders.iter().filter_map(|folder| folder.to_str().map(str::to_owned)).collect(),
        ),
    }
}

/// What a prompt sets for its run.
fn run_options(prompt: &Prompt) -> RunOptions {
    RunOptions {
        thinking: prompt.thinking.map(|thinking| thinking.as_str().to_owned()),
        timeout_ms: prompt.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        budget: prompt.budget,
        output_schema: prompt.output_schema.as_ref().map(|schema| schema.as_value().clone()),
        ..RunOptions::default()
    }
}

/// The first entries of a run, given the prompts that wait and those that are at work.
fn initial_events(
    run: &RunId,
    prompt: &Prompt,
    waiting: usize,
    at_work: usize,
) -> Vec<crate::store::NewEvent> {
    let before = match prompt.precedence {
        PromptPrecedence::Last => waiting.saturating_add(at_work),
        PromptPrecedence::Steering { .. } => at_work,
    };
    let prompt_event =
        EventKind::Prompt { text: prompt.text.clone(), attachments: prompt.attachments.clone() };
    let mut first = vec![new_event(Some(run), prompt_event)];
    if before > 0 {
        let others = if before == 1 { "one other".to_owned() } else { format!("{before} others") };
        let text = format!("waits for {others} in this session");
        let notice = EventKind::Notice { topic: "queued".to_owned(), text };
        first.push(new_event(Some(run), notice));
    }
    first
}
