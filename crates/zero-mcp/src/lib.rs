//! The Model Context Protocol, both ways.
//!
//! As a client: other people's servers bring tools, and each becomes a tool of the host, judged,
//! bounded and recorded as every other. As a server: the tools of a host for whoever speaks MCP.
//! Both speak the protocol with a handshake (2025-11-25) and the one without (2026-07-28).
//!
//! The SDK lives in this crate only, and never touches a pipe: under it lies our own transport,
//! which bounds what comes in and throws nothing of it away silently.

pub mod client;
pub mod server;
pub mod server_definition;
pub mod wire;
