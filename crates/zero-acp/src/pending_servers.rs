//! The first prompt of a session waits for MCP servers that have just been started. After a bounded
//! wait it continues without the slow ones; their tools are available to the next prompt. Opening a
//! session does not wait.

use std::sync::Arc;

use tokio::sync::OnceCell;
use zero_runtime::tool_backend::{ServerStartup, UnavailableServer};

use crate::session_message::{SessionMessage, SessionSender};

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
            for absent in self.servers.wait_for_servers(UnavailableServer::WAIT_MAX).await {
                sender.send(SessionMessage::Remark(absent.to_string())).await;
            }
        };
        self.were.get_or_init(wait).await;
    }
}
