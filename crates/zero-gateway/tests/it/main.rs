//! A gateway on loopback with well-behaved and hostile clients.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod approvers;
mod attacks;
mod bridge;
mod bridge_frames;
mod bridge_gateway;
mod connection_lifecycle;
mod devices;
mod handshake;
mod limits;
mod native_client;
mod null_store;
mod raw_gateway;
mod read_limiter;
mod remote_tools;
mod session_runs;
mod test_gateway;
mod tls;
