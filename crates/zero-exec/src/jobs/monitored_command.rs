//! A monitored command: a thread reads its output, so the command never waits for a reader.
//!
//! Every running command is one of these, in the foreground or not. So a foreground command can
//! become a job at any time without moving any of its state.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zero_policy::WriteScope;
use zero_sandbox::command_capture::{CaptureControl, CaptureOutcome, CommandCapture};
use zero_sandbox::listening_ports::{ListeningPort, list_listening_ports};
use zero_sandbox::output_collector::{CollectedOutput, OutputCollector, OutputStream};
use zero_sandbox::running_command::{
    CommandExit, ExitCause, KillHandle, KillReason, RunningCommand,
};

use super::unread_output::{OutputChunk, UnreadOutput, UnreadRemainder};
use crate::git_config_draft::GitConfigDraft;
use crate::loss_note;
use crate::new_files::{ChangeableFolders, NewFiles};
use crate::read_failure::HiddenHome;
use crate::sandbox_diagnosis::{self, DiagnosisInput, LaunchFacts};
use crate::session_network::NetworkUseGuard;
use crate::tree_watch::{TreeWatch, WatchReport};
use crate::write_failure::CommandLocation;

/// Most inputs that wait until the command reads them.
const INPUTS_MAX: usize = 16;

/// Receives everything that a command writes.
pub type OutputSink = Box<dyn FnMut(OutputStream, &[u8]) + Send>;

/// Receives the end of a command before anything else does.
pub type EndHook = Box<dyn FnOnce(&EndedCommand<'_>) + Send>;

/// A command that has ended, and its unread output.
#[derive(Clone, Copy, Debug)]
pub struct EndedCommand<'a> {
    /// How it ended, if that is known.
    pub exit: Option<&'a CommandExit>,
    /// Time from its start to its end.
    pub run_time: Duration,
    /// Files that it created although it may not.
    pub watch_report: &'a WatchReport,
    /// Notes about what the sandbox refused.
    pub notes: &'a [String],
    /// The unread output, and the number of bytes before it that were dropped.
    pub unread: &'a (Vec<OutputChunk>, u64),
}

/// A value that is only held until it is dropped, such as a permit.
pub type HeldPermit = Box<dyn Send>;

/// How a command is monitored.
pub struct MonitorOptions {
    /// Collects the output for the result.
    pub collector: OutputCollector,
    /// Whether unread output is kept.
    pub unread: UnreadRetention,
    /// What the command's standard input is connected to.
    pub input: CommandInput,
    /// Receives all output as it arrives.
    pub output_sink: OutputSink,
    /// A permit that is held until the command ends or becomes a job.
    pub permit: Option<HeldPermit>,
    /// The paths that the command may not create, checked when it has ended.
    pub watch: TreeWatch,
    /// Records its changes, which are stored when it has ended.
    pub capture: Option<CommandCapture>,
    /// Its use of the session's network, dropped when it ends.
    pub network: NetworkUseGuard,
    /// The files that it may change.
    pub writes: WriteScope,
    /// What it does not see.
    pub hidden: HiddenHome,
    /// What it was started with.
    pub facts: LaunchFacts,
    /// The settings of git that it may change, which are changed when it has ended well.
    pub draft: Option<GitConfigDraft>,
}

/// Whether unread output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadRetention {
    /// Kept, up to a bound.
    Yes,
    /// Not kept.
    No,
}

/// The standard input of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandInput {
    /// Inputs that are sent while it runs.
    Texts,
    /// These bytes, then end of input.
    Bytes(Vec<u8>),
    /// Not handled here: the caller has connected the input.
    Nothing,
}

/// A running command with its newest output and the state that clients may ask for.
pub struct MonitoredCommand {
    /// The process at the top of its tree.
    pid: i32,
    killer: KillHandle,
    input: Option<SyncSender<Vec<u8>>>,
    state: Mutex<MonitorState>,
    ended_signal: Condvar,
    /// For a waiter that must not block its thread.
    ended_later: Notify,
    /// Wakes all tasks that wait for output or the end.
    progress: Notify,
    started: Instant,
    /// Taken when the command ends.
    watch: Mutex<Option<TreeWatch>>,
    /// Controls the recording of its changes.
    recording: CaptureControl,
}

#[derive(Default)]
struct MonitorState {
    unread: UnreadOutput,
    permit: Option<HeldPermit>,
    network: NetworkUseGuard,
    end_hook: Option<EndHook>,
    /// Why it was ended before its time.
    stop_note: Option<String>,
    /// What was found of it while it ran.
    found: WatchReport,
    finish: Option<CommandEnding>,
}

/// What the sandbox of a command allowed.
struct SandboxFacts {
    writes: WriteScope,
    location: CommandLocation,
    hidden: HiddenHome,
    facts: LaunchFacts,
    draft: Option<GitConfigDraft>,
}

/// How a monitored command ended.
struct CommandEnding {
    at: Instant,
    /// `None` if the exit status is unknown.
    exit: Option<CommandExit>,
    /// The collected output, until it is taken.
    collected: Option<io::Result<(CollectedOutput, CommandExit)>>,
    /// Files that it created although it may not.
    watch_report: WatchReport,
    /// Notes about what the sandbox refused.
    notes: Vec<String>,
    /// Whether its network refused a connection.
    has_refusals: bool,
}

/// Why an input was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendInputError {
    /// The command has no input.
    NoInput,
    /// Too many inputs wait to be read.
    Full,
    /// The command has closed its input.
    Closed,
}

impl MonitoredCommand {
    /// Monitors a command that was just started. If this fails, the command has been killed.
    pub fn start(mut running: RunningCommand, options: MonitorOptions) -> io::Result<Arc<Self>> {
        let MonitorOptions {
            mut collector,
            unread,
            input,
            mut output_sink,
            permit,
            watch,
            capture,
            network,
            writes,
            hidden,
            facts,
            draft,
        } = options;
        let input = match input {
            CommandInput::Texts => Some(start_input_thread(&mut running)?),
            CommandInput::Bytes(bytes) => {
                // The queue is empty, and the input ends when the sender is dropped.
                let _ = start_input_thread(&mut running)?.try_send(bytes);
                None
            }
            CommandInput::Nothing => None,
        };
        collector.gate = Some(watch.output_gate());
        let watched = Arc::new(Self {
            pid: running.pid,
            killer: running.kill_handle(),
            input,
            state: Mutex::new(MonitorState { permit, network, ..MonitorState::default() }),
            ended_signal: Condvar::new(),
            ended_later: Notify::new(),
            progress: Notify::new(),
            started: Instant::now(),
            watch: Mutex::new(Some(watch)),
            recording: capture.as_ref().map(CommandCapture::control).unwrap_or_default(),
        });
        let watcher = Arc::clone(&watched);
        std::thread::Builder::new().name("zero-command".to_owned()).spawn(move || {
            // Waiters must learn of the end even if the collector panics.
            let collect = AssertUnwindSafe(|| {
                collector.collect(&mut running, |came| {
                    if unread == UnreadRetention::Yes {
                        watcher.lock().unread.push(came.stream, came.bytes);
                        watcher.progress.notify_waiters();
                        watcher.ended_signal.notify_all();
                    }
                    output_sink(came.stream, came.bytes);
                    ControlFlow::Continue(())
                })
            });
            let collected = catch_unwind(collect).unwrap_or_else(|_| Err(read_error()));
            // No process of the command may be left when it counts as ended.
            drop(running);
            let (watch_report, location) = watcher.finish_watch();
            let sandbox = SandboxFacts { writes, location, hidden, facts, draft };
            let changes = capture.map(|capture| capture.finish()).unwrap_or_default();
            watcher.finish(collected, watch_report, &changes, &sandbox);
        })?;
        Ok(watched)
    }

    /// Says that it continues as a job: others change files meanwhile.
    pub fn set_beside(&self) {
        self.recording.set_beside();
    }

    /// Checks what the command left, when no process of it is left.
    fn finish_watch(&self) -> (WatchReport, CommandLocation) {
        let Some(watch) = self.lock_watch().take() else {
            return (WatchReport::new_unfinished(), CommandLocation::default());
        };
        let last = catch_unwind(AssertUnwindSafe(|| watch.finish()))
            .unwrap_or_else(|_| WatchReport::new_unfinished());
        let mut state = self.lock();
        let mut report = std::mem::take(&mut state.found);
        report.merge(last);
        report.warnings.extend(state.stop_note.take());
        (report, watch.location().clone())
    }

    /// Kills the command if a file exists that it may not create: nothing else would take it away
    /// before the command ends. Returns whether it did.
    pub fn kill_if_forbidden(&self) -> bool {
        self.kill_if_found(TreeWatch::find_forbidden)
    }

    /// Kills the command if what was reported as new is a file that it may not create. Returns whether
    /// it did.
    pub(crate) fn kill_if_new_forbidden(&self, new: &NewFiles) -> bool {
        self.kill_if_found(|watch| watch.find_new_forbidden(new))
    }

    /// Kills the command if it created a repository in which git would run code, and quarantines
    /// settings that it created although it may not. Kills it if it goes on and on.
    pub(crate) fn check_files(&self) {
        if !self.kill_if_found(TreeWatch::find_git_code) {
            self.quarantine(TreeWatch::quarantine_settings);
        }
    }

    /// The same for what was reported as new.
    pub(crate) fn check_new_files(&self, new: &NewFiles) {
        // First, because it looks at few files.
        self.quarantine(|watch| watch.quarantine_new_settings(new));
        if new.may_concern_git() {
            self.kill_if_found(TreeWatch::find_git_code);
        }
    }

    /// The folders in which it can create files that it may not create.
    pub(crate) fn changeable_folders(&self) -> ChangeableFolders {
        self.lock_watch().as_ref().map(TreeWatch::changeable_folders).unwrap_or_default()
    }

    fn quarantine(&self, check: impl Fn(&TreeWatch) -> WatchReport) {
        let found = {
            let watch = self.lock_watch();
            let check = AssertUnwindSafe(|| watch.as_ref().map(check));
            catch_unwind(check).ok().flatten().unwrap_or_default()
        };
        let mut state = self.lock();
        state.found.merge(found);
        if state.found.is_full() {
            let note =
                "the job was killed because it created too many files that jobs may not create";
            state.stop_note = Some(note.to_owned());
            drop(state);
            self.kill();
        }
    }

    fn kill_if_found(&self, find: impl Fn(&TreeWatch) -> Option<PathBuf>) -> bool {
        let found = {
            let watch = self.lock_watch();
            let find = AssertUnwindSafe(|| watch.as_ref().and_then(find));
            catch_unwind(find).unwrap_or_default()
        };
        let Some(path) = found else { return false };
        self.lock().stop_note = Some(format!(
            "the job was killed because `{}` was created, which jobs may not create",
            path.display()
        ));
        self.kill();
        true
    }

    fn finish(
        &self,
        collected: io::Result<(CollectedOutput, CommandExit)>,
        watch_report: WatchReport,
        changes: &CaptureOutcome,
        sandbox: &SandboxFacts,
    ) {
        let command_exit = collected.as_ref().ok().map(|(_, ended)| ended.clone());
        let network_use = std::mem::take(&mut self.lock().network);
        let mut notes = network_use.notes();
        let has_refusals = !notes.is_empty();
        if let Ok((output, exit)) = &collected {
            // A program that got along without a host needs no explanation.
            let failures = match exit.exit_code {
                Some(0) => Vec::new(),
                _ => network_use.failure_notes(),
            };
            let explains_network = has_refusals || !failures.is_empty();
            notes.extend(failures);
            let command = DiagnosisInput {
                exit,
                run_time: self.started.elapsed(),
                facts: &sandbox.facts,
                host_reach: network_use.host_reach(),
                explains_network,
                writes: &sandbox.writes,
                location: &sandbox.location,
                hidden: &sandbox.hidden,
            };
            let diagnose = || sandbox_diagnosis::diagnose(&command, output);
            notes.extend(catch_unwind(AssertUnwindSafe(diagnose)).unwrap_or_default());
            if exit.why == ExitCause::Finished && exit.exit_code == Some(0) {
                notes.extend(sandbox.draft.iter().flat_map(GitConfigDraft::finish));
            }
        }
        notes.extend(sandbox.hidden.exposed_file_note());
        notes.extend(loss_note::describe_losses(changes));
        let mut state = self.lock();
        // The hosts of this call are closed before any caller learns of its end.
        drop(network_use);
        let at = Instant::now();
        let collected = Some(collected);
        let ending =
            CommandEnding { at, exit: command_exit, collected, watch_report, notes, has_refusals };
        if let Some(hook) = state.end_hook.take() {
            // Under the lock: output that is read now does not go to the hook, and what the hook
            // gets is read later.
            self.run_end_hook(hook, &state, &ending);
        }
        state.finish = Some(ending);
        state.permit = None;
        drop(state);
        self.ended_signal.notify_all();
        self.ended_later.notify_one();
        self.progress.notify_waiters();
    }

    /// Calls `hook` when the command ends, before any task that waits for the end learns of it; at
    /// once if it has ended. The hook must not use the command.
    pub fn on_end(&self, hook: EndHook) {
        let mut state = self.lock();
        match state.finish.take() {
            Some(ending) => {
                self.run_end_hook(hook, &state, &ending);
                state.finish = Some(ending);
            }
            None => state.end_hook = Some(hook),
        }
    }

    fn run_end_hook(&self, hook: EndHook, state: &MonitorState, ending: &CommandEnding) {
        let ended = EndedCommand {
            exit: ending.exit.as_ref(),
            run_time: ending.at.saturating_duration_since(self.started),
            watch_report: &ending.watch_report,
            notes: &ending.notes,
            unread: &state.unread.snapshot(),
        };
        if catch_unwind(AssertUnwindSafe(|| hook(&ended))).is_err() {
            tracing::error!("recording the end of a command failed");
        }
    }

    /// The ports on which its processes listen, in the network of its sandbox. Empty after its end.
    pub fn list_ports(&self) -> Vec<ListeningPort> {
        let ports = list_listening_ports(self.pid);
        // Its process id may belong to another process once it has ended.
        if self.end_status().is_some() { Vec::new() } else { ports }
    }

    /// Kills the command. Does nothing if it has ended already.
    pub fn kill(&self) {
        self.killer.kill(KillReason::Asked);
    }

    /// The exit status if it has ended; the inner `None` means that the status is unknown.
    pub fn end_status(&self) -> Option<Option<CommandExit>> {
        self.lock().finish.as_ref().map(|finish| finish.exit.clone())
    }

    /// Files that it created although it may not, as far as they were found.
    pub fn watch_report(&self) -> WatchReport {
        let state = self.lock();
        state.finish.as_ref().map_or(&state.found, |finish| &finish.watch_report).clone()
    }

    /// Notes about what the sandbox refused so far.
    pub fn sandbox_notes(&self) -> Vec<String> {
        let state = self.lock();
        match &state.finish {
            Some(finish) => finish.notes.clone(),
            None => state.network.notes(),
        }
    }

    /// Whether it has ended and its network refused a connection.
    pub(crate) fn has_refusals(&self) -> bool {
        self.lock().finish.as_ref().is_some_and(|finish| finish.has_refusals)
    }

    /// Waits up to `limit` for the end. Returns whether it has ended.
    pub fn wait(&self, limit: Duration) -> bool {
        let still_runs = |state: &mut MonitorState| state.finish.is_none();
        let waited = self.ended_signal.wait_timeout_while(self.lock(), limit, still_runs);
        waited.unwrap_or_else(PoisonError::into_inner).0.finish.is_some()
    }

    /// Waits up to `limit` for unread output or the end.
    pub fn wait_output(&self, limit: Duration) {
        let is_idle =
            |state: &mut MonitorState| state.finish.is_none() && state.unread.readable_len() == 0;
        drop(self.ended_signal.wait_timeout_while(self.lock(), limit, is_idle));
    }

    /// Completes when it has ended. For a single waiter.
    pub async fn wait_ended(&self) {
        while self.lock().finish.is_none() {
            self.ended_later.notified().await;
        }
    }

    /// Completes when there is unread output or it has ended.
    pub async fn wait_progress(&self) {
        loop {
            let progress = self.progress.notified();
            let mut progress = std::pin::pin!(progress);
            // Registered before the check, so that nothing between the two is missed.
            progress.as_mut().enable();
            {
                let state = self.lock();
                if state.finish.is_some() || state.unread.readable_len() > 0 {
                    return;
                }
            }
            progress.await;
        }
    }

    /// Time from its start to its end, or until now.
    pub fn run_time(&self) -> Duration {
        let end = self.lock().finish.as_ref().map_or_else(Instant::now, |finish| finish.at);
        end.saturating_duration_since(self.started)
    }

    /// The collected output and the exit status. Returns them once, after the end.
    pub fn take_collected(&self) -> Option<io::Result<(CollectedOutput, CommandExit)>> {
        self.lock().finish.as_mut()?.collected.take()
    }

    /// Drops the permit while the command continues.
    pub fn release_permit(&self) {
        self.lock().permit = None;
    }

    /// Bytes of output that were not read.
    pub fn unread_bytes(&self) -> usize {
        self.lock().unread.len()
    }

    /// The output since the last call, and the number of bytes before it that were dropped. An
    /// incomplete character is held back while the rest of it may still arrive. Also returns whether
    /// the command had ended, so that this is the rest.
    pub fn take_unread(&self) -> ((Vec<OutputChunk>, u64), bool) {
        let mut state = self.lock();
        let has_ended = state.finish.is_some();
        let rest = if has_ended { UnreadRemainder::Never } else { UnreadRemainder::MayCome };
        (state.unread.take(rest), has_ended)
    }

    /// Writes a text to the command's standard input.
    pub fn send(&self, text: &str) -> Result<(), SendInputError> {
        let input = self.input.as_ref().ok_or(SendInputError::NoInput)?;
        input.try_send(text.as_bytes().to_vec()).map_err(|error| match error {
            TrySendError::Full(_) => SendInputError::Full,
            TrySendError::Disconnected(_) => SendInputError::Closed,
        })
    }

    fn lock_watch(&self) -> MutexGuard<'_, Option<TreeWatch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_error() -> io::Error {
    io::Error::other("reading its output failed")
}

impl fmt::Debug for MonitoredCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

/// Starts a thread that writes inputs to the command, and returns its queue.
fn start_input_thread(running: &mut RunningCommand) -> io::Result<SyncSender<Vec<u8>>> {
    // A terminal uses one descriptor for input and output.
    let stdin = match (running.stdin.take(), &running.stdout) {
        (Some(stdin), _) => Some(stdin),
        (None, Some(terminal)) => Some(terminal.try_clone()?),
        (None, None) => None,
    };
    let (input, texts) = sync_channel::<Vec<u8>>(INPUTS_MAX);
    // The thread ends with the command: writing fails then, and no sender is left.
    std::thread::Builder::new().name("zero-command-input".to_owned()).spawn(move || {
        let Some(mut stdin) = stdin.map(File::from) else { return };
        while let Ok(text) = texts.recv() {
            if stdin.write_all(&text).is_err() {
                return;
            }
        }
    })?;
    Ok(input)
}
