//! One job: a command that runs, a thread that reads it, and what nobody has read yet.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zero_core::{Reason, ToolError};
use zero_sandbox::drain::{Collector, Spill};
use zero_sandbox::running::{Ended, KillReason, Killer, Running};

use super::unread::{Piece, Unread};

/// Texts that may wait until the job reads them.
const INPUTS_MAX: usize = 16;

/// A command of a session that goes on while others are called.
#[derive(Debug)]
pub struct Job {
    id: String,
    command: String,
    started: Instant,
    spill_file: Option<String>,
    killer: Killer,
    input: SyncSender<Vec<u8>>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    unread: Unread,
    end: Option<Option<Ended>>,
}

/// Whether a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// It does.
    Running,
    /// It ended, and how; `None` when nobody knows.
    Ended(Option<Ended>),
}

/// A command that was just started, to be a job.
pub(crate) struct Start {
    pub(crate) command: String,
    pub(crate) running: Running,
    pub(crate) spill: Option<Spill>,
    pub(crate) spill_file: Option<String>,
}

impl Job {
    /// Watches a command. When that fails, the command is gone.
    pub(super) fn watch(id: String, start: Start) -> io::Result<Arc<Self>> {
        let Start { command, mut running, spill, spill_file } = start;
        let (input, texts) = sync_channel::<Vec<u8>>(INPUTS_MAX);
        // With a terminal, input goes to where output comes from.
        let stdin = match (running.stdin.take(), &running.stdout) {
            (Some(stdin), _) => Some(stdin),
            (None, Some(terminal)) => Some(terminal.try_clone()?),
            (None, None) => None,
        };
        let job = Arc::new(Self {
            id,
            command,
            started: Instant::now(),
            spill_file,
            killer: running.killer(),
            input,
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        // It ends with the job: writing to a command that is gone fails.
        std::thread::Builder::new().name("zero-job-input".to_owned()).spawn(move || {
            let mut stdin = stdin.map(File::from);
            while let Ok(text) = texts.recv() {
                let Some(open) = &mut stdin else { return };
                if open.write_all(&text).is_err() {
                    return;
                }
            }
        })?;
        let watched = Arc::clone(&job);
        std::thread::Builder::new().name("zero-job-output".to_owned()).spawn(move || {
            let collector =
                Collector { head_bytes: 0, tail_bytes: 0, spill, ..Collector::default() };
            let end = collector.collect(&mut running, |news| {
                watched.lock().unread.push(news.stream, news.bytes);
                ControlFlow::Continue(())
            });
            // Whatever happened, nothing of it is left when it counts as ended.
            drop(running);
            watched.lock().end = Some(end.ok().map(|(_, ended)| ended));
            watched.ended.notify_all();
        })?;
        Ok(job)
    }

    /// How it is called.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What runs.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The file that holds all of its output.
    pub fn spill_file(&self) -> Option<&str> {
        self.spill_file.as_deref()
    }

    /// Whether it runs.
    pub fn status(&self) -> JobStatus {
        self.lock().end.clone().map_or(JobStatus::Running, JobStatus::Ended)
    }

    /// Bytes it wrote that nobody has read.
    pub fn unread_bytes(&self) -> usize {
        self.lock().unread.len()
    }

    /// What it wrote since this was last asked, and how many bytes before that are lost.
    pub fn take_output(&self) -> (Vec<Piece>, u64) {
        self.lock().unread.take()
    }

    /// Sends it a text to read.
    pub fn send(&self, text: &str) -> Result<(), ToolError> {
        let failed = |message: String| Err(ToolError::failed(Reason::Busy, message));
        if self.status() != JobStatus::Running {
            return failed(format!("job `{}` has ended and reads nothing any more", self.id));
        }
        match self.input.try_send(text.as_bytes().to_vec()) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                failed(format!("job `{}` does not read what it was sent before", self.id))
            }
            Err(TrySendError::Disconnected(_)) => {
                failed(format!("job `{}` has closed its input", self.id))
            }
        }
    }

    /// Asks for its end. Nothing happens when it has ended already.
    pub fn kill(&self) {
        self.killer.kill(KillReason::Asked);
    }

    /// Waits until it has ended, though not longer than `limit`; true when it has.
    pub fn wait(&self, limit: Duration) -> bool {
        let waited = self.ended.wait_timeout_while(self.lock(), limit, |state| state.end.is_none());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.end.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
