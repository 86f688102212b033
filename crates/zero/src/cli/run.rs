//! Command-line arguments of `zero run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use zero_core::Budget;

use super::gateway::RemoteGatewayArgs;
use super::session_args::SessionArgs;
use super::value_parsers;

/// `zero run`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero run \"/read README.md\"                  needs no model
  zero run \"why does the build fail?\"         needs a model: see below
  zero run --mode accept-edits --yes \"fix the typos in docs/\"
  git diff | zero run \"review this\"           attach stdin to the prompt
  zero run - < prompt.md                      read the prompt from stdin
  zero run -c \"go on\"                         continue the last session of this folder
  zero run --resume \"go on\"                   pick a session of this folder
  zero run --session bug-42 \"go on\"           continue a session, or start one with this name
  zero run --output-format json \"…\" | jq .    print one JSON object at the end
  zero run --output-schema bugs.json \"…\"      answer with JSON that fits a schema

Set up a model with `zero login`, under `models` in settings, or with OPENAI_API_KEY,
ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST. Without a model, the agent `direct` runs prompts that start with `/` as tool
calls: see `zero run /help`.

zero asks on the terminal before it does anything that needs permission. Without a terminal, it
denies such calls and reports how to allow them. With `--park`, the run stops at a question and
waits for your answer in the session store: see `zero questions`.

Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 something that needs permission was denied,
4 stopped by a token or turn limit or a budget, 5 the answer does not fit the schema, 6 parked at
a question, 130 interrupted.")]
pub struct RunArgs {
    /// Prompt to send, or `-` to read it from stdin
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
    /// The session, and how it is shown.
    #[command(flatten)]
    pub options: SessionArgs,
    /// Approve what zero would ask about. Does not approve denied calls, hosts that only a project's
    /// file names, or hosts that a command first contacts while it runs
    #[arg(long)]
    pub yes: bool,
    /// What to print on stdout: the answer as text, one JSON object at the end, or one JSON object
    /// per event
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = OutputFormat::Text)]
    pub output_format: OutputFormat,
    /// Park the run at a question instead of asking or denying: `zero questions` answers it later
    #[arg(long, conflicts_with_all = ["yes", "take_over", "url", "output_format", "output_schema"])]
    pub park: bool,
    /// Show what the run changed in the workspace, then ask whether to keep it; without a terminal,
    /// discard it. What it did elsewhere remains
    #[arg(long, conflicts_with_all = ["json", "output_format", "park"])]
    pub dry_run: bool,
    /// Print each event as one JSON object per line; the same as `--output-format stream-json`
    #[arg(long, conflicts_with = "output_format")]
    pub json: bool,
    /// File with a JSON Schema that the answer must fit; the answer is then JSON and nothing else
    #[arg(long, value_name = "FILE")]
    pub output_schema: Option<PathBuf>,
    /// Most US dollars that this run may cost, such as 0.50
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = value_parsers::dollars)]
    pub budget: Option<f64>,
    /// Longest time of this run, such as 10m
    #[arg(long, value_name = "TIME", value_parser = value_parsers::some_time)]
    pub max_time: Option<Duration>,
    /// Take over tool execution from another `zero run` attached to this session
    #[arg(long)]
    pub take_over: bool,
    /// Image to send with the prompt; can be repeated
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// Print the answer as the model wrote it, without rendering Markdown on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}

/// What `zero run` prints on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The answer
    #[default]
    Text,
    /// One JSON object at the end: answer, session, outcome, usage and cost
    Json,
    /// One JSON object per line for each event
    StreamJson,
}

impl RunArgs {
    /// What to print on stdout.
    pub(crate) fn format(&self) -> OutputFormat {
        if self.json { OutputFormat::StreamJson } else { self.output_format }
    }

    /// What the command line allows the run to spend.
    pub(crate) fn budget(&self) -> Option<Budget> {
        let seconds = self.max_time.map(|time| time.as_secs().max(1));
        let budget = Budget { usd: self.budget, seconds, ..Budget::default() };
        Some(budget).filter(Budget::is_limited)
    }
}
