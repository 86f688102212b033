//! The jobs of all zero processes of a user, in zero's state folder.
//!
//! A job runs in the process that started it, its holder. Its record is for other processes, and
//! has its end with the unread output, so that a job can be examined when its holder
//! is gone. A process that changes a running job asks its holder ([`super::job_server`]).

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use zero_sandbox::folder_lease::FolderLease;
use zero_sandbox::{StateDir, private_socket};

use super::held_job::HeldJob;
use super::job::{Job, JobStatus};
use super::job_protocol::{self, JobAction, JobRequest, JobResponse};
use super::job_record::{JobOutput, JobRecord};
use super::job_server::{HOLDERS, JobServer, SOCKET};

/// Folder with the records.
const RECORDS: &str = "jobs";
/// Suffix of the file of a record.
const SUFFIX: &str = ".json";
/// The file whose lock is held while a record is changed.
const LOCK: &str = "lock";
/// Largest record, in bytes: unread output, of which JSON can make six times as much.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Most records; the oldest ended ones are removed for new ones.
const RECORDS_MAX: usize = 256;
/// How long the record of an ended job is kept.
const RECORD_AGE_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often another id is tried if a process was faster.
const ID_TRIES_MAX: usize = 100;

/// The jobs in one state folder.
pub struct JobRegistry {
    state: StateDir,
    records: StateDir,
    server: Mutex<Option<JobServer>>,
}

/// The registries that this process uses, one per state folder.
static OPEN: Mutex<Vec<Weak<JobRegistry>>> = Mutex::new(Vec::new());

impl JobRegistry {
    /// The registry of a state folder.
    pub fn open(state: &StateDir) -> Arc<Self> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|registry| registry.strong_count() > 0);
        let is_same = |registry: &Arc<Self>| registry.state.path() == state.path();
        if let Some(known) = open.iter().filter_map(Weak::upgrade).find(is_same) {
            return known;
        }
        let registry = Arc::new(Self {
            state: state.clone(),
            records: state.child(RECORDS),
            server: Mutex::new(None),
        });
        open.push(Arc::downgrade(&registry));
        registry
    }

    /// Stops answering other processes about jobs of this one, which have ended. A thread that
    /// answers a request may still use a registry, so dropping it is not enough.
    pub(crate) fn close_servers() {
        let open: Vec<Arc<Self>> = {
            let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter().filter_map(Weak::upgrade).collect()
        };
        open.iter().for_each(|registry| drop(registry.lock_server().take()));
    }

    /// All known jobs, oldest first.
    pub fn list(self: &Arc<Self>) -> io::Result<Vec<JobRecord>> {
        let ids = self.list_ids()?;
        Ok(ids.iter().filter_map(|id| self.find(id)).collect())
    }

    /// The record of a job.
    pub fn find(&self, id: &str) -> Option<JobRecord> {
        // Nothing but an id may become a file name.
        parse_number(id)?;
        let mut text = Vec::new();
        let file = self.records.open(&file_name(id)).ok()?;
        file.take(RECORD_BYTES_MAX).read_to_end(&mut text).ok()?;
        // An id that is only reserved has no record yet.
        serde_json::from_slice(&text).ok()
    }

    /// The job of a record, to be examined and ended from here.
    pub fn open_job(self: &Arc<Self>, record: JobRecord) -> Arc<Job> {
        let held_job = HeldJob::open(Arc::clone(self), &record);
        Arc::new(Job::from_record(record, held_job))
    }

    /// A job that runs in one of these folders, in a folder of them, or in one above.
    pub fn find_running_beside<'a>(
        self: &Arc<Self>,
        folders: impl Iterator<Item = &'a Path> + Clone,
    ) -> io::Result<Option<JobRecord>> {
        let is_beside = |record: &JobRecord| {
            let folder = Path::new(&record.owner.workspace);
            folders.clone().any(|root| is_nested(root, folder))
        };
        let mut beside = self.list()?.into_iter().filter(is_beside);
        Ok(beside.find(|job| self.open_job(job.clone()).status() == JobStatus::Running))
    }

    /// Kills the jobs of a session that is over, whichever process holds them, and waits for their
    /// end, each for at most `limit`. Returns those that have not ended.
    pub fn kill_session(self: &Arc<Self>, session: &str, limit: Duration) -> Vec<Arc<Job>> {
        let mut records = self.list().unwrap_or_default();
        records.retain(|record| {
            record.end.is_none() && record.owner.session.as_deref() == Some(session)
        });
        let jobs: Vec<Arc<Job>> = records.into_iter().map(|record| self.open_job(record)).collect();
        // First all of them, so that none goes on while another is waited for.
        jobs.iter().for_each(|job| job.kill());
        jobs.into_iter().filter(|job| !job.wait(limit)).collect()
    }

    /// Reserves an id, and makes sure that other processes can ask this one.
    pub(super) fn reserve(self: &Arc<Self>) -> io::Result<ReservedJobId> {
        let holder = self.serve()?;
        self.prune();
        for _ in 0..ID_TRIES_MAX {
            let last = self.list_ids()?.last().and_then(|id| parse_number(id)).unwrap_or(0);
            let id = format!("job_{}", last + 1);
            match self.records.create_new(&file_name(&id)) {
                Ok(_) => {
                    return Ok(ReservedJobId { registry: Arc::clone(self), id, holder });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "every id is taken at once"))
    }

    /// Answers other processes about a job of this process.
    pub(super) fn serve_job(&self, job: &Arc<Job>) {
        if let Some(server) = &*self.lock_server() {
            server.add(job);
        }
    }

    /// Stores a record. A failure is only logged: the job itself is not affected.
    pub(super) fn store(&self, record: &JobRecord) {
        let stored = self.lock_records().and_then(|_lock| self.write(record));
        if let Err(error) = stored {
            tracing::warn!(%error, job = record.id, "cannot store the record of a job");
        }
    }

    /// Removes the record of a job.
    pub fn remove(&self, id: &str) {
        if parse_number(id).is_some() {
            let _ = self.records.remove(&file_name(id));
        }
    }

    /// Takes the unread output from the record of an ended job.
    pub(super) fn take_stored_output(&self, id: &str) -> JobOutput {
        let Ok(_lock) = self.lock_records() else { return JobOutput::default() };
        let Some(mut record) = self.find(id) else { return JobOutput::default() };
        let Some(end) = &mut record.end else { return JobOutput::default() };
        let output = std::mem::take(&mut end.output);
        end.state.unread_bytes = 0;
        if let Err(error) = self.write(&record) {
            tracing::warn!(%error, job = id, "cannot store the record of a job");
        }
        output
    }

    /// Asks the holder of a job. `None` if there is none that knows the job.
    pub(super) fn ask(&self, holder: &str, id: &str, action: JobAction) -> Option<JobResponse> {
        // The name comes from a file.
        if holder.is_empty() || !holder.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let folder = self.state.child(HOLDERS).child(holder);
        let request = JobRequest { id: id.to_owned(), action };
        let stream = private_socket::connect(&folder, SOCKET);
        let response = stream.and_then(|stream| job_protocol::ask(stream, &request));
        match response {
            Ok(response) => response.state.is_some().then_some(response),
            Err(error) => {
                tracing::debug!(%error, job = id, "the process that holds a job did not answer");
                None
            }
        }
    }

    /// Whether the process that holds a job is alive.
    pub(super) fn is_holder_alive(&self, holder: &str) -> bool {
        FolderLease::is_held(&self.state, HOLDERS, holder)
    }

    /// Starts to answer other processes, if that was not done, and returns the name of this one.
    fn serve(&self) -> io::Result<String> {
        let mut server = self.lock_server();
        if server.is_none() {
            *server = Some(JobServer::start(&self.state)?);
        }
        Ok(server.as_ref().map(|server| server.name().to_owned()).unwrap_or_default())
    }

    /// Removes the records of jobs that ended long ago, and the oldest if there are too many.
    fn prune(&self) {
        let Ok(ids) = self.list_ids() else { return };
        let surplus = (ids.len() + 1).saturating_sub(RECORDS_MAX);
        let is_old =
            |id: &String| self.records.age(&file_name(id)).is_ok_and(|age| age > RECORD_AGE_MAX);
        for (index, id) in ids.iter().enumerate() {
            let is_running = || {
                self.find(id).is_some_and(|record| {
                    record.end.is_none() && self.is_holder_alive(&record.holder)
                })
            };
            if (index < surplus || is_old(id)) && !is_running() {
                self.remove(id);
            }
        }
    }

    /// The ids of all records, oldest first.
    fn list_ids(&self) -> io::Result<Vec<String>> {
        let names = self.records.list_names()?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(SUFFIX));
        let mut ids: Vec<(u64, &str)> =
            ids.filter_map(|id| Some((parse_number(id)?, id))).collect();
        ids.sort_unstable();
        Ok(ids.into_iter().map(|(_, id)| id.to_owned()).collect())
    }

    /// Replaces the file of a record. The lock must be held.
    fn write(&self, record: &JobRecord) -> io::Result<()> {
        let (name, new) = (file_name(&record.id), format!("{}.new", record.id));
        self.records.remove(&new)?;
        self.records.create_new(&new)?.write_all(&serde_json::to_vec(record)?)?;
        self.records.rename(&new, &name)
    }

    fn lock_records(&self) -> io::Result<std::fs::File> {
        let lock = self.records.lock_file(LOCK)?;
        lock.lock()?;
        Ok(lock)
    }

    fn lock_server(&self) -> MutexGuard<'_, Option<JobServer>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for JobRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobRegistry").finish_non_exhaustive()
    }
}

/// An id for a job that is about to start. Dropping it frees the id.
pub(super) struct ReservedJobId {
    registry: Arc<JobRegistry>,
    id: String,
    holder: String,
}

impl ReservedJobId {
    /// The id, and the name of this process among the holders. The record is the caller's now.
    pub(super) fn into_parts(mut self) -> (String, String) {
        (std::mem::take(&mut self.id), std::mem::take(&mut self.holder))
    }
}

impl Drop for ReservedJobId {
    fn drop(&mut self) {
        if !self.id.is_empty() {
            self.registry.remove(&self.id);
        }
    }
}

fn file_name(id: &str) -> String {
    format!("{id}{SUFFIX}")
}

/// The number of a job's id; `None` if it is not one.
fn parse_number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix("job_")?;
    let is_canonical = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| is_canonical)
}

/// Whether one of two folders contains the other.
fn is_nested(a: &Path, b: &Path) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::job_record::{JobEnd, JobOwner, OutputText};
    use super::*;
    use zero_sandbox::output_collector::OutputStream;

    fn registry() -> (tempfile::TempDir, Arc<JobRegistry>) {
        let temp = tempfile::tempdir().unwrap();
        let registry = JobRegistry::open(&StateDir::new(temp.path().join("state")));
        (temp, registry)
    }

    fn record(id: &str, end: Option<JobEnd>) -> JobRecord {
        JobRecord {
            id: id.to_owned(),
            owner: JobOwner::default(),
            command: "make".to_owned(),
            started: Timestamp::UNIX_EPOCH,
            output_file: None,
            holder: "00".to_owned(),
            gaps: Vec::new(),
            end,
        }
    }

    #[test]
    fn ids_increase_and_unused_ones_are_freed() {
        let (_temp, registry) = registry();
        let first = registry.reserve().unwrap();
        let second = registry.reserve().unwrap();
        assert_eq!((first.id.as_str(), second.id.as_str()), ("job_1", "job_2"));
        drop(second);
        let (id, _) = registry.reserve().unwrap().into_parts();
        assert_eq!(id, "job_2");
        assert!(registry.list().unwrap().is_empty(), "a reserved id is not a job");
        registry.store(&record("job_10", None));
        assert_eq!(registry.reserve().unwrap().id, "job_11");
        for id in ["job_0", "job_01", "job_", "job_x", "../job_1", "lock"] {
            assert!(registry.find(id).is_none(), "{id}");
        }
    }

    #[test]
    fn folder_is_beside_itself_and_those_above_and_below() {
        let nested = |a: &str, b: &str| is_nested(Path::new(a), Path::new(b));
        assert!(nested("/w", "/w") && nested("/w/a", "/w") && nested("/w", "/w/a"));
        assert!(!nested("/w", "/work") && !nested("/w/a", "/w/b"));
    }

    #[test]
    fn stored_output_is_taken_once() {
        let (_temp, registry) = registry();
        let text = OutputText { stream: OutputStream::Stdout, text: "ä\n".to_owned() };
        let mut end = JobEnd::default();
        end.output.pieces.push(text.clone());
        registry.store(&record("job_1", Some(end)));
        assert_eq!(registry.take_stored_output("job_1").pieces, [text]);
        assert!(registry.take_stored_output("job_1").pieces.is_empty());
        assert!(registry.take_stored_output("job_2").pieces.is_empty());
    }

    #[test]
    fn oldest_ended_records_make_room() {
        let (_temp, registry) = registry();
        for number in 1..=RECORDS_MAX {
            registry.store(&record(&format!("job_{number}"), Some(JobEnd::default())));
        }
        let (id, _) = registry.reserve().unwrap().into_parts();
        assert_eq!(id, format!("job_{}", RECORDS_MAX + 1));
        let ids: Vec<String> = registry.list_ids().unwrap();
        assert_eq!((ids.len(), ids[0].as_str()), (RECORDS_MAX, "job_2"));
    }
}
