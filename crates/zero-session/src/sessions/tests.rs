//! Runs with a scripted model and a scripted tool backend, checked by their ledger.

#[cfg(feature = "cluster")]
mod cluster;
mod cluster_model;
mod fault_injection;
pub(crate) mod fixture;
mod limits;
mod mem_store;
mod parked_runs;
mod parked_subagents;
/// The server of `tests/it`.
#[cfg(feature = "cluster")]
#[expect(dead_code, reason = "other tests use the rest")]
#[expect(clippy::disallowed_methods, reason = "the server is a real process with real files")]
#[path = "../../tests/it/postgres_server.rs"]
mod postgres_server;
mod rewinds;
mod scripted_runs;
mod session_lifecycle;
mod sqlite_sessions;
/// The suite of `tests/it`, for the store that these tests use.
#[path = "../../tests/it/store_conformance.rs"]
mod store_conformance;
mod subagent_runs;
mod waiting_runs;
