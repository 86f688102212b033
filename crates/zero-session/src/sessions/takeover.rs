//! Runs whose process is gone go on in this one, if several machines share the database.
//!
//! The records of the ledger are completed first: calls that had ended keep their results, calls whose
//! outcome is unknown get an end that says so, and none of them is made again. Then the model is asked
//! for the next reply. A run of a sub-agent ends with the call that started it, and what the user runs
//! without a model is not repeated.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zero_core::{ErrorReason, SessionId, ToolOutcome};
use zero_runtime::tool_backend::FolderAccess;

use crate::cluster_node::{AbandonedSession, ClusterNode};
use crate::event::{Event, EventKind, RunOutcome};
use crate::message::{MessageRole, ModelMessage, share_messages};
use crate::model::ThinkingEffort;
use crate::open_question::QuestionScope;
use crate::output_schema::OutputSchema;
use crate::sessions::interrupted_runs::closing_events;
use crate::sessions::ledger_recorder::new_event;
use crate::sessions::parked_runs::find_fallback;
use crate::sessions::run_events::read_run_events;
use crate::sessions::session_state::{QueuedPrompt, ResumedRun, SessionState, wait_until_finished};
use crate::sessions::transcript_recovery::missing_messages;
use crate::sessions::{
    Prompt, PromptAuthority, PromptPrecedence, SessionError, SessionManagerInner, SlashHandling,
};
use crate::store::{
    ClaimEpoch, ClaimOutcome, RunFolders, RunOptions, RunRecord, SessionRecord, StoreError,
};
use crate::turn::transcript_repair::tool_calls;
use crate::turn::{ResumePoint, ResumedWait};

/// How often to look for sessions that no process serves.
const INTERVAL: Duration = Duration::from_millis(750);
/// How long a session waits for the client that hosts its tools before its runs go on without.
const CLIENT_WAIT: Duration = Duration::from_secs(30);
/// How long calls of a run may take to end when the run moves to where the client of its session is.
const MOVE_GRACE: Duration = Duration::from_secs(5);
/// Time limit for a run to be handed over, after its calls have ended.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a run is continued. One that ends each process that runs it must not end all of them.
const TAKEOVERS_MAX: usize = 3;
/// Topic of the notice that a run goes on elsewhere.
pub(super) const TOPIC: &str = "takeover";
/// Topic of the notice that a run has waited for the database. It ends no process, so it is not counted.
const OUTAGE_TOPIC: &str = "store_outage";
/// Asks for the rest of a reply that was cut off.
pub(super) const CONTINUE: &str = "[The gateway that received this reply was lost, so the reply ends where it was cut off. \
    Continue exactly there. Do not repeat what you have written.]";

/// Why a run goes on from its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContinuationReason {
    /// Its process is gone.
    ProcessLost,
    /// Its process could not reach the store.
    StoreLost,
}

impl ContinuationReason {
    /// The notice in the ledger.
    fn notice(self) -> EventKind {
        let (topic, text) = match self {
            Self::ProcessLost => (
                TOPIC,
                "the gateway that executed this run is gone; the run continues on another one",
            ),
            Self::StoreLost => {
                (OUTAGE_TOPIC, "the database could not be reached for a while; the run continues")
            }
        };
        EventKind::Notice { topic: topic.to_owned(), text: text.to_owned() }
    }
}

/// How an unfinished run goes on.
#[derive(Debug, PartialEq)]
pub(super) enum Continuation {
    /// From its beginning: it has done nothing yet.
    Restart,
    /// With the next request to the model, after this message if there is one.
    AskModel(Option<ModelMessage>),
    /// Not at all.
    End(RunOutcome),
}

impl SessionManagerInner {
    /// Continues what dead processes leave behind from now on.
    pub(super) fn start_takeovers(self: &Arc<Self>) {
        tokio::spawn(monitor(Arc::downgrade(self)));
    }

    /// Continues the unfinished runs of a session that no process executes, unless one of them waits for an
    /// answer.
    pub(super) async fn take_over(
        self: &Arc<Self>,
        session: &SessionId,
    ) -> Result<(), SessionError> {
        let state = self.session_state(session);
        let taken = async {
            let _order = state.sending.lock().await;
            // Those that this process executes are not abandoned.
            if !self.active_runs_in(session).is_empty() {
                return Ok(());
            }
            let store = &self.config.store;
            let claim = self.take_claim(&state.recorder).await?;
            // If this process has failed at that before, nothing that it sent may be stored any more.
            let node = self.config.nodes.local_name();
            let claim = match state.recorder.claim(node, Some(claim)).await? {
                ClaimOutcome::Claimed(claim) => claim,
                ClaimOutcome::Held(_) => return Ok(()),
            };
            if !store.open_questions(QuestionScope::Session(session)).await?.is_empty()
                || self.question_of_subagent(session).await?.is_some()
            {
                return Ok(store.release_claim(session, claim).await?);
            }
            let unfinished = store.unfinished_runs(Some(session)).await?;
            self.continue_runs(&state, claim, unfinished).await
        };
        let taken = taken.await;
        self.evict_state(&state);
        taken
    }

    /// Continues runs of other processes in a session that this one has claimed. The caller holds the
    /// lock of the session's prompts.
    pub(super) async fn continue_runs(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        claim: ClaimEpoch,
        runs: Vec<RunRecord>,
    ) -> Result<(), SessionError> {
        let session = state.recorder.session();
        let record = self.config.store.session_by_id(session).await?;
        let record = record.ok_or_else(|| StoreError::NoSession(session.to_string()))?;
        for run in runs {
            if !self.is_being_answered(&run.address()) {
                let reason = ContinuationReason::ProcessLost;
                self.continue_run(state, claim, &record, &run, reason).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn continue_run(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        claim: ClaimEpoch,
        record: &SessionRecord,
        run: &RunRecord,
        reason: ContinuationReason,
    ) -> Result<(), SessionError> {
        let (store, recorder) = (&self.config.store, &state.recorder);
        let read = async {
            let events = read_run_events(&**store, &run.session, &run.id).await?;
            let messages = store.transcript(&run.session, None).await?.messages;
            Ok::<_, StoreError>((events, messages))
        };
        let (events, mut messages) = match read.await {
            Err(StoreError::Damaged { .. }) => (Vec::new(), Vec::new()),
            read => read?,
        };
        let (mut closing, usage) = closing_events(&events);
        add_known_outcomes(state, &events, &mut closing).await;
        let kinds = events.iter().map(|event| &event.kind).chain(&closing);
        let missing = missing_messages(&messages, kinds, self.run_dialect(&events));
        let continuation = match record.parent {
            Some(_) => Continuation::End(RunOutcome::Interrupted),
            None => find_continuation(&events, &messages, &missing),
        };
        let next = match continuation {
            Continuation::End(end) => {
                return self.finish_interrupted_run(recorder, claim, run, end).await;
            }
            Continuation::Restart => None,
            Continuation::AskModel(next) => Some(next),
        };
        let Some(active) = self.register_run(&run.id, record, None)? else { return Ok(()) };
        let mended = async {
            recorder.adopt_run(&run.id, self.config.nodes.local_name()).await?;
            let mut kinds = closing;
            kinds.push(reason.notice());
            let entries = kinds.into_iter().map(|kind| new_event(Some(&run.id), kind)).collect();
            recorder.write_durable(entries).await?;
            messages.clear();
            if let Some(next) = &next {
                messages.extend(missing.into_iter().chain(next.clone()));
            }
            match messages.is_empty() {
                true => Ok(()),
                false => store.add_messages(&run.session, claim, share_messages(messages)).await,
            }
        };
        if let Err(error) = mended.await {
            self.unregister_run(&active);
            return Err(error.into());
        }
        let prompt = recorded_prompt(&run.options, &events);
        let turns = u32::try_from(usage.requests).unwrap_or(u32::MAX);
        let resumed = next.map(|_| ResumedRun {
            point: ResumePoint {
                waits: ResumedWait::Model,
                usage,
                turns,
                model: find_fallback(&events),
            },
            earlier: Vec::new(),
        });
        let job = QueuedPrompt { prompt, active, resumed };
        let presence = match reason {
            ContinuationReason::ProcessLost => state.enqueue(job),
            ContinuationReason::StoreLost => state.enqueue_first(job),
        };
        self.ensure_worker(state, presence);
        if reason == ContinuationReason::ProcessLost
            && let Some(cluster) = self.config.nodes.cluster()
        {
            cluster.count_takeover();
        }
        Ok(())
    }

    /// Gives up the runs of a session, so that another process continues them at once.
    /// Calls that run have `grace` to end.
    pub(super) async fn hand_over(&self, state: &Arc<SessionState>, grace: Duration) {
        let queued = state.take_queued(None);
        let mut active = self.active_runs_in(state.recorder.session());
        active.retain(|active| !queued.iter().any(|queued| queued.active.run == active.run));
        // A sub-agent ends with the call that started it.
        active.retain(|active| active.subagent.is_none());
        for active in &active {
            active.request_handover(grace);
        }
        // The last to go is the claim, so that what a run has shown is stored.
        if wait_until_finished(active, grace + HANDOVER_TIMEOUT).await.is_err() {
            tracing::error!("a run could not be handed over; others continue it soon");
        }
        for QueuedPrompt { active, .. } in queued {
            self.release_parked_run(state, &active).await;
        }
    }

    /// Stops runs that other processes have continued while this one had no lease.
    async fn stop_lost_runs(&self, cluster: &ClusterNode) -> Result<(), StoreError> {
        // Before the store is asked: it does not know a run that begins after its answer.
        let mut active: Vec<_> = self.lock_active_runs().values().cloned().collect();
        active.retain(|active| {
            let state = self.existing_state(&active.session);
            state.is_some_and(|state| state.recorder.executes(&active.run))
        });
        let held = cluster.leases().list_held_claims(self.config.nodes.local_name()).await?;
        for active in active {
            if !held.iter().any(|(session, _)| *session == active.session) {
                active.stop(RunOutcome::Interrupted);
            }
        }
        Ok(())
    }

    async fn find_abandoned(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        seen: &mut HashMap<SessionId, Instant>,
    ) -> Result<(), StoreError> {
        let shared = cluster.sessions();
        let abandoned = shared.abandoned_sessions().await?;
        seen.retain(|known, _| abandoned.iter().any(|session| session.session == *known));
        for AbandonedSession { session, home, has_client_tools } in abandoned {
            let since = *seen.entry(session.clone()).or_insert_with(Instant::now);
            let is_ours = match (has_client_tools, home) {
                // Where the client is, or after a while anywhere.
                (true, _) => {
                    let state = self.existing_state(&session);
                    state.is_some_and(|state| state.client_backend().is_some())
                        || since.elapsed() >= CLIENT_WAIT
                }
                (false, Some(home)) => home == cluster.home(),
                (false, None) => true,
            };
            if !is_ours || !self.config.nodes.can_act() {
                continue;
            }
            self.try_take_over(&session).await;
        }
        // Claimed by a request whose answer was lost, or the way on failed after the claim.
        for (session, _) in
            cluster.leases().list_held_claims(self.config.nodes.local_name()).await?
        {
            if self.config.nodes.can_act() && self.active_runs_in(&session).is_empty() {
                self.try_take_over(&session).await;
            }
        }
        for session in shared.misplaced_sessions(self.config.nodes.local_name()).await? {
            if let Some(state) = self.existing_state(&session) {
                tracing::info!(%session, "handing over to the gateway where its tools are");
                self.hand_over(&state, MOVE_GRACE).await;
            }
        }
        Ok(())
    }
}

impl SessionManagerInner {
    async fn try_take_over(self: &Arc<Self>, session: &SessionId) {
        match self.take_over(session).await {
            // Another process was faster.
            Ok(())
            | Err(
                SessionError::Busy(_) | SessionError::Elsewhere { .. } | SessionError::ShuttingDown,
            ) => {}
            Err(SessionError::Store(StoreError::ClaimLost(_) | StoreError::NoSession(_))) => {}
            Err(error) => tracing::warn!(%session, %error, "a session could not be taken over"),
        }
    }
}

/// Continues what dead processes leave behind, and stops what others have continued, until the manager
/// is gone or shuts down.
async fn monitor(inner: Weak<SessionManagerInner>) {
    let mut seen = HashMap::new();
    let Some(mut confirmed) = inner
        .upgrade()
        .and_then(|inner| inner.config.nodes.cluster().map(ClusterNode::confirmed_claims))
    else {
        return;
    };
    loop {
        let Some(strong) = inner.upgrade() else { return };
        if strong.closing.is_cancelled() {
            return;
        }
        if let Some(cluster) = strong.config.nodes.cluster() {
            if confirmed.has_changed().unwrap_or(false) {
                confirmed.mark_unchanged();
                if let Err(error) = strong.stop_lost_runs(cluster).await {
                    tracing::warn!(%error, "which runs go on elsewhere is not known");
                    confirmed.mark_changed();
                }
            }
            if let Err(error) = strong.find_abandoned(cluster, &mut seen).await {
                tracing::warn!(%error, "sessions of dead gateways cannot be found");
            }
        }
        // Not all at the same time.
        let pause = sleep(INTERVAL.mul_f64(0.75 + 0.5 * fastrand::f64()));
        tokio::select! {
            () = pause => {}
            () = strong.sessions_abandoned.notified() => {}
            () = strong.closing.cancelled() => {}
        }
    }
}

/// Replaces the unknown outcomes of calls by those that the client who made them has kept.
async fn add_known_outcomes(state: &SessionState, events: &[Event], closing: &mut [EventKind]) {
    let Some(client) = state.client_backend() else { return };
    let calls: Vec<String> = closing.iter().filter_map(unknown_call).collect();
    if calls.is_empty() {
        return;
    }
    let mut known = client.backend.take_outcomes(calls).await;
    for kind in closing {
        let Some(call) = unknown_call(kind) else { continue };
        let Some(mut outcome) = known.remove(&call) else { continue };
        if let ToolOutcome::Error(error) = &mut outcome {
            let name = events.iter().find_map(|event| match &event.kind {
                EventKind::ToolStarted { call: id, name, .. } if *id == call => Some(name),
                _ => None,
            });
            error.tool = name.cloned().unwrap_or_default();
        }
        *kind = EventKind::tool_ended(&call, outcome);
    }
}

/// The id of a call, if this is its end and its outcome is unknown.
fn unknown_call(kind: &EventKind) -> Option<String> {
    let EventKind::ToolEnded { call, outcome: ToolOutcome::Error(error), .. } = kind else {
        return None;
    };
    (error.reason() == Some(ErrorReason::Interrupted)).then(|| call.clone())
}

/// The prompt of a run, as the process that began it got it.
fn recorded_prompt(options: &RunOptions, events: &[Event]) -> Prompt {
    let recorded = events.iter().find_map(|event| match &event.kind {
        EventKind::Prompt { text, attachments } => Some((text.clone(), attachments.clone())),
        _ => None,
    });
    let (text, attachments) = recorded.unwrap_or_default();
    let thinking = options.thinking.as_deref();
    Prompt {
        text,
        attachments,
        thinking: ThinkingEffort::ALL.into_iter().find(|it| Some(it.as_str()) == thinking),
        timeout: options.timeout_ms.map(Duration::from_millis),
        budget: options.budget,
        // It was usable when the run began.
        output_schema: options.output_schema.clone().and_then(|it| OutputSchema::new(it).ok()),
        reading: match options.is_verbatim {
            true => SlashHandling::Verbatim,
            false => SlashHandling::Commands,
        },
        precedence: PromptPrecedence::Last,
        leave: match options.can_approve {
            true => PromptAuthority::CanApprove,
            false => PromptAuthority::PromptOnly,
        },
        folder_access: match &options.folders {
            Some(RunFolders::Anywhere) => FolderAccess::Anywhere,
            Some(RunFolders::Below(folders)) => {
                FolderAccess::Folders(folders.iter().map(Into::into).collect())
            }
            None => FolderAccess::default(),
        },
    }
}

/// How a run goes on, given its events, the transcript of its session, and what that lacks of the run.
pub(super) fn find_continuation(
    events: &[Event],
    messages: &[ModelMessage],
    missing: &[ModelMessage],
) -> Continuation {
    let interrupted = Continuation::End(RunOutcome::Interrupted);
    let mut prompt = None;
    let (mut has_begun, mut has_output, mut has_calls, mut is_compacted) = Default::default();
    let mut takeovers = 0;
    for event in events {
        match &event.kind {
            EventKind::Prompt { text, .. } => prompt = Some(text.as_str()),
            EventKind::RunStarted { model, .. } if model == crate::agent::DIRECT => {
                return interrupted;
            }
            EventKind::RunStarted { .. } => has_begun = true,
            EventKind::ToolStarted { transcript_id, .. } => {
                // Of the user, without a model.
                if transcript_id.as_ref().is_some_and(|id| id.starts_with("direct-")) {
                    return interrupted;
                }
                (has_output, has_calls) = (true, true);
            }
            EventKind::Text { .. }
            | EventKind::Thought { .. }
            | EventKind::UsageReported { .. } => {
                has_output = true;
            }
            EventKind::Compacted { .. } => (has_output, is_compacted) = (true, true),
            EventKind::Notice { topic, .. } if topic == TOPIC => takeovers += 1,
            _ => {}
        }
    }
    let Some(prompt) = prompt else { return interrupted };
    if takeovers >= TAKEOVERS_MAX {
        return interrupted;
    }
    if !has_begun {
        return Continuation::Restart;
    }
    let last = missing.last().or(messages.last());
    if !has_output {
        return match last {
            Some(last) if last.role == MessageRole::User && last.text().contains(prompt) => {
                Continuation::AskModel(None)
            }
            // A command may have run something.
            _ if prompt.starts_with('/') => interrupted,
            _ => Continuation::Restart,
        };
    }
    if is_compacted && !has_calls && prompt.starts_with("/compact") {
        return Continuation::End(RunOutcome::Completed);
    }
    match last {
        None => interrupted,
        Some(last) if last.role == MessageRole::User || !tool_calls(last).is_empty() => {
            Continuation::AskModel(None)
        }
        Some(_) if missing.is_empty() => Continuation::End(RunOutcome::Completed),
        Some(_) => Continuation::AskModel(Some(ModelMessage::user(CONTINUE))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TokenUsage;
    use crate::message::{MessageBlock, ToolInput};
    use zero_core::{RunId, ToolKind};

    fn events(kinds: Vec<EventKind>) -> Vec<Event> {
        let prompt = EventKind::Prompt { text: "do it".to_owned(), attachments: Vec::new() };
        let run = Some(RunId::from_bits(1));
        std::iter::once(prompt)
            .chain(kinds)
            .zip(1..)
            .map(|(kind, seq)| Event { seq, run: run.clone(), time_ms: 0, kind })
            .collect()
    }

    fn started(model: &str) -> EventKind {
        EventKind::RunStarted { agent: "main".to_owned(), model: model.to_owned(), parent: None }
    }

    fn text(text: &str) -> EventKind {
        EventKind::Text { text: text.to_owned() }
    }

    fn used() -> EventKind {
        let run_usage = TokenUsage::default();
        EventKind::UsageReported { run_usage, context_tokens: 0, context_window: 0 }
    }

    fn called(id: &str) -> EventKind {
        EventKind::ToolStarted {
            call: "c1".to_owned(),
            name: "Write".to_owned(),
            title: String::new(),
            kind: ToolKind::Edit,
            input: serde_json::Value::Null,
            locations: Vec::new(),
            waits: false,
            transcript_id: Some(id.to_owned()),
        }
    }

    fn notice() -> EventKind {
        EventKind::Notice { topic: TOPIC.to_owned(), text: String::new() }
    }

    fn assistant(text: &str, call: Option<&str>) -> ModelMessage {
        let call = call.map(|id| MessageBlock::ToolUse {
            id: id.to_owned(),
            name: "Write".to_owned(),
            input: ToolInput::parse(""),
            opaque: serde_json::Value::Null,
        });
        ModelMessage::assistant(std::iter::once(MessageBlock::text(text)).chain(call).collect())
    }

    #[track_caller]
    fn check(kinds: Vec<EventKind>, messages: &[ModelMessage], expected: &Continuation) {
        let events = events(kinds);
        let (closing, _) = closing_events(&events);
        let kinds = events.iter().map(|event| &event.kind).chain(&closing);
        let missing = missing_messages(messages, kinds, None);
        assert_eq!(find_continuation(&events, messages, &missing), *expected);
    }

    #[test]
    fn run_continues_where_it_was() {
        let user = ModelMessage::user;
        let interrupted = Continuation::End(RunOutcome::Interrupted);
        let ask = Continuation::AskModel(None);
        let go_on = Continuation::AskModel(Some(user(CONTINUE)));
        // It was queued, or had just begun.
        check(vec![], &[], &Continuation::Restart);
        check(vec![started("m")], &[assistant("earlier", None)], &Continuation::Restart);
        check(vec![started("m")], &[user("earlier")], &Continuation::Restart);
        check(vec![started("m")], &[user("do it")], &ask);
        // A reply was cut off, or was complete.
        let asked = [user("do it")];
        check(vec![started("m"), text("so far")], &asked, &go_on);
        let done = [user("do it"), assistant("done", None)];
        let completed = Continuation::End(RunOutcome::Completed);
        check(vec![started("m"), text("done"), used()], &done, &completed);
        check(vec![started("m"), text("done"), used()], &asked, &go_on);
        // A call was under way.
        let calling = [user("do it"), assistant("now", Some("a"))];
        check(vec![started("m"), text("now"), used(), called("a")], &calling, &ask);
        let answered = [&calling[..], &[user("results")]].concat();
        check(vec![started("m"), text("now"), used(), called("a")], &answered, &ask);
        // What the user runs is not repeated, and no run ends each process.
        check(vec![started(crate::agent::DIRECT)], &asked, &interrupted);
        check(vec![started("m"), called("direct-1")], &calling, &interrupted);
        let again = vec![started("m"), notice(), notice(), notice()];
        check(again, &asked, &interrupted);
    }
}
