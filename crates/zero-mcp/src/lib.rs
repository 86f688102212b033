//! The Model Context Protocol (MCP), as a client and as a server.
//!
//! - [`client`]: connects to MCP servers. Each of their tools becomes a tool of the host, with the
//!   same policy, limits and audit log as every other tool.
//! - [`server`]: offers the tools of a host to MCP clients, over stdio or HTTP.
//! - [`server_definition`]: a server as settings describe it.
//! - [`wire`]: the transport below the SDK, which validates and limits every message.
//!
//! Both sides support the protocol with a handshake (2025-11-25) and the one without (2026-07-28).
//!
//! This is the only crate that uses the MCP SDK (`rmcp`). The SDK never reads a pipe itself: the
//! transport below it limits the input and reports everything that it drops.

pub mod client;
pub mod server;
pub mod server_definition;
pub mod wire;
