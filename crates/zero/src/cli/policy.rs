//! `zero policy` as it is written.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;

use super::{dialect, look_back};

/// What can be asked of the policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Say what would become of a call, without making it
    Check(PolicyCheckArgs),
    /// Draw a command as a tree, with the verdict on each part and why
    Explain(PolicyExplainArgs),
    /// Check that rules match what their examples say
    Test(PolicyTestArgs),
    /// Judge the calls of the audit log again, under other settings or another mode
    Simulate(PolicySimulateArgs),
}

/// Where and by which rules calls are judged.
#[derive(Clone, Debug, Args)]
pub struct PolicyContextArgs {
    /// Settings file to judge by; may be given several times, and then no other is read
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Folder the call would be made in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// What `~` means [default: your home folder]
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

A batch has one request a line:
  {\"id\": 1, \"tool\": \"Bash\", \"input\": {\"command\": \"ls\"}, \"permissions\": {\"deny\": [\"Bash(ls:*)\"]},
   \"mode\": \"ask\", \"workspace\": \"/srv/app\"}
Only the rules of the line count, and those of --settings. A request that is wrong is answered with
`error`; the others go on.

Exit codes: 0 it would be allowed (or the batch was judged), 10 asked about, 20 denied,
2 wrong usage or settings.")]
pub struct PolicyCheckArgs {
    /// The tool, by its name in any dialect, or `alias__tool` for one of an MCP server
    #[arg(required_unless_present = "batch")]
    pub tool: Option<String>,
    /// Its input as a JSON object, or `-` to read it from stdin
    #[arg(value_name = "JSON", allow_hyphen_values = true, required_unless_present = "batch")]
    pub input: Option<String>,
    /// File with one request a line, or `-` for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tool", "input"])]
    pub batch: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub place: PolicyContextArgs,
    /// Mode of the session: ask, accept-edits, plan or auto [default: that of the settings, or ask]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<PermissionMode>,
    /// Dialect the tool's name is taken from
    #[arg(long, value_name = "DIALECT", value_parser = dialect())]
    pub dialect: Option<DialectName>,
    /// Nobody can be asked: what would be asked is denied
    #[arg(long)]
    pub headless: bool,
    /// Print one line of JSON, also on a terminal
    #[arg(long)]
    pub json: bool,
}

/// `zero policy explain`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero policy explain 'git log | sh'
  zero policy explain 'find . -name \"*.o\" -exec rm {} +' --mode auto

Exit codes: 0 it would be allowed, 10 asked about, 20 denied, 2 wrong usage or settings.")]
pub struct PolicyExplainArgs {
    /// The command, as a shell would get it
    #[arg(allow_hyphen_values = true)]
    pub command: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub place: PolicyContextArgs,
    /// Mode of the session: ask, accept-edits, plan or auto [default: that of the settings, or ask]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<PermissionMode>,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero policy test`
#[derive(Debug, Args)]
#[command(after_help = "A rule in a settings file can say what it is for:
  {\"rule\": \"Bash(git push:*)\", \"match\": [\"git push origin\"], \"not_match\": [\"git pull\"]}
The examples are also tried whenever the settings are read.

Exit codes: 0 every example holds, 1 some do not, 2 wrong usage or settings.")]
pub struct PolicyTestArgs {
    /// The settings file
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

Says which recorded calls would have been allowed, asked about or denied, which would have been
judged differently than they were, and which rules would have saved the most questions. Nothing is
called. Each call is judged where it was made, by the settings that hold there now, or by those
named. One whose path or command was shortened or cleaned of a secret in the log cannot be judged
again; it is counted.")]
pub struct PolicySimulateArgs {
    /// How far to look back, such as `12h` or `30d`
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = look_back)]
    pub since: Duration,
    /// Settings file to judge by; may be given several times, and then no other is read
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Only the calls that were made in this folder [default: all]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// What `~` means [default: your home folder]
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Mode of the session: ask, accept-edits, plan or auto [default: that of the settings, or ask]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<PermissionMode>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
