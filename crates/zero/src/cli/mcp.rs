//! Command-line arguments of `zero mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use zero_core::HostLimits;
use zero_policy::PermissionMode;
use zero_runtime::DialectName;

use super::{LimitArg, SettingsLayerArgs, dialect, limit, limit_help, set_limits};

/// `zero mcp`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Without a command, `zero mcp` serves zero's tools: over stdio to the program that started it, or
over HTTP. Rules, approvals, sandbox and audit log apply to each call. If a call needs approval,
the client asks its user. If the client cannot ask, the call is denied, unless a rule allows it or
you pass --yes.

The commands manage the servers whose tools zero uses: `mcpServers` in settings.

Examples:
  zero mcp install claude                              print the configuration for Claude Code
  zero mcp                                             serve over stdio, as a client starts it
  zero mcp --http 127.0.0.1:8080                       serve over HTTP; prints the token to stderr
  zero mcp add files -- npx -y some-mcp-server         use another server's tools
  zero mcp status                                      show the servers that zero uses

Exit codes: 0 success, 1 error, 2 wrong usage, 3 denied."
)]
pub struct McpArgs {
    /// Action to perform; without one, serve the tools.
    #[command(subcommand)]
    pub command: Option<McpCommand>,
    /// Options for serving the tools.
    #[command(flatten)]
    pub serve: McpServeArgs,
}

/// Options for serving zero's tools over MCP.
#[derive(Debug, Args)]
pub struct McpServeArgs {
    /// Serve over HTTP at this address, such as `127.0.0.1:8080`; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// File with the token that HTTP clients must send [default: a new one, printed to stderr]
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Allow an address that other machines can reach
    #[arg(long, requires = "http")]
    pub allow_remote: bool,
    /// Accept this host name in requests, such as `box.example.com`; can be repeated
    #[arg(long, value_name = "NAME", requires = "http", value_parser = host)]
    pub allow_host: Vec<String>,
    /// Accept requests from this web origin, such as `https://app.example.com`; can be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http", value_parser = origin)]
    pub allow_origin: Vec<String>,
    /// Dialect of the tools
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// Folder to work in; can be repeated, relative paths start in the first [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Vec<PathBuf>,
    /// Permission mode: ask, accept-edits, plan or auto [default: from settings, or ask]
    #[arg(long, value_name = "MODE", value_parser = super::value_parsers::mode(), hide_possible_values = true)]
    pub mode: Option<PermissionMode>,
    /// Approve what zero would ask about. Does not approve denied calls, hosts that only a project's
    /// file names, or hosts that a command first contacts while it runs
    #[arg(long)]
    pub yes: bool,
    /// Limits to change.
    #[arg(long = "limit", value_name = "NAME=VALUE", value_parser = limit, help = limit_help())]
    pub limits: Vec<LimitArg>,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
}

impl McpServeArgs {
    /// Applies the `--limit` flags to `limits`; they override the settings.
    pub fn set_limits(&self, limits: &mut HostLimits) {
        set_limits(&self.limits, limits);
    }
}

/// Subcommands of `zero mcp`.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Add an MCP server to your settings: a command that zero starts, or a URL
    Add(McpAddArgs),
    /// Remove an MCP server from your settings
    Remove(McpRemoveArgs),
    /// Show the MCP servers that zero uses: state, tools, token cost, last error
    #[command(alias = "list")]
    Status(McpStatusArgs),
    /// Restart MCP servers or reconnect to them
    Reconnect(McpReconnectArgs),
    /// Review tools whose definition changed, and approve them
    Approve(McpApproveArgs),
    /// Log in to an MCP server that requires it
    Login(McpLoginArgs),
    /// Log out of an MCP server
    Logout(McpLogoutArgs),
    /// Print or write the configuration that makes another program use zero's tools
    Install(McpInstallArgs),
}

/// `zero mcp add`
#[derive(Debug, Args)]
#[command(
    override_usage = "zero mcp add [OPTIONS] <SERVER> <URL>
       zero mcp add [OPTIONS] <SERVER> -- <COMMAND>...",
    after_help = "Everything after `--` is the command and its arguments. A secret does not belong on a command line:
name a variable of zero's own environment with --env-from, or log in with `zero mcp login`.

Examples:
  zero mcp add files --project -- npx -y @modelcontextprotocol/server-filesystem .
  zero mcp add github https://api.githubcopilot.com/mcp/
  zero mcp add tracker --env-from TRACKER_TOKEN -- tracker-mcp --stdio

Without --project or --local, the command changes your own file.

Exit codes: 0 added, 2 wrong usage, or a server of this name exists."
)]
pub struct McpAddArgs {
    /// Name of the server, which the names of its tools begin with
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// URL of a server that is reached over HTTP
    #[arg(value_name = "URL", conflicts_with = "command", required_unless_present = "command")]
    pub url: Option<String>,
    /// Command that starts the server, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Variable for the server, as `NAME=VALUE`; can be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "command")]
    pub env: Vec<String>,
    /// Variable of zero's own environment that the server gets; can be repeated
    #[arg(long, value_name = "NAME", requires = "command")]
    pub env_from: Vec<String>,
    /// File to change.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero mcp remove`
#[derive(Debug, Args)]
#[command(after_help = "Example:
  zero mcp remove github

Without --project or --local, the command changes your own file.

Exit codes: 0 removed, 1 the file has no such server, 2 wrong usage.")]
pub struct McpRemoveArgs {
    /// Name of the server
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// File to change.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero mcp status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero mcp status                 connect to all servers and show their state
  zero mcp status github          show one server with its tools
  zero mcp status --offline       show the settings without connecting

Exit codes: 0 all enabled servers work, 1 some do not, 2 wrong usage.")]
pub struct McpStatusArgs {
    /// Name of the server [default: all]
    #[arg(value_name = "SERVER")]
    pub alias: Option<String>,
    /// Do not start or connect to servers
    #[arg(long)]
    pub offline: bool,
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero mcp reconnect`
#[derive(Debug, Args)]
#[command(
    after_help = "Every zero process that runs in this folder restarts the server when it next uses it.

Examples:
  zero mcp reconnect
  zero mcp reconnect github"
)]
pub struct McpReconnectArgs {
    /// Name of the server [default: all]
    #[arg(value_name = "SERVER")]
    pub alias: Option<String>,
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp approve`
#[derive(Debug, Args)]
#[command(
    after_help = "If the definition of a tool has changed since you last approved it, zero asks before each call, even
if a rule allows it. This command lists such tools and asks whether to approve their new definition.
Approving a call does the same. `zero tools show NAME` prints the definition of a tool.

Examples:
  zero mcp approve github
  zero mcp approve github create_issue

Exit codes: 0 approved, or nothing changed; 1 error; 2 wrong usage; 3 not approved."
)]
pub struct McpApproveArgs {
    /// Name of the server
    #[arg(value_name = "SERVER")]
    pub alias: String,
    /// Name of the tool, as zero or the server names it [default: all that changed]
    pub tool: Option<String>,
    /// Approve without asking
    #[arg(long)]
    pub yes: bool,
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp login`
#[derive(Debug, Args)]
#[command(
    after_help = "The command prints a URL; open it in a browser. If the browser runs on another machine, pass --paste
and enter the URL that the browser ends at.

Examples:
  zero mcp login docs
  zero mcp login docs --paste"
)]
pub struct McpLoginArgs {
    /// Name of the server
    #[arg(value_name = "SERVER")]
    pub alias: String,
    /// Prompt for the URL that the browser ends at, instead of waiting for the redirect
    #[arg(long)]
    pub paste: bool,
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp logout`
#[derive(Debug, Args)]
#[command(after_help = "Example:
  zero mcp logout docs")]
pub struct McpLogoutArgs {
    /// Name of the server
    #[arg(value_name = "SERVER")]
    pub alias: String,
    /// Folder to work in [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero mcp install`
#[derive(Debug, Args)]
#[command(
    after_help = "Without --write, the command prints the configuration to stdout and the file it belongs in to
stderr. With --write, it changes that file and keeps comments, layout and all other servers. It
does not change a file that it cannot parse, or an existing entry of the same name with different
content.

Examples:
  zero mcp install claude                      print the configuration for Claude Code
  zero mcp install claude --write              write it, for all your projects
  zero mcp install vscode --write --project    write it into this project only
  zero mcp install zed --write --name tools --dialect acp

Exit codes: 0 printed, written, or already present; 1 error; 2 wrong usage, or file left unchanged."
)]
pub struct McpInstallArgs {
    /// Program that will use the tools
    pub client: McpClientProgram,
    /// Write the configuration to the program's file
    #[arg(long)]
    pub write: bool,
    /// Use the project's file instead of yours
    #[arg(long)]
    pub project: bool,
    /// Name of the server entry
    #[arg(long, value_name = "NAME", default_value = "zero", value_parser = server_name)]
    pub name: String,
    /// Dialect of the tools
    #[arg(long, value_name = "DIALECT", default_value = "canonical", value_parser = dialect())]
    pub dialect: DialectName,
    /// Folder that the tools work in, wherever the program starts zero
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// An MCP client program that zero can configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum McpClientProgram {
    /// Claude Code
    Claude,
    /// Codex CLI
    Codex,
    /// Cursor, which keeps servers in .cursor/mcp.json
    Cursor,
    /// Gemini CLI
    Gemini,
    /// Goose, whose settings are YAML: zero only prints the entry, or creates the file
    Goose,
    /// Junie in JetBrains IDEs; other assistants there take the printed JSON in their settings
    Jetbrains,
    /// opencode
    Opencode,
    /// Qwen Code
    Qwen,
    /// Visual Studio Code
    Vscode,
    /// Windsurf, which has no servers of a project
    Windsurf,
    /// Zed, which keeps servers in its settings.json
    Zed,
}

/// Parses the name of a server entry in another program's settings.
fn server_name(text: &str) -> Result<String, String> {
    zero_mcp::server_definition::ServerAlias::new(text)
        .map(|alias| alias.to_string())
        .map_err(|error| error.to_string())
}

/// Parses a socket address to listen on; `localhost` means 127.0.0.1.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numbers = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = numbers.as_deref().unwrap_or(text).parse();
    address.map_err(|_| format!("`{text}` is not an address such as `127.0.0.1:8080`"))
}

/// Parses a host name or IP address without a port.
fn host(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = !text.is_empty() && text.chars().all(is_plain);
    if is_name || text.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("`{text}` is not a host name such as `box.example.com`; omit the port"))
}

/// Parses a web origin: scheme, host and optional port, without a path.
fn origin(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is not an origin such as `https://app.example.com`");
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
