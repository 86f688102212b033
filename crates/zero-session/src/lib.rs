//! Sessions that outlive their clients, and the loop that lets a model use tools.
//!
//! A session has a key, a transcript and a ledger of what was shown. A prompt starts a run: the
//! [`turn`] decides what comes next, [`sessions`] does it. Models, tools, the store and the bus
//! are ports: [`model::Model`], [`hands::Hands`], [`store::Store`], [`bus::Bus`].
//!
//! Not here: any client's protocol, the command line, settings files.

pub mod agent;
pub mod approvals;
pub mod bus;
pub mod commands;
pub mod direct;
pub mod hands;
pub mod local_bus;
pub mod message;
pub mod model;
pub mod nodes;
pub mod prompt;
pub mod reach;
pub mod sessions;
pub mod sqlite_store;
pub mod store;
pub mod turn;
mod words;

pub use zero_core::{event, session_key as key};
pub use zero_policy::Mode;
