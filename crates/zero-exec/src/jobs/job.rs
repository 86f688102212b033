//! One job: a command that is watched, with a name to ask about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::ConfinementGap;
use zero_sandbox::running_command::{CommandExit, ExitCause};

use super::monitored_command::{MonitoredCommand, SendInputError};
use super::unread_output::OutputChunk;
use crate::command_errors::ToolCommandLimits;
use crate::tree_watch::WatchReport;

/// A command of a session that goes on while others are called.
#[derive(Debug)]
pub struct Job {
    id: String,
    command: String,
    since: Instant,
    spill_file: Option<String>,
    allowed: ToolCommandLimits,
    missing: Vec<ConfinementGap>,
    watched: Arc<MonitoredCommand>,
}

/// Whether a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// It does.
    Running,
    /// It ended, and how; `None` when nobody knows.
    Ended(Option<CommandExit>),
}

/// A command that is to be a job.
pub(crate) struct JobCandidate {
    pub(crate) command: String,
    pub(crate) spill_file: Option<String>,
    pub(crate) allowed: ToolCommandLimits,
    /// What does not hold of its confinement, by leave of the settings.
    pub(crate) missing: Vec<ConfinementGap>,
    pub(crate) watched: Arc<MonitoredCommand>,
}

impl Job {
    pub(super) fn new(id: String, candidate: JobCandidate) -> Self {
        let JobCandidate { command, spill_file, allowed, missing, watched } = candidate;
        watched.release_permit();
        Self { id, command, since: Instant::now(), spill_file, allowed, missing, watched }
    }

    /// How it is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What runs.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// How long it has been a job.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// The file that holds all of its output.
    pub fn spill_file(&self) -> Option<&str> {
        self.spill_file.as_deref()
    }

    /// Whether it runs.
    pub fn status(&self) -> JobStatus {
        self.watched.end_status().map_or(JobStatus::Running, JobStatus::Ended)
    }

    /// Why it did not come to its end by itself: a limit or its time. Nothing when it did, when it
    /// runs, or when somebody ended it.
    pub fn stop_error(&self) -> Option<ToolError> {
        let ended = self.watched.end_status()??;
        match ended.why {
            ExitCause::Killed => None,
            _ => self.allowed.job_error(&ended),
        }
    }

    /// What does not hold of its confinement, by leave of the settings.
    pub fn sandbox_gaps(&self) -> &[ConfinementGap] {
        &self.missing
    }

    /// What it made that it may not make; known once it has ended.
    pub fn watch_report(&self) -> WatchReport {
        self.watched.watch_report()
    }

    /// What is to be known of the network since it began, such as connections that were refused.
    pub fn network_notes(&self) -> Vec<String> {
        self.watched.network_notes()
    }

    /// Bytes it wrote that nobody has read.
    pub fn unread_bytes(&self) -> usize {
        self.watched.unread_bytes()
    }

    /// What it wrote since this was last asked, and how many bytes before that are lost.
    pub fn take_output(&self) -> (Vec<OutputChunk>, u64) {
        self.watched.take_unread()
    }

    /// Sends it a text to read.
    pub fn send(&self, text: &str) -> Result<(), ToolError> {
        let failed = |what: &str| {
            Err(ToolError::failed(ErrorReason::Busy, format!("job `{}` {what}", self.id)))
        };
        if self.status() != JobStatus::Running {
            return failed("has ended and reads nothing any more");
        }
        match self.watched.send(text) {
            Ok(()) => Ok(()),
            Err(SendInputError::Full) => failed("does not read what it was sent before"),
            Err(SendInputError::Closed) => failed("has closed its input"),
            Err(SendInputError::NoInput) => {
                failed("has no input: start it with `run_in_background` to send it texts")
            }
        }
    }

    /// Asks for its end. Nothing happens when it has ended already.
    pub fn kill(&self) {
        self.watched.kill();
    }

    /// Waits until it has ended, though not longer than `limit`; true when it has.
    pub fn wait(&self, limit: Duration) -> bool {
        self.watched.wait(limit)
    }
}
