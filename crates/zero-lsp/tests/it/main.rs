//! Tests with real processes: a language server that misbehaves in many ways, and how zero handles
//! it.
#![expect(clippy::disallowed_methods, reason = "tests create and read real files")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod fixture;
mod hostile_server;
mod lifecycle;

// The test program is also the helper program that starts servers.
zero_sandbox::dispatch_helper_before_main!();
