//! A command that is watched: a thread reads what it writes, so that it never waits for a reader.
//!
//! This is what every command is while it runs, whether somebody waits for its end or not. So one
//! that is waited for can become a job at any time: nothing of it changes hands.

use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use zero_sandbox::output_collector::{CollectedOutput, OutputCollector, OutputStream};
use zero_sandbox::running_command::{CommandExit, KillHandle, KillReason, RunningCommand};

use super::unread_output::{OutputChunk, UnreadOutput, UnreadRemainder};
use crate::session_network::NetworkUseGuard;
use crate::tree_watch::{TreeWatch, WatchReport};

/// Texts that may wait until the command reads them.
const INPUTS_MAX: usize = 16;

/// What is told everything that a command writes.
pub type OutputSink = Box<dyn FnMut(OutputStream, &[u8]) + Send>;

/// Something that is only held, such as a place in a queue.
pub type HeldPermit = Box<dyn Send>;

/// How a command is watched.
pub struct MonitorOptions {
    /// How much of what it writes is kept to its end.
    pub collector: OutputCollector,
    /// Whether what nobody has read yet is kept.
    pub unread: UnreadRetention,
    /// Whether it can be sent texts.
    pub input: CommandInput,
    /// Sees everything it writes, right when it comes.
    pub news: OutputSink,
    /// A place in the queue, held until it ends or becomes a job.
    pub permit: Option<HeldPermit>,
    /// What it may not make, looked at once it has ended.
    pub watch: TreeWatch,
    /// The use it makes of its session's network, which ends with it.
    pub network: NetworkUseGuard,
}

/// Whether what nobody has read yet is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadRetention {
    /// It is, up to a bound.
    Yes,
    /// It is not.
    No,
}

/// What a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandInput {
    /// Texts that it is sent.
    Texts,
    /// These bytes, and then no more.
    Bytes(Vec<u8>),
    /// Nothing; that is for whoever started it to see to.
    Nothing,
}

/// A command that is watched.
pub struct MonitoredCommand {
    killer: KillHandle,
    input: Option<SyncSender<Vec<u8>>>,
    state: Mutex<MonitorState>,
    ended: Condvar,
    /// For the one who waits without a thread.
    ended_later: Notify,
}

#[derive(Default)]
struct MonitorState {
    unread: UnreadOutput,
    permit: Option<HeldPermit>,
    network: NetworkUseGuard,
    finish: Option<CommandEnding>,
}

/// How a watched command ended.
struct CommandEnding {
    /// `None` when nobody knows.
    ended: Option<CommandExit>,
    /// What it wrote, until somebody takes it.
    collected: Option<io::Result<(CollectedOutput, CommandExit)>>,
    /// What it made that it may not make.
    settled: WatchReport,
    /// What is to be known of the network.
    network: Vec<String>,
}

/// Why a text was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendInputError {
    /// It reads nothing.
    NoInput,
    /// It does not read what it was sent before.
    Full,
    /// It has closed its input.
    Closed,
}

impl MonitoredCommand {
    /// Watches a command that was just started. When that fails, the command is gone.
    pub fn start(mut running: RunningCommand, watching: MonitorOptions) -> io::Result<Arc<Self>> {
        let MonitorOptions { collector, unread, input, mut news, permit, watch, network } =
            watching;
        let input = match input {
            CommandInput::Texts => Some(start_input_thread(&mut running)?),
            CommandInput::Bytes(bytes) => {
                // There is room for one, and its input ends when nobody can send any more.
                let _ = start_input_thread(&mut running)?.try_send(bytes);
                None
            }
            CommandInput::Nothing => None,
        };
        let watched = Arc::new(Self {
            killer: running.kill_handle(),
            input,
            state: Mutex::new(MonitorState { permit, network, ..MonitorState::default() }),
            ended: Condvar::new(),
            ended_later: Notify::new(),
        });
        let watcher = Arc::clone(&watched);
        std::thread::Builder::new().name("zero-command".to_owned()).spawn(move || {
            // Whoever waits must hear of the end, also when this is what breaks.
            let collect = AssertUnwindSafe(|| {
                collector.collect(&mut running, |came| {
                    if unread == UnreadRetention::Yes {
                        watcher.lock().unread.push(came.stream, came.bytes);
                    }
                    news(came.stream, came.bytes);
                    ControlFlow::Continue(())
                })
            });
            let collected = catch_unwind(collect).unwrap_or_else(|_| Err(read_error()));
            // Whatever happened, nothing of it is left when it counts as ended.
            drop(running);
            let settled = catch_unwind(AssertUnwindSafe(|| watch.finish())).unwrap_or_default();
            watcher.finish(collected, settled);
        })?;
        Ok(watched)
    }

    fn finish(&self, collected: io::Result<(CollectedOutput, CommandExit)>, settled: WatchReport) {
        let ended = collected.as_ref().ok().map(|(_, ended)| ended.clone());
        let mut state = self.lock();
        let network = std::mem::take(&mut state.network).notes();
        state.finish = Some(CommandEnding { ended, collected: Some(collected), settled, network });
        state.permit = None;
        drop(state);
        self.ended.notify_all();
        self.ended_later.notify_one();
    }

    /// Asks for its end. Nothing happens when it has ended already.
    pub fn kill(&self) {
        self.killer.kill(KillReason::Asked);
    }

    /// How it ended, if it did; the inner one is `None` when nobody knows.
    pub fn end_status(&self) -> Option<Option<CommandExit>> {
        self.lock().finish.as_ref().map(|finish| finish.ended.clone())
    }

    /// What it made that it may not make; known once it has ended.
    pub fn watch_report(&self) -> WatchReport {
        self.lock().finish.as_ref().map(|finish| finish.settled.clone()).unwrap_or_default()
    }

    /// What is to be known of the network so far.
    pub fn network_notes(&self) -> Vec<String> {
        let state = self.lock();
        match &state.finish {
            Some(finish) => finish.network.clone(),
            None => state.network.notes(),
        }
    }

    /// Waits until it has ended, though not longer than `limit`; true when it has.
    pub fn wait(&self, limit: Duration) -> bool {
        let still_runs = |state: &mut MonitorState| state.finish.is_none();
        let waited = self.ended.wait_timeout_while(self.lock(), limit, still_runs);
        waited.unwrap_or_else(PoisonError::into_inner).0.finish.is_some()
    }

    /// Completes when it has ended. For one to wait.
    pub async fn wait_ended(&self) {
        while self.lock().finish.is_none() {
            self.ended_later.notified().await;
        }
    }

    /// What it wrote and how it ended, once, after its end.
    pub fn take_collected(&self) -> Option<io::Result<(CollectedOutput, CommandExit)>> {
        self.lock().finish.as_mut()?.collected.take()
    }

    /// Lets it go on without a place in the queue.
    pub fn release_permit(&self) {
        self.lock().permit = None;
    }

    /// Bytes it wrote that nobody has read.
    pub fn unread_bytes(&self) -> usize {
        self.lock().unread.len()
    }

    /// What it wrote since this was last asked, and how many bytes before that are lost. A
    /// character that has come in part waits for its rest while there can be one.
    pub fn take_unread(&self) -> (Vec<OutputChunk>, u64) {
        let mut state = self.lock();
        let rest =
            if state.finish.is_some() { UnreadRemainder::Never } else { UnreadRemainder::MayCome };
        state.unread.take(rest)
    }

    /// Sends it a text to read.
    pub fn send(&self, text: &str) -> Result<(), SendInputError> {
        let input = self.input.as_ref().ok_or(SendInputError::NoInput)?;
        input.try_send(text.as_bytes().to_vec()).map_err(|error| match error {
            TrySendError::Full(_) => SendInputError::Full,
            TrySendError::Disconnected(_) => SendInputError::Closed,
        })
    }

    fn lock(&self) -> MutexGuard<'_, MonitorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_error() -> io::Error {
    io::Error::other("reading its output broke off")
}

impl fmt::Debug for MonitoredCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

/// Where texts for a command go.
fn start_input_thread(running: &mut RunningCommand) -> io::Result<SyncSender<Vec<u8>>> {
    // With a terminal, input goes to where output comes from.
    let stdin = match (running.stdin.take(), &running.stdout) {
        (Some(stdin), _) => Some(stdin),
        (None, Some(terminal)) => Some(terminal.try_clone()?),
        (None, None) => None,
    };
    let (input, texts) = sync_channel::<Vec<u8>>(INPUTS_MAX);
    // It ends with the command: writing to one that is gone fails, and then nobody sends any more.
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
