//! Command-line arguments of `zero chat`.

use clap::Args;

use super::gateway::RemoteGatewayArgs;
use super::session_args::SessionArgs;

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

Exit codes: 0 you left the chat, 1 error, 2 wrong usage.")]
pub struct ChatArgs {
    /// Prompt to begin with
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// The session, and how it is shown.
    #[command(flatten)]
    pub options: SessionArgs,
    /// Fill the window, on the alternate screen, with the mouse: the wheel scrolls
    #[arg(long)]
    pub fullscreen: bool,
    /// Plain lines for screen readers: words in place of signs, Markdown as the model wrote it
    #[arg(long)]
    pub plain: bool,
    /// Edit the input with the keys of vi
    #[arg(long)]
    pub vim: bool,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
