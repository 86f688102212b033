//! Commands of a call: those it waits for, and those it lets go on as jobs.
//!
//! A tool never starts a process. It hands a [`CommandRequest`] over, and any is refused that is not
//! among the commands that were judged for the call. Others get a scrubbed environment and a
//! sandbox profile made by the host, and the whole tree ends when the call is stopped.
//!
//! Not here: when a call is stopped, and who is told of its progress (`zero_runtime`), how a sandbox
//! is built (`zero_sandbox`), how output is shown to a model (the tool).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zero_core::text_shortening::tail;
use zero_core::{
    ByteSize, CommandExecution, ErrorReason, HostLimits, ToolError, ToolName, ansi_filter,
};
use zero_sandbox::output_collector::{CollectedOutput, OutputCollector};
use zero_sandbox::running_command::{CommandExit, ExitCause, RunningCommand};
use zero_sandbox::{ConfinementGap, Workspace};

use crate::command_errors::{self, ToolCommandLimits};
use crate::command_request::{CommandRequest, StreamMode};
use crate::command_settings::TimeoutAction;
use crate::jobs::job::{Job, JobCandidate};
use crate::jobs::monitored_command::{
    CommandInput, HeldPermit, MonitorOptions, MonitoredCommand, UnreadRetention,
};
use crate::launcher::{CommandLauncher, PreparedLaunch};
use crate::output_feed::{self, FeedRemainder, OutputFeed};
use crate::output_tail::{self, OutputTail};
use crate::session_commands::ShellEndFolder;
use crate::shell::LastFolderFile;
use crate::spill_file::SpillFile;
use crate::spill_folder::SpillFolder;
use crate::tree_watch::WatchReport;

/// Ends the input of a terminal, for several programs that read from it one after the other.
const END_OF_INPUT: &[u8] = &[0x04; 8];
/// Bytes of output that an error carries.
const ERROR_OUTPUT_BYTES_MAX: usize = 4_000;

/// What a call needs to run commands.
#[derive(Clone)]
pub struct CallCommands {
    /// Starts them.
    pub launcher: CommandLauncher,
    /// The folders they work in.
    pub workspace: Workspace,
    /// The bounds of what they read and write.
    pub limits: Arc<HostLimits>,
    /// The commands that were judged.
    pub judged: Arc<[CommandExecution]>,
    /// Where output goes that is too long to be told.
    pub spill: Arc<SpillFolder>,
    /// The tool that runs them.
    pub tool: ToolName,
}

impl CallCommands {
    /// Starts a command whose end is waited for. It must be one that was judged. `permit` is
    /// dropped when it ends or becomes a job. Blocks for as long as its sandbox takes to be built.
    pub fn start(
        &self,
        request: &CommandRequest,
        observation: OutputObservation,
        permit: Option<HeldPermit>,
    ) -> Result<ForegroundCommand, ToolError> {
        let ready = self.prepare(request)?;
        let mut running = ready.spawn(None)?;
        let missing = std::mem::take(&mut running.confinement.missing);
        if request.input.is_none() {
            end_input(&mut running, request.streams);
        }
        let spill = self.new_spill_file();
        let cap = self.limits.model_output_bytes_max.as_usize();
        // Room for the line that says what is missing and how it ended.
        let kept = cap.saturating_sub(512).max(cap / 2);
        let tail = OutputTail::default();
        let feed = (observation == OutputObservation::AllOutput).then(OutputFeed::default);
        let (heard_tail, heard_feed) = (tail.clone(), feed.clone());
        let watching = MonitorOptions {
            collector: OutputCollector {
                head_bytes: kept * 2 / 3,
                tail_bytes: kept / 3,
                spill: Some(spill.writer()),
                ..OutputCollector::default()
            },
            unread: if self.may_become_job() { UnreadRetention::Yes } else { UnreadRetention::No },
            input: request.input.clone().map_or(CommandInput::Nothing, CommandInput::Bytes),
            news: Box::new(move |stream, bytes| {
                heard_tail.add(bytes);
                if let Some(feed) = &heard_feed {
                    feed.add(stream, bytes);
                }
            }),
            permit,
            watch: ready.watch,
            network: ready.network,
        };
        let watched = MonitoredCommand::start(running, watching)
            .map_err(|error| command_errors::monitor_error(&error))?;
        self.launcher.session.add(&watched);
        Ok(ForegroundCommand {
            watched,
            is_job: false,
            is_timed_out: false,
            commands: self.clone(),
            command: request.execution.to_string(),
            folder: ready.folder,
            end_note: ready.end_note,
            spill: Some(spill),
            missing,
            tail,
            feed,
        })
    }

    /// Starts a command that goes on after the call. It must be one that was judged.
    pub fn start_job(
        &self,
        request: &CommandRequest,
        timeout: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        let session = &self.launcher.session;
        if !session.remembers {
            let message = "there is no session that a background job could belong to; run it in the foreground";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        }
        let place = session.jobs.reserve()?;
        let ready = self.prepare(request)?;
        let mut running = ready.spawn(timeout)?;
        let missing = std::mem::take(&mut running.confinement.missing);
        let spill = self.new_spill_file();
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
            allowed: self.tool_limits(),
            missing,
            watched,
        }))
    }

    /// What becomes of a command that outlives its time.
    pub fn timeout_action(&self) -> TimeoutAction {
        self.launcher.host.settings.on_timeout
    }

    fn prepare(&self, request: &CommandRequest) -> Result<PreparedLaunch, ToolError> {
        if !self.judged.contains(&request.execution) {
            let message = "the tool wants to run another command than the one that was judged";
            return Err(ToolError::failed(ErrorReason::Panic, message));
        }
        check_input(request, self.limits.input_bytes_max)?;
        self.launcher.prepare(&self.workspace, &request.execution, request.streams)
    }

    fn may_become_job(&self) -> bool {
        self.launcher.session.remembers && self.timeout_action() == TimeoutAction::Job
    }

    fn new_spill_file(&self) -> SpillFile {
        let name = format!("{}-output.txt", self.launcher.call);
        SpillFile::new(&self.spill, name, self.limits.file_bytes_max.get())
    }

    fn tool_limits(&self) -> ToolCommandLimits {
        ToolCommandLimits { tool: self.tool.clone(), limits: self.launcher.limits }
    }
}

/// What somebody wants to know of what a command writes while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputObservation {
    /// Its last lines now and then.
    Progress,
    /// All of its output, beside that.
    AllOutput,
}

/// A command whose end somebody waits for. When nobody does any more, it is killed.
pub struct ForegroundCommand {
    watched: Arc<MonitoredCommand>,
    is_job: bool,
    is_timed_out: bool,
    commands: CallCommands,
    command: String,
    folder: PathBuf,
    end_note: LastFolderFile,
    spill: Option<SpillFile>,
    missing: Vec<ConfinementGap>,
    tail: OutputTail,
    feed: Option<OutputFeed>,
}

impl Drop for ForegroundCommand {
    fn drop(&mut self) {
        if !self.is_job {
            self.watched.kill();
        }
    }
}

impl ForegroundCommand {
    /// Time between two looks at [`ForegroundCommand::take_progress`].
    pub const PROGRESS_PAUSE: Duration = output_tail::PAUSE;
    /// Time between two looks at [`ForegroundCommand::take_output`].
    pub const OUTPUT_PAUSE: Duration = output_feed::PAUSE;

    /// Completes when it has ended. For one to wait.
    pub async fn wait_ended(&self) {
        self.watched.wait_ended().await;
    }

    /// Asks for its end. Nothing happens when it has ended already.
    pub fn kill(&self) {
        self.watched.kill();
    }

    /// Its last lines, when there is something new in them.
    pub fn take_progress(&self) -> Option<String> {
        self.tail.take_new_lines()
    }

    /// What it wrote since this was last asked, where all of it is wanted. A character that has come
    /// in part waits for its rest.
    pub fn take_output(&self) -> Option<String> {
        self.feed.as_ref()?.take(FeedRemainder::MayCome)
    }

    /// The same once it has ended: nothing waits for a rest any more.
    pub fn take_last_output(&self) -> Option<String> {
        self.feed.as_ref()?.take(FeedRemainder::Never)
    }

    /// Lets it go on as a job of its session, if that is what becomes of commands whose time is up.
    pub fn become_job(&mut self) -> Option<Arc<Job>> {
        if !self.commands.may_become_job() {
            return None;
        }
        let place = self.commands.launcher.session.jobs.reserve().ok()?;
        self.is_job = true;
        Some(place.add_job(JobCandidate {
            command: std::mem::take(&mut self.command),
            spill_file: self.spill.as_ref().and_then(SpillFile::create_if_possible),
            allowed: self.commands.tool_limits(),
            missing: std::mem::take(&mut self.missing),
            watched: Arc::clone(&self.watched),
        }))
    }

    /// Notes that it was killed because its time was up.
    pub fn mark_timed_out(&mut self) {
        self.is_timed_out = true;
    }

    /// What became of it, after its end.
    pub fn into_outcome(mut self) -> Result<CommandOutcome, ToolError> {
        let end = self.end_note.take_folder();
        let spill = self.spill.take();
        let (settled, network) = (self.watched.watch_report(), self.watched.network_notes());
        let collected = self.watched.take_collected().unwrap_or_else(|| Err(output_taken_error()));
        let (mut output, mut ended) =
            collected.map_err(|error| command_errors::output_error(&error))?;
        if ended.why == ExitCause::Killed && self.is_timed_out {
            ended.why = ExitCause::TimedOut;
        }
        let runs = || output.mixed.head().chain(output.mixed.tail());
        let text = || ansi_filter::strip_pieces(runs().map(|run| run.bytes));
        if let Some(error) = command_errors::end_error(&ended, &self.commands.tool_limits(), text) {
            let text = text();
            let cut = text.len().saturating_sub(ERROR_OUTPUT_BYTES_MAX) as u64;
            let error = error.with_detail("output", tail(&text, ERROR_OUTPUT_BYTES_MAX));
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
        let CallCommands { launcher, workspace, .. } = &self.commands;
        let folder = launcher.session.record_end_folder(&self.folder, end, workspace);
        let missing = std::mem::take(&mut self.missing);
        Ok(CommandOutcome { output, ended, folder, spill_file, missing, settled, network })
    }
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

fn output_taken_error() -> std::io::Error {
    std::io::Error::other("it was taken already")
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
