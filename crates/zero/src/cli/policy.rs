//! Command-line arguments of `zero policy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;

use super::{dialect, look_back};

/// `zero policy`
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show the decision on a call, without running it
    Check(PolicyCheckArgs),
    /// Show a command as a tree, with the decision on each part
    Explain(PolicyExplainArgs),
    /// Check that rules match their examples
    Test(PolicyTestArgs),
    /// Evaluate the calls in the audit log under other settings or another mode
    Simulate(PolicySimulateArgs),
}

/// Folder and rules that calls are evaluated with.
#[derive(Clone, Debug, Args)]
pub struct PolicyContextArgs {
    /// Use only this settings file; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Folder of the call [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Folder that `~` stands for [default: your home folder]
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
}

/// `zero policy check`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero policy check Bash '{\"command\": \"git push --force\"}'
  zero policy check read_file '{\"path\": \".env\"}' --dialect acp
  zero policy check github__create_issue '{}' --settings team.json --headless
  zero policy check --batch requests.jsonl > verdicts.jsonl

A batch has one request per line:
  {\"id\": 1, \"tool\": \"Bash\", \"input\": {\"command\": \"ls\"}, \"permissions\": {\"deny\": [\"Bash(ls:*)\"]},
   \"mode\": \"ask\", \"workspace\": \"/srv/app\"}
Only the rules in the line and in --settings apply. The answer to an invalid request has `error`; the
batch continues.

Exit codes: 0 the call would be allowed (or the batch was evaluated), 10 zero would ask, 20 the call
would be denied, 2 wrong usage or settings.")]
pub struct PolicyCheckArgs {
    /// Name of the tool in any dialect, or `alias__tool` for a tool of an MCP server
    #[arg(required_unless_present = "batch")]
    pub tool: Option<String>,
    /// Input of the tool as a JSON object, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true, required_unless_present = "batch")]
    pub input: Option<String>,
    /// File with one request per line, or `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tool", "input"])]
    pub batch: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub place: PolicyContextArgs,
    /// Permission mode: ask, accept-edits, plan or auto [default: from settings, or ask]
    #[arg(long, value_name = "MODE", value_parser = super::value_parsers::mode(), hide_possible_values = true)]
    pub mode: Option<PermissionMode>,
    /// Dialect of the tool's name
    #[arg(long, value_name = "DIALECT", value_parser = dialect())]
    pub dialect: Option<DialectName>,
    /// Assume that no user can approve: deny what zero would ask about
    #[arg(long)]
    pub headless: bool,
    /// Print one line of JSON, even on a terminal
    #[arg(long)]
    pub json: bool,
}

/// `zero policy explain`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero policy explain 'git log | sh'
  zero policy explain 'find . -name \"*.o\" -exec rm {} +' --mode auto

Exit codes: 0 the command would be allowed, 10 zero would ask, 20 it would be denied, 2 wrong
usage or settings.")]
pub struct PolicyExplainArgs {
    /// Shell command to explain
    #[arg(allow_hyphen_values = true)]
    pub command: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub place: PolicyContextArgs,
    /// Permission mode: ask, accept-edits, plan or auto [default: from settings, or ask]
    #[arg(long, value_name = "MODE", value_parser = super::value_parsers::mode(), hide_possible_values = true)]
    pub mode: Option<PermissionMode>,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero policy test`
#[derive(Debug, Args)]
#[command(after_help = "A rule in a settings file can have examples:
  {\"rule\": \"Bash(git push:*)\", \"match\": [\"git push origin\"], \"not_match\": [\"git pull\"]}
zero also checks the examples whenever it reads the settings.

Exit codes: 0 all examples match, 1 some do not, 2 wrong usage or settings.")]
pub struct PolicyTestArgs {
    /// Settings file to check
    pub file: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero policy simulate`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero policy simulate --since 7d
  zero policy simulate --since 30d --settings tomorrow.json --mode accept-edits
  zero policy simulate --workspace . --json

The command reports how many recorded calls would be allowed, asked about or denied, which
decisions would differ from the recorded ones, and which rules would avoid the most prompts. It
runs no calls. It evaluates each call in its original folder, under the current settings there or
the ones you name. If the log has a path or command only shortened or redacted, the call cannot be
evaluated again; the report counts such calls.")]
pub struct PolicySimulateArgs {
    /// Time span to include, such as `12h` or `30d`
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = look_back)]
    pub since: Duration,
    /// Use only this settings file; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Include only calls made in this folder [default: all]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Folder that `~` stands for [default: your home folder]
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Permission mode: ask, accept-edits, plan or auto [default: from settings, or ask]
    #[arg(long, value_name = "MODE", value_parser = super::value_parsers::mode(), hide_possible_values = true)]
    pub mode: Option<PermissionMode>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
