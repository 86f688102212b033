//! How a tool runs a command: through its context, confined, and only the one that was judged.
//!
//! A tool never starts a process. It hands an [`Execution`] to its context, which refuses any that
//! is not among the judged effects of the call, gives it a scrubbed environment and a [`Profile`]
//! made by the host, and ends the whole tree when the call is stopped.
//!
//! Not here: what a command may do and why (policy), how walls are built (`zero_sandbox`), how
//! output is told to a model (the tool).

mod environment;
mod failure;
mod live;
mod network;
pub mod plain;
mod profile;
mod shell;
mod switch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zero_core::{CommandLine, Execution, Reason, ToolError};
use zero_sandbox::drain::{Collected, Collector, Spill};
use zero_sandbox::running::{Ended, Running};
use zero_sandbox::warden::{Order, Stdio, Warden};
use zero_sandbox::{CommandSpec, ProcessLimits, StateDir, Weakness, Workspace, child, survey};

use crate::context::CallContext;
use crate::jobs::{Job, Jobs, Start};
use crate::policy::Policy;

use self::environment::Environment;
use self::live::Live;
use self::network::SessionNetwork;
pub use self::network::{CommandNetwork, Door};
use self::shell::EndNote;
use self::switch::Switch;

/// Size of the terminal of a command that has one.
const TERMINAL: Stdio = Stdio::Pty { rows: 24, cols: 80 };
/// Ends the input of a terminal.
const END_OF_INPUT: &[u8] = b"\x04";
/// Bytes of output that an error carries.
const ERROR_OUTPUT_BYTES_MAX: usize = 4_000;

/// What holds for every command of a host.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// How much one may use.
    pub limits: ProcessLimits,
    /// Whom it may reach.
    pub network: CommandNetwork,
    /// Properties of its confinement that may be missing on a machine that cannot enforce them.
    pub weaknesses: Vec<Weakness>,
    /// What it may not read, beside what the host knows to be secret.
    pub masked: Vec<PathBuf>,
    /// What it may not change in the workspace, beside what the host knows to run code later.
    pub protected: Vec<PathBuf>,
    /// The home folder, whose secrets are masked.
    pub home: Option<PathBuf>,
    /// The environment of this process, from which that of commands is picked.
    pub environment: Vec<(String, String)>,
    /// Names of further variables that commands get; one that ends in `*` stands for many, though
    /// not for those that look like secrets.
    pub environment_allowed: Vec<String>,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            limits: ProcessLimits {
                memory_bytes: 500 * 1024 * 1024,
                cpu_percent: 50,
                processes: 512,
                open_files: 1024,
                file_bytes: 10 * 1024 * 1024 * 1024,
            },
            network: CommandNetwork::Nothing,
            weaknesses: Vec::new(),
            masked: Vec::new(),
            protected: Vec::new(),
            home: None,
            environment: Vec::new(),
            environment_allowed: Vec::new(),
        }
    }
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct CommandRequest {
    /// The command, exactly as it was judged.
    pub execution: Execution,
    /// What it reads and writes.
    pub streams: Streams,
}

/// What a command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Pipes, with nothing to read.
    Pipes,
    /// A terminal.
    Terminal,
}

/// What became of a command that ran to its end.
#[derive(Debug)]
pub struct CommandOutcome {
    /// What it wrote.
    pub output: Collected,
    /// How it ended.
    pub ended: Ended,
    /// Where its shell ended.
    pub folder: EndFolder,
    /// The file that holds all of its output, when not all is kept.
    pub spill_file: Option<String>,
}

/// Where a shell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndFolder {
    /// Where it started, or nobody knows.
    Same,
    /// In another folder of the workspace, where the next command starts.
    Moved(PathBuf),
    /// Outside the workspace; the next command starts in the workspace's first folder.
    Outside(PathBuf),
}

/// What the commands of a host have in common.
pub(crate) struct Commands {
    settings: CommandSettings,
    environment: Environment,
    /// zero's own folder, which no command reads.
    state: PathBuf,
}

impl Commands {
    pub(crate) fn new(settings: CommandSettings, state: &StateDir) -> Self {
        let environment =
            Environment::scrubbed(&settings.environment, &settings.environment_allowed);
        Self { settings, environment, state: state.path().to_owned() }
    }
}

/// What the commands of a session have in common.
pub(crate) struct SessionCommands {
    /// Where the next command starts; the workspace's first folder when absent.
    folder: Mutex<Option<PathBuf>>,
    /// Whether a folder and jobs outlive a call.
    remembers: bool,
    tmp: StateDir,
    network: SessionNetwork,
    pub(crate) jobs: Jobs,
}

impl SessionCommands {
    pub(crate) fn new(tmp: StateDir, remembers: bool) -> Self {
        let network = SessionNetwork::default();
        Self { folder: Mutex::default(), remembers, tmp, network, jobs: Jobs::default() }
    }

    /// Where the next command starts, if not in the workspace's first folder.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner).clone();
        folder.filter(|folder| survey::kind(folder) == Some(zero_sandbox::FileType::Directory))
    }

    /// Learns where a shell ended.
    fn learn(&self, start: &Path, end: Option<PathBuf>, workspace: &Workspace) -> EndFolder {
        let Some(end) = end.filter(|end| self.remembers && end != start) else {
            return EndFolder::Same;
        };
        let is_inside = workspace.roots().any(|root| end.starts_with(root));
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        *folder = is_inside.then(|| end.clone());
        if is_inside { EndFolder::Moved(end) } else { EndFolder::Outside(end) }
    }
}

impl SessionCommands {
    /// Ends every job and their network, and takes the temporary files away: the session is over.
    pub(crate) fn end(&self) {
        self.jobs.end_all();
        self.network.end();
        // What cannot be removed now stays private in zero's own folder.
        let _ = self.tmp.remove_all();
    }
}

/// What a call needs to run commands.
#[derive(Clone)]
pub(crate) struct CallCommands {
    pub(crate) host: Arc<Commands>,
    pub(crate) session: Arc<SessionCommands>,
    /// The commands that were judged.
    pub(crate) judged: Arc<[Execution]>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) spill: StateDir,
}

impl CallContext {
    /// Runs a command to its end. It must be one that was judged for this call.
    ///
    /// When the call is stopped, every process of it is killed; an error then carries the end of
    /// its output.
    pub async fn run_command(&self, request: CommandRequest) -> Result<CommandOutcome, ToolError> {
        let switch = Switch::default();
        let armed = switch.clone();
        let work = self.blocking(move |cx| run(cx, &request, &armed));
        let mut work = std::pin::pin!(work);
        // Also when nobody waits for the call any more.
        let _kill = switch.kill_on_drop();
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = self.cancelled() => switch.pull(),
        }
        work.await
    }

    /// Starts a command that goes on after the call. It must be one that was judged for this call.
    pub async fn start_job(
        &self,
        request: CommandRequest,
        timeout: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        self.blocking(move |cx| start_job(cx, &request, timeout)).await
    }

    /// The jobs of the session.
    pub fn jobs(&self) -> &Jobs {
        &self.commands().session.jobs
    }
}

fn run(
    cx: &CallContext,
    request: &CommandRequest,
    switch: &Switch,
) -> Result<CommandOutcome, ToolError> {
    cx.check_cancelled()?;
    let commands = cx.commands();
    let ready = prepare(cx, request)?;
    let start = ready.folder.clone();
    let mut running = ready.spawn(None)?;
    switch.arm(running.killer());
    end_input(&mut running, request.streams);
    let spill = SpillFile::create(cx);
    let cap = cx.limits().model_output_bytes_max.as_usize();
    // Room for the line that says what is missing and how it ended.
    let kept = cap.saturating_sub(512).max(cap / 2);
    let collector = Collector {
        head_bytes: kept * 2 / 3,
        tail_bytes: kept / 3,
        spill: spill.as_ref().and_then(|spill| spill.writer(cx)),
        ..Collector::default()
    };
    let mut live = Live::default();
    let collected = collector.collect(&mut running, |news| {
        if let Some(lines) = live.add(news.bytes) {
            cx.progress(lines);
        }
        std::ops::ControlFlow::Continue(())
    });
    let end = ready.end_note.take();
    let (output, ended) = collected.map_err(|error| failure::unreadable(&error))?;
    if let Some(error) = failure::of_end(&ended, &commands.host.settings.limits) {
        let tail = plain::text_of(output.mixed.head().chain(output.mixed.tail()));
        return Err(error.with("output", last_bytes(&tail, ERROR_OUTPUT_BYTES_MAX)));
    }
    let spill_file = spill.and_then(|spill| spill.settle(output.mixed.omitted_bytes()));
    let folder = commands.session.learn(&start, end, cx.workspace());
    Ok(CommandOutcome { output, ended, folder, spill_file })
}

fn start_job(
    cx: &CallContext,
    request: &CommandRequest,
    timeout: Option<Duration>,
) -> Result<Arc<Job>, ToolError> {
    cx.check_cancelled()?;
    let commands = cx.commands();
    if !commands.session.remembers {
        let message =
            "there is no session that a background job could belong to; run it in the foreground";
        return Err(ToolError::invalid(Reason::SchemaViolation, message));
    }
    let place = commands.session.jobs.reserve()?;
    let running = prepare(cx, request)?.spawn(timeout)?;
    let spill = SpillFile::create(cx);
    let start = Start {
        command: request.execution.to_string(),
        running,
        spill_file: spill.as_ref().map(|spill| spill.path.clone()),
        spill: spill.as_ref().and_then(|spill| spill.writer(cx)),
    };
    place.start(start)
}

/// A command that only has to be started.
struct Ready {
    order: Order,
    folder: PathBuf,
    end_note: EndNote,
}

impl Ready {
    fn spawn(&self, timeout: Option<Duration>) -> Result<Running, ToolError> {
        if !child::can_be_helper() {
            let message = "this program cannot start commands: it does not begin as zero does";
            return Err(ToolError::failed(Reason::Io, message));
        }
        let warden = Warden::shared().map_err(|error| failure::no_warden(&error))?;
        let order = Order { timeout, ..self.order.clone() };
        warden.spawn(order).map_err(|error| failure::of_start(&error))
    }
}

fn prepare(cx: &CallContext, request: &CommandRequest) -> Result<Ready, ToolError> {
    let commands = cx.commands();
    let execution = &request.execution;
    if !commands.judged.contains(execution) {
        let message = "the tool wants to run another command than the one that was judged";
        return Err(ToolError::failed(Reason::Panic, message));
    }
    let tmp = &commands.session.tmp;
    tmp.create().map_err(|error| failure::no_tmp(&error))?;
    let folder = execution.folder.as_ref().map_or_else(|| cx.workspace().cwd(), |f| f.canonical());
    let settings = &commands.host.settings;
    let given = commands.session.network.give(&settings.network, &settings.weaknesses)?;
    let mut environment = commands.host.environment.with(
        given.variables,
        &execution.variables,
        request.streams,
        tmp.path(),
    );
    let (program, args, end_note) = match &execution.command {
        CommandLine::Shell(line) => shell::wrapped(line, tmp, &mut environment),
        CommandLine::Program(words) => {
            let mut words = words.iter().map(OsString::from);
            (words.next().unwrap_or_default(), words.collect(), EndNote::none())
        }
    };
    let profile = profile::profile_for(commands, cx.workspace(), given.network)?;
    let order = Order {
        command: CommandSpec { program, args, folder: folder.to_owned(), environment },
        profile,
        stdio: match request.streams {
            Streams::Pipes => Stdio::Pipes,
            Streams::Terminal => TERMINAL,
        },
        timeout: None,
        net: given.net,
    };
    Ok(Ready { order, folder: folder.to_owned(), end_note })
}

/// Lets the command see at once that there is nothing to read.
fn end_input(running: &mut Running, streams: Streams) {
    running.stdin = None;
    if streams == Streams::Terminal
        && let Some(Ok(terminal)) = running.stdout.as_ref().map(|fd| fd.try_clone())
    {
        use std::io::Write as _;
        // A terminal that takes nothing belongs to a command that has ended.
        let _ = std::fs::File::from(terminal).write_all(END_OF_INPUT);
    }
}

/// A file for output that is too long.
struct SpillFile {
    folder: StateDir,
    name: String,
    path: String,
    file: std::fs::File,
}

impl SpillFile {
    fn create(cx: &CallContext) -> Option<Self> {
        let folder = cx.commands().spill.clone();
        let name = format!("{}-output.txt", cx.call());
        match folder.create_new(&name) {
            Ok(file) => {
                let path = folder.path().join(&name).display().to_string();
                Some(Self { folder, name, path, file })
            }
            Err(error) => {
                tracing::warn!(%error, "the output of a command cannot be kept");
                None
            }
        }
    }

    fn writer(&self, cx: &CallContext) -> Option<Spill> {
        let file = self.file.try_clone().ok()?;
        Some(Spill { file, bytes_max: cx.limits().file_bytes_max.get() })
    }

    /// Keeps the file when something is only there.
    fn settle(self, omitted_bytes: u64) -> Option<String> {
        if omitted_bytes > 0 {
            return Some(self.path);
        }
        let _ = self.folder.remove(&self.name);
        None
    }
}

/// The end of a text.
fn last_bytes(text: &str, most: usize) -> String {
    text[text.ceil_char_boundary(text.len().saturating_sub(most))..].to_owned()
}
