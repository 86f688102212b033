//! Tests of the client against scripted gateways.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod close;
mod connect;
mod requests;
mod test_gateway;
mod tls;
