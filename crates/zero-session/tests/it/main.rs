//! Integration tests of sessions.
#![expect(clippy::disallowed_methods, reason = "tests set up real files and processes")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod local_node_bus;
mod model_chat;
mod model_http;
mod model_responses;
mod model_server;
#[cfg(feature = "cluster")]
mod nats_node_bus;
#[cfg(feature = "cluster")]
mod nats_server;
mod node_bus_conformance;
#[cfg(feature = "cluster")]
mod postgres_leases;
#[cfg(feature = "cluster")]
mod postgres_node_bus;
#[cfg(feature = "cluster")]
mod postgres_server;
#[cfg(feature = "cluster")]
mod postgres_store;
mod store;
mod store_conformance;
mod store_crash;
mod store_damage;
mod store_disk;
#[cfg(feature = "cluster")]
mod store_transfer;
