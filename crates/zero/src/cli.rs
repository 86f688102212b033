//! Command-line definition: names, flags and help texts.
//!
//! This module only parses. The implementation of each command is in `commands`, one file each.

pub mod acp;
pub mod chat;
pub mod config;
pub mod gateway;
pub mod help;
pub mod import;
pub mod init;
pub mod jobs;
pub mod login;
pub mod mcp;
pub mod memory;
pub mod policy;
pub mod ports;
mod prune;
mod questions;
pub mod run;
pub mod session_args;
pub mod sessions;
mod skills;
pub mod trust;
mod update;
mod usage;
mod value_parsers;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::civil::Date;
use zero_core::host_limits::HostLimits;
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::audit::ChainPosition;

pub use self::acp::AcpArgs;
pub use self::chat::ChatArgs;
pub use self::config::{ConfigCommand, SettingsLayerArgs};
pub use self::gateway::{
    ConsoleArgs, GatewayArgs, GatewayCommand, GatewayDevicesArgs, GatewayDevicesCommand,
    GatewayDrainArgs, GatewayNodesArgs, GatewayServeArgs, RemoteGatewayArgs,
};
pub use self::help::HelpArgs;
pub use self::import::{ImportArgs, ImportProgram};
pub use self::init::InitArgs;
pub use self::jobs::{
    JobsArgs, JobsCommand, JobsKillArgs, JobsListArgs, JobsOutputArgs, JobsShowArgs,
};
pub use self::login::{LoginArgs, LogoutArgs, ModelsArgs};
pub use self::mcp::{
    McpAddArgs, McpApproveArgs, McpArgs, McpClientProgram, McpCommand, McpInstallArgs,
    McpLoginArgs, McpLogoutArgs, McpReconnectArgs, McpRemoveArgs, McpServeArgs, McpStatusArgs,
};
pub use self::memory::{MemoryCommand, MemoryCommonArgs, MemoryScope};
pub use self::policy::{
    PolicyCheckArgs, PolicyCommand, PolicyContextArgs, PolicyExplainArgs, PolicySimulateArgs,
    PolicyTestArgs,
};
pub use self::ports::{PortsArgs, PortsCommand, PortsForwardArgs, PortsListArgs};
pub use self::prune::PruneArgs;
pub use self::questions::{
    QuestionsAnswerArgs, QuestionsCommand, QuestionsListArgs, QuestionsShowArgs,
};
pub use self::run::{OutputFormat, RunArgs};
pub use self::sessions::SessionsCommand;
pub use self::skills::SkillsArgs;
pub use self::trust::TrustArgs;
pub use self::update::UpdateArgs;
pub use self::usage::{UsageArgs, UsageGrouping};
pub use self::value_parsers::LimitArg;
use self::value_parsers::{
    change_number, day, dialect, limit, limit_help, look_back, set_limits, some_time,
};

/// Log filter of `--verbose`: zero's own crates on the path between editor, gateway and tools;
/// dependencies only from `warn` on.
const VERBOSE: &str = "warn,zero=info,zero_acp=debug,zero_client=debug";

/// Values that a shell completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionKind {
    /// Keys of sessions
    Sessions,
    /// Names of models
    Models,
    /// Keys of settings
    Settings,
    /// Names of tools
    Tools,
}

/// A coding agent and a sandboxed tool runtime
///
/// zero checks every tool call against your rules before it runs and records it in an audit log.
/// Commands run in a sandbox. What tools and commands change in the workspace can be undone.
#[derive(Debug, Parser)]
#[command(
    name = "zero",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    override_usage = "zero [RUN OPTIONS] [PROMPT]\n       zero <COMMAND>",
    after_help = "Exit codes:
  0    success
  1    error
  2    wrong usage
  3    denied
  4    `zero run`: stopped by a token or turn limit or a budget
  5    `zero run --output-schema`: the answer does not fit the schema
  6    `zero run --park`, `zero questions answer`: the run waits for an answer
  10   `zero policy`: zero would ask
  20   `zero policy`: the call would be denied
  130  `zero run`: interrupted

Environment:
  XDG_STATE_HOME   folder for sessions, audit log and undo journal (default: ~/.local/state)
  XDG_CONFIG_HOME  folder for your settings, zero/settings.json (default: ~/.config)
  ZERO_MODEL       model to use, such as `openai/gpt-5`; for keys, see `zero run --help`
  ZERO_LOG         log filter for stderr, such as `info` or `zero_runtime=debug`
  NO_COLOR         disables colors if set"
)]
pub struct Cli {
    /// Command to run; without one, `zero` is a chat on a terminal, and prints an overview elsewhere.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// The command line with help texts whose paragraphs fit any width.
pub(crate) fn command() -> Command {
    fill_paragraphs(Cli::command())
}

/// Joins the lines of each paragraph in the texts after the options, so that they are wrapped once, at
/// the width of the terminal. Indented lines stay as they are.
fn fill_paragraphs(command: Command) -> Command {
    let mut filled = command.mut_subcommands(fill_paragraphs);
    if let Some(text) = filled.get_after_help().map(ToString::to_string) {
        filled = filled.after_help(join_paragraph_lines(&text));
    }
    filled
}

fn join_paragraph_lines(text: &str) -> String {
    let mut joined = String::new();
    let mut can_join = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !joined.is_empty() {
            joined.push(if can_join && is_prose { ' ' } else { '\n' });
        }
        joined.push_str(line);
        can_join = is_prose && !line.ends_with(':');
    }
    joined
}

impl Cli {
    /// Whether the command runs a gateway server.
    pub(crate) fn is_server(&self) -> bool {
        matches!(&self.command, Some(CliCommand::Gateway(args)) if args.command.is_none())
    }

    /// Log filter to use: the one from the environment, or else the one that a flag implies.
    pub(crate) fn log_filter<'a>(&self, from_env: Option<&'a str>) -> Option<&'a str> {
        match &self.command {
            Some(CliCommand::Acp(args)) if args.verbose => from_env.or(Some(VERBOSE)),
            _ => from_env,
        }
    }
}

/// Top-level commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Set up a model: provider, key and default
    Login(LoginArgs),
    /// Remove a model and its key
    Logout(LogoutArgs),
    /// List the models, and the model servers on this machine
    Models(ModelsArgs),
    /// Talk with the agent on the terminal; the same as `zero` alone
    Chat(ChatArgs),
    /// Send a prompt to the agent
    Run(RunArgs),
    /// Run as an agent for editors (Agent Client Protocol over stdio)
    Acp(AcpArgs),
    /// List, show, export, fork, rewind, reset and delete sessions and their grants
    Sessions {
        /// Action to perform.
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// List and answer the questions of runs that wait
    Questions {
        /// Action to perform.
        #[command(subcommand)]
        command: QuestionsCommand,
    },
    /// List, show and kill background jobs
    Jobs(JobsArgs),
    /// List the ports of servers in sandboxes, and forward one to this machine
    Ports(PortsArgs),
    /// Remove old sessions and other data, and free disk space
    Prune(PruneArgs),
    /// Run the gateway, which stores sessions and runs agents for clients
    Gateway(GatewayArgs),
    /// Open the web console: show its address and a code that pairs a browser
    Console(ConsoleArgs),
    /// List, describe, call, serve and check tools
    Tools {
        /// Action to perform.
        #[command(subcommand)]
        command: ToolsCommand,
    },
    /// Serve zero's tools over MCP, or manage the MCP servers that zero uses
    Mcp(McpArgs),
    /// List, add, edit and remove the notes that sessions start with
    Memory {
        /// Action to perform.
        #[command(subcommand)]
        command: MemoryCommand,
    },
    /// List the skills that sessions in a folder can use
    Skills(SkillsArgs),
    /// Undo what tools and commands changed in a folder
    Undo(UndoArgs),
    /// Show call counts, results and durations per tool
    Stats(StatsArgs),
    /// Show what runs used: tokens, requests, calls, time and cost
    Usage(UsageArgs),
    /// Show and verify the audit log of tool calls
    Audit {
        /// Action to perform.
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Propose settings and instructions for a project
    Init(InitArgs),
    /// Take over the settings of Claude Code, Codex, opencode or Gemini CLI
    Import(ImportArgs),
    /// Show and change settings
    Config {
        /// Action to perform.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Review a folder's settings and trust it
    Trust(TrustArgs),
    /// Show what the rules decide, without running anything
    Policy {
        /// Action to perform.
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Find problems and risks: settings, rules, trust, sandbox, audit log, PATH
    Doctor(DoctorArgs),
    /// Update zero, or print the command that updates it
    Update(UpdateArgs),
    /// Print a shell completion script
    #[command(after_help = "Example:
  zero completions bash > ~/.local/share/bash-completion/completions/zero")]
    Completions {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the values that a completion script offers
    #[command(hide = true)]
    Complete {
        /// Kind of values
        kind: CompletionKind,
    },
    /// Print the manual page of zero or of one of its commands
    #[command(after_help = "Examples:
  zero man | man -l -
  zero man tools call > zero-tools-call.1")]
    Man {
        /// Command to describe, such as `tools call` [default: zero itself]
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Print a page of the documentation, or the help of a command
    Help(HelpArgs),
}

/// `zero tools`
#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the tools, as a table or in the format of a model API
    List(ToolsListArgs),
    /// Describe one tool: parameters, risk, an example
    Show(ToolsShowArgs),
    /// Call a tool
    Call(ToolsCallArgs),
    /// Serve the tools to other programs (JSON-RPC over stdio)
    Serve(ToolsServeArgs),
    /// Re-run the tool discovery command
    Refresh(ToolsRefreshArgs),
    /// Check this build against the levels of the tool specification
    Conformance(ToolsConformanceArgs),
}

/// `zero audit`
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show the newest calls
    Tail(AuditTailArgs),
    /// Show everything recorded about one call
    Show(AuditShowArgs),
    /// Check that no record was changed, removed, added or moved
    Verify(AuditVerifyArgs),
}

/// `zero tools list`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero tools list                                      print a table
  zero tools list --dialect qwen                       use the names of Qwen Code
  zero tools list --format anthropic > tools.json      for `tools` in a model request")]
pub struct ToolsListArgs {
    /// Dialect to show the tools in
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: ToolsListFormat,
    /// Print JSON; the same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Output formats of `zero tools list`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ToolsListFormat {
    /// A table for the terminal
    #[default]
    Table,
    /// All details of each tool
    Json,
    /// `tools` in an OpenAI-compatible request
    Openai,
    /// `tools` in an Anthropic request
    Anthropic,
    /// `tools` in a Gemini request
    Gemini,
    /// Result of MCP `tools/list`
    Mcp,
}

/// `zero tools show`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero tools show Grep
  zero tools show search_files                         a name from another dialect
  zero tools show grep_search --dialect qwen
  zero tools show Read --json                          with the full schemas")]
pub struct ToolsShowArgs {
    /// Name of the tool in any dialect
    pub name: String,
    /// Dialect to show it in [default: the first one that has this name]
    #[arg(long, value_name = "DIALECT", value_parser = dialect())]
    pub dialect: Option<DialectName>,
    /// Print JSON, with the full schemas
    #[arg(long)]
    pub json: bool,
}

/// `zero tools call`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero tools call Read '{\"file_path\": \"README.md\", \"limit\": 20}'
  zero tools call Grep '{\"pattern\": \"TODO\", \"output_mode\": \"content\"}' --json
  zero tools call Write - --yes < input.json
  zero tools call read_file '{\"path\": \"README.md\"}' --dialect acp

On a terminal, zero asks before a call that needs permission. Without a terminal, it denies such a
call unless a rule allows it or you pass --yes. `zero undo` reverts what the call changed in the workspace.

Exit codes: 0 the tool returned a result, 1 it returned an error or its command failed
(`exit_code` in the JSON is the command's own), 2 wrong usage, 3 denied.")]
pub struct ToolsCallArgs {
    /// Name of the tool in the dialect
    pub name: String,
    /// Input of the tool as a JSON object, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub input: String,
    /// Folder to work in; can be repeated, relative paths start in the first [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Vec<PathBuf>,
    /// Dialect of the name and the input
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// Approve what zero would ask about. Does not approve denied calls, hosts that only a project's
    /// file names, or hosts that a command first contacts while it runs
    #[arg(long)]
    pub yes: bool,
    /// Permission mode: ask, accept-edits, plan or auto [default: from settings, or ask]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<PermissionMode>,
    /// Show what the call changed in the workspace, then ask whether to keep it; without a terminal,
    /// discard it. What it did elsewhere remains
    #[arg(long, conflicts_with = "json")]
    pub dry_run: bool,
    /// Print the result as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Stop after this time, such as `500ms` or `10s`; the tool's own limit still applies
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub timeout: Option<Duration>,
    /// Limits to change.
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit, help = limit_help())]
    pub limits: Vec<LimitArg>,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
}

impl ToolsCallArgs {
    /// Whether the input comes from stdin. zero can then not ask for approval on stdin.
    pub fn takes_stdin(&self) -> bool {
        self.input == "-"
    }

    /// Applies the `--limit` flags to `limits`; they override the settings.
    pub fn set_limits(&self, limits: &mut HostLimits) {
        set_limits(&self.limits, limits);
    }
}

impl UndoArgs {
    /// Default limits with the `--limit` flags applied.
    pub fn limits(&self) -> HostLimits {
        let mut limits = HostLimits::default();
        set_limits(&self.limits, &mut limits);
        limits
    }
}

/// `zero tools serve`
#[derive(Debug, Args)]
#[command(
    after_help = "One JSON-RPC message per line: tools/list, tools/use, tools/cancel, tools/close.

Example:
  zero tools serve --workspace ~/project
  {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/use\",\"params\":{\"sessionId\":\"s1\",\"toolCallId\":\"c1\",\"toolName\":\"read_file\",\"input\":{\"path\":\"README.md\"}}}

If a call needs permission, zero sends the request session/request_permission to the caller. If the
caller does not support it, the call is denied. Protocol: `zero help tools-serve`.

Exit codes: 0 the caller closed stdin, 1 error, 2 wrong usage."
)]
pub struct ToolsServeArgs {
    /// Folder to work in; can be repeated, relative paths start in the first [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Vec<PathBuf>,
    /// Dialect of the tools, unless a message names another
    #[arg(long, value_name = "DIALECT", default_value = "acp", value_parser = dialect())]
    pub dialect: DialectName,
    /// Approve what zero would ask the caller about. Does not approve denied calls, hosts that only a
    /// project's file names, or hosts that a command first contacts while it runs
    #[arg(long)]
    pub yes: bool,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
}

/// `zero tools refresh`
#[derive(Debug, Args)]
#[command(
    after_help = "The command is `tools.toolDiscoveryCommand` in settings. Every zero process that runs in this folder
reloads its tools.

Example:
  zero tools refresh

Exit codes: 0 success, 1 the command failed, 2 wrong usage, or no command is set."
)]
pub struct ToolsRefreshArgs {
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero tools conformance`
#[derive(Debug, Args)]
#[command(
    after_help = "Level 1 is Read, Write, Edit, Glob, Grep, Bash and AskUserQuestion. Level 2 adds TodoWrite and LSP.
Level 3 adds WebFetch and WebSearch. The check calls each tool in a temporary folder, with a local
server in place of the web. LSP uses any installed language server. If there is none, LSP is
reported as skipped and counts neither as passed nor as failed.

Examples:
  zero tools conformance --level 1
  zero tools conformance --dialects                    check every name of every tool
  zero tools conformance --json

Exit codes: 0 all checks of the level pass, 1 some fail."
)]
pub struct ToolsConformanceArgs {
    /// Highest level to check
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub level: u8,
    /// Also call every tool by each of its names in all four dialects
    #[arg(long)]
    pub dialects: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero undo`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero undo                undo the newest change
  zero undo --list         list the changes that can be undone
  zero undo 12             undo change 12

A change is one file that a tool changed, or everything that one command changed. If a file was
changed again since, zero asks before it restores it. An undo is itself recorded and can be undone.

Exit codes: 0 restored, 1 nothing to undo or an error, 2 wrong usage, 3 refused.")]
pub struct UndoArgs {
    /// Number of the change to undo [default: the newest]
    #[arg(conflicts_with = "list", value_parser = change_number)]
    pub id: Option<u64>,
    /// List the recorded changes, newest first
    #[arg(long)]
    pub list: bool,
    /// List all of them, not only the newest 50
    #[arg(long, requires = "list")]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Restore files even if they were changed again since
    #[arg(long, visible_alias = "force", conflicts_with = "list")]
    pub yes: bool,
    /// Folder whose changes to use [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Set a limit; `file-size=1gb` undoes a change that was made under that limit
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit)]
    pub limits: Vec<LimitArg>,
}

/// `zero stats`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero stats
  zero stats --since 24h
  zero stats --since 30d --json")]
pub struct StatsArgs {
    /// Time span to include, such as `12h` or `30d`
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = look_back)]
    pub since: Duration,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero audit tail`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero audit tail -n 50
  zero audit tail --follow                          print new calls as they happen
  zero audit tail -n 1000 --json | jq 'select(.status == \"denied\")'")]
pub struct AuditTailArgs {
    /// Number of calls to show
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub lines: u32,
    /// Keep printing new calls until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Print the records as stored, one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `zero audit show`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero audit show 42                                the call with sequence number 42
  zero audit show call_8c1f                         the call whose ID starts with call_8c1f
  zero audit show 8c1f --json")]
pub struct AuditShowArgs {
    /// ID of the call, a unique prefix of it, or its sequence number in the log
    #[arg(value_name = "CALL|SEQ")]
    pub call: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero audit verify`
#[derive(Debug, Args)]
#[command(
    after_help = "Each record contains the hash of the record before it. Anyone who can write the files can recompute
all hashes. To detect that, store the printed head elsewhere and pass it with --expect later.

Examples:
  zero audit verify
  zero audit verify --since 2026-01-31
  zero audit verify --expect 42:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

Exit codes: 0 intact, 1 not intact, 2 wrong usage."
)]
pub struct AuditVerifyArgs {
    /// Check only records from this day on, such as `2026-01-31`
    #[arg(long, value_name = "DAY", conflicts_with = "from_start", value_parser = day)]
    pub since: Option<Date>,
    /// Require this record, as printed by an earlier check
    #[arg(long, value_name = "SEQ:HASH")]
    pub expect: Option<ChainPosition>,
    /// Fail if the first records are missing, for example because old days were removed
    #[arg(long)]
    pub from_start: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Each line starts with a mark: ✓ OK, ! warning, ✗ error. The command also works with broken settings
and reports where they are broken.

Examples:
  zero doctor
  zero doctor --json | jq '.checks[] | select(.status != \"ok\")'

Exit codes: 0 no errors, 1 errors."
)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }
}
