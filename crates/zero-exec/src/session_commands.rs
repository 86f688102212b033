//! The state that the commands of a session share: the current folder, temporary files, network and
//! jobs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use zero_core::CommandExecution;
use zero_sandbox::folder_lease::FolderLease;
use zero_sandbox::{FileType, StateDir, Workspace, detachable_process, path_survey};

use crate::check_pace::CheckPace;
use crate::jobs::monitored_command::MonitoredCommand;
use crate::jobs::{Job, JobStatus, JobTable};
use crate::new_files::{ChangeableFolders, NewFileSubscription};
use crate::session_network::SessionNetwork;

/// Subfolder of the state folder for temporary files, one folder per session.
pub const TMP_SHELF: &str = "tmp";
/// How long the start and the end of all commands are waited for.
const END_MAX: Duration = Duration::from_secs(10);
/// How long a process holds jobs after its own end.
const HELD_TIME_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The state that the commands of a session share.
pub struct SessionCommands {
    /// Where the next command starts; the workspace's first folder when absent.
    folder: Mutex<Option<PathBuf>>,
    /// Whether the current folder and jobs outlive a call.
    pub(crate) remembers: bool,
    state: StateDir,
    name: String,
    /// The folder for temporary files; created on first use.
    pub(crate) tmp: StateDir,
    /// The shared network; created on first use.
    pub(crate) network: SessionNetwork,
    open: Mutex<SessionResources>,
    /// Signals that a command is no longer about to start.
    started: Condvar,
    /// The last command, if it failed because of the sandbox.
    sandbox_failure: Mutex<Option<(CommandExecution, FailureEvidence)>>,
    /// How often a call of the session may have changed files.
    changes: AtomicU64,
    /// The background jobs.
    pub jobs: JobTable,
}

/// The folder in which a shell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellEndFolder {
    /// The folder in which it started, or an unknown one.
    Same,
    /// Another folder of the workspace, where the next command starts.
    Moved(PathBuf),
    /// A folder outside the workspace; the next command starts in the workspace's first folder.
    Outside(PathBuf),
}

/// How zero knows that the sandbox made a command fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureEvidence {
    /// Its proxy refused a connection of the command.
    Refusal,
    /// The output of the command says so. A program can print anything.
    Output,
    /// It was refused before it ran, because its command line names what it cannot change.
    Prediction,
}

/// A command that is about to start. The end of its session waits until this is dropped, so hold it
/// until [`SessionCommands::add`] has the command.
pub(crate) struct StartGuard(Arc<SessionCommands>);

impl Drop for StartGuard {
    fn drop(&mut self) {
        self.0.lock_resources().starting -= 1;
        self.0.started.notify_all();
    }
}

/// What must be released when the session ends.
#[derive(Default)]
struct SessionResources {
    is_over: bool,
    /// Commands that are about to start, and that `commands` does not have yet.
    starting: usize,
    commands: Vec<Weak<MonitoredCommand>>,
    lease: Option<FolderLease>,
    /// Of the folder that commands outside the sandbox use.
    outside_lease: Option<FolderLease>,
}

/// The sessions of this process that have started a command.
static LIVE_SESSIONS: Mutex<Vec<Weak<SessionCommands>>> = Mutex::new(Vec::new());

/// Sessions that are over, and whose jobs go on.
static HELD_SESSIONS: Mutex<Vec<Arc<SessionCommands>>> = Mutex::new(Vec::new());

/// Folders in which a command of a session that is over did not end in time.
static SURVIVOR_FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Ends every command and job of the sessions of this process that work in a folder, also if this
/// process could hold them, and waits for them. Returns whether none is left.
pub(crate) fn end_sessions_in(folder: &Path) -> bool {
    let inside = list_sessions_in(folder);
    // First all of them, so that none goes on while another is waited for.
    inside.iter().for_each(|session| session.kill_commands());
    inside.iter().for_each(|session| session.end_now());
    let mut sessions = HELD_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    sessions.retain(|session| !inside.iter().any(|ended| Arc::ptr_eq(ended, session)));
    drop(sessions);
    let survivors = SURVIVOR_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    !survivors.iter().any(|survivor| survivor.starts_with(folder))
}

/// Whether a command may still run in a folder.
pub(crate) fn is_in_use(folder: &Path) -> bool {
    let is_busy = |session: &Arc<SessionCommands>| {
        let open = session.lock_resources();
        let mut commands = open.commands.iter().filter_map(Weak::upgrade);
        open.starting > 0 || commands.any(|command| command.end_status().is_none())
    };
    let survivors = SURVIVOR_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    survivors.iter().any(|survivor| survivor.starts_with(folder))
        || list_sessions_in(folder).iter().any(is_busy)
}

fn list_sessions_in(folder: &Path) -> Vec<Arc<SessionCommands>> {
    let live = list_live_sessions().into_iter();
    live.filter(|session| session.jobs.workspace().is_some_and(|own| own.starts_with(folder)))
        .collect()
}

/// Ends the commands of every session of this process; see [`crate::end_all_programs`].
pub(crate) fn end_all_sessions() {
    let live = std::mem::take(&mut *LIVE_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner));
    let live: Vec<Arc<SessionCommands>> = live.iter().filter_map(Weak::upgrade).collect();
    // First all of them, so that none goes on while another is waited for.
    live.iter().for_each(|session| session.kill_commands());
    live.iter().for_each(|session| session.end_now());
    HELD_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// Ends every command of this process but the jobs that run, and returns these. No command starts
/// afterwards.
pub(crate) fn end_all_but_jobs() -> Vec<Arc<Job>> {
    let live = list_live_sessions();
    live.iter().for_each(SessionCommands::end);
    live.iter().flat_map(|session| session.jobs.list_running()).collect()
}

/// The sessions of this process. The list is not locked while they are used: a session that starts
/// its first command adds itself while it holds its own lock.
fn list_live_sessions() -> Vec<Arc<SessionCommands>> {
    let live = LIVE_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    live.iter().filter_map(Weak::upgrade).collect()
}

/// Kills the jobs that created files which jobs may not create, and waits for their end. Returns
/// those that go on.
pub(crate) fn end_forbidden_jobs(jobs: Vec<Arc<Job>>) -> Vec<Arc<Job>> {
    let (ended, others): (Vec<_>, Vec<_>) =
        jobs.into_iter().partition(|job| job.kill_if_forbidden());
    wait_for_end(&ended);
    others.into_iter().filter(|job| job.status() == JobStatus::Running).collect()
}

/// Waits until these jobs have ended. Those that take longer than a week are killed, and those that
/// create files which jobs may not create: the user works in the same folder meanwhile.
pub(crate) fn wait_for_jobs(mut jobs: Vec<Arc<Job>>) {
    let until = Instant::now() + HELD_TIME_MAX;
    // Another thread kills a job as soon as it creates such a file, unless the kernel reports none.
    let mut pace = CheckPace::new();
    while let Some(first) = jobs.first() {
        // The others are looked at afterwards.
        first.wait(pace.pause());
        let started_at = Instant::now();
        if started_at >= until {
            jobs.iter().for_each(|job| job.kill());
            return wait_for_end(&jobs);
        }
        jobs = end_forbidden_jobs(jobs);
        pace.record_check(started_at.elapsed());
    }
}

/// What the thread that checks the jobs of this process waits for, if there is one.
static JOB_CHECKS: Mutex<Option<Arc<NewFileSubscription>>> = Mutex::new(None);

/// Checks the jobs of this process from now on, until none runs: one that creates a repository in
/// which git would run code is killed, and settings that jobs may not create are quarantined. The user
/// works in the same folder meanwhile, and their git would run such code without asking. Call it after
/// a job was added.
pub(crate) fn start_job_checks() {
    let mut checks = JOB_CHECKS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(subscription) = &*checks {
        // It looks at the new job at once.
        return subscription.wake();
    }
    let subscription = Arc::new(NewFileSubscription::new());
    let thread = std::thread::Builder::new().name("zero-job-check".to_owned());
    let waits_for = Arc::clone(&subscription);
    match thread.spawn(move || check_jobs(&waits_for)) {
        Ok(_) => *checks = Some(subscription),
        Err(error) => tracing::warn!(
            %error,
            "what jobs create is only checked when they have ended: no thread could be started"
        ),
    }
}

fn check_jobs(subscription: &NewFileSubscription) {
    let mut pace = CheckPace::new();
    loop {
        // Held until it is noted that this thread ends: a job that is added meanwhile starts another.
        let mut checks = JOB_CHECKS.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = RunningJobs::list();
        if jobs.is_empty() {
            *checks = None;
            return;
        }
        drop(checks);
        subscription.set_folders(jobs.changeable_folders());
        let new = subscription.wait(pace.pause());
        let started_at = Instant::now();
        // Sessions may have ended meanwhile.
        let jobs = RunningJobs::list();
        let is_all = pace.is_due(&new);
        for job in &jobs.open {
            match is_all {
                true => job.check_files(),
                false => job.check_new_files(&new),
            }
        }
        if !new.is_empty() {
            jobs.held.iter().for_each(|job| job.kill_if_new_forbidden(&new));
        }
        if is_all {
            pace.record_check(started_at.elapsed());
        }
        if !new.is_empty() {
            std::thread::sleep(CheckPace::rest_after(started_at.elapsed()));
        }
    }
}

/// The jobs of this process that run.
struct RunningJobs {
    /// Those of sessions that are not over.
    open: Vec<Arc<Job>>,
    /// The others. [`wait_for_jobs`] looks at all their files from time to time.
    held: Vec<Arc<Job>>,
}

impl RunningJobs {
    fn list() -> Self {
        let (over, open): (Vec<_>, Vec<_>) =
            list_live_sessions().into_iter().partition(|session| session.lock_resources().is_over);
        let list = |sessions: Vec<Arc<SessionCommands>>| {
            sessions.iter().flat_map(|session| session.jobs.list_running()).collect()
        };
        Self { open: list(open), held: list(over) }
    }

    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.held.is_empty()
    }

    fn changeable_folders(&self) -> ChangeableFolders {
        let mut folders = ChangeableFolders::default();
        for job in self.open.iter().chain(&self.held) {
            folders.merge(job.changeable_folders());
        }
        folders
    }
}

/// Waits for jobs that were killed.
fn wait_for_end(jobs: &[Arc<Job>]) {
    let until = Instant::now() + END_MAX;
    for job in jobs {
        job.wait(until.saturating_duration_since(Instant::now()));
    }
}

impl SessionCommands {
    /// The commands of the session `name`. `remembers` tells whether the current folder and jobs
    /// outlive a call.
    pub fn new(state: &StateDir, name: String, remembers: bool, network: SessionNetwork) -> Self {
        Self {
            folder: Mutex::default(),
            remembers,
            tmp: state.child(TMP_SHELF).child(&name),
            state: state.clone(),
            name,
            network,
            open: Mutex::default(),
            started: Condvar::new(),
            sandbox_failure: Mutex::default(),
            changes: AtomicU64::new(0),
            jobs: JobTable::default(),
        }
    }

    /// The folder that is mounted as the temporary folder of the commands; it may not exist yet.
    pub fn temp_folder(&self) -> &Path {
        self.tmp.path()
    }

    /// The same commands, which can become these jobs.
    #[must_use]
    pub fn with_jobs(self, jobs: JobTable) -> Self {
        Self { jobs, ..self }
    }

    /// Whether a job can outlive the call that starts it: its session continues, or this process
    /// can hold it.
    pub(crate) fn can_keep_jobs(&self) -> bool {
        self.remembers || detachable_process::can_detach()
    }

    /// Records whether the last command failed, or was refused, because of the sandbox.
    pub fn record_sandbox_failure(&self, failed: Option<(CommandExecution, FailureEvidence)>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        let mut last = self.sandbox_failure.lock().unwrap_or_else(PoisonError::into_inner);
        *last = failed.filter(|_| self.remembers);
    }

    /// How it is known that the sandbox made this command fail, if it was the last one of the session
    /// and did. The failure counts once.
    pub fn take_sandbox_failure(&self, execution: &CommandExecution) -> Option<FailureEvidence> {
        let mut last = self.sandbox_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(failed, _): &mut (CommandExecution, FailureEvidence)| {
            failed.command == execution.command
                && failed.variables == execution.variables
                && failed.folder == execution.folder
        };
        last.take_if(is_same).map(|(_, evidence)| evidence)
    }

    /// Records that a call may change files: the command that failed because of the sandbox may be
    /// another one then, and is forgotten.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        *self.sandbox_failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How often a call of the session may have changed files, to be compared with later.
    pub fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether a command or job of the session runs, or is about to start.
    pub fn has_running(&self) -> bool {
        let open = self.lock_resources();
        let runs = |command: Arc<MonitoredCommand>| command.end_status().is_none();
        open.starting > 0 || open.commands.iter().filter_map(Weak::upgrade).any(runs)
    }

    /// Where the next command starts, if not in the workspace's first folder.
    pub fn folder(&self) -> Option<PathBuf> {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner).clone();
        folder.filter(|folder| path_survey::file_type(folder) == Some(FileType::Directory))
    }

    /// Records the folder in which a shell ended, and returns it.
    pub(crate) fn record_end_folder(
        &self,
        start: &Path,
        end: Option<PathBuf>,
        workspace: &Workspace,
    ) -> ShellEndFolder {
        let Some(end) = end.filter(|end| self.remembers && end != start) else {
            return ShellEndFolder::Same;
        };
        let is_inside = workspace.roots().any(|root| end.starts_with(root));
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        *folder = is_inside.then(|| end.clone());
        if is_inside { ShellEndFolder::Moved(end) } else { ShellEndFolder::Outside(end) }
    }

    /// Announces a command that is about to start, and makes the folder for temporary files. Fails
    /// when the session is over.
    pub(crate) fn begin_start(self: &Arc<Self>) -> io::Result<StartGuard> {
        let mut open = self.lock_resources();
        if open.is_over {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the session is over"));
        }
        if open.lease.is_none() {
            open.lease = Some(FolderLease::acquire(&self.state, TMP_SHELF, &self.name)?);
            let mut live = LIVE_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
            live.retain(|session| session.strong_count() > 0);
            live.push(Arc::downgrade(self));
        }
        // Without a mount on it, a command can remove its own folder, so create it each time.
        self.tmp.create()?;
        open.starting += 1;
        Ok(StartGuard(Arc::clone(self)))
    }

    /// The folder for temporary files of commands outside the sandbox. Those in it cannot reach this
    /// folder, so that no link in it leads such a command elsewhere.
    pub(crate) fn open_outside_folder(&self) -> io::Result<StateDir> {
        let name = format!("{}-outside", self.name);
        let mut open = self.lock_resources();
        if open.outside_lease.is_none() && !open.is_over {
            open.outside_lease = Some(FolderLease::acquire(&self.state, TMP_SHELF, &name)?);
        }
        let folder = self.state.child(TMP_SHELF).child(&name);
        folder.create()?;
        Ok(folder)
    }

    /// Registers a command. If the session is over, the command is killed.
    pub fn add(&self, watched: &Arc<MonitoredCommand>) {
        let mut open = self.lock_resources();
        if open.is_over {
            watched.kill();
        }
        open.commands
            .retain(|other| other.upgrade().is_some_and(|other| other.end_status().is_none()));
        open.commands.push(Arc::downgrade(watched));
    }

    /// Removes placeholders that a killed process left behind.
    pub fn sweep(&self) {
        let swept = zero_sandbox::confinement::sweep_placeholders(self.tmp.path());
        if swept > 0 {
            tracing::info!(swept, "removed placeholders that a killed process left behind");
        }
    }

    /// Ends the session: every command, those that are about to start among them, and its jobs. If
    /// this process can go on without its caller, jobs that run are held instead. Returns when what
    /// ends has ended.
    pub fn end(self: &Arc<Self>) {
        let jobs = match detachable_process::can_detach() {
            true => self.jobs.list_running(),
            false => Vec::new(),
        };
        if jobs.is_empty() {
            return self.end_now();
        }
        let mut sessions = HELD_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        if !sessions.iter().any(|session| Arc::ptr_eq(session, self)) {
            sessions.push(Arc::clone(self));
        }
        drop(sessions);
        let mut open = self.lock_resources();
        open.is_over = true;
        let others: Vec<Arc<MonitoredCommand>> = open
            .commands
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|command| !jobs.iter().any(|job| job.is_command(command)))
            .collect();
        drop(open);
        others.iter().for_each(|command| command.kill());
        let until = Instant::now() + END_MAX;
        for command in others {
            command.wait(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Whether the session is over and its jobs go on.
    pub fn is_held(self: &Arc<Self>) -> bool {
        let sessions = HELD_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().any(|session| Arc::ptr_eq(session, self))
    }

    /// Ends every command, jobs and others, those that are about to start among them, waits until
    /// they have ended, and takes the temporary files away: the session is over.
    fn end_now(&self) {
        self.kill_commands();
        let open = self.lock_resources();
        // `add` kills whatever starts from now on.
        let waited = self.started.wait_timeout_while(open, END_MAX, |open| open.starting > 0);
        let mut open = waited.unwrap_or_else(PoisonError::into_inner).0;
        let mut has_ended = open.starting == 0;
        // Kept, so that another thread that ends the session waits for them too.
        let commands = open.commands.clone();
        let leases = (open.lease.take(), open.outside_lease.take());
        drop(open);
        let until = Instant::now() + END_MAX;
        for command in commands.iter().filter_map(Weak::upgrade) {
            has_ended &= command.wait(until.saturating_duration_since(Instant::now()));
        }
        if let Some(folder) = self.jobs.workspace().filter(|_| !has_ended) {
            let mut survivors = SURVIVOR_FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
            if !survivors.iter().any(|known| known == folder) {
                survivors.push(folder.to_owned());
            }
        }
        // A prewarmed sandbox for the next command holds the temporary folder open.
        zero_sandbox::spawner::Spawner::release_shared_prewarmed();
        self.jobs.clear();
        self.network.end();
        drop(leases);
    }

    /// Ends every command, and those that are about to start, without waiting.
    fn kill_commands(&self) {
        let mut open = self.lock_resources();
        open.is_over = true;
        for command in open.commands.iter().filter_map(Weak::upgrade) {
            command.kill();
        }
    }

    fn lock_resources(&self) -> MutexGuard<'_, SessionResources> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
