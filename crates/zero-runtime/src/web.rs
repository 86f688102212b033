//! The only way in which zero itself connects to the web.
//!
//! Tools that fetch, MCP servers over HTTP and their logins all connect here: the [`NetworkGuard`]
//! checks every address with the policy that also applies to the proxy of confined commands, a name
//! is resolved once per connection and each address is checked, and the [`WebClient`] connects to
//! these addresses only. Proxies, cookies and redirects from elsewhere are ignored, and responses
//! are bounded in bytes and time.
//!
//! Not here: the rules (`zero_policy`), and the meaning of a page or a message.

mod network_guard;
mod response_body;
mod retry_after;
mod sse_parser;
mod web_client;
mod web_error;

use std::sync::Arc;
use std::time::Duration;

use url::Url;
use zero_policy::HostName;

pub use self::network_guard::{
    ConnectionGate, NetworkGuard, UnreachableError, format_origin, is_public_url,
};
pub use self::response_body::{BodyLimits, BodyRemainder, read, read_start};
pub use self::retry_after::{add_jitter, retry_after_header};
pub use self::sse_parser::{SseEvent, SseEventTooLongError, SseParser};
pub use self::web_client::{
    OutgoingRequest, RedirectPolicy, WebClient, WebResponse, client_builder,
};
pub use self::web_error::{WebError, from_reqwest_error, shorten_untrusted};

/// The web access of one call.
#[derive(Clone, Debug)]
pub struct CallWebAccess {
    guard: NetworkGuard,
    /// The hosts that were allowed for the call.
    hosts: Arc<[HostName]>,
}

impl CallWebAccess {
    pub(crate) fn new(guard: NetworkGuard, hosts: Arc<[HostName]>) -> Self {
        Self { guard, hosts }
    }

    /// A client that connects only to the hosts that were allowed for the call.
    pub fn client(&self, connect_time: Duration) -> Result<WebClient, WebError> {
        WebClient::new(self.guard.gate_for_hosts(Arc::clone(&self.hosts)), connect_time)
    }

    /// A client for a server whose endpoint is in the user's settings.
    pub fn client_for_endpoint(
        &self,
        endpoint: &Url,
        connect_time: Duration,
    ) -> Result<WebClient, WebError> {
        WebClient::new(self.guard.gate_for_endpoint(endpoint)?, connect_time)
    }

    /// Identifies the policy: content that was fetched under one policy must not be returned under
    /// another.
    pub fn policy_number(&self) -> u64 {
        self.guard.policy_number()
    }
}
