//! Command-line arguments of `zero acp`.

use std::path::PathBuf;

use clap::Args;

use super::gateway::RemoteGatewayArgs;

/// `zero acp`
#[derive(Debug, Args)]
#[command(
    after_help = "Editors start this command and talk to it over the Agent Client Protocol. For Zed, in settings.json:

  {
    \"agent_servers\": {
      \"Zero ACP\": {
        \"type\": \"custom\",
        \"command\": \"zero\",
        \"args\": [\"acp\"],
        \"env\": {}
      }
    }
  }

Examples:
  zero acp                                             run agent and tools in this process
  zero acp --url wss://gateway-host:18789 --token-file ~/token
  zero acp --session agent:design:main                 always use this session
  zero acp --session-label \"support inbox\" --require-existing

Tools always run on this machine, under its rules, even if the agent runs elsewhere. zero writes
only the protocol to stdout and reports errors to the editor; --verbose adds a log on stderr. For
JetBrains, Neovim and Emacs, see `zero help editor`; for all options, `zero help reference/acp`.

Exit codes: 0 the editor closed the connection (with --login: the key is stored), 1 error, 2 wrong
usage."
)]
pub struct AcpArgs {
    /// Key of the zero session that all editor sessions use [default: a new session, acp:UUID, for
    /// each]
    #[arg(long, value_name = "KEY", conflicts_with = "session_label")]
    pub session: Option<String>,
    /// Label of the zero session that all editor sessions use
    #[arg(long, value_name = "LABEL")]
    pub session_label: Option<String>,
    /// Reset a session when the editor opens it
    #[arg(long)]
    pub reset_session: bool,
    /// Fail if the session does not exist yet
    #[arg(long)]
    pub require_existing: bool,
    /// Do not put the working folder before prompts
    #[arg(long)]
    pub no_prefix_cwd: bool,
    /// Agent of new sessions [default: from settings, or main; direct if there is no model]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Ask on the terminal for the API key of the model, store it, and exit
    #[arg(long)]
    pub login: bool,
    /// Log to stderr
    #[arg(short, long)]
    pub verbose: bool,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Remote gateway to use.
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
