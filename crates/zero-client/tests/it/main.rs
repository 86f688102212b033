//! The link against real gateways in this process, and against a scripted one of the family.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod family;
mod family_server;
mod hostile;
mod lab;
mod link;
mod own;
mod proxy;
