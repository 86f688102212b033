//! [`McpServerDefinition`], a server as settings describe it: how to reach it, and what it may do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;
use zero_core::CLIENT_TOOL_SOURCE;
use zero_policy::{HostPattern, PackageDownload};

/// Default time limit until a server has listed its tools.
pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);
/// The same for a server that downloads itself when it starts.
pub const DOWNLOAD_STARTUP_TIMEOUT: Duration = Duration::from_secs(120);
/// Default time limit of a call, however much progress it reports.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(30 * 60);

/// The user's name for a server, and the first part of the names of its tools.
///
/// Invariant: 1 to 32 ASCII letters, digits, `_` or `-`, starting with a letter, without `__` and
/// without `_` at its end, so that `alias__tool` can be split in only one way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAlias(String);

/// Why a text cannot be the alias of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerAliasError {
    /// It has another form.
    #[error(
        "`{}` cannot name a server: use 1 to {} letters, digits, `-` or single `_`, starting with a letter",
        .0.escape_debug(), ServerAlias::LEN_MAX
    )]
    Malformed(String),
    /// zero uses it for its own tools.
    #[error("`{0}` cannot name a server: the name is taken by zero's own tools; choose another")]
    Reserved(String),
}

impl ServerAlias {
    /// Maximum length, in bytes; the other half of a tool's name is for the tool.
    pub const LEN_MAX: usize = 32;
    /// Names that have another meaning before `__`, in any case.
    const RESERVED: [&str; 3] = ["mcp", "cmd", CLIENT_TOOL_SOURCE];

    /// Validates an alias.
    pub fn new(name: impl Into<String>) -> Result<Self, ServerAliasError> {
        let name = name.into();
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let all_allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        let is_clear = !name.contains("__") && !name.ends_with('_');
        if !(starts_well && all_allowed && is_clear && name.len() <= Self::LEN_MAX) {
            return Err(ServerAliasError::Malformed(name));
        }
        match Self::RESERVED.iter().any(|taken| name.eq_ignore_ascii_case(taken)) {
            true => Err(ServerAliasError::Reserved(name)),
            false => Ok(Self(name)),
        }
    }

    /// Returns the alias as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server as settings describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerDefinition {
    /// The user's name for it.
    pub alias: ServerAlias,
    /// How to reach it.
    pub transport: ServerTransport,
    /// Time limit until it has listed its tools.
    pub startup_timeout: Duration,
    /// Time limit of a call without an answer or progress; that of the host if `None`.
    pub call_timeout: Option<Duration>,
    /// Time limit of a call, however much progress it reports.
    pub call_timeout_max: Duration,
    /// `call_timeout` of certain tools, by the server's names for them.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// The tools to use, by the server's names; all if `None`.
    pub tools_allowed: Option<Vec<String>>,
    /// The tools not to use, even if allowed.
    pub tools_denied: Vec<String>,
    /// Where it is configured, for the user, such as `~/.config/zero/settings.json:3`.
    pub written_at: String,
}

/// How to reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    /// zero starts it, and uses its stdin and stdout.
    Command(ServerLaunch),
    /// It runs elsewhere, and is reached over HTTP.
    Http(HttpEndpoint),
}

/// How to start a server.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerLaunch {
    /// The program: a path or a name.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Additional environment variables. Values may be secrets.
    pub variables: Vec<(String, String)>,
    /// Working directory.
    pub folder: PathBuf,
    /// Hosts that it may reach, in addition to those for commands.
    pub network: Vec<HostPattern>,
    /// Folders that it may change, in addition to those for commands.
    pub writable: Vec<PathBuf>,
}

impl ServerLaunch {
    /// Whether it downloads the server when it starts, as `npx` does.
    pub fn is_download(&self) -> bool {
        let words = [std::slice::from_ref(&self.command), &self.args].concat();
        PackageDownload::from_runner(&words).is_some()
    }

    /// Default time limit until it has listed its tools.
    fn startup_timeout(&self) -> Duration {
        match self.is_download() {
            true => DOWNLOAD_STARTUP_TIMEOUT,
            false => STARTUP_TIMEOUT,
        }
    }
}

impl ServerTransport {
    /// Default time limit until the server has listed its tools.
    pub fn startup_timeout(&self) -> Duration {
        match self {
            Self::Command(launch) => launch.startup_timeout(),
            Self::Http(_) => STARTUP_TIMEOUT,
        }
    }
}

impl fmt::Debug for ServerLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ServerLaunch")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("variables", &names)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// How to reach a server over HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// URL: `https`, or `http` on this machine.
    pub url: Url,
    /// Headers of every request. Values may be secrets.
    pub headers: Vec<(String, String)>,
    /// Login settings, for servers that need them.
    pub login: LoginSettings,
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpEndpoint")
            .field("url", &self.url.as_str())
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// How to log in at a server that requires it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LoginSettings {
    /// Id of an OAuth client that was registered beforehand.
    pub client_id: Option<String>,
    /// Secret of that client, if it has one.
    pub client_secret: Option<String>,
    /// Scopes to request, if the server names none.
    pub scopes: Vec<String>,
    /// Port of this machine that the browser is redirected to; any free one if `None`. Some
    /// authorization servers allow only one.
    pub callback_port: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, valid: bool) {
        assert_eq!(ServerAlias::new(name).is_ok(), valid, "{name:?}");
    }

    #[test]
    fn alias_parses_unambiguously() {
        check("github", true);
        check("my-server_2", true);
        check(&"a".repeat(32), true);
        check(&"a".repeat(33), false);
        for bad in ["", "2nd", "a__b", "a_", "a b", "gitе", "a.b", "_a"] {
            check(bad, false);
        }
    }

    #[test]
    fn reserved_alias_is_refused_in_any_case() {
        for taken in ["mcp", "cmd", "acp", "MCP", "Cmd"] {
            assert_eq!(ServerAlias::new(taken), Err(ServerAliasError::Reserved(taken.to_owned())));
        }
        check("mcp2", true);
    }
}
