//! A job: a monitored command with an id.

use std::sync::Arc;
use std::time::Duration;

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::ConfinementGap;
use zero_sandbox::running_command::{CommandExit, ExitCause};

use super::monitored_command::{MonitoredCommand, SendInputError};
use super::unread_output::OutputChunk;
use crate::command_errors::ToolCommandLimits;
use crate::tree_watch::WatchReport;

/// A background command of a session.
#[derive(Debug)]
pub struct Job {
    id: String,
    command: String,
    spill_file: Option<String>,
    allowed: ToolCommandLimits,
    missing: Vec<ConfinementGap>,
    watched: Arc<MonitoredCommand>,
}

/// Whether a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// The job runs.
    Running,
    /// The job ended with this status; `None` if the status is unknown.
    Ended(Option<CommandExit>),
}

/// A started command that is to become a job.
pub(crate) struct JobCandidate {
    pub(crate) command: String,
    pub(crate) spill_file: Option<String>,
    pub(crate) allowed: ToolCommandLimits,
    /// Sandbox properties that are not enforced, as settings allow.
    pub(crate) missing: Vec<ConfinementGap>,
    pub(crate) watched: Arc<MonitoredCommand>,
}

impl Job {
    pub(super) fn new(id: String, candidate: JobCandidate) -> Self {
        let JobCandidate { command, spill_file, allowed, missing, watched } = candidate;
        watched.release_permit();
        Self { id, command, spill_file, allowed, missing, watched }
    }

    /// The id by which tools refer to the job.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The command line.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The file with all of its output.
    pub fn spill_file(&self) -> Option<&str> {
        self.spill_file.as_deref()
    }

    /// Whether the job runs, and how it ended.
    pub fn status(&self) -> JobStatus {
        self.watched.end_status().map_or(JobStatus::Running, JobStatus::Ended)
    }

    /// Why the job was stopped: a limit or its timeout. `None` if it ended by itself, still runs or
    /// was killed on request.
    pub fn stop_error(&self) -> Option<ToolError> {
        let ended = self.watched.end_status()??;
        match ended.why {
            ExitCause::Killed => None,
            _ => self.allowed.job_error(&ended),
        }
    }

    /// Sandbox properties that are not enforced, as settings allow.
    pub fn sandbox_gaps(&self) -> &[ConfinementGap] {
        &self.missing
    }

    /// Files that it created although it may not; empty until it has ended.
    pub fn watch_report(&self) -> WatchReport {
        self.watched.watch_report()
    }

    /// Network notes since its start, such as refused connections.
    pub fn sandbox_notes(&self) -> Vec<String> {
        self.watched.sandbox_notes()
    }

    /// Bytes of output that were not read.
    pub fn unread_bytes(&self) -> usize {
        self.watched.unread_bytes()
    }

    /// The output since the last call, and the number of bytes before it that were dropped.
    pub fn take_output(&self) -> (Vec<OutputChunk>, u64) {
        self.watched.take_unread()
    }

    /// Writes a text to the job's standard input.
    pub fn send(&self, text: &str) -> Result<(), ToolError> {
        let failed = |what: &str| {
            Err(ToolError::failed(ErrorReason::Busy, format!("job `{}` {what}", self.id)))
        };
        if self.status() != JobStatus::Running {
            return failed("has ended");
        }
        match self.watched.send(text) {
            Ok(()) => Ok(()),
            Err(SendInputError::Full) => failed("has not read its earlier input yet"),
            Err(SendInputError::Closed) => failed("has closed its input"),
            Err(SendInputError::NoInput) => {
                failed("has no input; start it with `run_in_background` to send input")
            }
        }
    }

    /// Kills the job. Does nothing if it has ended already.
    pub fn kill(&self) {
        self.watched.kill();
    }

    /// Time that the command has run, or ran.
    pub fn run_time(&self) -> Duration {
        self.watched.run_time()
    }

    /// Completes when the job has written something that was not read, or has ended.
    pub async fn wait_progress(&self) {
        self.watched.wait_progress().await;
    }

    /// Waits up to `limit` for the end of the job. Returns whether it has ended.
    pub fn wait(&self, limit: Duration) -> bool {
        self.watched.wait(limit)
    }
}
