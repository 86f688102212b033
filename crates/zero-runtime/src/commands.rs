//! How a tool runs a command: through its context, and only one that was judged for its call.
//!
//! A command lives no longer than its call wants it: it is killed when the call is stopped, or
//! becomes a job when only its time is up. What it writes meanwhile is told to whoever observes the
//! call. How commands are started and confined is in `zero_exec`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};
use zero_core::ToolError;
use zero_exec::jobs::{Job, JobTable};
use zero_exec::{
    CommandDisposition, CommandRequest, ForegroundCommand, OutputObservation, TimeoutAction,
};

use crate::admission::CallPermit;
use crate::call_context::CallContext;

impl CallContext {
    /// Runs a command. It must be one that was judged for this call.
    ///
    /// When the call is stopped, every process of it is killed; an error then carries the end of
    /// its output. When its time is up, it may become a job instead: see [`TimeoutAction`].
    pub async fn run_command(
        &self,
        request: CommandRequest,
    ) -> Result<CommandDisposition, ToolError> {
        let observation = match self.wants_output() {
            true => OutputObservation::AllOutput,
            false => OutputObservation::Progress,
        };
        let start = move |cx: &Self| {
            cx.check_cancelled()?;
            cx.commands().start(&request, observation, cx.permit().map(box_permit))
        };
        let mut command = self.run_blocking(start).await?;
        let tell = |text: Option<String>| {
            if let Some(text) = text {
                self.report_output(text);
            }
        };
        let mut is_stopped = false;
        let mut progress = delayed_interval(ForegroundCommand::PROGRESS_PAUSE);
        let mut output = delayed_interval(ForegroundCommand::OUTPUT_PAUSE);
        loop {
            tokio::select! {
                biased;
                () = command.wait_ended() => break,
                () = self.cancelled(), if !is_stopped => {
                    if self.is_past_deadline() && let Some(job) = command.become_job() {
                        tell(command.take_output());
                        return Ok(CommandDisposition::ContinuedAsJob(job));
                    }
                    command.kill();
                    is_stopped = true;
                }
                _ = output.tick(), if observation == OutputObservation::AllOutput => {
                    tell(command.take_output());
                }
                _ = progress.tick() => {
                    if let Some(lines) = command.take_progress() {
                        self.report_progress(lines);
                    }
                }
            }
        }
        tell(command.take_last_output());
        let finish = move |cx: &Self| {
            if cx.is_past_deadline() {
                command.mark_timed_out();
            }
            command.into_outcome()
        };
        self.run_blocking(finish).await.map(|end| CommandDisposition::Ended(Box::new(end)))
    }

    /// Starts a command that goes on after the call. It must be one that was judged for this call.
    pub async fn start_job(
        &self,
        request: CommandRequest,
        timeout: Option<Duration>,
    ) -> Result<Arc<Job>, ToolError> {
        let start = move |cx: &Self| {
            cx.check_cancelled()?;
            cx.commands().start_job(&request, timeout)
        };
        self.run_blocking(start).await
    }

    /// What becomes of a command that outlives its time.
    pub fn timeout_action(&self) -> TimeoutAction {
        self.commands().timeout_action()
    }

    /// The jobs of the session.
    pub fn jobs(&self) -> &JobTable {
        &self.commands().launcher.session.jobs
    }
}

/// A place in the queue, for whoever only has to hold it.
fn box_permit(permit: CallPermit) -> Box<dyn Send> {
    Box::new(permit)
}

/// Comes every so often, first after one pause.
fn delayed_interval(pause: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + pause, pause);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
