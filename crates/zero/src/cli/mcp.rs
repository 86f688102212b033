//! `zero mcp` as it is written.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use zero_core::HostLimits;
use zero_policy::PermissionMode;
use zero_runtime::DialectName;

use super::{LimitArg, dialect, limit, limit_help, set_limits};

/// `zero mcp`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Without a command it serves the tools of zero: to the program that started it, by stdin and
stdout, or by HTTP. Each call goes the way of all calls: rules, questions, confinement, audit log.
What must be asked goes to the person at the client, where the client can ask them; elsewhere it is
denied, unless a rule allows it or --yes is given.

The commands are about the servers whose tools zero uses: `mcpServers` in settings.

Examples:
  zero mcp install claude                              how to have Claude Code use it
  zero mcp                                             serve, as a client starts it
  zero mcp --http 127.0.0.1:8080                       serve by HTTP; the token is on stderr
  zero mcp status                                      the servers whose tools are used here

Exit codes: 0 done, 1 error, 2 wrong usage, 3 denied."
)]
pub struct McpArgs {
    /// What to do; without one, serve.
    #[command(subcommand)]
    pub command: Option<McpCommand>,
    /// How to serve.
    #[command(flatten)]
    pub serve: McpServeArgs,
}

/// How to serve.
#[derive(Debug, Args)]
pub struct McpServeArgs {
    /// Serve by HTTP at this address instead, such as `127.0.0.1:8080`; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// File with the token that HTTP clients must send [default: a fresh one, shown on stderr]
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Let the address be one that other machines can reach
    #[arg(long, requires = "http")]
    pub allow_remote: bool,
    /// Name that other machines know this one by, such as `box.example.com`; may be given several times
    #[arg(long, value_name = "NAME", requires = "http", value_parser = host)]
    pub allow_host: Vec<String>,
    /// Web page that may connect, such as `https://app.example.com`; may be given several times
    #[arg(long, value_name = "ORIGIN", requires = "http", value_parser = origin)]
    pub allow_origin: Vec<String>,
    /// Names and shapes of the tools
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// Folder to work in; may be given several times, relative paths start in the first [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Vec<PathBuf>,
    /// Mode: ask, accept-edits, plan or auto [default: that of the settings, or ask]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<PermissionMode>,
    /// Answer yes where somebody would be asked; what is denied stays denied
    #[arg(long)]
    pub yes: bool,
    /// Limits that differ from the usual ones
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit, help = limit_help())]
    pub limits: Vec<LimitArg>,
    /// Settings file to use instead of yours and the folder's; may be given several times
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
}

impl McpServeArgs {
    /// Sets the limits of the calls, above what settings say.
    pub fn set_limits(&self, limits: &mut HostLimits) {
        set_limits(&self.limits, limits);
    }
}

/// What can be done with MCP.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Show the servers whose tools are used here: state, tools, what they cost, last error
    Status(McpStatusArgs),
    /// Start servers again, or connect to them again
    Reconnect(McpReconnectArgs),
    /// Look at tools whose definition changed, and let them be used again
    Approve(McpApproveArgs),
    /// Log in at a server that wants it
    Login(McpLoginArgs),
    /// Forget the login at a server
    Logout(McpLogoutArgs),
    /// Show or write what makes another program use the tools of zero
    Install(McpInstallArgs),
}

/// `zero mcp status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero mcp status                 connect to all servers and say how they are
  zero mcp status github          only this one, with its tools
  zero mcp status --offline       what the settings say, without starting anything

Exit codes: 0 all that are used work, 1 one does not, 2 wrong usage.")]
pub struct McpStatusArgs {
    /// The server [default: all]
    pub alias: Option<String>,
    /// Start and reach nothing
    #[arg(long)]
    pub offline: bool,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero mcp reconnect`
#[derive(Debug, Args)]
#[command(
    after_help = "Every zero that runs in this folder notices, and starts the server anew when it is next used.

Examples:
  zero mcp reconnect
  zero mcp reconnect github"
)]
pub struct McpReconnectArgs {
    /// The server [default: all]
    pub alias: Option<String>,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp approve`
#[derive(Debug, Args)]
#[command(
    after_help = "A tool whose definition changed since a call of it was allowed is asked about, whatever the rules
allow. This command lists such tools, and asks whether they may be taken as they are now; a yes to
the question about a call does the same. `zero tools show NAME` has what a tool says of itself.

Examples:
  zero mcp approve github
  zero mcp approve github create_issue

Exit codes: 0 approved, or nothing changed; 1 it failed; 2 wrong usage; 3 not approved."
)]
pub struct McpApproveArgs {
    /// The server
    pub alias: String,
    /// The tool, by its name here or the server's own [default: all that changed]
    pub tool: Option<String>,
    /// Approve without being asked
    #[arg(long)]
    pub yes: bool,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp login`
#[derive(Debug, Args)]
#[command(
    after_help = "The address to log in at is shown; open it in a browser. Where that browser runs on another
machine, use --paste: the address it ends at is typed here.

Examples:
  zero mcp login docs
  zero mcp login docs --paste"
)]
pub struct McpLoginArgs {
    /// The server
    pub alias: String,
    /// Type the address that the browser was sent to, instead of waiting for it
    #[arg(long)]
    pub paste: bool,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp logout`
#[derive(Debug, Args)]
#[command(after_help = "Example:
  zero mcp logout docs")]
pub struct McpLogoutArgs {
    /// The server
    pub alias: String,
    /// Folder to work in [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp install`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --write the lines are printed; stderr says which file they belong in. With it that file is
changed: comments, layout and all other servers stay. A file that cannot be read, or an entry of that
name that is anything else, such as one with other arguments, is left alone.

Examples:
  zero mcp install claude                      print the lines for Claude Code
  zero mcp install claude --write              write them, for all your projects
  zero mcp install vscode --write --project    write them into this project alone
  zero mcp install zed --write --name hands --dialect acp

Exit codes: 0 printed, written, or there already; 1 it failed; 2 wrong usage, or left alone."
)]
pub struct McpInstallArgs {
    /// The program that is to use the tools
    pub client: McpClientProgram,
    /// Change the program's file
    #[arg(long)]
    pub write: bool,
    /// The project's file instead of yours
    #[arg(long)]
    pub project: bool,
    /// What the program calls it
    #[arg(long, value_name = "NAME", default_value = "zero", value_parser = server_name)]
    pub name: String,
    /// Names and shapes of the tools
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// Folder that the tools work in, whatever the program starts them in
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// A program that uses tools by MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum McpClientProgram {
    /// Claude Code
    Claude,
    /// Cursor
    Cursor,
    /// Zed
    Zed,
    /// Visual Studio Code
    Vscode,
}

/// Reads the name of a server in another program's settings.
fn server_name(text: &str) -> Result<String, String> {
    zero_mcp::server_definition::ServerAlias::new(text)
        .map(|alias| alias.to_string())
        .map_err(|error| error.to_string())
}

/// Reads an address to listen at.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numbers = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numbers.as_deref().unwrap_or(text).parse();
    address.map_err(|_| format!("`{text}` is no address such as `127.0.0.1:8080`"))
}

/// Reads the name of a machine, or its address, without a port.
fn host(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = !text.is_empty() && text.chars().all(is_plain);
    if is_name || text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("`{text}` is no name such as `box.example.com`; write it without a port"))
}

/// Reads an origin: scheme, host and port, and nothing behind them.
fn origin(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is no origin such as `https://app.example.com`");
    let host = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let host = host.ok_or_else(wrong)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return Err(wrong());
    }
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_needs_port_and_host_forbids_it() {
        for (text, expected) in [
            ("127.0.0.1:80", Some("127.0.0.1:80")),
            ("localhost:0", Some("127.0.0.1:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("localhost", None),
            ("localhost:x", None),
            ("example.com:80", None),
        ] {
            let found = address(text).ok().map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        for (text, fits) in [
            ("box.example.com", true),
            ("192.0.2.7", true),
            ("2001:db8::1", true),
            ("box:80", false),
            ("*", false),
            ("", false),
            ("http://box", false),
        ] {
            assert_eq!(host(text).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn origin_ends_with_port() {
        for (text, fits) in [
            ("https://app.example.com", true),
            ("http://localhost:3000", true),
            ("http://[::1]:3000", true),
            ("https://a.b/", false),
            ("a.b", false),
            ("https://", false),
            ("https://*", false),
            ("ftp://a.b", false),
        ] {
            assert_eq!(origin(text).is_ok(), fits, "{text}");
        }
    }
}
