//! A connection to a gateway that is made when it is first needed, and again when it was lost.
//!
//! All sessions of a [`GatewayLink`] share one connection. While one is open, a lost connection is dialled
//! again in the background; every session is opened anew, its tools are hosted anew, and what was
//! missed is heard before anything else.

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

/// How long a lost connection is dialled again, unless said otherwise.
const RECONNECT_MAX: Duration = Duration::from_secs(120);

/// A gateway, connected or not. Clones share the connection.
#[derive(Clone)]
pub struct GatewayLink {
    shared: Arc<SharedLink>,
}

impl GatewayLink {
    /// Connects to nothing yet.
    pub fn new(dial: Arc<dyn GatewayDialer>) -> Self {
        Self::with_reconnect_max(dial, RECONNECT_MAX)
    }

    /// The same; a connection that was lost is dialled again for so long, before sessions are told
    /// that it is gone.
    pub fn with_reconnect_max(dial: Arc<dyn GatewayDialer>, return_max: Duration) -> Self {
        Self { shared: SharedLink::new(dial, return_max) }
    }

    /// Connects, unless that was done: for whoever is about to need it, and has something else to do
    /// meanwhile. What keeps it from that is told to who needs it.
    pub async fn connect(&self) {
        if let Err(error) = self.shared.ensure_connected(ReconnectWait::Now).await {
            tracing::debug!(%error, "there is no connection yet");
        }
    }

    /// Opens a session, and hears of it from now on.
    pub async fn open(
        &self,
        wanted: OpenRequest,
    ) -> Result<(SessionHandle, SessionUpdates), GatewayLinkError> {
        match self.shared.ensure_connected(ReconnectWait::Now).await?.side {
            GatewayKind::Native => native_gateway::open_session(&self.shared, wanted).await,
            GatewayKind::OpenClaw => openclaw::open_session(&self.shared, wanted).await,
        }
    }

    /// The sessions there are.
    pub async fn list(&self, wanted: ListRequest) -> Result<SessionList, GatewayLinkError> {
        match self.shared.ensure_connected(ReconnectWait::Now).await?.side {
            GatewayKind::Native => native_gateway::list_sessions(&self.shared, wanted).await,
            GatewayKind::OpenClaw => openclaw::list_sessions(&self.shared, wanted).await,
        }
    }

    /// Does away with a session; that there is none is fine.
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

    /// Ends the connection. Runs go on at a gateway elsewhere.
    pub async fn close(&self) {
        self.shared.close().await;
    }

    /// Where the gateway is, for people.
    pub fn location(&self) -> String {
        self.shared.location()
    }
}
