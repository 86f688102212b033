//! The WebSocket gateway in front of sessions.
//!
//! A client connects, authenticates, sends requests and receives events. Unauthenticated peers are
//! not trusted: the host and origin of a request are checked before the upgrade, its size, memory
//! and attempts are bounded, and its permissions come from its token, never from the client's own
//! claims. A client in the same process connects over a pipe and uses the same code path without
//! authentication.
//!
//! Start reading at [`Gateway`], then `connection` (the lifecycle of one connection), then
//! `authenticated_connection` (its state after the handshake).
//!
//! Not here: the frame formats (`zero_wire`) and sessions (`zero_session`).

mod address_group;
mod auth;
mod auth_limiter;
mod authenticated_connection;
mod connection;
mod connection_limiter;
mod console_page;
mod device_registry;
mod error_payloads;
mod gateway;
mod gateway_config;
mod gateway_inner;
mod gateway_listener;
mod handshake;
mod handshake_table;
mod heartbeat;
mod history;
mod http_endpoint;
mod ledger_tail;
mod machine_reports;
mod methods;
mod metric_families;
mod node_messages;
mod node_requests;
mod openclaw_relay;
mod pipe_transport;
mod prometheus_page;
mod read_limiter;
mod remote_subagent_tools;
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
pub use device_registry::{DeviceStore, PairedDevice};
pub use gateway::Gateway;
pub use gateway_config::{ConsoleConfig, GatewayConfig, GatewayLimits};
pub use gateway_listener::{GatewayListener, GatewayServeError, PlaintextPolicy};
pub use machine_reports::MachineReports;
pub use metric_families::{
    MetricFamily, MetricHistogram, MetricKind, MetricPoint, MetricValue, MetricsSource,
};
pub use tls::{TlsError, TlsIdentity};
