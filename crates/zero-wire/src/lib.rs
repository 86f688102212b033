//! The gateway's protocol: frames, the methods and events in them, and a client.
//!
//! It is the protocol of a public family of gateways, field by field, so clients of that family
//! can use zero's gateway and zero can use theirs. What is zero's own has names of its own
//! (`zero.…`, `tools/…`) and is announced in `features.capabilities`; no known object ever has an
//! unknown field.
//!
//! Not here: what the methods do (`zero_gateway`), how sessions work (`zero_session`).

pub mod approvals;
mod bounded_queue;
pub mod chat;
pub mod client;
pub mod close;
pub mod device;
pub mod error;
pub mod events;
pub mod frame;
pub mod handshake;
pub mod method;
pub mod params;
pub mod pipe;
pub mod schema;
pub mod sessions;
pub mod tools;
pub mod zero_sessions;

pub use close::CloseReason;
pub use error::{ErrorCode, ErrorPayload};
pub use frame::{EventFrame, GatewayFrame, RequestFrame, ResponseFrame};
pub use method::{GatewayMethod, TokenScope};
pub use params::parse_params;
