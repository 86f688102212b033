//! MCP both ways, against real tools, processes and sockets.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod hostile_fixture;
mod hostile_server;
mod server;
mod server_approvals;
mod server_fixture;
mod server_http;

// Commands are started by this program under another name.
zero_sandbox::dispatch_helper_before_main!();
