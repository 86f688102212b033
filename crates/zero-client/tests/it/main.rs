//! Tests of the link against real gateways in this process and against a scripted
//! OpenClaw-compatible one.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod gateway_link;
mod hostile_gateway;
mod native_gateway;
mod openclaw;
mod openclaw_server;
mod tcp_proxy;
mod test_gateway;
