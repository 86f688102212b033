//! Settings of zero: the user's file and those of a workspace, merged, each value with where it stands.
//!
//! [`WorkspaceSettings`] reads `user` → `project` → `local`; a later file wins, and rules of all files
//! count together. A workspace may have been downloaded a minute ago, so until its folder is trusted
//! ([`TrustStore`]) its files can only tighten: their ask and deny rules count, a stricter mode, a
//! smaller limit. The rest is set aside and can be listed. A file that is wrong anywhere is refused as a
//! whole: half of it would do without the rule that forbids.
//!
//! Each value is parsed once, when its file is checked, and kept ([`ParsedSetting`]). What a rule
//! means is in `zero_policy`. This crate reads no environment variable: [`UserPaths`] says where the
//! user's files are.
//!
//! ```
//! use zero_settings::{SettingsError, TrustStore, UserPaths, WorkspaceSettings};
//!
//! fn print_rules(home: &std::path::Path, folder: &std::path::Path) -> Result<(), SettingsError> {
//!     let paths = UserPaths::for_home(home);
//!     // Nobody trusts the folder yet: of its files only what tightens counts.
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
pub mod command_line;
pub mod document;
pub mod edit;
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
pub mod parsed_setting;
pub mod problem;
mod program_path;
pub mod rule_entry;
pub mod rule_examples;
pub mod sandbox;
mod semantic_checks;
pub mod settings_schema;
pub mod simulated_call;
pub mod tool_commands;
pub mod trust;
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
