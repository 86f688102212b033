//! Runs with a scripted model and scripted hands: what is in the ledger at their end.

mod faults;
pub(crate) mod lab;
mod life;
mod limits;
mod mem_store;
mod real;
mod scripts;
mod waiting;
