//! Settings for file changes (`files`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The key that keeps earlier content beside changed files.
pub const BACKUP_KEY: &str = "files.backup";

/// How tools change files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FilesSettings {
    /// Whether Write and Edit keep the earlier content beside a file that they change, as `NAME.bak`,
    /// unless a call says otherwise. Off by default; `zero undo` works in any case.
    backup: Option<bool>,
}
