//! Command-line arguments of `zero ports`.

use clap::{Args, Subcommand};

/// `zero ports`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A server that an agent starts as a background job listens in the network of its sandbox, which
nothing on this machine can reach. `zero ports` lists these ports. `zero ports forward` opens one on
127.0.0.1, so that you can use it in your browser, until you press Ctrl-C or the job ends. It asks
first, and the audit log has a row about it. Agents cannot forward ports.

Examples:
  zero ports
  zero ports forward 5173                  open http://127.0.0.1:5173
  zero ports forward 3000 --to 8080 --session bug-42

Exit codes: 0 done, 1 error, 2 wrong usage, 3 denied."
)]
pub struct PortsArgs {
    /// Action to perform instead of listing the ports.
    #[command(subcommand)]
    pub command: Option<PortsCommand>,
    /// Options for listing the ports.
    #[command(flatten)]
    pub list: PortsListArgs,
}

/// Subcommands of `zero ports`.
#[derive(Debug, Subcommand)]
pub enum PortsCommand {
    /// Open a port of a sandbox on 127.0.0.1 of this machine
    Forward(PortsForwardArgs),
}

/// Options for listing the ports.
#[derive(Debug, Args)]
pub struct PortsListArgs {
    /// List only ports of this session, by its key, name or id
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero ports forward`
#[derive(Debug, Args)]
pub struct PortsForwardArgs {
    /// Port in the sandbox
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Port on 127.0.0.1 of this machine; 0 for any free port [default: the same port]
    #[arg(long, value_name = "PORT")]
    pub to: Option<u16>,
    /// Session of the job, by its key, name or id
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Job that listens on the port, if several do
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
