//! Settings of zero: the user's file and those of a workspace, merged, with the location of each
//! value.
//!
//! [`WorkspaceSettings`] reads `user` → `project` → `local`. A later file overrides an earlier one;
//! the rules of all files are merged. A workspace may have been downloaded a minute ago, so until
//! its folder is trusted ([`TrustStore`]) its files can only make zero stricter: their ask and deny
//! rules apply, and so do a stricter mode or a smaller limit. The rest is inactive and can be
//! listed. A file with any error is refused as a whole, because the rejected part could be a deny
//! rule.
//!
//! Each value is parsed once, when its file is checked, and stored ([`ParsedSetting`]).
//! `zero_policy` defines what a rule means. This crate reads no environment variable: the caller
//! passes the locations of the user's files in [`UserPaths`].
//!
//! ```
//! use zero_settings::{SettingsError, TrustStore, UserPaths, WorkspaceSettings};
//!
//! fn print_rules(home: &std::path::Path, folder: &std::path::Path) -> Result<(), SettingsError> {
//!     let paths = UserPaths::for_home(home);
//!     // The folder is not trusted yet, so its files can only make zero stricter.
//!     let settings = WorkspaceSettings::load(&paths, folder, &TrustStore::default())?;
//!     for rule in settings.policy_rules() {
//!         println!("{} {} ({})", rule.verdict, rule.text, rule.source);
//!     }
//!     Ok(())
//! }
//!
//! # let temp = tempfile::tempdir().unwrap();
//! # print_rules(temp.path(), temp.path()).unwrap();
//! ```

pub mod acp;
pub mod budgets;
pub mod chat;
pub mod command_line;
pub mod default_values;
pub mod document;
pub mod edit;
pub mod files;
pub mod gateway;
mod hook_file_snapshots;
pub mod hooks;
pub mod layer;
mod layer_kind;
pub mod limit_range;
mod limit_setting;
pub mod lsp_servers;
pub mod mask;
pub mod mcp_servers;
mod merge;
pub mod models;
pub mod network;
pub mod notify;
pub mod parsed_setting;
pub mod problem;
mod program_path;
pub mod retention;
pub mod rule_entry;
pub mod rule_examples;
pub mod sandbox;
pub mod secrets;
mod semantic_checks;
pub mod settings_schema;
pub mod subagents;
pub mod tool_commands;
pub mod trust;
pub mod undo;
pub mod update;
pub mod user_paths;
pub mod web;
pub mod workspace_settings;

pub use layer::{SettingsEntry, SettingsEntryState, SettingsLayer, SettingsLayerKind};
pub use parsed_setting::ParsedSetting;
pub use problem::{SettingsError, SettingsLocation, SettingsProblem};
pub use rule_entry::RuleEntry;
pub use trust::{TrustError, TrustState, TrustStore};
pub use user_paths::UserPaths;
pub use workspace_settings::{WorkspaceSettings, collect_value};
