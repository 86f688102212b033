//! Runs commands for a tool, limited to those that were authorized for its call.
//!
//! A command is killed when its call is stopped, or becomes a job when only its timeout passed. Its
//! output is reported to the call's observer meanwhile. `zero_exec` starts and confines commands.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};
use zero_core::{CallProgress, ToolError};
use zero_exec::jobs::{Job, JobTable};
use zero_exec::{
    CommandDisposition, CommandRequest, ForegroundCommand, OutputObservation, TimeoutAction,
};

use crate::admission::CallPermit;
use crate::call_context::CallContext;

impl CallContext {
    /// Runs a command. It must be one that was authorized for this call.
    ///
    /// If the call is stopped, every process of the command is killed; the error then has the end
    /// of its output. If its timeout passes, it may become a job instead: see [`TimeoutAction`].
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
                        self.report_progress(CallProgress::new(lines));
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

    /// Starts a command that continues after the call. It must be one that was authorized for this
    /// call.
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

    /// What happens to a command that exceeds its timeout.
    pub fn timeout_action(&self) -> TimeoutAction {
        self.commands().timeout_action()
    }

    /// The jobs of the session.
    pub fn jobs(&self) -> &JobTable {
        &self.commands().launcher.session.jobs
    }
}

/// A permit as an opaque value that is only held.
fn box_permit(permit: CallPermit) -> Box<dyn Send> {
    Box::new(permit)
}

/// A ticker whose first tick comes after one pause.
fn delayed_interval(pause: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + pause, pause);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
