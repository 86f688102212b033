//! `zero run` as it is written.

use std::path::PathBuf;

use clap::Args;
use zero_policy::PermissionMode;

use super::gateway::RemoteGatewayArgs;

/// `zero run`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero run \"/read README.md\"                  works without a model
  zero run \"why does the build fail?\"         with a model: see below
  zero run --mode accept-edits --yes \"fix the typos in docs/\"
  git diff | zero run -                       the prompt comes from stdin
  zero run --session bug-42 \"go on\"           the same conversation again
  zero run --json \"…\" | jq .                  one JSON object a line

A model is found in settings (`models`), or by OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or
OLLAMA_HOST. Without one the agent `direct` runs what you write as commands: `zero run /help`.

What needs a permission is asked on the terminal; elsewhere it is denied, with how to allow it.

Exit codes: 0 answered, 1 failed, 2 wrong usage, 3 something was denied that needs a permission,
4 stopped by a limit (tokens, turns), 130 interrupted.")]
pub struct RunArgs {
    /// What to say; `-` reads it from stdin
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
    /// The agent [default: that of the settings, or main; direct where there is no model]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The model: a name of the settings, or provider/model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Mode: ask, accept-edits, plan or auto
    #[arg(long, value_name = "MODE")]
    pub mode: Option<PermissionMode>,
    /// Answer yes where you would be asked; what is denied stays denied
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON object a line: what happens, as it happens
    #[arg(long)]
    pub json: bool,
    /// The conversation to go on with, by its key [default: a new one]
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Take the tools of the session over from another `zero run` of yours that hosts them now
    #[arg(long)]
    pub take_over: bool,
    /// Pictures to send along; may be given several times
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// Show what the model thinks
    #[arg(long)]
    pub thoughts: bool,
    /// Settings file to use instead of yours and the folder's; may be given several times
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// The gateway
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
