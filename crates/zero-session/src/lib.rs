//! Sessions that outlive their clients, and the loop that lets a model use tools.
//!
//! A session has a key, a transcript and a ledger of its events. A prompt starts a run: [`turn`]
//! decides the next step, [`sessions`] performs it. Models, tools, the store and the bus are ports:
//! [`model::ModelClient`], [`zero_runtime::tool_backend::ToolBackend`], [`store::Store`],
//! [`event_bus::EventBus`], [`node_bus::NodeBus`].
//!
//! Not here: client protocols, the command line and settings files.

pub mod agent;
pub mod approvals;
pub mod budget;
mod claim_rule;
pub mod cluster_node;
#[cfg(feature = "cluster")]
mod cluster_tls;
pub mod direct_model;
pub mod event_bus;
pub mod last_seq_store;
pub mod local_backend;
pub mod local_event_bus;
pub mod local_node_bus;
pub mod message;
pub mod model;
pub mod nats_node_bus;
pub mod node_bus;
pub mod node_lease;
pub mod node_membership;
pub mod notification;
pub mod open_question;
pub mod output_schema;
pub mod postgres_store;
pub mod rewind_arguments;
pub mod run_usage;
mod session_copy;
pub mod sessions;
pub mod shared_event_bus;
pub mod slash_commands;
pub mod sqlite_store;
pub mod store;
pub mod store_transfer;
mod stored_form;
pub mod system_prompt;
pub mod turn;
pub mod usage_report;
mod word_split;

pub use zero_core::{event, session_key as key};

// The tests of `tests/it` that are included here name the crate.
#[cfg(test)]
extern crate self as zero_session;
pub use zero_policy::PermissionMode;
