//! What is heard of a session at a gateway.

use zero_core::event::Event;

use crate::link_error::GatewayLinkError;

/// What is heard of a session.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all news are entries")]
pub enum GatewayUpdate {
    /// An entry of its ledger; each comes once and in order, also after the connection was lost.
    Entry(Event),
    /// The connection was lost; what happens meanwhile comes later.
    Disconnected,
    /// It is back, and everything that was missed has been told.
    Reconnected,
    /// It does not come back, and what became of runs is not known.
    Lost(GatewayLinkError),
    /// Somebody else hosts its tools from now on. They are not hosted here again, unless that is asked
    /// for.
    Displaced {
        /// What they call themselves.
        host: String,
    },
}
