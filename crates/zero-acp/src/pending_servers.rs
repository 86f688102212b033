//! The first prompt of a session waits for MCP servers that have just been started. After a bounded
//! wait it continues without the slow ones; their tools are available to the next prompt. Opening a
//! session does not wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::session_message::{SessionMessage, SessionSender};
use crate::tool_host_factory::{ServerStartup, UnavailableServer};

/// Longest wait of a first prompt. A server with a shorter startup timeout is given that.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The servers of a session, until the first wait.
pub(crate) struct PendingServers {
    servers: Arc<dyn ServerStartup>,
    were: OnceCell<()>,
}

impl PendingServers {
    pub(crate) fn new(servers: Arc<dyn ServerStartup>) -> Self {
        Self { servers, were: OnceCell::new() }
    }

    /// Waits for the servers, on the first call only. Tells the user which are not available.
    pub(crate) async fn wait(&self, sender: &SessionSender) {
        let wait = || async {
            for absent in self.servers.wait_for_servers(WAIT_MAX).await {
                sender.send(SessionMessage::Remark(describe_absence(&absent))).await;
            }
        };
        self.were.get_or_init(wait).await;
    }
}

fn describe_absence(absent: &UnavailableServer) -> String {
    let name = &absent.name;
    match &absent.why {
        None => format!(
            "MCP server `{name}` is still starting; this prompt goes on without its tools, and they are there for the next one once it is up"
        ),
        Some(why) => format!(
            "MCP server `{name}` did not start, and this prompt goes on without its tools: {why}"
        ),
    }
}
