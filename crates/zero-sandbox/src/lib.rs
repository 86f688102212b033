//! The crate that touches the machine: files, processes and the sandbox. It is the only crate that
//! opens a user's files and starts programs.
//!
//! Files: a [`Workspace`] resolves a path into a [`ResolvedPath`], a handle to one file whose
//! meaning is fixed before policy decides about it. A [`Journal`] is the only way to change what a
//! handle points at. No other crate opens, renames or removes a file by name, so the guarantees
//! about links, races, torn writes and undo are implemented and tested in one place.
//!
//! Commands: a [`spawner::Spawner`] starts a [`CommandSpec`] under a [`SandboxProfile`] and returns
//! a [`running_command::RunningCommand`]; [`SandboxLayers`] reports which kernel features enforce
//! the profile on this machine.
//!
//! Not here: which paths and commands are allowed (zero-policy), and what tools read or write
//! (zero-tools).

pub mod append_file;
pub mod canonical_path;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
pub mod command_capture;
pub mod config_file;
pub mod confinement;
#[cfg(target_os = "linux")]
pub mod detachable_process;
mod disk_space;
pub mod expiry;
pub mod file_attributes;
pub mod file_error;
mod file_facts;
mod file_lock;
mod file_replacement;
#[cfg(target_os = "linux")]
pub mod folder_events;
mod folder_handle;
pub mod folder_lease;
pub mod helper_process;
pub mod in_place_edit;
#[cfg(unix)]
pub mod interface_addresses;
pub mod journal;
#[cfg(target_os = "linux")]
mod kernel_file;
pub mod layer_probe;
#[cfg(target_os = "linux")]
mod limit_watchdog;
#[cfg(target_os = "linux")]
pub mod listening_ports;
pub mod locked_line;
pub mod machine_resources;
#[cfg(target_os = "linux")]
pub mod network_connector;
#[cfg(unix)]
pub mod notification_program;
pub mod open_beneath;
pub mod open_file_limit;
#[cfg(target_os = "linux")]
pub mod output_collector;
pub mod path_survey;
#[cfg(target_os = "linux")]
pub mod private_socket;
pub mod process_memory;
#[cfg(target_os = "linux")]
mod process_tree;
pub mod profile;
pub mod quarantine;
mod resolved_path;
#[cfg(target_os = "linux")]
pub mod running_command;
pub mod secret_input;
#[cfg(target_os = "linux")]
pub mod shared_network;
pub mod signal_disposition;
#[cfg(target_os = "linux")]
pub mod spawner;
pub mod state_dir;
pub mod stdio_guard;
pub mod terminal_program;
pub mod typed_input;
pub mod workspace;

pub use canonical_path::FinalLinkMode;
pub use config_file::{ConfigFile, ConfigFileError};
pub use confinement::ConfinementGap;
pub use file_facts::{FileFacts, FileType};
pub use folder_handle::{FolderEntry, FolderHandle, OpenedEntry};
pub use journal::{
    ChangeOrigin, ChangeState, FileChange, FileSnapshot, Journal, JournalEntry, WriteOutcome,
};
pub use layer_probe::{LayerReport, SandboxLayers};
pub use profile::{
    AcceptedWeakness, CommandSpec, NetworkAccess, ProcessLimits, SandboxProfile, SandboxProperty,
};
pub use resolved_path::ResolvedPath;
pub use state_dir::StateDir;
pub use workspace::Workspace;
