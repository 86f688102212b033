//! A job: a command that goes on after the call that started it.

use std::sync::Arc;
use std::time::Duration;

use zero_core::{CallId, ErrorReason, ToolError};
use zero_sandbox::ConfinementGap;
use zero_sandbox::listening_ports::ListeningPort;
use zero_sandbox::running_command::{CommandExit, ExitCause};

use super::held_job::HeldJob;
use super::job_record::{JobRecord, JobState};
use super::job_registry::JobRegistry;
use super::monitored_command::{MonitoredCommand, SendInputError};
use super::unread_output::OutputChunk;
use crate::command_errors::ToolCommandLimits;
use crate::new_files::{ChangeableFolders, NewFiles};
use crate::tree_watch::WatchReport;

/// How long one request to the holder of a job waits for output.
const HELD_WAIT: Duration = Duration::from_secs(2);

/// A background command of a session, in this process or another.
#[derive(Debug)]
pub struct Job {
    id: String,
    command: String,
    spill_file: Option<String>,
    missing: Vec<ConfinementGap>,
    source: JobSource,
}

/// Where a job runs.
#[derive(Debug)]
enum JobSource {
    /// In this process.
    Local(Box<LocalJob>),
    /// In another process, which may have ended.
    Held(Arc<HeldJob>),
}

/// A job of this process.
#[derive(Debug)]
struct LocalJob {
    allowed: ToolCommandLimits,
    watched: Arc<MonitoredCommand>,
    registry: Arc<JobRegistry>,
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
    /// The command line without secret values.
    pub(crate) shown_command: String,
    /// The call that started it.
    pub(crate) call: CallId,
    pub(crate) spill_file: Option<String>,
    pub(crate) allowed: ToolCommandLimits,
    /// Sandbox properties that are not enforced, as settings allow.
    pub(crate) missing: Vec<ConfinementGap>,
    pub(crate) watched: Arc<MonitoredCommand>,
}

impl Job {
    pub(super) fn new(id: String, candidate: JobCandidate, registry: Arc<JobRegistry>) -> Self {
        let JobCandidate { command, spill_file, allowed, missing, watched, .. } = candidate;
        watched.release_permit();
        let source = JobSource::Local(Box::new(LocalJob { allowed, watched, registry }));
        Self { id, command, spill_file, missing, source }
    }

    pub(super) fn from_record(record: JobRecord, held_job: HeldJob) -> Self {
        let JobRecord { id, command, output_file, gaps, .. } = record;
        let source = JobSource::Held(Arc::new(held_job));
        Self { id, command, spill_file: output_file, missing: gaps, source }
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
        match &self.source {
            JobSource::Local(local) => {
                local.watched.end_status().map_or(JobStatus::Running, JobStatus::Ended)
            }
            JobSource::Held(held) => match held.state() {
                JobState { has_ended: false, .. } => JobStatus::Running,
                JobState { exit, .. } => JobStatus::Ended(exit),
            },
        }
    }

    /// Why the job was stopped: a limit or its timeout. `None` if it ended by itself, still runs or
    /// was killed on request.
    pub fn stop_error(&self) -> Option<ToolError> {
        match &self.source {
            JobSource::Local(local) => {
                find_stop_error(local.watched.end_status()??, &local.allowed)
            }
            JobSource::Held(held) => held.state().error,
        }
    }

    /// Sandbox properties that are not enforced, as settings allow.
    pub fn sandbox_gaps(&self) -> &[ConfinementGap] {
        &self.missing
    }

    /// Files that it created although it may not; empty until it has ended.
    pub fn watch_report(&self) -> WatchReport {
        match &self.source {
            JobSource::Local(local) => local.watched.watch_report(),
            JobSource::Held(held) => held.state().report,
        }
    }

    /// Network notes since its start, such as refused connections.
    pub fn sandbox_notes(&self) -> Vec<String> {
        match &self.source {
            JobSource::Local(local) => local.watched.sandbox_notes(),
            JobSource::Held(held) => held.state().notes,
        }
    }

    /// Bytes of output that were not read.
    pub fn unread_bytes(&self) -> usize {
        match &self.source {
            JobSource::Local(local) => local.watched.unread_bytes(),
            JobSource::Held(held) => {
                usize::try_from(held.state().unread_bytes).unwrap_or(usize::MAX)
            }
        }
    }

    /// The output since the last call, and the number of bytes before it that were dropped.
    pub fn take_output(&self) -> (Vec<OutputChunk>, u64) {
        match &self.source {
            JobSource::Local(local) => {
                let (taken, is_rest) = local.watched.take_unread();
                if is_rest {
                    local.registry.take_stored_output(&self.id);
                }
                taken
            }
            JobSource::Held(held) => held.take_output(),
        }
    }

    /// The ports on which its processes listen, in the network of its sandbox.
    pub fn list_ports(&self) -> Vec<ListeningPort> {
        match &self.source {
            JobSource::Local(local) => local.watched.list_ports(),
            JobSource::Held(held) => held.list_ports(),
        }
    }

    /// Writes a text to the job's standard input.
    pub fn send(&self, text: &str) -> Result<(), ToolError> {
        let failed = |what: &str| {
            Err(ToolError::failed(ErrorReason::Busy, format!("job `{}` {what}", self.id)))
        };
        if self.status() != JobStatus::Running {
            return failed("has ended");
        }
        let local = match &self.source {
            JobSource::Local(local) => local,
            JobSource::Held(held) => return held.send(text),
        };
        match local.watched.send(text) {
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
        match &self.source {
            JobSource::Local(local) => local.watched.kill(),
            JobSource::Held(held) => held.kill(),
        }
    }

    /// Kills a job of this process if a file exists that it may not create. Returns whether it did.
    pub(crate) fn kill_if_forbidden(&self) -> bool {
        match &self.source {
            JobSource::Local(local) => local.watched.kill_if_forbidden(),
            JobSource::Held(_) => false,
        }
    }

    /// Kills a job of this process if what was reported as new is a file that it may not create.
    pub(crate) fn kill_if_new_forbidden(&self, new: &NewFiles) {
        if let JobSource::Local(local) = &self.source {
            local.watched.kill_if_new_forbidden(new);
        }
    }

    /// Kills a job of this process if it created a repository in which git would run code, and
    /// quarantines settings that it may not create.
    pub(crate) fn check_files(&self) {
        if let JobSource::Local(local) = &self.source {
            local.watched.check_files();
        }
    }

    /// The same for what was reported as new.
    pub(crate) fn check_new_files(&self, new: &NewFiles) {
        if let JobSource::Local(local) = &self.source {
            local.watched.check_new_files(new);
        }
    }

    /// The folders in which a job of this process can create files that it may not create.
    pub(crate) fn changeable_folders(&self) -> ChangeableFolders {
        match &self.source {
            JobSource::Local(local) => local.watched.changeable_folders(),
            JobSource::Held(_) => ChangeableFolders::default(),
        }
    }

    /// Time that the command has run, or ran.
    pub fn run_time(&self) -> Duration {
        match &self.source {
            JobSource::Local(local) => local.watched.run_time(),
            JobSource::Held(held) => Duration::from_millis(held.state().run_ms),
        }
    }

    /// Completes when the job has written something that was not read, or has ended.
    pub async fn wait_progress(&self) {
        let held_job = match &self.source {
            JobSource::Local(local) => return local.watched.wait_progress().await,
            JobSource::Held(held) => held,
        };
        loop {
            let job = Arc::clone(held_job);
            let wait = tokio::task::spawn_blocking(move || job.wait_output(HELD_WAIT));
            // Fails only when the program ends.
            let is_over = wait.await.is_err();
            let state = held_job.state();
            if is_over || state.has_ended || state.unread_bytes > 0 {
                return;
            }
        }
    }

    /// Like [`Job::wait_progress`], for a thread that may wait, up to `limit`.
    pub fn wait_output(&self, limit: Duration) {
        match &self.source {
            JobSource::Local(local) => local.watched.wait_output(limit),
            JobSource::Held(held) => held.wait_output(limit),
        }
    }

    /// Waits up to `limit` for the end of the job. Returns whether it has ended.
    pub fn wait(&self, limit: Duration) -> bool {
        match &self.source {
            JobSource::Local(local) => local.watched.wait(limit),
            JobSource::Held(held) => held.wait(limit),
        }
    }

    /// Whether this command of this process is the job.
    pub(crate) fn is_command(&self, command: &Arc<MonitoredCommand>) -> bool {
        matches!(&self.source, JobSource::Local(local) if Arc::ptr_eq(&local.watched, command))
    }

    /// The record of it for other processes.
    pub(super) fn state(&self) -> JobState {
        let (has_ended, exit) = match self.status() {
            JobStatus::Running => (false, None),
            JobStatus::Ended(exit) => (true, exit),
        };
        JobState {
            has_ended,
            exit,
            error: self.stop_error(),
            run_ms: to_millis(self.run_time()),
            report: self.watch_report(),
            notes: self.sandbox_notes(),
            unread_bytes: self.unread_bytes() as u64,
        }
    }
}

/// Why a job was stopped: a limit or its timeout.
pub(super) fn find_stop_error(exit: CommandExit, allowed: &ToolCommandLimits) -> Option<ToolError> {
    match exit.why {
        ExitCause::Killed => None,
        _ => allowed.job_error(&exit),
    }
}

pub(super) fn to_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
