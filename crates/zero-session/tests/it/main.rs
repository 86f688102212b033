//! Integration tests of sessions.
#![expect(clippy::disallowed_methods, reason = "tests set up real files and processes")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod model_chat;
mod model_http;
mod model_responses;
mod model_server;
mod store;
mod store_conformance;
mod store_crash;
mod store_damage;
mod store_disk;
