//! `zero sessions` as it is written.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::gateway::RemoteGatewayArgs;

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "A session is named by its key, such as `agent:main:bug-42` or just `bug-42`, or by its
label. Those of this machine are read where they are kept; with --url, or gateway.remote.url in
settings, a gateway is asked."
)]
pub enum SessionsCommand {
    /// List sessions, the newest first
    List(SessionsListArgs),
    /// Show what was said and done in a session
    Show(SessionsShowArgs),
    /// Write a session down as Markdown or JSON
    Export(SessionsExportArgs),
    /// Begin a new transcript; the old one stays
    Reset(SessionsKeyArgs),
    /// Remove a session with all that was said in it
    Delete(SessionsDeleteArgs),
}

/// `zero sessions list`
#[derive(Debug, Args)]
pub struct SessionsListArgs {
    /// Only those whose key, label or title holds this
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only those of this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub limit: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The gateway
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions show`
#[derive(Debug, Args)]
pub struct SessionsShowArgs {
    /// The session: its key or label
    pub session: String,
    /// Only the last so many entries
    #[arg(long, value_name = "N")]
    pub last: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The gateway
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions export`
#[derive(Debug, Args)]
pub struct SessionsExportArgs {
    /// The session: its key or label
    pub session: String,
    /// How to write it
    #[arg(long, value_enum, default_value_t)]
    pub format: SessionExportFormat,
    /// File to write to [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The gateway
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// How a session is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SessionExportFormat {
    /// For people
    #[default]
    Markdown,
    /// Every entry, one JSON object a line
    Jsonl,
}

/// `zero sessions reset`
#[derive(Debug, Args)]
pub struct SessionsKeyArgs {
    /// The session: its key or label
    pub session: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The gateway
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions delete`
#[derive(Debug, Args)]
pub struct SessionsDeleteArgs {
    /// The session: its key or label
    pub session: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The gateway
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
