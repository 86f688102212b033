//! [`GatewayUpdate`], one update of a session from its gateway.

use zero_core::event::Event;

use zero_wire::zero_sessions::RunUnrecorded;

use crate::link_error::GatewayLinkError;

/// An update of a session.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all updates are entries")]
pub enum GatewayUpdate {
    /// A ledger entry. Each is delivered once and in order, also across reconnects.
    Entry(Event),
    /// The connection was lost; entries that are missed are delivered later.
    Disconnected,
    /// The connection is restored, and all missed entries were delivered.
    Reconnected,
    /// The connection is not restored, and the state of runs is unknown.
    Lost(GatewayLinkError),
    /// A run has ended, and its end is not recorded, so there is no entry about it.
    Unrecorded(RunUnrecorded),
    /// Another client hosts the session's tools now. They are not hosted here again unless that is
    /// requested.
    Displaced {
        /// The host's name for itself.
        host: String,
    },
}
