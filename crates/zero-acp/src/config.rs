//! Configuration of the ACP agent.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use zero_client::{GatewayLink, OverlapPolicy};
use zero_runtime::tool::BoxFuture;

use crate::tool_host_factory::ToolHostFactory;

/// Configuration of the ACP agent.
pub struct AcpConfig {
    /// The connection to the gateway.
    pub link: GatewayLink,
    /// Creates the tool hosts of sessions.
    pub tool_hosts: Arc<dyn ToolHostFactory>,
    /// Defaults for opening sessions; the client can override them.
    pub defaults: SessionOpenDefaults,
    /// The user's home folder; folders below it are shown relative to `~`.
    pub home: Option<PathBuf>,
    /// How the user enters a model key; `None` with a remote gateway.
    pub login: Option<TerminalLogin>,
    /// Whether the model of new sessions accepts images.
    pub images: Box<dyn Fn() -> ImageSupport + Send + Sync>,
    /// The user's preferences from settings. The defaults apply until they are loaded.
    pub preferences: Arc<OnceLock<ClientPreferences>>,
}

impl AcpConfig {
    pub(crate) fn preferences(&self) -> ClientPreferences {
        self.preferences.get().copied().unwrap_or_default()
    }
}

/// Whether a model accepts images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSupport {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// That is not known before a gateway is reached.
    Unknown,
}

/// The user's preferences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientPreferences {
    /// What happens to a second prompt while a run is active.
    pub overlap: OverlapPolicy,
    /// What happens to runs when the editor disconnects.
    pub on_eof: DisconnectPolicy,
    /// Whether the agent can run commands in a terminal of the editor.
    pub terminal: TerminalPolicy,
    /// Whether prompts begin with the session's folder.
    pub folder_prefix: FolderPrefixPolicy,
}

/// Defaults for opening sessions; the client can override them per session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOpenDefaults {
    /// Key of the session that is always opened.
    pub key: Option<String>,
    /// Label of the session that is always opened.
    pub label: Option<String>,
    /// The agent of new sessions.
    pub agent: Option<String>,
    /// Whether to start a new transcript when a session is first used.
    pub reset: bool,
    /// Whether to fail if the session does not exist.
    pub require_existing: bool,
    /// Whether prompts begin with the folder; the user's preference if absent.
    pub folder_prefix: Option<FolderPrefixPolicy>,
}

/// Whether prompts begin with the session's folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FolderPrefixPolicy {
    /// They do, except for slash commands.
    #[default]
    Always,
    /// They do not.
    Never,
}

/// What happens to runs when the editor disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisconnectPolicy {
    /// Stop them.
    #[default]
    Abort,
    /// Let a remote gateway continue its runs; stop those in this process.
    Detach,
}

/// Whether the agent can run commands in a terminal of the editor, outside the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TerminalPolicy {
    /// It cannot.
    #[default]
    Never,
    /// It can; the user is asked before each command.
    Ask,
}

/// How the user enters a model key.
pub struct TerminalLogin {
    /// Whether it is there.
    pub keys: Arc<dyn ModelKeyChecker>,
    /// Path of the executable that the editor starts in a terminal.
    pub program: PathBuf,
    /// The argument that makes the program ask for the key; follows `args`.
    pub asks: &'static str,
    /// The arguments that zero was started with.
    pub args: Vec<String>,
}

/// Checks the key of the default model of new sessions.
pub trait ModelKeyChecker: Send + Sync {
    /// Succeeds if the key exists or none is needed.
    fn check(&self) -> BoxFuture<'_, Result<(), ModelKeyError>>;
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelKeyError {
    /// It is missing; the message says where it is expected and what to do.
    #[error("{0}")]
    Missing(String),
    /// The settings that name it are invalid.
    #[error("{0}")]
    Settings(String),
}
