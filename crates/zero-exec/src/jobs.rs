//! Background commands of a session, which end with it.
//!
//! Unread output is kept in memory up to a bound; a file holds all of it.

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

/// Most jobs of a session, including ended ones.
pub const JOBS_MAX: usize = 16;

/// The jobs of a session.
#[derive(Debug, Default)]
pub struct JobTable {
    known: Mutex<Vec<Arc<Job>>>,
    /// Slots reserved for jobs that are about to start.
    starting: AtomicUsize,
    started: AtomicUsize,
}

impl JobTable {
    /// The job with this id.
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

    /// All jobs, oldest first.
    pub fn list(&self) -> Vec<Arc<Job>> {
        self.lock().clone()
    }

    /// Reserves a slot for a job. Removes an ended job if all slots are taken.
    pub(crate) fn reserve(&self) -> Result<JobSlot<'_>, ToolError> {
        let mut known = self.lock();
        if known.len() + self.starting.load(Ordering::Relaxed) >= JOBS_MAX
            && let Some(ended) = find_evictable(&known)
        {
            known.remove(ended);
        }
        if known.len() + self.starting.load(Ordering::Relaxed) >= JOBS_MAX {
            let message = format!(
                "the limit of {JOBS_MAX} running jobs is reached; end one with BashKill, or wait for one to end"
            );
            return Err(ToolError::failed(ErrorReason::ResourceExhausted, message)
                .with_detail("limit", "jobs")
                .with_detail("allowed", JOBS_MAX)
                .with_detail("used", JOBS_MAX));
        }
        self.starting.fetch_add(1, Ordering::Relaxed);
        Ok(JobSlot { jobs: self })
    }

    /// Removes all jobs from the table.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The index of an ended job, preferably one whose output was read completely.
fn find_evictable(known: &[Arc<Job>]) -> Option<usize> {
    let has_ended = |job: &Arc<Job>| job.status() != JobStatus::Running;
    let was_read = |job: &Arc<Job>| has_ended(job) && job.unread_bytes() == 0;
    known.iter().position(was_read).or_else(|| known.iter().position(has_ended))
}

/// A reserved slot for a job that is about to start.
pub(crate) struct JobSlot<'a> {
    jobs: &'a JobTable,
}

impl JobSlot<'_> {
    /// Adds a command to the table as a job.
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
