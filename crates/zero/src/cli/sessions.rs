//! Command-line arguments of `zero sessions`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::gateway::RemoteGatewayArgs;

/// `zero sessions`
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Name a session by its key, such as `agent:main:bug-42` or just `bug-42`, or by its label. The
commands use the sessions stored on this machine. With --url, or `gateway.remote.url` in settings,
they use the sessions of that gateway."
)]
pub enum SessionsCommand {
    /// List sessions, newest first
    List(SessionsListArgs),
    /// Show the messages and tool calls of a session
    Show(SessionsShowArgs),
    /// Export a session as Markdown or JSON
    Export(SessionsExportArgs),
    /// Copy a session with its conversation, to continue it in another direction
    Fork(SessionsForkArgs),
    /// List or revoke what you allowed or rejected for the rest of a session
    Grants(SessionsGrantsArgs),
    /// Start a new transcript in a session; the old one is kept
    Reset(SessionsKeyArgs),
    /// Delete a session and its history
    Delete(SessionsDeleteArgs),
}

/// `zero sessions list`
#[derive(Debug, Args)]
pub struct SessionsListArgs {
    /// List only sessions whose key, label or title contains this text
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// List only sessions of this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// List the sessions of the sub-agents of this session, which are not listed otherwise
    #[arg(long, value_name = "SESSION")]
    pub subagents_of: Option<String>,
    /// List at most this many sessions
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub limit: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions grants`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero sessions grants bug-42
  zero sessions grants bug-42 --revoke 'Bash(git push:*)'
  zero sessions grants bug-42 --revoke-all

A `zero run` or gateway that is working in the session keeps the grants that it has loaded until it
ends.")]
pub struct SessionsGrantsArgs {
    /// Key or label of the session
    pub session: String,
    /// Revoke the grants with this rule; can be repeated
    #[arg(long, value_name = "RULE", conflicts_with = "revoke_all")]
    pub revoke: Vec<String>,
    /// Revoke all grants of the session
    #[arg(long)]
    pub revoke_all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions show`
#[derive(Debug, Args)]
pub struct SessionsShowArgs {
    /// Key or label of the session
    pub session: String,
    /// Show only the last N entries
    #[arg(long, value_name = "N")]
    pub last: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions export`
#[derive(Debug, Args)]
pub struct SessionsExportArgs {
    /// Key or label of the session
    pub session: String,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: SessionExportFormat,
    /// File to write to [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// Formats of `zero sessions export`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SessionExportFormat {
    /// A readable document
    #[default]
    Markdown,
    /// Every ledger entry, one JSON object per line
    Jsonl,
}

/// `zero sessions fork`
#[derive(Debug, Args)]
pub struct SessionsForkArgs {
    /// Key or label of the session
    pub session: String,
    /// Key of the copy [default: the key of the session and some digits]
    pub key: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions reset`
#[derive(Debug, Args)]
pub struct SessionsKeyArgs {
    /// Key or label of the session
    pub session: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions delete`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true))]
pub struct SessionsDeleteArgs {
    /// Key or label of the session
    #[arg(group = "which")]
    pub session: Option<String>,
    /// Delete a damaged session by the number that `zero doctor` shows, if its key cannot be read
    #[arg(long, value_name = "N", group = "which")]
    pub id: Option<i64>,
    /// Delete without asking
    #[arg(long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
