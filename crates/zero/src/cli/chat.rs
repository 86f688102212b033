//! Command-line arguments of `zero chat`.

use std::path::PathBuf;

use clap::Args;
use zero_policy::PermissionMode;

use super::gateway::RemoteGatewayArgs;
use super::value_parsers;

/// `zero chat`
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "Examples:
  zero                                   the same, on a terminal
  zero chat \"why does the build fail?\"   begin with this prompt
  zero -c                                continue the last session of this folder
  zero chat --resume                     pick a session of this folder
  zero chat --fullscreen                 fill the window

In the chat, /help lists the commands and /keys the keys. Enter sends, Esc stops the run, Ctrl-C twice
leaves. Sessions, rules, sandbox and tools are those of `zero run`.

Exit codes: 0 the user left, 1 error, 2 wrong usage.")]
pub struct ChatArgs {
    /// Prompt to begin with
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Key or name of the session to continue [default: a new session]
    #[arg(long, value_name = "KEY", conflicts_with_all = ["continue_last", "resume"])]
    pub session: Option<String>,
    /// Continue the last session of this folder
    #[arg(short, long = "continue", conflicts_with = "resume")]
    pub continue_last: bool,
    /// Continue a session of this folder: this one, or one that you pick from a list
    #[arg(long, value_name = "KEY", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub resume: Option<String>,
    /// Agent to use [default: from settings, or main; direct if there is no model]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Model to use: a name from settings, or provider/model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Permission mode: ask, accept-edits, plan or auto
    #[arg(long, value_name = "MODE", value_parser = value_parsers::mode(), hide_possible_values = true)]
    pub mode: Option<PermissionMode>,
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Fill the window, on the alternate screen, with the mouse: the wheel scrolls
    #[arg(long)]
    pub fullscreen: bool,
    /// Plain lines for screen readers: words in place of signs, Markdown as the model wrote it
    #[arg(long)]
    pub plain: bool,
    /// Show all output of commands, not only its last lines
    #[arg(short, long)]
    pub verbose: bool,
    /// Show the model's thinking
    #[arg(long)]
    pub thoughts: bool,
    /// Edit the input with the keys of vi
    #[arg(long)]
    pub vim: bool,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
