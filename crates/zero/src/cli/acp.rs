//! `zero acp` as it is written.

use std::path::PathBuf;

use clap::Args;

use super::gateway::RemoteGatewayArgs;

/// `zero acp`
#[derive(Debug, Args)]
#[command(
    after_help = "Editors start it and speak the Agent Client Protocol with it. In Zed, settings.json:

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
  zero acp                                             agent and tools in this process
  zero acp --url wss://gateway-host:18789 --token-file ~/token
  zero acp --session agent:design:main                 always that conversation
  zero acp --session-label \"support inbox\" --require-existing

Tools run here, beside the files, by this machine's rules, wherever the agent runs. Nothing but the
protocol is written to stdout. What goes wrong is told to the editor, which shows it; --verbose says
more on stderr. Set-up for JetBrains, Neovim and Emacs: docs/start/editor.md. All options and the
protocol: docs/reference/acp.md.

Exit codes: 0 the editor went away (with --login: the key is there), 1 error, 2 wrong usage."
)]
pub struct AcpArgs {
    /// The conversation of every session, by its key [default: a new one each, acp:UUID]
    #[arg(long, value_name = "KEY", conflicts_with = "session_label")]
    pub session: Option<String>,
    /// The conversation of every session, by its label
    #[arg(long, value_name = "LABEL")]
    pub session_label: Option<String>,
    /// Start conversations over when they are opened
    #[arg(long)]
    pub reset_session: bool,
    /// Fail where the conversation is not there yet
    #[arg(long)]
    pub require_existing: bool,
    /// Do not say the folder in prompts to gateways that have no other way to know it
    #[arg(long)]
    pub no_prefix_cwd: bool,
    /// The agent of new conversations [default: that of the settings, or main; direct where there is no model]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Ask at this terminal for the key of the model that answers, keep it where settings look for
    /// it, and end
    #[arg(long)]
    pub login: bool,
    /// Say on stderr what goes on
    #[arg(short, long)]
    pub verbose: bool,
    /// Settings file to use instead of yours and the folder's; may be given several times
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// The gateway
    #[command(flatten)]
    pub remote: RemoteGatewayArgs,
}
