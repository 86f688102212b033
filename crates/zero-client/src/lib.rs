//! The client side of a gateway: a connection that is restored after a loss, sessions with one
//! interface for all gateways, and tools hosted for the gateway.
//!
//! A gateway of zero has a ledger. Other OpenClaw-compatible gateways have only chat messages and
//! streams, which are translated into ledger entries here, so that front ends need not distinguish
//! them.

mod call_rejection;
mod gateway_dialer;
pub mod gateway_link;
mod gateway_update;
mod link_error;
mod local_mode;
mod local_mode_backend;
mod native_gateway;
mod openclaw;
mod pending_tool_events;
pub mod session_handle;
mod session_slot;
mod session_updates;
mod subagent_tools;
pub mod tool_service;
mod unacknowledged_results;
mod update_queue;
pub mod url_dialer;

pub use gateway_link::{GatewayConnection, GatewayDialer, GatewayLink, GatewayLocality};
pub use link_error::GatewayLinkError;
pub use local_mode::{LocalMode, ModeState};
pub use local_mode_backend::{CallForwarding, LocalModeBackend};
pub use session_handle::{
    GatewayUpdate, LedgerPage, ListRequest, OpenRequest, OverlapPolicy, SendRequest, SessionChange,
    SessionHandle, SessionList, SessionUpdates,
};
pub use zero_runtime::clock::now_ms;
/// Session types of the wire protocol.
pub mod wire {
    pub use zero_wire::zero_sessions::{
        PromptInfo, RunUnrecorded, SessionChoicesResult, SessionInfo, SlashCommandInfo,
    };
}
