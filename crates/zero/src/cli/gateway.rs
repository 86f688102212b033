//! Command-line arguments of `zero gateway`, and the remote gateway flags of other commands.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};

/// `zero gateway`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  zero gateway                              listen on 127.0.0.1:18789, for this machine only
  zero gateway --port 0                     listen on a free port
  zero gateway --bind 0.0.0.0 --token-file ~/gateway.token \\
      --tls-certificate cert.pem --tls-key key.pem
  zero gateway schema > protocol.json       write the protocol as JSON Schema

Clients connect over WebSocket and authenticate with a token. Without `--token-file` and without
tokens in settings, the gateway creates a token at its first start and stores it in a file that only
you can read. zero's own commands on this machine use that file.

The gateway stores sessions in zero's state folder; `zero sessions` lists them. With `--store`,
several gateways share them in a Postgres database; with `--bus`, they reach each other over NATS; see
`zero help several-gateways`. On loopback, GET /healthz, /readyz and /metrics need no token.

Exit codes: 0 stopped on request, 1 error, 2 wrong usage."
)]
pub struct GatewayArgs {
    /// Action to perform instead of running the gateway.
    #[command(subcommand)]
    pub command: Option<GatewayCommand>,
    /// Options for running the gateway.
    #[command(flatten)]
    pub serve: GatewayServeArgs,
}

/// Subcommands of `zero gateway`.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Print the JSON Schema of the whole protocol
    Schema,
    /// List the devices that are paired for the web console, and approve or revoke one
    Devices(Box<GatewayDevicesArgs>),
    /// List the gateways that share a database
    Nodes(Box<GatewayNodesArgs>),
    /// Hand a gateway's sessions over to the others and stop it
    Drain(Box<GatewayDrainArgs>),
}

/// `zero gateway drain`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero gateway drain                  the gateway that runs on this machine
  zero gateway drain box-1f3a         another one that shares its database

Running tool calls may finish within that gateway's `--grace`. Then the other gateways continue its
runs, and it stops. SIGTERM does the same.

Exit codes: 0 done, 1 error, 2 wrong usage.")]
pub struct GatewayDrainArgs {
    /// Name of the gateway, as `zero gateway nodes` shows it [default: the one that is asked]
    pub node: Option<String>,
    /// How long to wait until it has ended
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::some_time)]
    pub wait: std::time::Duration,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub remote: RemoteGatewayArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero gateway nodes`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero gateway nodes           the gateways that share a database with the one on this machine
  zero gateway nodes --store postgres://zero@db.example/zero
  zero gateway nodes --json

A gateway has a lease, which it renews every 1.5 s. When it runs out, others continue its runs. If a
gateway runs on this machine or `--url` names one, it asks the others how they are; otherwise the
command reads the database.

Exit codes: 0 done, 1 error, 2 wrong usage.")]
pub struct GatewayNodesArgs {
    /// Postgres database that gateways share, without a password [default: from settings]
    #[arg(long, value_name = "URL", conflicts_with = "url")]
    pub store: Option<String>,
    /// File with the password for the database
    #[arg(long, value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,
    /// Settings file to use instead of yours; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub remote: RemoteGatewayArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero gateway devices`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero gateway devices                  list paired devices and those that ask to be paired
  zero gateway devices revoke 3f9a      revoke a device by the start of its id
  zero gateway devices approve 3f9a --scopes read,approvals

A device that is revoked is disconnected at once. `zero console` pairs one by a code.")]
pub struct GatewayDevicesArgs {
    /// Action to perform [default: list]
    #[command(subcommand)]
    pub command: Option<GatewayDevicesCommand>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub remote: RemoteGatewayArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Subcommands of `zero gateway devices`.
#[derive(Debug, Subcommand)]
pub enum GatewayDevicesCommand {
    /// Pair a device that asks for it
    Approve {
        /// Start of the id of the device or of its request
        id: String,
        /// What it may do: read, write, approvals, questions, admin
        #[arg(long, value_name = "SCOPES", value_delimiter = ',', default_value = APPROVED_SCOPES_DEFAULT, value_parser = scope_names())]
        scopes: Vec<String>,
    },
    /// Revoke a device
    Revoke {
        /// Start of the id of the device
        id: String,
    },
}

/// Scopes of the browser that `zero console` pairs, unless others are named.
const SCOPES_DEFAULT: &str = "admin";
/// Scopes of a device that asks to be paired, unless others are named; the console offers the same.
const APPROVED_SCOPES_DEFAULT: &str = "read,approvals,questions";

fn scope_names() -> PossibleValuesParser {
    PossibleValuesParser::new(["read", "write", "approvals", "questions", "admin"])
}

/// `zero console`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero console                                  pair the browser of this machine
  zero console --scopes read,approvals          pair a phone that watches and approves
  zero console --url wss://box.lan:18789        pair one with a gateway elsewhere

The command shows the address of the console and a code that pairs one browser. The code is valid for
two minutes and only once. If no gateway runs on this machine, the command runs one until you press
Ctrl-C. `zero gateway devices` lists and revokes paired browsers.

Browsers have the keys that pairing needs only on pages from this machine or over HTTPS. To use a
phone, give the gateway a TLS certificate.

Exit codes: 0 done, 1 error, 2 wrong usage.")]
pub struct ConsoleArgs {
    /// What the paired browser may do: read, write, approvals, questions, admin
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', default_value = SCOPES_DEFAULT, value_parser = scope_names())]
    pub scopes: Vec<String>,
    /// Port of the gateway, if the command runs one [default: from settings, or 18789]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags have their own help")]
    pub remote: RemoteGatewayArgs,
    /// Print the address and the code as one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// Options for running the gateway.
#[derive(Debug, Args)]
pub struct GatewayServeArgs {
    /// Port to listen on; 0 for any free port [default: from settings, or 18789]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Address to listen on; beyond loopback, a secret and TLS are required [default: from settings, or 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// File with the admin token; define scoped tokens under `gateway.tokens`
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with the admin password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// TLS certificate file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// TLS private key file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Let other machines connect without TLS
    #[arg(long)]
    pub allow_plaintext: bool,
    /// Folder for sessions that name none [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Settings file to use instead of yours; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Postgres database that gateways share, such as postgres://zero@db.example/zero, without a password [default: from settings, or a file of this machine]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// File with the password for the database
    #[arg(long, value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,
    /// NATS server over which gateways that share a database reach each other, such as nats://bus.example, without a password [default: from settings, or the database]
    #[arg(long, value_name = "URL")]
    pub bus: Option<String>,
    /// File with the password, token, NKey seed or credentials for the NATS server
    #[arg(long, value_name = "FILE")]
    pub bus_secret_file: Option<PathBuf>,
    /// How long active runs may continue when the gateway is stopped
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = super::some_time)]
    pub grace: std::time::Duration,
    /// Print the address as one line of JSON once the gateway is ready
    #[arg(long)]
    pub json: bool,
}

/// Remote gateway to use. Without `--url` here or `gateway.remote.url` in settings, the command runs
/// a gateway in its own process.
#[derive(Clone, Debug, Default, Args)]
pub struct RemoteGatewayArgs {
    /// Address of a remote gateway, such as wss://gateway-host:18789 [default: `gateway.remote.url` from settings]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Token for the gateway; prefer --token-file, since other users can see arguments
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["token_file", "password", "password_file"])]
    pub token: Option<String>,
    /// File with the token for the gateway
    #[arg(long, value_name = "FILE", conflicts_with_all = ["password", "password_file"])]
    pub token_file: Option<PathBuf>,
    /// Password for the gateway; prefer --password-file, since other users can see arguments
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_file")]
    pub password: Option<String>,
    /// File with the password for the gateway
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Accept only the certificate with this SHA-256 fingerprint
    #[arg(long, value_name = "HEX")]
    pub tls_fingerprint: Option<String>,
    /// Connect to another machine without TLS
    #[arg(long)]
    pub allow_plaintext: bool,
}
