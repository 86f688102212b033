//! The client against gateways that do as they are told.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod connecting;
mod ending;
mod peer;
mod requests;
mod tls;
