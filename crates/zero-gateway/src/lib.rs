//! The WebSocket gateway in front of sessions.
//!
//! A client connects, shows who it is, and from then on asks and hears. Every stranger is treated as
//! one: where a request is addressed to and which page sent it is checked before the upgrade, what it
//! may send, hold and try is bounded, and what it may do is what its token was given, never what it
//! says of itself. A client in the same process comes over a pipe and takes the same road, only that
//! it need not show who it is.
//!
//! Start reading at [`MeasuredGateway`], then `connection` (the life of one connection), then `peer` (what a
//! connection is once it was greeted).
//!
//! Not here: what the frames look like (`zero_wire`), what a session is (`zero_session`).

mod address_group;
mod auth;
mod auth_limiter;
mod authenticated_connection;
mod connection;
mod connection_limiter;
mod error_payloads;
mod gateway;
mod gateway_config;
mod gateway_inner;
mod gateway_listener;
mod handshake;
mod heartbeat;
mod history;
mod http_endpoint;
mod ledger_tail;
mod methods;
mod metric_families;
mod openclaw_relay;
mod pipe_transport;
mod prometheus_page;
mod read_limiter;
mod remote_tool_backend;
mod request_filter;
mod send_queue;
mod session_watcher;
#[cfg(test)]
mod testing;
mod tls;
mod tool_host_table;
mod tool_offer;
mod websocket_transport;

pub use auth::{AuthConfig, InvalidSecret, Principal};
pub use auth_limiter::AuthAttemptLimits;
pub use gateway::Gateway;
pub use gateway_config::{GatewayConfig, GatewayLimits};
pub use gateway_listener::{GatewayListener, GatewayServeError, PlaintextPolicy};
pub use metric_families::{
    MetricFamily, MetricHistogram, MetricKind, MetricPoint, MetricValue, MetricsSource,
};
pub use tls::{TlsError, TlsIdentity};
