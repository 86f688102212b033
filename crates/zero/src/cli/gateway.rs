//! `zero gateway`, and how every command is told which gateway to use.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `zero gateway`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  zero gateway                              on 127.0.0.1:18789, for this machine
  zero gateway --port 0                     on a port that is free
  zero gateway --bind 0.0.0.0 --token-file ~/gateway.token \\
      --tls-certificate cert.pem --tls-key key.pem
  zero gateway schema > protocol.json       the protocol, as JSON Schema

Clients connect by WebSocket and show a token. Without `--token-file` and without tokens in
settings, one is made at the first start and kept in a file that only you can read; zero's own
commands on this machine find it there.

Sessions are kept, with all that was shown in them, in zero's state folder; `zero sessions` lists
them. GET /healthz, /readyz and /metrics answer without a token on loopback.

Exit codes: 0 asked to end and ended, 1 error, 2 wrong usage."
)]
pub struct GatewayArgs {
    /// What to do instead of running it
    #[command(subcommand)]
    pub command: Option<GatewayCommand>,
    /// How to run it
    #[command(flatten)]
    pub serve: GatewayServeArgs,
}

/// What can be done beside running it.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Print the JSON Schema of the whole protocol
    Schema,
}

/// How a gateway is run.
#[derive(Debug, Args)]
pub struct GatewayServeArgs {
    /// Port to listen on; 0 for one that is free [default: that of the settings, or 18789]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Address to listen on; another than loopback needs a token or password, and TLS [default: that of the settings, or 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// File that holds the token, which may do everything; more tokens stand in settings
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File that holds a password, which may do everything
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// File of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// File of its key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Let other machines connect without TLS
    #[arg(long)]
    pub allow_plaintext: bool,
    /// Folder of sessions that name none [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Settings file to use instead of yours; may be given several times
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// How long running turns may go on when it is asked to end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = super::some_time)]
    pub grace: std::time::Duration,
    /// Print one line of JSON with the address once it is ready
    #[arg(long)]
    pub json: bool,
}

/// Which gateway is used: the one in this process, unless another is named here or in settings.
#[derive(Clone, Debug, Default, Args)]
pub struct RemoteGatewayArgs {
    /// Address of a gateway, such as wss://gateway-host:18789 [default: gateway.remote.url of the settings; without one, a gateway in this process]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Its token; a file is safer, since others can see arguments
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["token_file", "password", "password_file"])]
    pub token: Option<String>,
    /// File that holds its token
    #[arg(long, value_name = "FILE", conflicts_with_all = ["password", "password_file"])]
    pub token_file: Option<PathBuf>,
    /// Its password; a file is safer, since others can see arguments
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    pub password: Option<String>,
    /// File that holds its password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// SHA-256 of its certificate; no other is then accepted
    #[arg(long, value_name = "HEX")]
    pub tls_fingerprint: Option<String>,
    /// Talk to another machine without TLS
    #[arg(long)]
    pub allow_plaintext: bool,
}
