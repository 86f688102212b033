//! Records the ends of jobs.

use std::time::Duration;

use zero_core::CallId;
use zero_sandbox::running_command::CommandExit;

/// Records the ends of jobs. The call that started a job is recorded as every call is.
pub trait JobLog: Send + Sync {
    /// Records the end of a job.
    fn write_end(&self, end: &EndedJob<'_>);
}

/// A job that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedJob<'a> {
    /// Its id.
    pub id: &'a str,
    /// The call that started it.
    pub call: &'a CallId,
    /// The command line, without secret values.
    pub command: &'a str,
    /// How it ended, if that is known.
    pub exit: Option<&'a CommandExit>,
    /// Time from its start to its end.
    pub run_time: Duration,
}
