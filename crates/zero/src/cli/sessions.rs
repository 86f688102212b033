//! Command-line arguments of `zero sessions`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::gateway::RemoteGatewayArgs;

/// `zero sessions`
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Name a session by its key, such as `agent:main:bug-42` or just `bug-42`, by its
label, or by its id (`sess_…`). The
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
    /// Restore files and conversation to their state before a prompt
    Rewind(SessionsRewindArgs),
    /// List or revoke what you allowed or rejected for the rest of a session
    Grants(SessionsGrantsArgs),
    /// Start a new transcript in a session; the old one is kept
    Reset(SessionsKeyArgs),
    /// Delete a session and its history
    Delete(SessionsDeleteArgs),
    /// Copy all sessions from the file of this machine to a database that gateways share, or back
    Migrate(SessionsMigrateArgs),
}

/// `zero sessions migrate`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero sessions migrate --from sqlite --to postgres://zero@db.example/zero --dry-run
  zero sessions migrate --from sqlite --to postgres://zero@db.example/zero
  zero sessions migrate --from postgres://zero@db.example/zero --to sqlite:/var/tmp/sessions.sqlite

`sqlite` is the file of this machine, `sqlite:FILE` another one. Stop all gateways and chats that use
either side first. The source is not changed. Each session is copied as a whole and compared with its
source; what the target has already is left alone, so an interrupted copy goes on when the command is
repeated. What runs cost is copied, too; stored results, undo journals and the audit log stay on this
machine.

Exit codes: 0 all sessions are in the target, 1 some are not or an error, 2 wrong usage.")]
pub struct SessionsMigrateArgs {
    /// Where the sessions are
    #[arg(long, value_name = "STORE")]
    pub from: String,
    /// Where they are copied to
    #[arg(long, value_name = "STORE")]
    pub to: String,
    /// File with the password for the database
    #[arg(long, value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,
    /// Show what would be copied, and copy nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Settings file to use instead of yours; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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

Revoking ends a grant in every process that works in the session: its next call asks again.")]
pub struct SessionsGrantsArgs {
    /// Key, label or id of the session
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
    /// Key, label or id of the session
    pub session: String,
    /// Show only the last N entries
    #[arg(long, value_name = "N")]
    pub last: Option<u64>,
    /// Show what fills the context window of the model instead
    #[arg(long, conflicts_with = "last")]
    pub context: bool,
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
    /// Key, label or id of the session
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
    /// Key, label or id of the session
    pub session: String,
    /// Key of the copy [default: the key of the session and some digits]
    pub key: Option<String>,
    /// Copy only what was before the prompt with this number
    #[arg(long, value_name = "PROMPT", value_parser = clap::value_parser!(u64).range(1..))]
    pub at: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// `zero sessions rewind`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero sessions rewind bug-42 --list             list the prompts
  zero sessions rewind bug-42                    undo the newest prompt
  zero sessions rewind bug-42 --to 3             back to before prompt 3
  zero sessions rewind bug-42 --to 3 --files     files only
  zero sessions rewind bug-42 --undo             undo the last rewind

zero undoes the changes that its file tools, commands and MCP servers made since the prompt. It names
what is not recorded. If another program changed a file since, zero lists the files and touches
nothing. Nothing is lost: a rewind can be undone.

Exit codes: 0 rewound, 1 an error, 2 wrong usage, 3 refused because files were changed since.")]
pub struct SessionsRewindArgs {
    /// Key, label or id of the session
    pub session: String,
    /// Number of the prompt before which the session is to be [default: the newest]
    #[arg(long, value_name = "PROMPT", value_parser = clap::value_parser!(u64).range(1..))]
    pub to: Option<u64>,
    /// Rewind only files
    #[arg(long, conflicts_with_all = ["conversation", "both"])]
    pub files: bool,
    /// Rewind only the conversation
    #[arg(long, conflicts_with = "both")]
    pub conversation: bool,
    /// Rewind files and conversation (default)
    #[arg(long)]
    pub both: bool,
    /// Undo the last rewind
    #[arg(long, conflicts_with = "to")]
    pub undo: bool,
    /// Overwrite files that another program changed since
    #[arg(long)]
    pub force: bool,
    /// List the prompts, oldest first, instead of rewinding
    #[arg(long, conflicts_with_all = ["to", "files", "conversation", "both", "undo", "force"])]
    pub list: bool,
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
    /// Key, label or id of the session
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
    /// Key, label or id of the session
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
