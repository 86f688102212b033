//! A job that another process holds, or held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::listening_ports::ListeningPort;

use super::job_protocol::{JobAction, WAIT_MAX};
use super::job_record::{JobEnd, JobRecord, JobState};
use super::job_registry::JobRegistry;
use super::unread_output::OutputChunk;

/// The note about a job whose holder did not record its end.
const LOST_NOTE: &str = "the zero process that held the job was killed, and the job with it; how far it got is not known";
/// The note about a holder that does not answer.
const SILENT_NOTE: &str = "the zero process that holds the job does not answer";

/// A job that another process holds, or held. Its state is that of the last request.
#[derive(Debug)]
pub(super) struct HeldJob {
    registry: Arc<JobRegistry>,
    id: String,
    holder: String,
    state: Mutex<JobState>,
}

impl HeldJob {
    /// The job of a record, in its present state.
    pub(super) fn open(registry: Arc<JobRegistry>, record: &JobRecord) -> Self {
        let (id, holder) = (record.id.clone(), record.holder.clone());
        let held_job = Self { registry, id, holder, state: Mutex::default() };
        match &record.end {
            Some(JobEnd { state, .. }) => *held_job.lock() = state.clone(),
            None => held_job.refresh(JobAction::Inspect),
        }
        held_job
    }

    /// The state at the last request.
    pub(super) fn state(&self) -> JobState {
        self.lock().clone()
    }

    /// Takes the output that was not read, and the number of bytes before it that were dropped.
    pub(super) fn take_output(&self) -> (Vec<OutputChunk>, u64) {
        let response = self.registry.ask(&self.holder, &self.id, JobAction::Take);
        let output = match response {
            Some(response) => {
                // The state stays the one before: more output may have followed it.
                response.output
            }
            None => self.registry.take_stored_output(&self.id),
        };
        self.lock().unread_bytes = 0;
        output.into_chunks()
    }

    /// The ports on which its processes listen.
    pub(super) fn list_ports(&self) -> Vec<ListeningPort> {
        let response = self.registry.ask(&self.holder, &self.id, JobAction::ListPorts);
        response.map(|response| response.ports).unwrap_or_default()
    }

    /// Writes a text to the job's standard input.
    pub(super) fn send(&self, text: &str) -> Result<(), ToolError> {
        let action = JobAction::Send { text: text.to_owned() };
        match self.registry.ask(&self.holder, &self.id, action) {
            Some(response) => response.error.map_or(Ok(()), Err),
            None => {
                let message = format!("job `{}` has ended, or its holder does not answer", self.id);
                Err(ToolError::failed(ErrorReason::Busy, message))
            }
        }
    }

    /// Kills the job. Does nothing if it has ended already.
    pub(super) fn kill(&self) {
        self.refresh(JobAction::Kill);
    }

    /// Waits up to `limit` for the end. Returns whether it has ended.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        self.wait_until(limit, |ms| JobAction::AwaitEnd { ms }, |state| state.has_ended)
    }

    /// Waits up to `limit` for output that was not read, or the end.
    pub(super) fn wait_output(&self, limit: Duration) {
        let is_so = |state: &JobState| state.has_ended || state.unread_bytes > 0;
        self.wait_until(limit, |ms| JobAction::AwaitProgress { ms }, is_so);
    }

    fn wait_until(
        &self,
        limit: Duration,
        action: impl Fn(u64) -> JobAction,
        is_so: impl Fn(&JobState) -> bool,
    ) -> bool {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let ms = u64::try_from(left.min(WAIT_MAX).as_millis()).unwrap_or(0);
            let is_answered = self.refresh_answered(action(ms));
            if is_so(&self.lock()) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
            if !is_answered {
                // A holder that does not answer answers no sooner if it is asked at once.
                std::thread::sleep(left.min(Duration::from_millis(100)));
            }
        }
    }

    fn refresh(&self, action: JobAction) {
        self.refresh_answered(action);
    }

    /// Asks the holder for the state. Without an answer, it is that of the record. Returns whether
    /// the holder answered.
    fn refresh_answered(&self, action: JobAction) -> bool {
        let answered = self.registry.ask(&self.holder, &self.id, action);
        let is_answered = answered.is_some();
        let state = answered.and_then(|response| response.state);
        let state = state.unwrap_or_else(|| self.recorded_state());
        *self.lock() = state;
        is_answered
    }

    fn recorded_state(&self) -> JobState {
        // Before the record is read: a holder stores the end before it goes.
        let is_alive = self.registry.is_holder_alive(&self.holder);
        match (self.registry.find(&self.id).and_then(|record| record.end), is_alive) {
            (Some(end), _) => end.state,
            (None, true) => JobState { notes: vec![SILENT_NOTE.to_owned()], ..self.state() },
            (None, false) => JobState {
                has_ended: true,
                notes: vec![LOST_NOTE.to_owned()],
                ..JobState::default()
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
