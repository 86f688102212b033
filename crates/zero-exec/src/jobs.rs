//! Commands that go on while others are called: they belong to a session and die with it.
//!
//! What was not read yet is kept up to a bound, and all of it in a file.

pub(crate) mod job;
pub(crate) mod monitored_command;
pub(crate) mod unread_output;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zero_core::text_shortening::excerpt;
use zero_core::{ErrorReason, ToolError};

use self::job::JobCandidate;
pub use self::job::{Job, JobStatus};
pub use self::monitored_command::{
    CommandInput, HeldPermit, MonitorOptions, MonitoredCommand, OutputSink, SendInputError,
    UnreadRetention,
};
pub use self::unread_output::{BYTES_MAX as UNREAD_BYTES_MAX, OutputChunk};

/// Jobs of a session, ended ones that were not read yet among them.
pub const JOBS_MAX: usize = 16;

/// The jobs of a session.
#[derive(Debug, Default)]
pub struct JobTable {
    known: Mutex<Vec<Arc<Job>>>,
    /// Jobs that are about to start.
    starting: AtomicUsize,
    started: AtomicUsize,
}

impl JobTable {
    /// The job with that id.
    pub fn get(&self, id: &str) -> Result<Arc<Job>, ToolError> {
        let known = self.lock();
        known.iter().find(|job| job.id() == id).cloned().ok_or_else(|| {
            let ids: Vec<&str> = known.iter().map(|job| job.id()).collect();
            let shown = excerpt(id, 40);
            let hint = match &ids[..] {
                [] => "there are no jobs".to_owned(),
                ids => format!("the jobs are {}", ids.join(", ")),
            };
            ToolError::not_found(ErrorReason::Io, format!("there is no job `{shown}`; {hint}"))
                .with_detail("job_id", shown)
        })
    }

    /// All of them, oldest first.
    pub fn list(&self) -> Vec<Arc<Job>> {
        self.lock().clone()
    }

    /// Keeps a place for one more. An ended job makes room.
    pub(crate) fn reserve(&self) -> Result<JobSlot<'_>, ToolError> {
        let mut known = self.lock();
        if known.len() + self.starting.load(Ordering::Relaxed) >= JOBS_MAX
            && let Some(ended) = find_evictable(&known)
        {
            known.remove(ended);
        }
        if known.len() + self.starting.load(Ordering::Relaxed) >= JOBS_MAX {
            let message = format!(
                "{JOBS_MAX} jobs are running, and no more may; end one with BashKill, or wait for one to end"
            );
            return Err(ToolError::failed(ErrorReason::ResourceExhausted, message)
                .with_detail("limit", "jobs")
                .with_detail("allowed", JOBS_MAX)
                .with_detail("used", JOBS_MAX));
        }
        self.starting.fetch_add(1, Ordering::Relaxed);
        Ok(JobSlot { jobs: self })
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An ended job, best one of which everything was read.
fn find_evictable(known: &[Arc<Job>]) -> Option<usize> {
    let has_ended = |job: &Arc<Job>| job.status() != JobStatus::Running;
    let was_read = |job: &Arc<Job>| has_ended(job) && job.unread_bytes() == 0;
    known.iter().position(was_read).or_else(|| known.iter().position(has_ended))
}

/// A place for a job that is about to start.
pub(crate) struct JobSlot<'a> {
    jobs: &'a JobTable,
}

impl JobSlot<'_> {
    /// Lets a command be a job.
    pub(crate) fn add_job(self, candidate: JobCandidate) -> Arc<Job> {
        let number = self.jobs.started.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Arc::new(Job::new(format!("job_{number}"), candidate));
        self.jobs.lock().push(Arc::clone(&job));
        job
    }
}

impl Drop for JobSlot<'_> {
    fn drop(&mut self) {
        self.jobs.starting.fetch_sub(1, Ordering::Relaxed);
    }
}
