//! How a tool runs a command: through its context, confined, and only the one that was judged.
//!
//! A tool never starts a process. It hands an [`CommandExecution`] to its context, which refuses any that
//! is not among the judged effects of the call, gives it a scrubbed environment and a [`SandboxProfile`]
//! made by the host, and ends the whole tree when the call is stopped.
//!
//! Not here: what a command may do and why (policy), how walls are built (`zero_sandbox`), how
//! output is told to a model (the tool).

mod command_errors;
mod environment;
mod launcher;
mod output_feed;
mod output_tail;
pub mod plain_text;
mod profile;
mod sandbox_probe;
mod session_commands;
mod session_network;
mod shell;
mod spill_file;
mod tree_watch;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zero_core::{ByteSize, CommandExecution, ErrorReason, ToolError, ToolName};
use zero_sandbox::output_collector::{CollectedOutput, OutputCollector};
use zero_sandbox::quarantine::Quarantine;
use zero_sandbox::running_command::{CommandExit, ExitCause, RunningCommand};
use zero_sandbox::{AcceptedWeakness, ConfinementGap, StateDir, Workspace};

use crate::call_context::CallContext;
use crate::jobs::{
    CommandInput, Job, JobCandidate, JobTable, MonitorOptions, MonitoredCommand, UnreadRetention,
};
use crate::spill_folder::SpillFolder;

pub(crate) use self::tree_watch::TreeWatch;
pub use self::tree_watch::{QuarantinedFile, WatchReport};

pub(crate) use self::command_errors::ToolCommandLimits;
use self::environment::CommandEnvironment;
pub use self::launcher::LaunchAccess;
pub(crate) use self::launcher::{CommandLauncher, PreparedLaunch};
use self::output_feed::{FeedRemainder, OutputFeed};
use self::output_tail::OutputTail;
pub(crate) use self::profile::{list_denied_paths, list_hidden_paths};
pub use self::sandbox_probe::SandboxProbeReport;
pub(crate) use self::session_commands::{SessionCommands, TMP};
pub use self::session_network::CommandNetwork;
pub(crate) use self::session_network::{
    GrantProvider, NetworkPolicy, NetworkUseGuard, SessionNetwork,
};
use self::shell::LastFolderFile;
use self::spill_file::SpillFile;

/// Ends the input of a terminal, for several programs that read from it one after the other.
const END_OF_INPUT: &[u8] = &[0x04; 8];
/// Bytes of output that an error carries.
const ERROR_OUTPUT_BYTES_MAX: usize = 4_000;

/// What holds for every command of a host.
#[derive(Clone, Debug, Default)]
pub struct CommandSettings {
    /// Whom it may reach, beside the hosts that rules allow.
    pub network: CommandNetwork,
    /// Folders that it may change, beside those of the workspace.
    pub writable: Vec<PathBuf>,
    /// Properties of its confinement that may be missing on a machine that cannot enforce them.
    pub weaknesses: Vec<AcceptedWeakness>,
    /// What becomes of one that takes longer than it may.
    pub on_timeout: TimeoutAction,
    /// What it may not read, beside what the host knows to be secret.
    pub masked: Vec<PathBuf>,
    /// What it may not change in the workspace, beside what the host knows to run code later.
    pub protected: Vec<PathBuf>,
    /// Folders of zero's own, beside that of its state: it may neither read nor make or change them.
    pub own: Vec<PathBuf>,
    /// The home folder, whose secrets are masked.
    pub home: Option<PathBuf>,
    /// The environment of this process, from which that of commands is picked.
    pub environment: Vec<(String, String)>,
    /// Names of further variables that commands get; one that ends in `*` stands for many, though
    /// not for those that look like secrets.
    pub environment_allowed: Vec<String>,
}

/// What becomes of a command that takes longer than it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeoutAction {
    /// It is killed, with all that came of it.
    #[default]
    Kill,
    /// It goes on as a job of its session. Without a session it is killed.
    Job,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// The command, exactly as it was judged.
    pub execution: CommandExecution,
    /// What it reads and writes.
    pub streams: StreamMode,
    /// What it finds to read, through a pipe; nothing when absent. It need not read it.
    pub input: Option<Vec<u8>>,
}

/// What a command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamMode {
    /// Pipes.
    Pipes,
    /// A terminal.
    Terminal,
}

/// What became of a command.
#[derive(Debug)]
pub enum CommandDisposition {
    /// It ran to its end.
    Ended(Box<CommandOutcome>),
    /// It took longer than it may, and goes on as a job.
    ContinuedAsJob(Arc<Job>),
}

/// What became of a command that ran to its end.
#[derive(Debug)]
pub struct CommandOutcome {
    /// What it wrote.
    pub output: CollectedOutput,
    /// How it ended.
    pub ended: CommandExit,
    /// Where its shell ended.
    pub folder: ShellEndFolder,
    /// The file that holds all of its output, when not all is kept.
    pub spill_file: Option<String>,
    /// What did not hold of its confinement, by leave of the settings.
    pub missing: Vec<ConfinementGap>,
    /// What it made that it may not make.
    pub settled: WatchReport,
    /// What is to be known of the network, such as connections that were refused.
    pub network: Vec<String>,
}

/// Where a shell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellEndFolder {
    /// Where it started, or nobody knows.
    Same,
    /// In another folder of the workspace, where the next command starts.
    Moved(PathBuf),
    /// Outside the workspace; the next command starts in the workspace's first folder.
    Outside(PathBuf),
}

/// What the commands of a host have in common.
pub(crate) struct HostCommands {
    pub(crate) settings: CommandSettings,
    environment: CommandEnvironment,
    /// zero's own folder, which no command reads.
    state: PathBuf,
    /// Where what commands may not make is kept.
    kept: Quarantine,
    /// What commands that run now may not make.
    live: Arc<tree_watch::WatchRegistry>,
    /// Where secrets lie for whoever works in a folder, the last that was asked for.
    secrets: Mutex<Option<(PathBuf, Arc<profile::SecretPaths>)>>,
}

impl HostCommands {
    pub(crate) fn new(settings: CommandSettings, state: &StateDir) -> Self {
        let environment =
            CommandEnvironment::scrub(&settings.environment, &settings.environment_allowed);
        let kept = Quarantine::new(state.child("kept"));
        let (state, live) = (state.path().to_owned(), Arc::default());
        Self { settings, environment, state, kept, live, secrets: Mutex::default() }
    }

    /// `PATH` without what calls can write to.
    pub(crate) fn trusted_search_path(&self, workspace: &Workspace) -> String {
        let roots = workspace.roots().map(Path::to_owned);
        let folders: Vec<PathBuf> = roots.chain(self.settings.writable.iter().cloned()).collect();
        self.environment.trusted_search_path(&folders)
    }
}

/// What a call needs to run commands.
#[derive(Clone)]
pub(crate) struct CallCommands {
    pub(crate) launcher: CommandLauncher,
    /// The commands that were judged.
    pub(crate) judged: Arc<[CommandExecution]>,
    pub(crate) spill: Arc<SpillFolder>,
    /// The tool that runs them.
    pub(crate) tool: ToolName,
}

impl CallContext {
    /// Runs a command. It must be one that was judged for this call.
    ///
    /// When the call is stopped, every process of it is killed; an error then carries the end of
    /// its output. When its time is up, it may become a job instead: see [`TimeoutAction`].
    pub async fn run_command(
        &self,
        request: CommandRequest,
    ) -> Result<CommandDisposition, ToolError> {
        let live = OutputTail::default();
        let printed = self.wants_output().then(OutputFeed::default);
        let heard = (live.clone(), printed.clone());
        let mut command =
            self.run_blocking(move |cx| ForegroundCommand::start(cx, &request, heard)).await?;
        let tell = |rest| {
            if let Some(text) = printed.as_ref().and_then(|printed| printed.take(rest)) {
                self.report_output(text);
            }
        };
        let mut is_stopped = false;
        let mut progress = delayed_interval(output_tail::PAUSE);
        let mut output = delayed_interval(output_feed::PAUSE);
        loop {
            tokio::select! {
                biased;
                () = command.watched.wait_ended() => break,
                () = self.cancelled(), if !is_stopped => {
                    if let Some(job) = command.become_job(self) {
                        tell(FeedRemainder::MayCome);
                        return Ok(CommandDisposition::ContinuedAsJob(job));
                    }
                    command.watched.kill();
                    is_stopped = true;
                }
                _ = output.tick(), if printed.is_some() => tell(FeedRemainder::MayCome),
                _ = progress.tick() => {
                    if let Some(lines) = live.take_new_lines() {
                        self.report_progress(lines);
                    }
                }
            }
        }
        tell(FeedRemainder::Never);
        self.run_blocking(move |cx| command.into_outcome(cx))
            .await
            .map(|end| CommandDisposition::Ended(Box::new(end)))
    }

    /// Starts a command that goes on after the call. It must be one that was judged for this call.
    pub async fn start_job(
        &self,
        request: CommandRequest,
        timeout: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        self.run_blocking(move |cx| start_job(cx, &request, timeout)).await
    }

    /// What becomes of a command that outlives its time.
    pub fn timeout_action(&self) -> TimeoutAction {
        self.commands().launcher.host.settings.on_timeout
    }

    /// The jobs of the session.
    pub fn jobs(&self) -> &JobTable {
        &self.commands().launcher.session.jobs
    }
}

/// A command whose end somebody waits for. When nobody does any more, it is killed.
struct ForegroundCommand {
    watched: Arc<MonitoredCommand>,
    is_job: bool,
    command: String,
    folder: PathBuf,
    end_note: LastFolderFile,
    spill: Option<SpillFile>,
    missing: Vec<ConfinementGap>,
}

impl Drop for ForegroundCommand {
    fn drop(&mut self) {
        if !self.is_job {
            self.watched.kill();
        }
    }
}

impl ForegroundCommand {
    fn start(
        cx: &CallContext,
        request: &CommandRequest,
        (live, printed): (OutputTail, Option<OutputFeed>),
    ) -> Result<Self, ToolError> {
        cx.check_cancelled()?;
        let ready = prepare(cx, request)?;
        let mut running = ready.spawn(None)?;
        let missing = std::mem::take(&mut running.confinement.missing);
        if request.input.is_none() {
            end_input(&mut running, request.streams);
        }
        let spill = SpillFile::new(cx);
        let cap = cx.limits().model_output_bytes_max.as_usize();
        // Room for the line that says what is missing and how it ended.
        let kept = cap.saturating_sub(512).max(cap / 2);
        let watching = MonitorOptions {
            collector: OutputCollector {
                head_bytes: kept * 2 / 3,
                tail_bytes: kept / 3,
                spill: Some(spill.writer()),
                ..OutputCollector::default()
            },
            unread: if may_become_job(cx) { UnreadRetention::Yes } else { UnreadRetention::No },
            input: request.input.clone().map_or(CommandInput::Nothing, CommandInput::Bytes),
            news: Box::new(move |stream, bytes| {
                live.add(bytes);
                if let Some(printed) = &printed {
                    printed.add(stream, bytes);
                }
            }),
            permit: cx.permit(),
            watch: ready.watch,
            network: ready.network,
        };
        let watched = MonitoredCommand::start(running, watching)
            .map_err(|error| command_errors::monitor_error(&error))?;
        cx.commands().launcher.session.add(&watched);
        Ok(Self {
            watched,
            is_job: false,
            command: request.execution.to_string(),
            folder: ready.folder,
            end_note: ready.end_note,
            spill: Some(spill),
            missing,
        })
    }

    /// Lets it go on as a job, if its time is up and that is what is to become of it.
    fn become_job(&mut self, cx: &CallContext) -> Option<Arc<Job>> {
        if !(cx.is_past_deadline() && may_become_job(cx)) {
            return None;
        }
        let place = cx.commands().launcher.session.jobs.reserve().ok()?;
        self.is_job = true;
        Some(place.add_job(JobCandidate {
            command: std::mem::take(&mut self.command),
            spill_file: self.spill.as_ref().and_then(SpillFile::create_if_possible),
            allowed: ToolCommandLimits::from_call(cx.commands()),
            missing: std::mem::take(&mut self.missing),
            watched: Arc::clone(&self.watched),
        }))
    }

    /// What became of it, after its end.
    fn into_outcome(mut self, cx: &CallContext) -> Result<CommandOutcome, ToolError> {
        let commands = cx.commands();
        let end = self.end_note.take_folder();
        let spill = self.spill.take();
        let (settled, network) = (self.watched.watch_report(), self.watched.network_notes());
        let collected = self.watched.take_collected().unwrap_or_else(|| Err(output_taken_error()));
        let (mut output, mut ended) =
            collected.map_err(|error| command_errors::output_error(&error))?;
        if ended.why == ExitCause::Killed && cx.is_past_deadline() {
            ended.why = ExitCause::TimedOut;
        }
        let text = || plain_text::strip_runs(output.mixed.head().chain(output.mixed.tail()));
        if let Some(error) =
            command_errors::end_error(&ended, &ToolCommandLimits::from_call(commands), text)
        {
            let text = text();
            let cut = text.len().saturating_sub(ERROR_OUTPUT_BYTES_MAX) as u64;
            let error = error.with_detail("output", last_bytes(&text, ERROR_OUTPUT_BYTES_MAX));
            let omitted_bytes = output.mixed.omitted_bytes() + cut;
            let error = command_errors::with_network_notes(
                command_errors::with_watch_report(error, &settled),
                &network,
            );
            let error = command_errors::with_sandbox_gaps(error, &self.missing);
            return Err(match spill.map(|spill| spill.finish(omitted_bytes)) {
                Some(Ok(Some(file))) => error.with_detail("spill_file", file),
                _ => error,
            });
        }
        let omitted_bytes = output.mixed.omitted_bytes();
        let spill_file = match spill.map_or(Ok(None), |spill| spill.finish(omitted_bytes)) {
            Ok(spill_file) => spill_file,
            Err(error) => {
                output.spill_error.get_or_insert(error);
                None
            }
        };
        let folder = commands.launcher.session.record_end_folder(&self.folder, end, cx.workspace());
        let missing = std::mem::take(&mut self.missing);
        Ok(CommandOutcome { output, ended, folder, spill_file, missing, settled, network })
    }
}

/// Comes every so often, first after one pause.
fn delayed_interval(pause: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + pause, pause);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

fn output_taken_error() -> std::io::Error {
    std::io::Error::other("it was taken already")
}

fn may_become_job(cx: &CallContext) -> bool {
    let launcher = &cx.commands().launcher;
    launcher.session.remembers && launcher.host.settings.on_timeout == TimeoutAction::Job
}

fn start_job(
    cx: &CallContext,
    request: &CommandRequest,
    timeout: Option<Duration>,
) -> Result<Arc<Job>, ToolError> {
    cx.check_cancelled()?;
    let session = &cx.commands().launcher.session;
    if !session.remembers {
        let message =
            "there is no session that a background job could belong to; run it in the foreground";
        return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
    }
    let place = session.jobs.reserve()?;
    let ready = prepare(cx, request)?;
    let mut running = ready.spawn(timeout)?;
    let missing = std::mem::take(&mut running.confinement.missing);
    let spill = SpillFile::new(cx);
    let watching = MonitorOptions {
        collector: OutputCollector {
            head_bytes: 0,
            tail_bytes: 0,
            spill: Some(spill.writer()),
            ..OutputCollector::default()
        },
        unread: UnreadRetention::Yes,
        input: request.input.clone().map_or(CommandInput::Texts, CommandInput::Bytes),
        news: Box::new(|_, _| {}),
        permit: None,
        watch: ready.watch,
        network: ready.network,
    };
    let watched = MonitoredCommand::start(running, watching)
        .map_err(|error| command_errors::monitor_error(&error))?;
    session.add(&watched);
    Ok(place.add_job(JobCandidate {
        command: request.execution.to_string(),
        spill_file: spill.create_if_possible(),
        allowed: ToolCommandLimits::from_call(cx.commands()),
        missing,
        watched,
    }))
}

fn prepare(cx: &CallContext, request: &CommandRequest) -> Result<PreparedLaunch, ToolError> {
    let commands = cx.commands();
    if !commands.judged.contains(&request.execution) {
        let message = "the tool wants to run another command than the one that was judged";
        return Err(ToolError::failed(ErrorReason::Panic, message));
    }
    check_input(request, cx.limits().input_bytes_max)?;
    commands.launcher.prepare(cx.workspace(), &request.execution, request.streams)
}

fn check_input(request: &CommandRequest, bytes_max: ByteSize) -> Result<(), ToolError> {
    let Some(input) = &request.input else { return Ok(()) };
    if request.streams == StreamMode::Terminal {
        let message = "the tool wants to send a command more than a terminal takes: give it pipes";
        return Err(ToolError::failed(ErrorReason::Panic, message));
    }
    if input.len() > bytes_max.as_usize() {
        let message = format!("a command cannot be sent more than {bytes_max} to read; send less");
        return Err(ToolError::invalid(ErrorReason::TooLarge, message));
    }
    Ok(())
}

/// Lets the command see at once that there is nothing to read.
fn end_input(running: &mut RunningCommand, streams: StreamMode) {
    running.stdin = None;
    if streams == StreamMode::Terminal
        && let Some(Ok(terminal)) = running.stdout.as_ref().map(|fd| fd.try_clone())
    {
        use std::io::Write as _;
        // A terminal that takes nothing belongs to a command that has ended.
        let _ = std::fs::File::from(terminal).write_all(END_OF_INPUT);
    }
}

/// The end of a text.
fn last_bytes(text: &str, most: usize) -> String {
    text[text.ceil_char_boundary(text.len().saturating_sub(most))..].to_owned()
}
