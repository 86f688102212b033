//! The Agent Client Protocol, version 1, on stdio: zero as an editor sees it.
//!
//! An editor's session is a session at a gateway, in this process or elsewhere, and its tools are
//! hosted here, beside the files. What happens there comes as entries of a ledger; [`present`] tells
//! them in the protocol's words. The SDK of the protocol is seen by this crate only.

mod agent;
mod asker;
mod awaited;
pub mod bench;
mod caps;
mod choices;
pub mod config;
mod early;
mod editor;
mod elicit;
mod handshake;
mod letter;
mod login;
mod methods;
mod own_calls;
mod own_mode;
mod present;
mod printed;
mod prompt;
mod questions;
mod rpc;
mod sending;
mod serving;
mod session;
mod setup;
mod stopped;
mod tap;
mod to_client;
pub mod tools_serve;
mod tools_use;
mod transport;
mod wording;

pub use agent::serve;
pub use bench::{
    Absent, Arrivals, BenchError, BenchOrder, OpenBench, ServerReach, SessionServer, Workbench,
};
pub use config::{Config, Defaults, Habits, OnEof};
pub use login::{Login, ModelKeys, NoKey};
pub use serving::ServeError;
pub use tools_serve::{Permissions, ToolsConfig, serve_tools};
