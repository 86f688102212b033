//! A connection to a gateway that is made on first use and restored after a loss.
//!
//! All sessions of a [`GatewayLink`] share one connection. While a session is open, a lost
//! connection is redialled in the background. Every session is then opened again, its tools are
//! attached again, and missed entries are delivered before new ones.

mod event_dispatch;
mod request;
mod shared_link;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

pub use crate::gateway_dialer::{GatewayConnection, GatewayDialer, GatewayLocality};
use crate::link_error::GatewayLinkError;
use crate::native_gateway;
use crate::openclaw;
use crate::session_handle::{ListRequest, OpenRequest, SessionHandle, SessionList, SessionUpdates};

pub(crate) use self::request::{RequestFailure, RequestRetry};
pub(crate) use self::shared_link::{GatewayKind, LinkConnection, ReconnectWait, SharedLink};

/// How long a lost connection is redialled, unless set otherwise.
const RECONNECT_MAX: Duration = Duration::from_secs(120);

/// A gateway, connected or not. Clones share the connection.
#[derive(Clone)]
pub struct GatewayLink {
    shared: Arc<SharedLink>,
}

impl GatewayLink {
    /// Creates a link without connecting.
    pub fn new(dial: Arc<dyn GatewayDialer>) -> Self {
        Self::with_reconnect_max(dial, RECONNECT_MAX)
    }

    /// The same, with another limit on how long a lost connection is redialled before sessions are
    /// told that it is lost.
    pub fn with_reconnect_max(dial: Arc<dyn GatewayDialer>, return_max: Duration) -> Self {
        Self { shared: SharedLink::new(dial, return_max) }
    }

    /// Connects unless connected, ahead of the first request. Errors are reported by that request.
    pub async fn connect(&self) {
        if let Err(error) = self.shared.ensure_connected(ReconnectWait::Now).await {
            tracing::debug!(%error, "there is no connection yet");
        }
    }

    /// Opens a session; its updates are delivered from now on.
    pub async fn open(
        &self,
        request: OpenRequest,
    ) -> Result<(SessionHandle, SessionUpdates), GatewayLinkError> {
        match self.shared.ensure_connected(ReconnectWait::Now).await?.kind {
            GatewayKind::Native => native_gateway::open_session(&self.shared, request).await,
            GatewayKind::OpenClaw => openclaw::open_session(&self.shared, request).await,
        }
    }

    /// Lists sessions.
    pub async fn list(&self, request: ListRequest) -> Result<SessionList, GatewayLinkError> {
        match self.shared.ensure_connected(ReconnectWait::Now).await?.kind {
            GatewayKind::Native => native_gateway::list_sessions(&self.shared, request).await,
            GatewayKind::OpenClaw => openclaw::list_sessions(&self.shared, request).await,
        }
    }

    /// Creates a copy of a session under another key, and returns that key. With the number of a
    /// prompt, the copy is as the session was before it.
    pub async fn fork(
        &self,
        key: &str,
        copy: &str,
        prompt: Option<u64>,
    ) -> Result<String, GatewayLinkError> {
        match self.shared.ensure_connected(ReconnectWait::Now).await?.kind {
            GatewayKind::Native => {
                native_gateway::fork_session(&self.shared, key, copy, prompt).await
            }
            GatewayKind::OpenClaw => Err(GatewayLinkError::Unsupported { what: "copy sessions" }),
        }
    }

    /// Deletes a session; succeeds if there is none.
    pub async fn delete(&self, key: &str) -> Result<(), GatewayLinkError> {
        let params = json!({"key": key});
        match self.shared.request_value("sessions.delete", params, RequestRetry::Once).await {
            Ok(_) => Ok(()),
            Err(unanswered) => match unanswered.error.for_session(key) {
                GatewayLinkError::NoSession { .. } => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Closes the connection. Runs at a remote gateway continue.
    pub async fn close(&self) {
        self.shared.close().await;
    }

    /// The location of the gateway, for messages.
    pub fn location(&self) -> String {
        self.shared.location()
    }
}
