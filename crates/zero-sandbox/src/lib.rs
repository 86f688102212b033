//! The hands: the only crate that opens a person's files.
//!
//! A [`Workspace`] turns a path someone wrote into a [`Located`] handle whose meaning is settled
//! before anyone decides about it, and a [`Journal`] is the one way to change what a handle points
//! at. Nothing above this crate opens, renames or removes a file by name, which is what lets the
//! claims about links, races, torn writes and undo be stated and attacked in one place.
//!
//! Not here: which paths are allowed (policy), what is read or written (tools).

pub mod append_file;
#[cfg(unix)]
pub mod at_terminal;
pub mod beneath;
pub mod canonical;
#[cfg(target_os = "linux")]
mod cgroup;
pub mod child;
pub mod config_file;
pub mod confine;
#[cfg(target_os = "linux")]
pub mod drain;
mod facts;
pub mod file_error;
mod folder;
pub mod journal;
pub mod kept;
#[cfg(target_os = "linux")]
mod kernel_file;
pub mod lease;
#[cfg(target_os = "linux")]
mod limits_watch;
mod located;
mod lock;
pub mod locked_line;
pub mod metadata;
#[cfg(target_os = "linux")]
pub mod net;
pub mod open_files;
pub mod own_memory;
pub mod probe;
#[cfg(target_os = "linux")]
mod process_tree;
pub mod profile;
mod replace;
#[cfg(target_os = "linux")]
pub mod running;
pub mod state_dir;
pub mod stdio_guard;
pub mod survey;
pub mod unseen;
#[cfg(target_os = "linux")]
pub mod warden;
pub mod workspace;

pub use canonical::LastLink;
pub use config_file::{ConfigFile, ConfigFileError};
pub use confine::Gap;
pub use facts::{FileFacts, FileType};
pub use folder::{DirEntry, Folder, Named};
pub use journal::{Change, ChangeNote, Entry, EntryState, Journal, Landed, Snapshot};
pub use located::Located;
pub use probe::{LayerReport, Layers};
pub use profile::{CommandSpec, Network, ProcessLimits, Profile, Property, Weakness};
pub use state_dir::StateDir;
pub use workspace::Workspace;
