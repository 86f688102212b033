//! How the agent is set up.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use zero_client::{GatewayLink, OverlapPolicy};
use zero_runtime::tool::BoxFuture;

use crate::tool_host_factory::ToolHostFactory;

/// How the agent is set up.
pub struct AcpConfig {
    /// The gateway.
    pub link: GatewayLink,
    /// The tools.
    pub bench: Arc<dyn ToolHostFactory>,
    /// Which sessions are opened, unless the client says otherwise.
    pub defaults: SessionOpenDefaults,
    /// The person's home, which folders are shown relative to.
    pub home: Option<PathBuf>,
    /// How the key of a model is given; none where a gateway elsewhere was named.
    pub login: Option<TerminalLogin>,
    /// What the person's settings say, once they are read: nothing waits for them.
    pub habits: Arc<OnceLock<ClientPreferences>>,
}

impl AcpConfig {
    pub(crate) fn preferences(&self) -> ClientPreferences {
        self.habits.get().copied().unwrap_or_default()
    }
}

/// How the person likes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientPreferences {
    /// What a second prompt does while one is at work.
    pub overlap: OverlapPolicy,
    /// What becomes of runs when the editor goes away.
    pub on_eof: DisconnectPolicy,
}

/// Which sessions are opened, unless the client says otherwise for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOpenDefaults {
    /// Always this session.
    pub key: Option<String>,
    /// Always the session of this label.
    pub label: Option<String>,
    /// The agent of new sessions.
    pub agent: Option<String>,
    /// Whether a session starts over when it is first used.
    pub reset: bool,
    /// Whether it has to be there already.
    pub require_existing: bool,
    /// Whether a prompt says the folder to a gateway that has no other way to know it.
    pub prefix_cwd: bool,
}

impl Default for SessionOpenDefaults {
    fn default() -> Self {
        Self {
            key: None,
            label: None,
            agent: None,
            reset: false,
            require_existing: false,
            prefix_cwd: true,
        }
    }
}

/// What becomes of runs when the editor goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisconnectPolicy {
    /// They are stopped.
    #[default]
    Abort,
    /// A gateway elsewhere goes on with them; those in this process are stopped.
    Detach,
}

/// How the key of a model is given.
pub struct TerminalLogin {
    /// Whether it is there.
    pub keys: Arc<dyn ModelKeyChecker>,
    /// Path of the executable that the editor starts in a terminal.
    pub program: PathBuf,
    /// With which arguments it asks for the key, after those it was started with.
    pub asks: &'static str,
    /// The arguments it was started with.
    pub args: Vec<String>,
}

/// Looks for the key of the model that answers in new sessions.
pub trait ModelKeyChecker: Send + Sync {
    /// That it is there, or that none is needed.
    fn check(&self) -> BoxFuture<'_, Result<(), ModelKeyError>>;
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelKeyError {
    /// It is missing; this says where it is looked for and what to do.
    #[error("{0}")]
    Missing(String),
    /// The settings that name it cannot be used.
    #[error("{0}")]
    Settings(String),
}
