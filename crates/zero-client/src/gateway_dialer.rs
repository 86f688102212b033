//! How a gateway is reached, and where that leads.

use zero_runtime::tool::BoxFuture;
use zero_wire::client::{GatewayClient, GatewayEvents};

use crate::link_error::GatewayLinkError;

/// How a gateway is reached.
pub trait GatewayDialer: Send + Sync {
    /// Connects; called again after a connection was lost.
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>>;

    /// The location of the gateway for messages: a URL without credentials, or `this process`.
    fn location(&self) -> String;
}

/// An established connection.
pub struct GatewayConnection {
    /// To ask by.
    pub client: GatewayClient,
    /// What happens there.
    pub events: GatewayEvents,
    /// Where it leads.
    pub locality: GatewayLocality,
}

/// Where a gateway runs, which decides whether its permission modes are trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayLocality {
    /// In another process, also on this machine: the modes it sends are requests.
    #[default]
    Remote,
    /// In this process, on the user's own store: the modes it stores are the user's choice. A
    /// dialer that returned this once always does.
    InProcess,
}
