//! Command-line arguments of `zero jobs`.

use clap::{Args, Subcommand};

/// `zero jobs`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Commands that agents or `zero tools call Bash` start with `run_in_background` are jobs. A job
continues after the prompt or call that started it. The gateway and editors end their jobs when they
end; jobs of `zero run` and `zero tools call` run until they end by themselves or you kill them, at
most for 7 days. A later prompt in the same session, or a later call in the same folder, can read
and end them. Deleting, resetting or pruning a session ends its jobs.

Examples:
  zero jobs                                      list all jobs
  zero jobs output job_3 --follow                print its output until it ends
  zero jobs kill 3                               kill job_3"
)]
pub struct JobsArgs {
    /// Action to perform instead of listing the jobs.
    #[command(subcommand)]
    pub command: Option<JobsCommand>,
    /// Options for listing the jobs.
    #[command(flatten)]
    pub list: JobsListArgs,
}

/// Subcommands of `zero jobs`.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// List the jobs, oldest first
    List(JobsListArgs),
    /// Show the state of a job
    Show(JobsShowArgs),
    /// Print all output of a job
    Output(JobsOutputArgs),
    /// Kill jobs, with all of their processes
    Kill(JobsKillArgs),
}

/// `zero jobs list`
#[derive(Debug, Args)]
pub struct JobsListArgs {
    /// List only jobs that are running
    #[arg(long)]
    pub running: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero jobs show`
#[derive(Debug, Args)]
pub struct JobsShowArgs {
    /// ID of the job: `job_3`, or `3`
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero jobs output`
#[derive(Debug, Args)]
pub struct JobsOutputArgs {
    /// ID of the job: `job_3`, or `3`
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print new output until the job ends
    #[arg(long, short)]
    pub follow: bool,
}

/// `zero jobs kill`
#[derive(Debug, Args)]
pub struct JobsKillArgs {
    /// IDs of the jobs: `job_3`, or `3`
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
