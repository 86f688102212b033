//! The near side of a gateway: a connection that comes back, sessions in one set of words whichever
//! gateway has them, and tools hosted for it.
//!
//! A gateway of zero's own is asked for its ledger. Another one of the family has only chat messages
//! and streams; what it says is told here as entries of a ledger, so that no face has to know which
//! of both it talks to.

mod call_rejection;
mod gateway_dialer;
pub mod gateway_link;
mod gateway_update;
mod link_error;
mod native_gateway;
mod openclaw;
mod pending_tool_events;
pub mod session_handle;
mod session_slot;
mod session_updates;
pub mod tool_service;
mod update_queue;
pub mod url_dialer;

pub use gateway_link::{GatewayConnection, GatewayDialer, GatewayLink, GatewayLocality};
pub use link_error::GatewayLinkError;
pub use session_handle::{
    GatewayUpdate, LedgerPage, ListRequest, OpenRequest, OverlapPolicy, SendRequest, SessionChange,
    SessionHandle, SessionList, SessionUpdates,
};
/// What is known of sessions, in the words of the wire.
pub mod wire {
    pub use zero_wire::zero_sessions::{SessionChoicesResult, SessionInfo, SlashCommandInfo};
}
