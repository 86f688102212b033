//! Runs with a scripted model and a scripted tool backend, checked by their ledger.

mod fault_injection;
pub(crate) mod fixture;
mod limits;
mod mem_store;
mod parked_runs;
mod rewinds;
mod scripted_runs;
mod session_lifecycle;
mod sqlite_sessions;
/// The suite of `tests/it`, for the store that these tests use.
#[path = "../../tests/it/store_conformance.rs"]
mod store_conformance;
mod subagent_runs;
mod waiting_runs;
