//! MCP client and server with real tools, processes and sockets.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod hostile_fixture;
mod hostile_server;
mod server;
mod server_approvals;
mod server_fixture;
mod server_http;

// The sandbox runs this test program again, under another name, as its helper.
zero_sandbox::dispatch_helper_before_main!();
