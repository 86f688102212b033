//! What the first prompt of a session waits for: servers that bring tools and have only just been
//! started. It waits a little while and goes on without those that take longer; whatever they bring is
//! there for the next prompt. Opening a session waits for none of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::bench::{Absent, Arrivals};
use crate::letter::{Letter, Mailbox};

/// How long a first prompt waits. A server that may take less is given less.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The servers of a session, until they were waited for.
pub(crate) struct Awaited {
    servers: Arc<dyn Arrivals>,
    were: OnceCell<()>,
}

impl Awaited {
    pub(crate) fn new(servers: Arc<dyn Arrivals>) -> Self {
        Self { servers, were: OnceCell::new() }
    }

    /// Waits for them, the first time. The person is told which are not there.
    pub(crate) async fn wait(&self, mailbox: &Mailbox) {
        let wait = || async {
            for absent in self.servers.wait(WAIT_MAX).await {
                mailbox.put(Letter::Remark(words(&absent))).await;
            }
        };
        self.were.get_or_init(wait).await;
    }
}

fn words(absent: &Absent) -> String {
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
