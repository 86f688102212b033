//! Answers other processes of the user about the jobs that this process holds.

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use zero_sandbox::folder_lease::{self, FolderLease};
use zero_sandbox::{StateDir, private_socket};

use super::job::Job;
use super::job_protocol::{self, JobAction, JobRequest, JobResponse, WAIT_MAX};
use super::job_record::JobOutput;

/// Folder with one subfolder per process that holds jobs, while it is alive.
pub(super) const HOLDERS: &str = "job-holders";
/// The socket of such a process, in its folder.
pub(super) const SOCKET: &str = "socket";
/// Most connections that are served at once; further ones are closed.
const CONNECTIONS_MAX: usize = 32;

/// Serves the jobs of this process. Dropping it ends the service.
pub(super) struct JobServer {
    name: String,
    shared: Arc<ServedJobs>,
    lease: FolderLease,
}

/// The jobs that are served.
#[derive(Default)]
struct ServedJobs {
    jobs: Mutex<Vec<Weak<Job>>>,
    connections: AtomicUsize,
    is_over: AtomicBool,
}

impl JobServer {
    /// Starts to listen in zero's state folder.
    pub(super) fn start(state: &StateDir) -> io::Result<Self> {
        folder_lease::sweep(state, &[HOLDERS]);
        let name = format!("{:016x}", fastrand::u64(..));
        let lease = FolderLease::acquire(state, HOLDERS, &name)?;
        let listener = private_socket::listen(&lease.folder(), SOCKET)?;
        let shared = Arc::new(ServedJobs::default());
        let served = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("zero-jobs".to_owned())
            .spawn(move || accept_all(&listener, &served))?;
        Ok(Self { name, shared, lease })
    }

    /// The name of this process among the holders.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Serves a job, until it is dropped.
    pub(super) fn add(&self, job: &Arc<Job>) {
        let mut jobs = self.shared.lock();
        jobs.retain(|job| job.strong_count() > 0);
        jobs.push(Arc::downgrade(job));
    }
}

impl Drop for JobServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = private_socket::connect(&self.lease.folder(), SOCKET);
    }
}

impl ServedJobs {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Option<Arc<Job>> {
        self.lock().iter().filter_map(Weak::upgrade).find(|job| job.id() == id)
    }

    fn answer(&self, request: JobRequest) -> JobResponse {
        let Some(job) = self.find(&request.id) else { return JobResponse::default() };
        let mut response = JobResponse::default();
        let limit = |ms: u64| Duration::from_millis(ms).min(WAIT_MAX);
        match request.action {
            JobAction::Inspect => {}
            // As a reader here would see it: the state first, so that no output of an ended job is
            // missed.
            JobAction::Take => {
                response.state = Some(job.state());
                response.output = JobOutput::from_chunks(job.take_output());
                return response;
            }
            JobAction::AwaitProgress { ms } => job.wait_output(limit(ms)),
            JobAction::AwaitEnd { ms } => _ = job.wait(limit(ms)),
            JobAction::ListPorts => response.ports = job.list_ports(),
            JobAction::Kill => job.kill(),
            JobAction::Send { text } => response.error = job.send(&text).err(),
        }
        response.state = Some(job.state());
        response
    }
}

fn accept_all(listener: &UnixListener, served: &Arc<ServedJobs>) {
    for stream in listener.incoming() {
        if served.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // Out of descriptors, for example; do not spin.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        // Only this thread adds connections.
        if !private_socket::is_own_user(&stream)
            || served.connections.load(Ordering::Relaxed) >= CONNECTIONS_MAX
        {
            continue;
        }
        served.connections.fetch_add(1, Ordering::Relaxed);
        let each = Arc::clone(served);
        let started =
            std::thread::Builder::new().name("zero-jobs-client".to_owned()).spawn(move || {
                if let Err(error) = job_protocol::serve(stream, |request| each.answer(request)) {
                    tracing::debug!(%error, "a request about a job was not answered");
                }
                each.connections.fetch_sub(1, Ordering::Relaxed);
            });
        if started.is_err() {
            served.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
