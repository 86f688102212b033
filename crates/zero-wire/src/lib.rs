//! The gateway protocol: frames, methods, events and a client.
//!
//! The protocol is OpenClaw-compatible, field by field: OpenClaw clients can use zero's gateway,
//! and zero can use OpenClaw-compatible gateways. zero's own extensions have names of their own
//! (`zero.…`, `tools/…`) and are announced in `features.capabilities`. zero never adds a field to
//! an OpenClaw object.
//!
//! - [`frame`], [`method`], [`params`], [`error`] and [`close`]: messages, methods, the validation
//!   of parameters, errors and close codes.
//! - [`handshake`] and [`device`]: how a connection starts, and how a device proves who it is.
//! - [`chat`], [`sessions`], [`approvals`] and [`events`]: the methods and events of OpenClaw.
//! - [`zero_sessions`], [`usage`], [`devices`], [`machine`], [`nodes`] and [`tools`]: zero's own methods.
//! - [`client`] and [`pipe`]: a client, and the connection to a gateway in the same process.
//!
//! Not here: the implementation of the methods (`zero_gateway`) and of sessions (`zero_session`).

pub mod approvals;
mod bounded_queue;
pub mod chat;
pub mod client;
pub mod close;
pub mod device;
pub mod devices;
pub mod error;
pub mod events;
pub mod frame;
pub mod handshake;
pub mod machine;
pub mod method;
pub mod nodes;
pub mod params;
pub mod pipe;
pub mod schema;
pub mod sessions;
pub mod tools;
pub mod usage;
pub mod zero_sessions;

pub use close::CloseReason;
pub use error::{ErrorCode, ErrorPayload, SESSION_NOT_FOUND};
pub use frame::{EventFrame, GatewayFrame, RequestFrame, ResponseFrame};
pub use method::{GatewayMethod, TokenScope};
pub use params::parse_params;
