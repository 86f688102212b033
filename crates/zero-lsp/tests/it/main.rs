//! Language servers as programs: one that misbehaves in every way, and what becomes of it.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod fixture;
mod hostile_server;
mod lifecycle;

// Servers are started by this program under another name.
zero_sandbox::dispatch_helper_before_main!();
