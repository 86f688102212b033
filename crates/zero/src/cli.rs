//! The command line as it is written: names, flags and the help a person learns from.
//!
//! Only the form is here. What each command does is in `commands`, one file each.

pub mod acp;
pub mod config;
pub mod gateway;
pub mod mcp;
pub mod memory;
pub mod policy;
pub mod run;
pub mod sessions;
pub mod trust;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use jiff::civil::Date;
use zero_core::CommandLimit;
use zero_core::host_limits::{HostLimits, parse_duration};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::audit::ChainPosition;

use zero_settings::limit_range;

pub use self::acp::AcpArgs;
pub use self::config::{ConfigCommand, SettingsLayerArgs};
pub use self::gateway::{GatewayArgs, GatewayCommand, GatewayServeArgs, RemoteGatewayArgs};
pub use self::mcp::{
    McpApproveArgs, McpArgs, McpClientProgram, McpCommand, McpInstallArgs, McpLoginArgs,
    McpLogoutArgs, McpReconnectArgs, McpServeArgs, McpStatusArgs,
};
pub use self::memory::{MemoryCommand, MemoryCommonArgs, MemoryScope};
pub use self::policy::{
    PolicyCheckArgs, PolicyCommand, PolicyContextArgs, PolicyExplainArgs, PolicySimulateArgs,
    PolicyTestArgs,
};
pub use self::run::RunArgs;
pub use self::sessions::SessionsCommand;
pub use self::trust::TrustArgs;

/// What `--verbose` logs: what goes on between editor, gateway and tools, and nobody else's words.
const VERBOSE: &str = "warn,zero=info,zero_acp=debug,zero_client=debug";

/// Gives any coding agent hands, safely.
///
/// zero runs the tools of coding agents (read, write, edit, search) through one path that checks
/// the input, judges what the call would touch, asks where it must, and writes down what happened.
#[derive(Debug, Parser)]
#[command(
    name = "zero",
    version,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 error, 2 wrong usage, 3 denied; of `zero policy` also 10 would ask, 20 would deny; of `zero run` also 4 stopped by a limit, 130 interrupted.

Environment:
  XDG_STATE_HOME   where sessions, the audit log and the journal are kept (default: ~/.local/state)
  XDG_CONFIG_HOME  where your settings are: zero/settings.json in it (default: ~/.config)
  ZERO_MODEL       which model answers, such as `openai/gpt-5`; keys: `zero run --help`
  ZERO_LOG         what to log to stderr, such as `info` or `zero_runtime=debug`
  NO_COLOR         set to anything to turn colours off"
)]
pub struct Cli {
    /// What to do; without one, a short overview is shown.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

impl Cli {
    /// Whether it becomes a gateway.
    pub(crate) fn is_server(&self) -> bool {
        matches!(&self.command, Some(CliCommand::Gateway(args)) if args.command.is_none())
    }

    /// What is logged: what the environment says, or what a flag asks for.
    pub(crate) fn log_filter<'a>(&self, said: Option<&'a str>) -> Option<&'a str> {
        match &self.command {
            Some(CliCommand::Acp(args)) if args.verbose => said.or(Some(VERBOSE)),
            _ => said,
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Say something to an agent, and see what it does
    Run(RunArgs),
    /// Be the agent in an editor: the Agent Client Protocol on stdin and stdout
    Acp(AcpArgs),
    /// Look after conversations
    Sessions {
        /// What to do with them.
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Run the gateway: it keeps sessions and runs agents for clients
    Gateway(GatewayArgs),
    /// List, explain, call and check tools
    Tools {
        /// What to do with them.
        #[command(subcommand)]
        command: ToolsCommand,
    },
    /// Serve the tools by MCP, or look after the MCP servers whose tools are used
    Mcp(McpArgs),
    /// See and change what is remembered from one session to the next
    Memory {
        /// What to do with it.
        #[command(subcommand)]
        command: MemoryCommand,
    },
    /// Take back a change that a tool made to a file
    Undo(UndoArgs),
    /// Show how often tools were called, how they ended and how long they took
    Stats(StatsArgs),
    /// Look at the log of all calls
    Audit {
        /// What to do with it.
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// Show and change settings
    Config {
        /// What to do with them.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Look at what a folder's settings ask for, and let it count
    Trust(TrustArgs),
    /// Ask what the rules say, without doing anything
    Policy {
        /// What to ask.
        #[command(subcommand)]
        command: PolicyCommand,
    },
    /// Look for what is wrong or risky here: settings, rules, trust, audit log, PATH
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Example:
  zero completions bash > ~/.local/share/bash-completion/completions/zero")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page of zero or of one of its commands
    #[command(after_help = "Examples:
  zero man | man -l -
  zero man tools call > zero-tools-call.1")]
    Man {
        /// The command, such as `tools call`; all of zero when absent
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// What can be done with tools.
#[derive(Debug, Subcommand)]
pub enum ToolsCommand {
    /// List the tools, for people or in the form a model's interface wants
    List(ToolsListArgs),
    /// Explain one tool: parameters, risk, an example
    Show(ToolsShowArgs),
    /// Call a tool
    Call(ToolsCallArgs),
    /// Serve the tools on stdin and stdout, for programs in any language
    Serve(ToolsServeArgs),
    /// Find the tools anew that a command of yours brings
    Refresh(ToolsRefreshArgs),
    /// Check this build against the levels of the tool specification
    Conformance(ToolsConformanceArgs),
}

/// What can be done with the log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show the newest calls
    Tail(AuditTailArgs),
    /// Show everything recorded of one call
    Show(AuditShowArgs),
    /// Check that nobody changed, removed, added or moved a record
    Verify(AuditVerifyArgs),
}

/// `zero tools list`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero tools list                                      a table of the tools
  zero tools list --dialect qwen                       the same tools, as Qwen Code names them
  zero tools list --format anthropic > tools.json      ready for `tools` of a model request")]
pub struct ToolsListArgs {
    /// Names and shapes to show the tools in
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// How to write the list
    #[arg(long, value_enum, default_value_t)]
    pub format: ToolsListFormat,
    /// Print JSON: the same as `--format json`
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// How to write a list of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ToolsListFormat {
    /// For people
    #[default]
    Table,
    /// Everything zero knows about each tool
    Json,
    /// `tools` of an OpenAI-compatible request
    Openai,
    /// `tools` of an Anthropic request
    Anthropic,
    /// `tools` of a Gemini request
    Gemini,
    /// Result of MCP's `tools/list`
    Mcp,
}

/// `zero tools show`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero tools show Grep
  zero tools show search_files                         the name of another dialect
  zero tools show grep_search --dialect qwen
  zero tools show Read --json                          with the full schemas")]
pub struct ToolsShowArgs {
    /// The tool, by its name in any dialect
    pub name: String,
    /// Names and shapes to show it in [default: the first dialect that has the name]
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

A call that changes something is asked about on a terminal; elsewhere it needs --yes.
`zero undo` takes a change back.

Exit codes: 0 the tool gave a result, 1 it gave an error, 2 wrong usage, 3 denied.")]
pub struct ToolsCallArgs {
    /// The tool, by its name in the dialect
    pub name: String,
    /// Its input as a JSON object, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub input: String,
    /// Folder to work in; may be given several times, relative paths start in the first [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Vec<PathBuf>,
    /// Names and shapes that the call is written in
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// Answer yes where you would be asked; what is denied stays denied
    #[arg(long)]
    pub yes: bool,
    /// Mode: ask, accept-edits, plan or auto [default: that of the settings, or ask]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<PermissionMode>,
    /// Print one line of JSON instead of text
    #[arg(long)]
    pub json: bool,
    /// Give up after this long, such as `500ms` or `10s`, if that is sooner than the tool's own limit
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub timeout: Option<Duration>,
    /// Limits that differ from the usual ones
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit, help = limit_help())]
    pub limits: Vec<LimitArg>,
    /// Settings file to use instead of yours and the folder's; may be given several times
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
}

/// One `--limit`, known to be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitArg {
    name: String,
    value: String,
}

impl ToolsCallArgs {
    /// Whether the input comes from stdin, which then cannot be used to answer questions.
    pub fn takes_stdin(&self) -> bool {
        self.input == "-"
    }

    /// Sets the limits of the call, above what settings say.
    pub fn set_limits(&self, limits: &mut HostLimits) {
        set_limits(&self.limits, limits);
    }
}

impl UndoArgs {
    /// The limits of the undo.
    pub fn limits(&self) -> HostLimits {
        let mut limits = HostLimits::default();
        set_limits(&self.limits, &mut limits);
        limits
    }
}

fn set_limits(args: &[LimitArg], limits: &mut HostLimits) {
    for LimitArg { name, value } in args {
        // Each was tried on its own when it was read.
        let _ = limits.set(name, value);
        // A flag counts more than what settings say of one tool.
        for tool in
            HostLimits::COMMAND_TOOLS.iter().filter(|_| CommandLimit::from_name(name).is_some())
        {
            let _ = limits.set(&format!("{tool}.{name}"), value);
        }
    }
}

/// `zero tools serve`
#[derive(Debug, Args)]
#[command(
    after_help = "One JSON-RPC message a line: tools/list, tools/use, tools/cancel, tools/close.

Example:
  zero tools serve --workspace ~/project
  {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/use\",\"params\":{\"sessionId\":\"s1\",\"toolCallId\":\"c1\",\"toolName\":\"read_file\",\"input\":{\"path\":\"README.md\"}}}

A call that needs a permission is asked about by the request session/request_permission, which the
caller answers; one that does not know it is denied. The whole protocol:
docs/reference/tools-serve.md.

Exit codes: 0 the caller went away, 1 error, 2 wrong usage."
)]
pub struct ToolsServeArgs {
    /// Folder to work in; may be given several times, relative paths start in the first [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Vec<PathBuf>,
    /// Names and shapes of the tools, unless a message names others
    #[arg(long, value_name = "DIALECT", default_value = "acp", value_parser = dialect())]
    pub dialect: DialectName,
    /// Answer yes where the caller would be asked; what is denied stays denied
    #[arg(long)]
    pub yes: bool,
    /// Settings file to use instead of yours and the folder's; may be given several times
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
}

/// `zero tools refresh`
#[derive(Debug, Args)]
#[command(
    after_help = "The command is `tools.toolDiscoveryCommand` in settings. Every zero that runs in this folder notices.

Example:
  zero tools refresh

Exit codes: 0 done, 1 the command failed, 2 wrong usage, or no command is set."
)]
pub struct ToolsRefreshArgs {
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero tools conformance`
#[derive(Debug, Args)]
#[command(
    after_help = "Level 1 is Read, Write, Edit, Glob, Grep, Bash and AskUserQuestion; level 2 adds TodoWrite and
LSP; level 3 adds WebFetch and WebSearch. Each tool is called for real, in a temporary folder. The
web is a server on this machine. LSP asks whichever language server is installed; where there is
none, that is said, and LSP counts neither as passed nor as failed.

Examples:
  zero tools conformance --level 1
  zero tools conformance --dialects                    with every name of every tool
  zero tools conformance --json

Exit codes: 0 everything of the level passes, 1 something does not."
)]
pub struct ToolsConformanceArgs {
    /// Highest level to check
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub level: u8,
    /// Also call every tool by each of its names, in all four dialects
    #[arg(long)]
    pub dialects: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero undo`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero undo                take back the newest change
  zero undo --list         what can be taken back
  zero undo 12             take back change 12

A file that was changed again since is left alone unless you say yes; what an undo overwrites is
itself recorded.

Exit codes: 0 restored, 1 nothing to undo or it failed, 2 wrong usage, 3 refused.")]
pub struct UndoArgs {
    /// Number of the change [default: the newest]
    #[arg(conflicts_with = "list", value_parser = change_number)]
    pub id: Option<u64>,
    /// List the recorded changes, newest first
    #[arg(long)]
    pub list: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Restore the file even if it was changed again since
    #[arg(long, conflicts_with = "list")]
    pub yes: bool,
    /// Folder whose changes are meant [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Set a limit; `file-size=1gb` takes back a change that was made under that limit
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
    /// How far to look back, such as `12h` or `30d`
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
  zero audit tail --follow                          watch the calls as they happen
  zero audit tail -n 1000 --json | jq 'select(.status == \"denied\")'")]
pub struct AuditTailArgs {
    /// How many calls to show
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub lines: u32,
    /// Go on showing calls as they happen, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Print the rows as they are recorded, one JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// `zero audit show`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero audit show 42                                the call in place 42 of the log
  zero audit show call_8c1f                         the call whose id begins so
  zero audit show 8c1f --json")]
pub struct AuditShowArgs {
    /// The call: its id, as much of the beginning as only one has, or its place in the log
    #[arg(value_name = "CALL|SEQ")]
    pub call: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero audit verify`
#[derive(Debug, Args)]
#[command(
    after_help = "Each record holds the hash of the one before it. Whoever can write the files can compute all of
them anew, so note the head that is printed somewhere else and pass it with --expect later.

Examples:
  zero audit verify
  zero audit verify --since 2026-01-31
  zero audit verify --expect 42:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

Exit codes: 0 intact, 1 something is wrong, 2 wrong usage."
)]
pub struct AuditVerifyArgs {
    /// Check the days from this one on, such as `2026-01-31`
    #[arg(long, value_name = "DAY", conflicts_with = "from_start", value_parser = day)]
    pub since: Option<Date>,
    /// A record that must be there, as an earlier check printed its head
    #[arg(long, value_name = "SEQ:HASH")]
    pub expect: Option<ChainPosition>,
    /// Take it as wrong when the first records are not here, as when old days were removed
    #[arg(long)]
    pub from_start: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Each line has a mark: ✓ is well, ! is worth a look, ✗ is wrong. It works with broken settings
too, and says where they are broken.

Examples:
  zero doctor
  zero doctor --json | jq '.checks[] | select(.status != \"ok\")'

Exit codes: 0 nothing is wrong, 1 something is."
)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Reads a dialect's name; help and errors list the names.
fn dialect() -> impl TypedValueParser<Value = DialectName> {
    PossibleValuesParser::new(DialectName::ALL.map(DialectName::as_str))
        .try_map(|name| name.parse::<DialectName>())
}

/// Reads a time that is not zero.
fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("the time must be more than zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads how far to look back: hours and days rather than milliseconds.
fn look_back(text: &str) -> Result<Duration, String> {
    some_time(text).map_err(|_| format!("`{text}` is not a time such as `12h` or `30d`"))
}

/// Reads a day.
fn day(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("`{text}` is not a day such as `2026-01-31`"))
}

/// Reads the number of a change.
fn change_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not the number of a change; `zero undo --list` shows them")
    })
}

fn limit_help() -> String {
    format!(
        "Set a limit, such as `file-timeout=5s` or `command-memory=2gb`; may be given several times [names: {}]",
        HostLimits::NAMES.join(", ")
    )
}

/// Reads `NAME=VALUE` and tries it.
fn limit(text: &str) -> Result<LimitArg, String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!(
            "write it as NAME=VALUE; the names are {}",
            HostLimits::NAMES.join(", ")
        ));
    };
    limit_range::set_limit(&mut HostLimits::default(), name, value)?;
    Ok(LimitArg { name: name.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn limit_flags_are_checked_when_parsed() {
        for (text, fits) in [
            ("file-timeout=5s", true),
            ("file-timeout=0s", false),
            ("file-timeout=soon", false),
            ("speed=1", false),
            ("session-calls=18446744073709551615", false),
            ("file-timeout", false),
        ] {
            assert_eq!(limit(text).is_ok(), fits, "{text}");
        }
        assert!(some_time("0s").is_err());
        assert_eq!(some_time("7d"), Ok(Duration::from_secs(7 * 24 * 3600)));
    }
}
