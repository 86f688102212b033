//! Command-line arguments of `zero usage`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::value_parsers::look_back;

/// `zero usage`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero usage                        what the last 7 days cost, by day
  zero usage --by model --since 30d
  zero usage --by session --json

The figures come from the sessions of this machine. zero keeps them for 400 days, also after a
session was deleted. A run belongs to the day on which it began. To limit what runs spend, set
`budgets`.

Exit codes: 0 done, 1 error, 2 wrong usage.")]
pub struct UsageArgs {
    /// What each row stands for
    #[arg(long, value_name = "GROUP", value_enum, default_value_t = UsageGrouping::Day)]
    pub by: UsageGrouping,
    /// Time span to include, such as `12h` or `30d`
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = look_back)]
    pub since: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What a row of the usage stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageGrouping {
    /// A day, in local time
    Day,
    /// A session
    Session,
    /// A model
    Model,
    /// An agent
    Agent,
    /// An owner of sessions
    Owner,
}
