//! What the first prompt of a session waits for: servers that bring tools and have only just been
//! started. It waits a little while and goes on without those that take longer; whatever they bring is
//! there for the next prompt. Opening a session waits for none of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::session_message::{SessionMessage, SessionSender};
use crate::tool_host_factory::{ServerStartup, UnavailableServer};

/// How long a first prompt waits. A server that may take less is given less.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The servers of a session, until they were waited for.
pub(crate) struct PendingServers {
    servers: Arc<dyn ServerStartup>,
    were: OnceCell<()>,
}

impl PendingServers {
    pub(crate) fn new(servers: Arc<dyn ServerStartup>) -> Self {
        Self { servers, were: OnceCell::new() }
    }

    /// Waits for them, the first time. The person is told which are not there.
    pub(crate) async fn wait(&self, mailbox: &SessionSender) {
        let wait = || async {
            for absent in self.servers.wait_for_servers(WAIT_MAX).await {
                mailbox.send(SessionMessage::Remark(describe_absence(&absent))).await;
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
