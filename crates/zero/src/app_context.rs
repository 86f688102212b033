//! What every command receives.

use std::sync::{Arc, LazyLock, OnceLock};

use zero_client::GatewayLocality;
use zero_runtime::AnyTool;
use zero_session::notification::{ConsoleAddress, Notifier};

use crate::environment::EnvironmentConfig;
use crate::terminal::Terminal;

/// Environment, terminal and built-in tools; every command receives it.
#[derive(Clone)]
pub(crate) struct AppContext {
    pub(crate) config: EnvironmentConfig,
    pub(crate) terminal: Terminal,
    /// Built-in tools, created on first use: not every command needs them, and generating their
    /// schemas takes time.
    pub(crate) tools: Arc<LazyLock<Vec<Arc<dyn AnyTool>>>>,
    /// Posts notifications, once the sessions of this machine are open and the settings say so.
    pub(crate) notifiers: Arc<OnceLock<Vec<Arc<dyn Notifier>>>>,
    /// Where the console of a gateway in this process is, once it listens.
    pub(crate) console: ConsoleAddress,
    /// Where the gateway of the command is, once it is connected.
    pub(crate) gateway_locality: Arc<OnceLock<GatewayLocality>>,
}
