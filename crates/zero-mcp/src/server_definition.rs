//! What is known of a server before anything of it runs: how to reach it, and what it may do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;
use zero_policy::HostPattern;

/// How long a server may take until it has listed its tools. Those that are fetched and built when
/// they are first started take long.
pub const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a call may be without an answer or a word of progress.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a call may take however much progress it tells of.
pub const CALL_TIMEOUT_MAX: Duration = Duration::from_secs(30 * 60);

/// The name that a person gave a server; the first part of the names of its tools.
///
/// Invariant: 1 to 32 ASCII letters, digits, `_` or `-`, starting with a letter, without `__` and
/// without `_` at its end, so that `alias__tool` is taken apart in one way only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAlias(String);

/// A text that cannot name a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerAliasError {
    /// It is no such name.
    #[error(
        "`{}` cannot name a server: use 1 to {} letters, digits, `-` or single `_`, starting with a letter",
        .0.escape_debug(), ServerAlias::LEN_MAX
    )]
    Malformed(String),
    /// Something else has it.
    #[error("`{0}` cannot name a server: the name is taken by zero's own tools; choose another")]
    Reserved(String),
}

impl ServerAlias {
    /// Longest name; half of that of a tool is left to the tool.
    pub const LEN_MAX: usize = 32;
    /// Names that stand for something else in front of `__`, however they are written.
    const RESERVED: [&str; 2] = ["mcp", "cmd"];

    /// Checks a name.
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

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerAlias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server, as settings describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerDefinition {
    /// Its name here.
    pub alias: ServerAlias,
    /// How it is reached.
    pub reach: ServerTransport,
    /// How long it may take until it has listed its tools.
    pub startup_timeout: Duration,
    /// How long a call may be without an answer or a word of progress.
    pub call_timeout: Duration,
    /// How long a call may take however much progress it tells of.
    pub call_timeout_max: Duration,
    /// The same as `call_timeout` for some tools, by the server's own names for them.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// The tools that are taken, by the server's own names; all when absent.
    pub tools_allowed: Option<Vec<String>>,
    /// The tools that are not, whatever is allowed.
    pub tools_denied: Vec<String>,
    /// Where it is written down, for a person, such as `~/.config/zero/settings.json:3`.
    pub written_at: String,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerTransport {
    /// It is started here, and talked to by its input and output.
    Command(ServerLaunch),
    /// It runs somewhere, and is talked to by HTTP.
    Http(HttpEndpoint),
}

/// How a server is started.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerLaunch {
    /// The program: a path or a name.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables beside the usual few. Values may be secrets.
    pub variables: Vec<(String, String)>,
    /// Where it starts.
    pub folder: PathBuf,
    /// Hosts it may reach beside those that commands may.
    pub network: Vec<HostPattern>,
    /// Folders it may change beside those that commands may.
    pub writable: Vec<PathBuf>,
}

impl fmt::Debug for ServerLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Launch")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("variables", &names)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Where a server is reached by HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// Its address: `https`, or `http` on this machine.
    pub url: Url,
    /// Headers that every request carries. Values may be secrets.
    pub headers: Vec<(String, String)>,
    /// How to log in, where that has to be known beforehand.
    pub login: LoginSettings,
}

impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("url", &self.url.as_str())
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// How to log in at a server that wants it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LoginSettings {
    /// The id of a client that was registered beforehand.
    pub client_id: Option<String>,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
    /// What to ask for, where the server does not say.
    pub scopes: Vec<String>,
    /// The port of this machine that the browser is sent back to; any free one when absent. Some
    /// servers know only one.
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
        for taken in ["mcp", "cmd", "MCP", "Cmd"] {
            assert_eq!(ServerAlias::new(taken), Err(ServerAliasError::Reserved(taken.to_owned())));
        }
        check("mcp2", true);
    }
}
