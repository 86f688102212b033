//! The one way by which zero itself goes out to the web.
//!
//! Tools that fetch, MCP servers that are reached by HTTP and the logins these want all connect
//! here: the [`NetworkGuard`] judges every address by the policy that also judges the proxy of
//! confined commands, a name is looked up once for a connection and each address of the answer is
//! checked, and the [`WebClient`] goes to these addresses and no others. No proxy, cookie or
//! redirect is taken from elsewhere, and whatever comes back is bounded in bytes and time.
//!
//! Not here: the rules (`zero_policy`), and what a page or a message means.

mod network_guard;
mod response_body;
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
pub use self::sse_parser::{SseEvent, SseEventTooLongError, SseParser};
pub use self::web_client::{
    OutgoingRequest, RedirectPolicy, WebClient, WebResponse, client_builder,
};
pub use self::web_error::{WebError, from_reqwest_error, shorten_untrusted};

/// The web, as far as one call may reach it.
#[derive(Clone, Debug)]
pub struct CallWebAccess {
    guard: NetworkGuard,
    /// The hosts that were judged for the call and allowed.
    hosts: Arc<[HostName]>,
}

impl CallWebAccess {
    pub(crate) fn new(guard: NetworkGuard, hosts: Arc<[HostName]>) -> Self {
        Self { guard, hosts }
    }

    /// A client that reaches the hosts the call was judged on, and nobody else.
    pub fn client(&self, connect_time: Duration) -> Result<WebClient, WebError> {
        WebClient::new(self.guard.gate_for_hosts(Arc::clone(&self.hosts)), connect_time)
    }

    /// A client for a server that the person's settings place at `endpoint`.
    pub fn client_for_endpoint(
        &self,
        endpoint: &Url,
        connect_time: Duration,
    ) -> Result<WebClient, WebError> {
        WebClient::new(self.guard.gate_for_endpoint(endpoint)?, connect_time)
    }

    /// Tells the web of one policy from that of another: what was fetched under one must not be
    /// given to somebody who is judged by another.
    pub fn policy_number(&self) -> u64 {
        self.guard.policy_number()
    }
}
