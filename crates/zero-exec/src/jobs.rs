//! Background commands of a session.
//!
//! Unread output is kept in memory up to a bound; a file holds all of it. A job ends with the
//! process that runs it, its holder. Other processes of the user know it by its record, and reach it
//! through its holder, so that a later call or turn can read and end it.

mod held_job;
pub(crate) mod job;
mod job_log;
mod job_protocol;
mod job_record;
mod job_registry;
mod job_server;
pub(crate) mod monitored_command;
pub(crate) mod unread_output;
mod workspace_jobs;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use zero_core::text_shortening::excerpt;
use zero_core::{ErrorReason, ToolError};

pub use self::job::{Job, JobStatus};
use self::job::{JobCandidate, find_stop_error, to_millis};
pub use self::job_log::{EndedJob, JobLog};
use self::job_record::{JobEnd, JobOutput, JobState};
pub use self::job_record::{JobOwner, JobRecord};
pub use self::job_registry::JobRegistry;
use self::job_registry::ReservedJobId;
pub use self::monitored_command::{
    CommandInput, EndHook, EndedCommand, HeldPermit, MonitorOptions, MonitoredCommand, OutputSink,
    SendInputError, UnreadRetention,
};
pub use self::unread_output::{BYTES_MAX as UNREAD_BYTES_MAX, OutputChunk};
pub use self::workspace_jobs::refuse_beside_job;

/// Most jobs of a session, including ended ones.
pub const JOBS_MAX: usize = 16;

/// The jobs of a session.
#[derive(Default)]
pub struct JobTable {
    known: Mutex<Vec<Arc<Job>>>,
    /// Slots reserved for jobs that are about to start.
    starting: AtomicUsize,
    /// Absent for commands that are never jobs.
    sharing: Option<JobSharing>,
}

/// How the jobs of a session are known outside of it.
struct JobSharing {
    registry: Arc<JobRegistry>,
    owner: JobOwner,
    log: Arc<dyn JobLog>,
}

impl JobTable {
    /// The jobs of an owner: those that are started here, and those that other processes hold.
    pub fn new(registry: Arc<JobRegistry>, owner: JobOwner, log: Arc<dyn JobLog>) -> Self {
        let sharing = Some(JobSharing { registry, owner, log });
        Self { sharing, ..Self::default() }
    }

    /// The job with this id.
    pub fn get(&self, id: &str) -> Result<Arc<Job>, ToolError> {
        let local = self.lock().iter().find(|job| job.id() == id).cloned();
        let found = local.or_else(|| {
            let JobSharing { registry, owner, .. } = self.sharing.as_ref()?;
            let record = registry.find(id).filter(|record| record.owner.scope == owner.scope)?;
            Some(registry.open_job(record))
        });
        found.ok_or_else(|| {
            let ids: Vec<String> = self.list_ids();
            let shown = excerpt(id, 40);
            let hint = match &ids[..] {
                [] => "there are no jobs".to_owned(),
                ids => format!("the jobs are {}", ids.join(", ")),
            };
            ToolError::not_found(ErrorReason::Io, format!("there is no job `{shown}`; {hint}"))
                .with_detail("job_id", shown)
        })
    }

    /// The first folder of the workspace in which they run, if they can be jobs.
    pub(crate) fn workspace(&self) -> Option<&Path> {
        self.sharing.as_ref().map(|sharing| Path::new(&sharing.owner.workspace))
    }

    /// All jobs: those of other processes first, each oldest first.
    pub fn list(&self) -> Vec<Arc<Job>> {
        let local = self.lock().clone();
        let records = self.list_shared(&local);
        let held = self.sharing.iter().flat_map(|sharing| {
            records.iter().map(|record| sharing.registry.open_job(record.clone()))
        });
        let jobs: Vec<Arc<Job>> = held.collect();
        jobs.into_iter().chain(local).collect()
    }

    /// Whether a job of this process runs.
    pub fn has_running(&self) -> bool {
        !self.list_running().is_empty()
    }

    /// The jobs of this process that run.
    pub(crate) fn list_running(&self) -> Vec<Arc<Job>> {
        let is_running = |job: &&Arc<Job>| job.status() == JobStatus::Running;
        self.lock().iter().filter(is_running).cloned().collect()
    }

    /// Reserves a slot for a job. Removes an ended job if all slots are taken.
    pub(crate) fn reserve(&self) -> Result<JobSlot<'_>, ToolError> {
        let Some(sharing) = &self.sharing else {
            let message = "background jobs need a session; run the command in the foreground";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        };
        let held = self.count_held_elsewhere();
        let mut known = self.lock();
        let is_full = |known: &[Arc<Job>]| {
            known.len() + held + self.starting.load(Ordering::Relaxed) >= JOBS_MAX
        };
        if is_full(&known)
            && let Some(ended) = find_evictable(&known)
        {
            sharing.registry.remove(known.remove(ended).id());
        }
        if is_full(&known) {
            let message = format!(
                "the limit of {JOBS_MAX} running jobs is reached; end one with BashKill, or wait for one to end"
            );
            return Err(ToolError::failed(ErrorReason::ResourceExhausted, message)
                .with_detail("limit", "jobs")
                .with_detail("allowed", JOBS_MAX)
                .with_detail("used", JOBS_MAX));
        }
        let id = sharing.registry.reserve().map_err(|error| registry_error(&error))?;
        self.starting.fetch_add(1, Ordering::Relaxed);
        Ok(JobSlot { jobs: self, sharing, id: Some(id) })
    }

    /// Removes all jobs from the table. Their records stay.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn list_ids(&self) -> Vec<String> {
        let local = self.lock().clone();
        let held = self.list_shared(&local).into_iter().map(|record| record.id);
        held.chain(local.iter().map(|job| job.id().to_owned())).collect()
    }

    /// The jobs of the owner that this process does not hold.
    fn list_shared(&self, local: &[Arc<Job>]) -> Vec<JobRecord> {
        let Some(JobSharing { registry, owner, .. }) = &self.sharing else { return Vec::new() };
        let mut records = registry.list().unwrap_or_default();
        records.retain(|record| {
            record.owner.scope == owner.scope && !local.iter().any(|job| job.id() == record.id)
        });
        records
    }

    /// Jobs of the owner that run in other processes.
    fn count_held_elsewhere(&self) -> usize {
        let local = self.lock().clone();
        let Some(sharing) = &self.sharing else { return 0 };
        let is_running = |record: &JobRecord| {
            record.end.is_none() && sharing.registry.is_holder_alive(&record.holder)
        };
        self.list_shared(&local).iter().filter(|record| is_running(record)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for JobTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobTable").finish_non_exhaustive()
    }
}

/// The index of an ended job, preferably one whose output was read completely.
fn find_evictable(known: &[Arc<Job>]) -> Option<usize> {
    let has_ended = |job: &Arc<Job>| job.status() != JobStatus::Running;
    let was_read = |job: &Arc<Job>| has_ended(job) && job.unread_bytes() == 0;
    known.iter().position(was_read).or_else(|| known.iter().position(has_ended))
}

fn registry_error(error: &io::Error) -> ToolError {
    let message = format!(
        "no job can be started: zero cannot note it in its state folder ({error}); make sure that this folder is writable and its disk is not full"
    );
    ToolError::failed(ErrorReason::Io, message)
}

/// A reserved slot for a job that is about to start.
pub(crate) struct JobSlot<'a> {
    jobs: &'a JobTable,
    sharing: &'a JobSharing,
    id: Option<ReservedJobId>,
}

impl JobSlot<'_> {
    /// Adds a command to the table as a job.
    pub(crate) fn add_job(mut self, mut candidate: JobCandidate) -> Arc<Job> {
        let JobSharing { registry, owner, log } = self.sharing;
        let (id, holder) = self.id.take().map(ReservedJobId::into_parts).unwrap_or_default();
        let record = JobRecord {
            id: id.clone(),
            owner: owner.clone(),
            command: std::mem::take(&mut candidate.shown_command),
            started: Timestamp::now(),
            output_file: candidate.spill_file.clone(),
            holder,
            gaps: candidate.missing.clone(),
            end: None,
        };
        registry.store(&record);
        let (watched, allowed) = (Arc::clone(&candidate.watched), candidate.allowed.clone());
        let (call, log, ends) = (candidate.call.clone(), Arc::clone(log), Arc::clone(registry));
        let job = Arc::new(Job::new(id, candidate, Arc::clone(registry)));
        registry.serve_job(&job);
        self.jobs.lock().push(Arc::clone(&job));
        watched.on_end(Box::new(move |ended: &EndedCommand<'_>| {
            let mut record = record;
            let state = JobState {
                has_ended: true,
                exit: ended.exit.cloned(),
                error: ended.exit.cloned().and_then(|exit| find_stop_error(exit, &allowed)),
                run_ms: to_millis(ended.run_time),
                report: ended.watch_report.clone(),
                notes: ended.notes.to_vec(),
                unread_bytes: ended.unread.0.iter().map(|piece| piece.bytes.len() as u64).sum(),
            };
            let output = JobOutput::from_chunks(ended.unread.clone());
            record.end = Some(JobEnd { state, output });
            ends.store(&record);
            log.write_end(&EndedJob {
                id: &record.id,
                call: &call,
                command: &record.command,
                exit: ended.exit,
                run_time: ended.run_time,
            });
        }));
        job
    }
}

impl Drop for JobSlot<'_> {
    fn drop(&mut self) {
        self.jobs.starting.fetch_sub(1, Ordering::Relaxed);
    }
}
