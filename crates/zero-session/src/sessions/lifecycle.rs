//! Opens, changes, resets and deletes sessions.

use std::sync::Arc;
use std::time::Duration;

use zero_core::SessionId;
use zero_policy::PermissionMode;

use crate::agent::AgentProfile;
use crate::cluster_node::SessionPlacement;
use crate::event::{EventKind, RunOutcome};
use crate::key::{SessionAddress, SessionKey};
use crate::model::ThinkingEffort;
use crate::open_question::QuestionScope;
use crate::sessions::ledger_recorder::new_event;
use crate::sessions::retention::ms_before_now;
use crate::sessions::rewind_history::{FORKED, FORKED_DURING_RUN};
use crate::sessions::session_state::{ActiveBackend, SessionState, wait_until_finished};
use crate::sessions::{AttachmentGuard, OpenSessionOptions, SessionError, SessionManagerInner};
use crate::store::{
    ForkPoint, GrantRecord, NewFork, NewSession, SessionPatch, SessionQuery, SessionRecord,
    StoreError, ToolHostLocation, TranscriptStart,
};
use zero_runtime::clock::now_ms;
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::{ToolBackend, ToolBackendError};

/// Most sub-agents that a session starts. Their sessions are deleted with it.
const SUBAGENTS_MAX: u64 = 1_000;
/// A client that attaches to a session without activity for this long counts as activity. Shorter than
/// the time for which retention keeps every session.
const USE_RECORDED_AFTER: Duration = Duration::from_secs(60 * 60);
/// Time limit for a stopped run to end.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// What a reset does about the runs of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActiveRunPolicy {
    /// It stops them.
    Stop,
    /// It fails: they belong to another client.
    Refuse,
}

impl SessionManagerInner {
    pub(super) async fn open(
        self: &Arc<Self>,
        options: OpenSessionOptions,
    ) -> Result<SessionRecord, SessionError> {
        check_cwd(options.cwd.as_deref())?;
        self.check_model(options.model.as_deref())?;
        let (found, key) = match (&options.key, &options.label) {
            (Some(written), _) => {
                let key = SessionKey::resolve(written, self.config.agents.default_id())?;
                let address = SessionAddress::new(&options.owner, key);
                (self.config.store.session(&address).await?, address.key)
            }
            (None, Some(label)) => {
                let query = SessionQuery {
                    owner: Some(options.owner.clone()),
                    label: Some(label.clone()),
                    ..SessionQuery::default()
                };
                let found = self.config.store.list(query).await?.sessions.pop();
                let found = found.ok_or_else(|| SessionError::NoLabel(label.clone()))?;
                let key = found.key.clone();
                (Some(found), key)
            }
            (None, None) => {
                let text = "a session is opened by its key or its label; give one of both";
                return Err(SessionError::Invalid(text.to_owned()));
            }
        };
        let found = match found {
            Some(record) if options.leave_as_is => return Ok(record),
            found => found,
        };
        let location =
            found.as_ref().map(|record| &record.tool_host).or(options.tool_host.as_ref());
        if let (Some(cwd), None | Some(ToolHostLocation::Gateway)) = (&options.cwd, location) {
            options.folder_access.check_unresolved(cwd).map_err(ToolBackendError::from)?;
        }
        if let Some(agent) = &options.agent {
            self.check_agent(&key, agent)?;
        }
        let record = match found {
            Some(record) => self.apply_options(record, &options).await?,
            None if options.require_existing => {
                return Err(SessionError::NotFound(key.to_string()));
            }
            // Another caller may have created it meanwhile.
            None => {
                let made = self.create_session(key, &options, None).await?;
                if options.leave_as_is { made } else { self.apply_options(made, &options).await? }
            }
        };
        match options.reset {
            true => self.reset(&record.address(), ActiveRunPolicy::Refuse).await,
            false => Ok(record),
        }
    }

    pub(super) async fn create_session(
        self: &Arc<Self>,
        key: SessionKey,
        options: &OpenSessionOptions,
        parent: Option<SessionId>,
    ) -> Result<SessionRecord, SessionError> {
        self.find_agent(key.agent())?;
        let most = match parent {
            Some(_) => SUBAGENTS_MAX,
            None => self.config.limits.sessions_max,
        };
        let is_subagent = parent.is_some();
        let new = NewSession {
            key,
            label: options.label.clone(),
            cwd: options.cwd.clone(),
            model: options.model.clone(),
            mode: options.mode,
            owner: options.owner.clone(),
            owned_max: most,
            tool_host: options.tool_host.clone().unwrap_or(ToolHostLocation::Gateway),
            parent,
        };
        let store = &self.config.store;
        let created = match store.create(new.clone()).await {
            Err(StoreError::TooMany(_)) if !is_subagent && self.make_room(&new.owner).await? => {
                store.create(new).await
            }
            created => created,
        };
        created.map_err(|error| match error {
            StoreError::TooMany(_) if is_subagent => SessionError::Full(format!(
                "this session has started {most} sub-agents, and no more are kept; start another session"
            )),
            StoreError::TooMany(_) => full_error(most),
            error => error.into(),
        })
    }

    /// Applies the options that differ from the current settings.
    async fn apply_options(
        self: &Arc<Self>,
        record: SessionRecord,
        options: &OpenSessionOptions,
    ) -> Result<SessionRecord, SessionError> {
        let changed = |wanted: &Option<String>, now: &Option<String>| match wanted {
            Some(_) if wanted != now => Some(wanted.clone()),
            _ => None,
        };
        let cwd = options.cwd.clone().filter(|cwd| record.cwd.as_ref() != Some(cwd)).map(Some);
        let is_chosen = |mode: &PermissionMode| cwd.is_some() || record.mode != Some(*mode);
        let patch = SessionPatch {
            label: changed(&options.label, &record.label),
            agent: options.agent.clone().filter(|agent| *agent != record.agent),
            model: changed(&options.model, &record.model),
            mode: options.mode.filter(is_chosen).map(Some),
            cwd,
            tool_host: options.tool_host.clone().filter(|location| *location != record.tool_host),
            ..SessionPatch::default()
        };
        match patch == SessionPatch::default() {
            true => Ok(record),
            false => self.patch(&record.address(), patch).await,
        }
    }

    pub(super) async fn patch(
        self: &Arc<Self>,
        address: &SessionAddress,
        patch: SessionPatch,
    ) -> Result<SessionRecord, SessionError> {
        check_cwd(patch.cwd.as_ref().and_then(|cwd| cwd.as_deref()))?;
        self.check_model(patch.model.as_ref().and_then(|model| model.as_deref()))?;
        if let Some(agent) = &patch.agent {
            self.check_agent(&address.key, agent)?;
        }
        check_thinking(patch.thinking.as_ref().and_then(|thinking| thinking.as_deref()))?;
        if let Some(location) = &patch.tool_host {
            check_tool_host(&self.require_session(address).await?, location)?;
        }
        let changes_tools = patch.mode.is_some()
            || patch.agent.is_some()
            || patch.cwd.is_some()
            || patch.tool_host.is_some();
        if changes_tools && self.config.nodes.cluster().is_some() {
            self.check_executor(&self.require_session(address).await?.id).await?;
        }
        let patch = self.reset_mode_on_folder_change(address, patch).await?;
        let record = self.config.store.patch(address, patch.clone()).await?;
        let record = record.ok_or_else(|| SessionError::NotFound(address.key.to_string()))?;
        let state = self.session_state(&record.id);
        let shown = change_events(&patch).into_iter().map(|kind| new_event(None, kind)).collect();
        let shown = state.recorder.write(shown).await;
        let reached = self.update_backend(&state, &record, &patch).await;
        self.evict_state(&state);
        shown?;
        reached?;
        Ok(record)
    }

    /// Resets a mode that accepts edits when the folder changes: it was chosen for the old folder
    /// and applies to another one only if it is chosen again.
    async fn reset_mode_on_folder_change(
        &self,
        address: &SessionAddress,
        patch: SessionPatch,
    ) -> Result<SessionPatch, SessionError> {
        let (Some(cwd), None) = (&patch.cwd, patch.mode) else { return Ok(patch) };
        let record = self.require_session(address).await?;
        match record.cwd != *cwd && record.mode.is_some_and(PermissionMode::accepts_edits) {
            true => Ok(SessionPatch { mode: Some(None), ..patch }),
            false => Ok(patch),
        }
    }

    /// Updates the open backend, or closes it so that it is reopened with the new settings.
    async fn update_backend(
        &self,
        state: &SessionState,
        record: &SessionRecord,
        patch: &SessionPatch,
    ) -> Result<(), SessionError> {
        if patch.cwd.is_some() || patch.tool_host.is_some() {
            state.retire_backend().await;
            // Grants apply to the old folder only.
            self.config.store.set_grants(&record.id, Vec::new()).await?;
        }
        if patch.mode.is_none() && patch.agent.is_none() {
            return Ok(());
        }
        let agent = self.config.agents.get(&record.agent);
        let mode = self.effective_mode(record, agent);
        if let Some(lent_backend) = state.lent_backend() {
            return Ok(lent_backend
                .backend
                .backend
                .set_mode(limit_mode(mode, lent_backend.mode))
                .await?);
        }
        // The open backend, not a new one: the run that is at work and its sub-agents use it.
        match state.current_backend(record).await {
            Some(backend) => Ok(backend.set_mode(mode).await?),
            None => Ok(()),
        }
    }

    /// Revokes what the user allowed or rejected for a session under this rule, or everything
    /// without one. Returns how many answers were revoked.
    pub(super) async fn revoke_grants(
        &self,
        address: &SessionAddress,
        rule: Option<&str>,
    ) -> Result<usize, SessionError> {
        let record = self.require_session(address).await?;
        self.check_executor(&record.id).await?;
        let store = &self.config.store;
        let before = store.grants(&record.id).await?;
        let is_kept = |grant: &&GrantRecord| rule.is_some_and(|rule| grant.grant.rule != rule);
        let after: Vec<GrantRecord> = before.iter().filter(is_kept).cloned().collect();
        let revoked = before.len() - after.len();
        store.change_grants(&record.id, before, after).await?;
        // Afterwards, since the tools store what they have left, in the background.
        let state = self.session_state(&record.id);
        if let Some(backend) = state.current_backend(&record).await {
            backend.revoke_grants(rule);
        }
        self.evict_state(&state);
        Ok(revoked)
    }

    /// Changes a session given its id.
    pub(super) async fn patch_by_id(
        &self,
        session: &SessionId,
        patch: SessionPatch,
    ) -> Result<(), SessionError> {
        let store = &self.config.store;
        if let Some(record) = store.session_by_id(session).await? {
            store.patch(&record.address(), patch).await?;
        }
        Ok(())
    }

    pub(super) async fn reset(
        self: &Arc<Self>,
        address: &SessionAddress,
        runs: ActiveRunPolicy,
    ) -> Result<SessionRecord, SessionError> {
        let record = self.require_session(address).await?;
        self.check_home(&record).await?;
        self.check_executor(&record.id).await?;
        let state = self.session_state(&record.id);
        let reset = async {
            let _nothing_new = state.sending.lock().await;
            if runs == ActiveRunPolicy::Refuse && !self.active_runs_in(&record.id).is_empty() {
                return Err(SessionError::Busy(
                    "a run is at work in this session, and a reset would stop it; wait for its end, or open the session without a reset"
                        .to_owned(),
                ));
            }
            let claim = self.claim_session(&state.recorder).await?;
            self.stop_and_wait(&state, "reset").await?;
            let store = &self.config.store;
            let record = self.require_session(address).await?;
            let why = TranscriptStart::Reset;
            store.start_transcript(&record.id, claim, why, Vec::new()).await?;
            // A reset also drops all grants, and the results that the transcript names.
            state.drop_backend().await;
            self.config.backend_factory.discard_session(&record.id).await;
            store.set_grants(&record.id, Vec::new()).await?;
            let shown = EventKind::Reset { transcript: record.transcript };
            state.recorder.write(vec![new_event(None, shown)]).await?;
            self.require_session(address).await
        };
        let record = reset.await;
        self.evict_state(&state);
        record
    }

    pub(super) async fn fork(
        self: &Arc<Self>,
        address: &SessionAddress,
        key: Option<&str>,
        prompt: Option<u64>,
    ) -> Result<SessionRecord, SessionError> {
        let record = self.require_session(address).await?;
        // The results are copied, too.
        self.check_home(&record).await?;
        let key = match key {
            Some(written) => SessionKey::resolve(written, self.config.agents.default_id())?,
            None => derive_fork_key(&record.key)?,
        };
        self.check_agent(&key, &record.agent)?;
        if let Some(prompt) = prompt {
            let point = self.fork_point(&record.id, prompt).await?;
            let notice = format!("forked from `{}` before prompt {prompt}", record.key);
            return self.fork_at(record, key, point, notice).await;
        }
        let state = self.session_state(&record.id);
        let forked = async {
            let _nothing_new = state.sending.lock().await;
            // Without a run in the middle: its calls would never end in the copy.
            let scope = QuestionScope::Session(&record.id);
            let is_parked = !self.config.store.open_questions(scope).await?.is_empty()
                || self.question_of_subagent(&record.id).await?.is_some();
            let point = match is_parked {
                // Claiming the session would end the run that waits.
                true => ForkPoint::LastCompleted,
                false => match self.claim_session(&state.recorder).await {
                    Ok(claim) if self.active_runs_in(&record.id).is_empty() => {
                        ForkPoint::End(claim)
                    }
                    // A run of this process, or of another one.
                    Ok(_) | Err(SessionError::Busy(_) | SessionError::Elsewhere { .. }) => {
                        ForkPoint::LastCompleted
                    }
                    Err(error) => return Err(error),
                },
            };
            let notice = match point {
                ForkPoint::LastCompleted => format!(
                    "forked from `{}` as of its last completed prompt; a run is at work there, and nothing of it is in the copy",
                    record.key
                ),
                _ => format!("forked from `{}`", record.key),
            };
            self.fork_at(record.clone(), key, point, notice).await
        };
        let forked = forked.await;
        self.evict_state(&state);
        forked
    }

    /// Copies a session up to a point. Its results are copied first, so that the copy never names one
    /// that is missing.
    async fn fork_at(
        self: &Arc<Self>,
        record: SessionRecord,
        key: SessionKey,
        point: ForkPoint,
        text: String,
    ) -> Result<SessionRecord, SessionError> {
        let (store, factory) = (&self.config.store, &self.config.backend_factory);
        let fork = NewFork {
            id: SessionId::from_bits(fastrand::u128(..)),
            key,
            title: record.title.as_deref().map(fork_title),
            owned_max: self.config.limits.sessions_max,
        };
        let topic = match point {
            ForkPoint::End(_) | ForkPoint::Before { .. } => FORKED,
            ForkPoint::LastCompleted => FORKED_DURING_RUN,
        };
        let notice = EventKind::Notice { topic: topic.to_owned(), text };
        let last = new_event(None, notice);
        let forked = async {
            factory.copy_results(&record.id, &fork.id).await?;
            let forked = store.fork(&record.id, point, fork.clone(), last.clone()).await;
            match forked {
                Err(StoreError::TooMany(_)) if self.make_room(&record.owner).await? => {
                    Ok(store.fork(&record.id, point, fork.clone(), last).await?)
                }
                forked => Ok(forked?),
            }
        };
        let forked: Result<SessionRecord, SessionError> = forked.await;
        if forked.is_err() {
            factory.discard_session(&fork.id).await;
        }
        forked.map_err(|error| match error {
            SessionError::Store(StoreError::TooMany(_)) => {
                full_error(self.config.limits.sessions_max)
            }
            error => error,
        })
    }

    pub(super) async fn delete(
        self: &Arc<Self>,
        address: &SessionAddress,
    ) -> Result<bool, SessionError> {
        // The rest of its record may be damaged; that must not keep it from being deleted.
        let id = match self.config.store.session_id(address).await {
            Err(StoreError::Damaged { .. }) => {
                return Ok(self.config.store.delete_unreadable(address).await?);
            }
            id => id?,
        };
        let Some(id) = id else { return Ok(false) };
        let state = self.session_state(&id);
        let deleted = async {
            let _nothing_new = state.sending.lock().await;
            if self.config.nodes.is_served_elsewhere(&id) {
                return Err(SessionError::Busy(
                    "another process of zero has the session open and serves its tools, such as an editor or `zero run`; close it there, then delete the session"
                        .to_owned(),
                ));
            }
            self.check_executor(&id).await?;
            let claim = self.claim_for_deletion(&state.recorder).await?;
            self.stop_and_wait(&state, "delete").await?;
            state.drop_backend().await;
            match self.config.store.delete(&id, claim).await {
                Err(StoreError::NoSession(_)) => Ok(false),
                deleted => {
                    deleted?;
                    self.config.backend_factory.discard_session(&id).await;
                    Ok(true)
                }
            }
        };
        let deleted = deleted.await;
        self.evict_state(&state);
        if matches!(deleted, Ok(true)) {
            self.delete_subagents(address, id).await?;
        }
        deleted
    }

    /// Deletes the sessions of the sub-agents of a session that is gone: no list shows them.
    async fn delete_subagents(
        self: &Arc<Self>,
        of: &SessionAddress,
        parent: SessionId,
    ) -> Result<(), SessionError> {
        let query = SessionQuery {
            limit: Some(SessionQuery::LIMIT_MAX),
            owner: Some(of.owner.clone()),
            parent: Some(parent),
            ..SessionQuery::default()
        };
        loop {
            let mut has_deleted = false;
            for child in self.config.store.list(query.clone()).await?.sessions {
                has_deleted |= Box::pin(self.delete(&child.address())).await?;
            }
            if !has_deleted {
                return Ok(());
            }
        }
    }

    /// Stops all runs of a session and waits until they have ended.
    async fn stop_and_wait(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        by: &str,
    ) -> Result<(), SessionError> {
        self.stop_runs(state, None, &RunOutcome::Aborted { by: by.to_owned() });
        wait_until_finished(self.active_runs_in(state.recorder.session()), END_TIMEOUT).await
    }

    pub(super) async fn attach_backend(
        self: &Arc<Self>,
        address: &SessionAddress,
        name: String,
        backend: Arc<dyn ToolBackend>,
    ) -> Result<AttachmentGuard, SessionError> {
        self.check_not_parked(address).await?;
        let location = ToolHostLocation::Client { name };
        let patch = SessionPatch { tool_host: Some(location), ..SessionPatch::default() };
        let not_found = || SessionError::NotFound(address.key.to_string());
        let record = self.config.store.patch(address, patch).await?.ok_or_else(not_found)?;
        // A process that prunes sessions may have listed it already, and not have seen the lease.
        if record.updated_ms < ms_before_now(USE_RECORDED_AFTER) {
            let used = SessionPatch { used_ms: Some(now_ms()), ..SessionPatch::default() };
            self.config.store.patch(address, used).await?.ok_or_else(not_found)?;
        }
        let state = self.session_state(&record.id);
        let (nodes, session) = (Arc::clone(&self.config.nodes), record.id.clone());
        let lease = tokio::task::spawn_blocking(move || nodes.lease_session(&session)).await;
        let lease = lease.map_err(|_| SessionError::ShuttingDown)?.unwrap_or_else(|error| {
            tracing::warn!(%error, "other processes cannot see that this one serves a session");
            None
        });
        let closed = state.attach(backend, lease).await;
        if let Some(cluster) = self.config.nodes.cluster() {
            let node = self.config.nodes.local_name();
            cluster.sessions().set_tool_server(&record.id, node).await?;
        }
        Ok(AttachmentGuard { inner: Arc::downgrade(self), state, closed })
    }

    /// Checks that the caller may use the session's folder. Folders of clients are not checked.
    pub(super) fn check_folder_access(
        &self,
        record: &SessionRecord,
        folder_access: &FolderAccess,
    ) -> Result<(), ToolBackendError> {
        match record.tool_host {
            ToolHostLocation::Gateway => {
                Ok(folder_access
                    .check_unresolved(record.cwd.as_ref().unwrap_or(&self.config.cwd))?)
            }
            ToolHostLocation::Client { .. } => Ok(()),
        }
    }

    /// The current backend of a session, for a caller that may use its folder.
    pub(super) async fn backend_for(
        &self,
        state: &SessionState,
        agent: &AgentProfile,
        folder_access: &FolderAccess,
    ) -> Result<ActiveBackend, ToolBackendError> {
        // That of a sub-agent belongs to the run of its parent.
        if let Some(lent_backend) = state.lent_backend() {
            return Ok(lent_backend.backend);
        }
        // A client's backend belongs to the session, so no folder has to be checked.
        if let Some(now) = state.client_backend() {
            return Ok(now);
        }
        let store = &self.config.store;
        let record = store.session_by_id(state.recorder.session()).await;
        let record = match record {
            Ok(Some(record)) => record,
            Ok(None) => {
                return Err(ToolBackendError::Workspace("the session was removed".to_owned()));
            }
            Err(error) => return Err(error.to_backend_error()),
        };
        self.check_folder_access(&record, folder_access)?;
        if record.tool_host == ToolHostLocation::Gateway
            && agent.tools.as_ref().is_none_or(|tools| !tools.is_empty())
            && state.current_backend(&record).await.is_none()
        {
            self.bind_home(&record.id).await?;
        }
        let mode = self.effective_mode(&record, Some(agent));
        state
            .open_backend(
                &record,
                mode,
                &self.config.cwd,
                &self.config.backend_factory,
                store,
                folder_access,
            )
            .await
    }

    /// Fails if the tools of a session work on the disk of another machine.
    pub(super) async fn check_home(&self, record: &SessionRecord) -> Result<(), SessionError> {
        let Some(cluster) = self.config.nodes.cluster() else { return Ok(()) };
        if record.tool_host != ToolHostLocation::Gateway {
            return Ok(());
        }
        let placement = cluster.sessions().placement(&record.id).await?;
        check_home_of(&placement, cluster.home())
    }

    /// Fails if a prompt for a session is to be executed elsewhere, or nowhere.
    pub(super) async fn check_place(&self, record: &SessionRecord) -> Result<(), SessionError> {
        let Some(cluster) = self.config.nodes.cluster() else { return Ok(()) };
        let placement = cluster.sessions().placement(&record.id).await?;
        if record.tool_host == ToolHostLocation::Gateway {
            check_home_of(&placement, cluster.home())?;
        }
        check_is_local(placement.executor(), self.config.nodes.local_name())
    }

    /// Fails if another live gateway executes what happens in a session: it would not notice what is done
    /// here.
    pub(super) async fn check_executor(&self, session: &SessionId) -> Result<(), SessionError> {
        let Some(cluster) = self.config.nodes.cluster() else { return Ok(()) };
        let placement = cluster.sessions().placement(session).await?;
        check_is_local(placement.executor(), self.config.nodes.local_name())
    }

    /// Fails if another live gateway has unfinished runs of a session.
    pub(super) async fn check_holder(&self, session: &SessionId) -> Result<(), SessionError> {
        let Some(cluster) = self.config.nodes.cluster() else { return Ok(()) };
        let placement = cluster.sessions().placement(session).await?;
        check_is_local(placement.holder.as_deref(), self.config.nodes.local_name())
    }

    /// Makes this machine the one on whose disk the tools of a session work. Fails if it is another.
    async fn bind_home(&self, session: &SessionId) -> Result<(), ToolBackendError> {
        let Some(cluster) = self.config.nodes.cluster() else { return Ok(()) };
        let home = cluster.sessions().bind_home(session, cluster.home()).await;
        let home = home.map_err(|error| error.to_backend_error())?;
        match home == cluster.home() {
            true => Ok(()),
            false => {
                let placement = cluster.sessions().placement(session).await;
                let is_live = placement.is_ok_and(|placement| placement.home_node.is_some());
                Err(ToolBackendError::Workspace(elsewhere_text(&home, is_live)))
            }
        }
    }

    fn effective_mode(
        &self,
        record: &SessionRecord,
        agent: Option<&AgentProfile>,
    ) -> Option<PermissionMode> {
        record.mode.or(agent.and_then(|agent| agent.mode))
    }

    pub(super) fn find_agent(&self, id: &str) -> Result<&AgentProfile, SessionError> {
        self.config.agents.get(id).ok_or_else(|| {
            let known: Vec<&str> =
                self.config.agents.list().map(|agent| agent.id.as_str()).collect();
            SessionError::NoAgent { agent: id.to_owned(), known: known.join(", ") }
        })
    }

    /// The agent is part of the key, except for keys that leave it open.
    pub(super) fn check_agent(&self, key: &SessionKey, agent: &str) -> Result<(), SessionError> {
        self.find_agent(agent)?;
        if key.can_change_agent() || agent == key.agent() {
            return Ok(());
        }
        let name = key.name();
        Err(SessionError::Invalid(format!(
            "the agent of session {key} is part of its key and cannot change; open `agent:{agent}:{name}` instead"
        )))
    }

    fn check_model(&self, name: Option<&str>) -> Result<(), SessionError> {
        match name {
            Some(name) => Ok(self.config.models.get(Some(name)).map(|_| ())?),
            None => Ok(()),
        }
    }
}

/// A mode that was chosen for a sub-agent, unless its definition has a stricter one.
fn limit_mode(
    chosen: Option<PermissionMode>,
    defined: Option<PermissionMode>,
) -> Option<PermissionMode> {
    let Some(most) = defined else { return chosen };
    Some(chosen.filter(|chosen| chosen.is_within(most)).unwrap_or(most))
}

fn check_is_local(node: Option<&str>, local: &str) -> Result<(), SessionError> {
    match node {
        Some(node) if node != local => Err(SessionError::Elsewhere { node: node.to_owned() }),
        _ => Ok(()),
    }
}

/// Fails if the tools of a session work on the disk of another machine.
fn check_home_of(placement: &SessionPlacement, local: &str) -> Result<(), SessionError> {
    match (&placement.home, &placement.home_node) {
        (Some(home), Some(node)) if home != local => {
            Err(SessionError::Elsewhere { node: node.clone() })
        }
        (Some(home), None) if home != local => Err(SessionError::Busy(elsewhere_text(home, false))),
        _ => Ok(()),
    }
}

/// Why a session cannot be used here.
fn elsewhere_text(home: &str, is_live: bool) -> String {
    let what_to_do = match is_live {
        true => "connect to that gateway",
        false => "that gateway is gone: start it again, or use another session",
    };
    format!(
        "the tools of this session work on the disk of the gateway `{home}`, not of this one; {what_to_do}"
    )
}

fn full_error(most: u64) -> SessionError {
    SessionError::Full(format!(
        "there are {most} sessions of yours, and no more are kept; remove old ones with `zero prune --days 90`, single ones with `zero sessions delete`, or raise `gateway.maxSessions` in the settings"
    ))
}

/// A key for the copy of a session: the same agent and name, and some digits.
fn derive_fork_key(key: &SessionKey) -> Result<SessionKey, SessionError> {
    const DIGITS: usize = 8;
    let most = SessionKey::LEN_MAX.saturating_sub(DIGITS + 1);
    let start: String = key.as_str().chars().take(most).collect();
    let digits = fastrand::u32(..);
    Ok(SessionKey::resolve(&format!("{start}-{digits:08x}"), key.agent())?)
}

/// The title of a copy.
fn fork_title(title: &str) -> String {
    const SUFFIX: &str = " (fork)";
    format!("{}{SUFFIX}", title.strip_suffix(SUFFIX).unwrap_or(title))
}

fn check_cwd(cwd: Option<&std::path::Path>) -> Result<(), SessionError> {
    match cwd {
        Some(cwd) if !cwd.is_absolute() => Err(SessionError::Invalid(format!(
            "the folder `{}` is not absolute; write it from the root",
            cwd.display().to_string().escape_debug()
        ))),
        _ => Ok(()),
    }
}

/// A session that began with a client's tools never continues with the gateway's.
fn check_tool_host(
    record: &SessionRecord,
    location: &ToolHostLocation,
) -> Result<(), SessionError> {
    match (&record.tool_host, location) {
        (ToolHostLocation::Client { name }, ToolHostLocation::Gateway) => {
            Err(SessionError::Invalid(format!(
                "the tools of this session are with {name} and stay there; start a new session to work elsewhere"
            )))
        }
        _ => Ok(()),
    }
}

fn check_thinking(word: Option<&str>) -> Result<(), SessionError> {
    let Some(word) = word else { return Ok(()) };
    let known = ThinkingEffort::ALL.map(ThinkingEffort::as_str);
    if known.contains(&word) {
        return Ok(());
    }
    Err(SessionError::Invalid(format!(
        "there is no thinking level `{}`; the levels are {}",
        word.escape_debug(),
        known.join(", ")
    )))
}

/// The ledger entries for a change.
fn change_events(patch: &SessionPatch) -> Vec<EventKind> {
    let mode = patch.mode.map(|mode| mode.map(|mode| mode.as_str().to_owned()));
    let fields = [
        ("label", patch.label.clone()),
        ("title", patch.title.clone()),
        ("agent", patch.agent.clone().map(Some)),
        ("model", patch.model.clone()),
        ("thinking", patch.thinking.clone()),
        ("mode", mode),
    ];
    let changed = fields.into_iter().filter_map(|(field, value)| {
        let field = field.to_owned();
        value.map(|value| EventKind::Changed { field, value })
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_mode_cannot_exceed_definition() {
        use PermissionMode::{AcceptEdits, Ask, Auto, Plan};
        for (chosen, defined, expected) in [
            (None, None, None),
            (Some(Auto), None, Some(Auto)),
            (Some(Auto), Some(Plan), Some(Plan)),
            (None, Some(Plan), Some(Plan)),
            (Some(Plan), Some(AcceptEdits), Some(Plan)),
            (Some(Auto), Some(Ask), Some(Ask)),
        ] {
            assert_eq!(limit_mode(chosen, defined), expected, "{chosen:?} {defined:?}");
        }
    }
}
