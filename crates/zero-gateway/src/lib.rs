//! The WebSocket gateway in front of sessions.
//!
//! A client connects, shows who it is, and from then on asks and hears. Every stranger is treated as
//! one: where a request is addressed to and which page sent it is checked before the upgrade, what it
//! may send, hold and try is bounded, and what it may do is what its token was given, never what it
//! says of itself. A client in the same process comes over a pipe and takes the same road, only that
//! it need not show who it is.
//!
//! Start reading at [`Gateway`], then `connection` (the life of one connection), then `peer` (what a
//! connection is once it was greeted).
//!
//! Not here: what the frames look like (`zero_wire`), what a session is (`zero_session`).

mod address_group;
mod auth;
mod connection;
mod figures;
mod gateway;
mod handshake;
mod heartbeat;
mod history;
mod hosts;
mod http_face;
mod ledger;
mod limiter;
mod methods;
mod metrics;
mod offer;
mod outbox;
mod peer;
mod pipe_link;
mod reads;
mod relay;
mod remote_hands;
mod server;
mod slots;
mod socket;
#[cfg(test)]
mod testing;
mod tls;
mod upgrade;
mod watch;

pub use auth::{AuthConfig, InvalidSecret, Principal};
pub use figures::{Family, FigureKind, MetricsSource, Point, Spread, Value};
pub use gateway::{Gateway, GatewayConfig, GatewayLimits};
pub use limiter::TryLimits;
pub use server::{Listening, Plaintext, ServeError};
pub use tls::{Tls, TlsError};
