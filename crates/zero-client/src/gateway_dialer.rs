//! How a gateway is reached, and where that leads.

use zero_runtime::tool::BoxFuture;
use zero_wire::client::{GatewayClient, GatewayEvents};

use crate::link_error::GatewayLinkError;

/// How a gateway is reached.
pub trait GatewayDialer: Send + Sync {
    /// Connects. Asked again after a connection was lost.
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>>;

    /// Where it is, for people: an address without credentials, or `this process`.
    fn location(&self) -> String;
}

/// A connection that was made.
pub struct GatewayConnection {
    /// To ask by.
    pub client: GatewayClient,
    /// What happens there.
    pub events: GatewayEvents,
    /// Where it leads.
    pub place: GatewayLocality,
}

/// Where a gateway is, as far as it is to be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayLocality {
    /// Somewhere else, also where that is another process of this machine: what it wants is a wish.
    #[default]
    Remote,
    /// In this very process, over this person's own store: what it keeps is what they chose. A dial
    /// that led here once always does.
    InProcess,
}
