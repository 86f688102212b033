//! Commands of a call: those it waits for, and those it leaves running as jobs.
//!
//! A tool never starts a process. It passes a [`CommandRequest`], which is refused unless it is one
//! of the commands that were authorized for the call. The command gets a scrubbed environment and a
//! sandbox profile built by the host, and its whole process tree ends when the call is stopped.
//!
//! Not here: when a call is stopped and how progress is reported (`zero_runtime`), how a sandbox is
//! built (`zero_sandbox`), how output is formatted for a model (the tool).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zero_core::text_shortening::tail;
use zero_core::{
    ByteSize, CommandExecution, ErrorReason, HostLimits, SecretMask, ToolError, ToolName,
    ansi_filter,
};
use zero_sandbox::output_collector::{CollectedOutput, OutputCollector};
use zero_sandbox::running_command::{CommandExit, ExitCause, LimitsReport, RunningCommand};
use zero_sandbox::{ConfinementGap, Workspace};

use crate::call_usage_meter::CallUsageMeter;
use crate::change_recording::RecordedProgram;
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
use crate::sandbox_diagnosis;
use crate::sandbox_diagnosis::LaunchFacts;
use crate::session_commands::{self, FailureEvidence, ShellEndFolder};
use crate::shell::LastFolderFile;
use crate::spill_file::SpillFile;
use crate::spill_folder::SpillFolder;
use crate::tree_watch::WatchReport;

/// Ends the input of a terminal, repeated for several programs that read from it one after another.
const END_OF_INPUT: &[u8] = &[0x04; 8];
/// Bytes of output that an error carries.
const ERROR_OUTPUT_BYTES_MAX: usize = 4_000;

/// The context in which a call runs commands.
#[derive(Clone)]
pub struct CallCommands {
    /// Starts the commands.
    pub launcher: CommandLauncher,
    /// The folders that commands work in.
    pub workspace: Workspace,
    /// Bounds of the input and output of commands.
    pub limits: Arc<HostLimits>,
    /// The commands that were authorized for the call.
    pub authorized: Arc<[CommandExecution]>,
    /// Where output is stored that is too long for a result.
    pub spill: Arc<SpillFolder>,
    /// The tool that runs the commands.
    pub tool: ToolName,
    /// Secret values that are replaced in everything that the commands print.
    pub secrets: Arc<SecretMask>,
    /// The resources that its commands use.
    pub usage: CallUsageMeter,
}

impl CallCommands {
    /// Starts a command in the foreground. It must be one that was authorized. `permit` is dropped
    /// when the command ends or becomes a job. Blocks until the sandbox is built.
    pub fn start(
        &self,
        request: &CommandRequest,
        observation: OutputObservation,
        permit: Option<HeldPermit>,
    ) -> Result<ForegroundCommand, ToolError> {
        let mut ready = self.prepare(request)?;
        let command = self.mask_command(&request.execution.to_string());
        let program = RecordedProgram::new(self.tool.as_str(), &command);
        ready.record_changes(&self.launcher, &self.workspace, &program)?;
        let mut running = ready.spawn(None)?;
        let mut missing = std::mem::take(&mut running.confinement.missing);
        if request.execution.outside_sandbox {
            // The result says so in one note.
            missing.clear();
        }
        let limits = running.limits;
        if request.input.is_none() {
            end_input(&mut running, request.streams);
        }
        let spill = self.new_spill_file();
        let cap = self.limits.model_output_bytes_max.as_usize();
        // Leaves space for the line that says how much is missing and how the command ended.
        let kept = cap.saturating_sub(512).max(cap / 2);
        let tail = OutputTail::default();
        let feed = (observation == OutputObservation::AllOutput).then(OutputFeed::default);
        let (tail_sink, feed_sink) = (tail.clone(), feed.clone());
        let options = MonitorOptions {
            collector: OutputCollector {
                head_bytes: kept * 2 / 3,
                tail_bytes: kept / 3,
                spill: Some(spill.writer()),
                secrets: Arc::clone(&self.secrets),
                ..OutputCollector::default()
            },
            unread: if self.may_become_job() { UnreadRetention::Yes } else { UnreadRetention::No },
            input: request.input.clone().map_or(CommandInput::Nothing, CommandInput::Bytes),
            output_sink: Box::new(move |stream, bytes| {
                tail_sink.add(bytes);
                if let Some(feed) = &feed_sink {
                    feed.add(stream, bytes);
                }
            }),
            permit,
            watch: ready.watch,
            capture: ready.capture,
            network: ready.network,
            writes: self.launcher.judged.writes.clone(),
            hidden: ready.hidden.clone(),
            facts: LaunchFacts { tool: Some(self.tool.clone()), ..ready.facts.clone() },
            draft: ready.draft,
        };
        let watched = MonitoredCommand::start(running, options)
            .map_err(|error| command_errors::monitor_error(&error))?;
        self.launcher.session.add(&watched);
        Ok(ForegroundCommand {
            watched,
            is_job: false,
            is_timed_out: false,
            commands: self.clone(),
            execution: request.execution.clone(),
            folder: ready.folder,
            end_note: ready.end_note,
            spill: Some(spill),
            missing,
            limits,
            tail,
            feed,
        })
    }

    /// Starts a command that continues after the call. It must be one that was authorized.
    pub fn start_job(
        &self,
        request: &CommandRequest,
        timeout: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        let session = &self.launcher.session;
        if !session.can_keep_jobs() {
            let message = "background jobs need a session; run the command in the foreground";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        }
        if request.execution.outside_sandbox {
            let message = "a job cannot run outside the sandbox; run it in the foreground";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        }
        let slot = session.jobs.reserve()?;
        let mut ready = self.prepare(request)?;
        let shown_command = self.mask_command(&request.execution.to_string());
        let program = RecordedProgram::new(self.tool.as_str(), &shown_command);
        let program = RecordedProgram { is_beside: true, ..program };
        ready.record_changes(&self.launcher, &self.workspace, &program)?;
        let mut running = ready.spawn(timeout)?;
        let missing = std::mem::take(&mut running.confinement.missing);
        let spill = self.new_spill_file();
        let options = MonitorOptions {
            collector: OutputCollector {
                head_bytes: 0,
                tail_bytes: 0,
                spill: Some(spill.writer()),
                secrets: Arc::clone(&self.secrets),
                ..OutputCollector::default()
            },
            unread: UnreadRetention::Yes,
            input: request.input.clone().map_or(CommandInput::Texts, CommandInput::Bytes),
            output_sink: Box::new(|_, _| {}),
            permit: None,
            watch: ready.watch,
            capture: ready.capture,
            network: ready.network,
            writes: self.launcher.judged.writes.clone(),
            hidden: ready.hidden.clone(),
            facts: LaunchFacts { tool: Some(self.tool.clone()), ..ready.facts.clone() },
            draft: ready.draft,
        };
        let watched = MonitoredCommand::start(running, options)
            .map_err(|error| command_errors::monitor_error(&error))?;
        session.add(&watched);
        let command = request.execution.to_string();
        let job = slot.add_job(JobCandidate {
            shown_command,
            call: self.launcher.call.clone(),
            command,
            spill_file: spill.create_if_possible(),
            allowed: self.tool_limits(),
            missing,
            watched,
        });
        session_commands::start_job_checks();
        Ok(job)
    }

    /// What happens to a command that exceeds its timeout.
    pub fn timeout_action(&self) -> TimeoutAction {
        match self.launcher.is_trial {
            // A job would go on after the changes of the trial were discarded.
            true => TimeoutAction::Kill,
            false => self.launcher.host.settings.on_timeout,
        }
    }

    fn prepare(&self, request: &CommandRequest) -> Result<PreparedLaunch, ToolError> {
        if !self.authorized.contains(&request.execution) {
            let message = "the tool tried to run a command other than the one that was authorized";
            return Err(ToolError::failed(ErrorReason::Panic, message));
        }
        check_input(request, self.limits.input_bytes_max)?;
        self.launcher.prepare(&self.workspace, &request.execution, request.streams)
    }

    fn may_become_job(&self) -> bool {
        self.launcher.session.remembers && self.timeout_action() == TimeoutAction::Job
    }

    fn mask_command(&self, command: &str) -> String {
        let mut shown = command.to_owned();
        self.secrets.mask_string(&mut shown);
        shown
    }

    fn new_spill_file(&self) -> SpillFile {
        let name = format!("{}-output.txt", self.launcher.call);
        SpillFile::new(&self.spill, name, self.limits.file_bytes_max.get())
    }

    fn tool_limits(&self) -> ToolCommandLimits {
        ToolCommandLimits { tool: self.tool.clone(), limits: self.launcher.limits }
    }
}

/// How much of a command's output a caller observes while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputObservation {
    /// Its last lines, from time to time.
    Progress,
    /// All of its output, in addition to the last lines.
    AllOutput,
}

/// A running command that its caller waits for. Dropping it kills the command.
pub struct ForegroundCommand {
    watched: Arc<MonitoredCommand>,
    is_job: bool,
    is_timed_out: bool,
    commands: CallCommands,
    execution: CommandExecution,
    folder: PathBuf,
    end_note: LastFolderFile,
    spill: Option<SpillFile>,
    missing: Vec<ConfinementGap>,
    limits: LimitsReport,
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
    /// Recommended time between two calls of [`ForegroundCommand::take_progress`].
    pub const PROGRESS_PAUSE: Duration = output_tail::PAUSE;
    /// Recommended time between two calls of [`ForegroundCommand::take_output`].
    pub const OUTPUT_PAUSE: Duration = output_feed::PAUSE;

    /// Completes when the command has ended. For a single waiter.
    pub async fn wait_ended(&self) {
        self.watched.wait_ended().await;
    }

    /// Kills the command. Does nothing if it has ended already.
    pub fn kill(&self) {
        self.watched.kill();
    }

    /// The last lines of output, if they changed since the last call.
    pub fn take_progress(&self) -> Option<String> {
        self.tail.take_new_lines()
    }

    /// The output since the last call, if all output is observed. An incomplete character is held
    /// back until the rest of it arrives.
    pub fn take_output(&self) -> Option<String> {
        self.feed.as_ref()?.take(FeedRemainder::MayCome)
    }

    /// Like [`ForegroundCommand::take_output`], for a command that has ended: returns incomplete
    /// characters too.
    pub fn take_last_output(&self) -> Option<String> {
        self.feed.as_ref()?.take(FeedRemainder::Never)
    }

    /// Turns the command into a job of its session, if that is its timeout action.
    pub fn become_job(&mut self) -> Option<Arc<Job>> {
        // Programs outside the sandbox end with their call.
        if !self.commands.may_become_job() || self.execution.outside_sandbox {
            return None;
        }
        let slot = self.commands.launcher.session.jobs.reserve().ok()?;
        self.is_job = true;
        self.watched.set_beside();
        let command = self.execution.to_string();
        let job = slot.add_job(JobCandidate {
            shown_command: self.commands.mask_command(&command),
            call: self.commands.launcher.call.clone(),
            command,
            spill_file: self.spill.as_ref().and_then(SpillFile::create_if_possible),
            allowed: self.commands.tool_limits(),
            missing: std::mem::take(&mut self.missing),
            watched: Arc::clone(&self.watched),
        });
        session_commands::start_job_checks();
        Some(job)
    }

    /// Records that the command was killed because of its timeout.
    pub fn mark_timed_out(&mut self) {
        self.is_timed_out = true;
    }

    /// The outcome of a command that has ended.
    pub fn into_outcome(mut self) -> Result<CommandOutcome, ToolError> {
        let end = self.end_note.take_folder();
        let spill = self.spill.take();
        let (watch_report, network) = (self.watched.watch_report(), self.watched.sandbox_notes());
        let collected = self.watched.take_collected().unwrap_or_else(|| Err(output_taken_error()));
        let (mut output, mut ended) =
            collected.map_err(|error| command_errors::output_error(&error))?;
        self.commands.usage.add_exit(&ended);
        let has_failed = ended.why == ExitCause::Finished
            && !self.execution.outside_sandbox
            && sandbox_diagnosis::blames_sandbox(&ended, &network);
        let evidence = match self.watched.has_refusals() {
            true => FailureEvidence::Refusal,
            false => FailureEvidence::Output,
        };
        let failed = has_failed.then(|| (self.execution.clone(), evidence));
        self.commands.launcher.session.record_sandbox_failure(failed);
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
            let error = command_errors::with_sandbox_notes(
                command_errors::with_watch_report(error, &watch_report),
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
        let limits = self.limits;
        Ok(CommandOutcome {
            output,
            exit: ended,
            folder,
            spill_file,
            missing,
            watch_report,
            network,
            limits,
        })
    }
}

/// How a command left the foreground.
#[derive(Debug)]
pub enum CommandDisposition {
    /// It ended.
    Ended(Box<CommandOutcome>),
    /// It exceeded its timeout and continues as a job.
    ContinuedAsJob(Arc<Job>),
}

/// The outcome of a command that ended by itself.
#[derive(Debug)]
pub struct CommandOutcome {
    /// Its output.
    pub output: CollectedOutput,
    /// Its exit status.
    pub exit: CommandExit,
    /// The folder in which its shell ended.
    pub folder: ShellEndFolder,
    /// The file with its whole output, if the output was truncated.
    pub spill_file: Option<String>,
    /// Sandbox properties that were not enforced, as settings allow.
    pub missing: Vec<ConfinementGap>,
    /// Files that it created although it may not.
    pub watch_report: WatchReport,
    /// Network notes, such as refused connections.
    pub network: Vec<String>,
    /// What enforced its limits.
    pub limits: LimitsReport,
}

fn output_taken_error() -> std::io::Error {
    std::io::Error::other("its output was taken already")
}

fn check_input(request: &CommandRequest, bytes_max: ByteSize) -> Result<(), ToolError> {
    let Some(input) = &request.input else { return Ok(()) };
    if request.streams == StreamMode::Terminal {
        let message = "a terminal command cannot take this input; use pipes";
        return Err(ToolError::failed(ErrorReason::Panic, message));
    }
    if input.len() > bytes_max.as_usize() {
        let message = format!("the input of a command is limited to {bytes_max}; send less");
        return Err(ToolError::invalid(ErrorReason::TooLarge, message));
    }
    Ok(())
}

/// Closes the input, so that the command sees at once that there is nothing to read.
fn end_input(running: &mut RunningCommand, streams: StreamMode) {
    running.stdin = None;
    if streams == StreamMode::Terminal
        && let Some(Ok(terminal)) = running.stdout.as_ref().map(|fd| fd.try_clone())
    {
        use std::io::Write as _;
        // A terminal that rejects the bytes belongs to a command that has ended.
        let _ = std::fs::File::from(terminal).write_all(END_OF_INPUT);
    }
}
