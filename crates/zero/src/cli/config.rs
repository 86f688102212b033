//! Command-line arguments of `zero config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `zero config`
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Settings come from three files. Later files override earlier ones; permission rules are merged:
  user     ~/.config/zero/settings.json     yours, for all projects
  project  .zero/settings.json              shared by everyone who works on the project
  local    .zero/settings.local.json        yours, for this project

Until you trust a folder, its files can only make zero stricter: see `zero trust --help`."
)]
pub enum ConfigCommand {
    /// Show where the settings files are
    Path(ConfigPathArgs),
    /// Show every setting with its file and line
    List(ConfigListArgs),
    /// Edit a settings file in your editor; it is checked before it is saved
    Edit(ConfigEditArgs),
    /// Show the value of one setting
    Get(ConfigGetArgs),
    /// Set a value; keeps comments, order and layout of the file
    Set(ConfigSetArgs),
    /// Remove a setting from a file
    Unset(ConfigUnsetArgs),
    /// Add a value to a list
    Add(ConfigAddArgs),
    /// Remove a value from a list
    Remove(ConfigRemoveArgs),
    /// Store an API key in the desktop's keyring
    SetKey(ConfigSetKeyArgs),
    /// Remove an API key from the desktop's keyring
    UnsetKey(ConfigUnsetKeyArgs),
    /// Print the JSON Schema of a settings file
    #[command(after_help = "Example:
  zero config schema > zero-settings.schema.json")]
    Schema,
}

/// Selects one settings file.
#[derive(Clone, Debug, Args)]
pub struct SettingsLayerArgs {
    /// Use your own settings
    #[arg(long, conflicts_with_all = ["project", "local"])]
    pub user: bool,
    /// Use the project's settings
    #[arg(long, conflicts_with = "local")]
    pub project: bool,
    /// Use your own settings for this project
    #[arg(long)]
    pub local: bool,
    /// Folder of the project [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero config path`
#[derive(Debug, Args)]
pub struct ConfigPathArgs {
    /// Folder of the project [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero config edit`
#[derive(Debug, Args)]
#[command(
    after_help = "The editor is VISUAL or EDITOR. It gets a copy of the file. When it ends, zero checks the whole
text; if anything is wrong, the settings stay as they are, and the message says where your text is.

Examples:
  zero config edit
  EDITOR=nano zero config edit --project

Without --project or --local, the command edits your own file.

Exit codes: 0 saved or unchanged, 1 the editor failed, 2 wrong usage or an invalid text."
)]
pub struct ConfigEditArgs {
    /// File to edit.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config list`
#[derive(Debug, Args)]
pub struct ConfigListArgs {
    /// Only this setting and those below it, such as permissions
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
    /// Also show the settings that are not set, with their defaults
    #[arg(long)]
    pub defaults: bool,
    /// Folder of the project [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Settings file to use instead of yours and the folder's; can be repeated
    #[arg(long, value_name = "FILE")]
    pub settings: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero config get`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config get permissions.mode
  zero config get permissions.allow --project
  zero config get limits.file-timeout --json

Exit codes: 0 the setting is set, 1 it is not set, 2 wrong usage.")]
pub struct ConfigGetArgs {
    /// Name of the setting, such as `permissions.mode`
    pub key: String,
    /// Reads one file instead of the merged settings.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
    /// Print JSON with the file and line
    #[arg(long)]
    pub json: bool,
}

/// `zero config set`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config set permissions.mode plan
  zero config set limits.file-timeout 5s --project
  zero config set permissions.ask '[\"Bash(git push:*)\"]' --local

Without --project or --local, the command changes your own file. It checks the whole file before
writing; on any error it leaves the file unchanged.")]
pub struct ConfigSetArgs {
    /// Name of the setting, such as `permissions.mode`
    pub key: String,
    /// New value, as JSON or plain text
    #[arg(allow_hyphen_values = true)]
    pub value: String,
    /// File to change.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config unset`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config unset permissions.mode
  zero config unset limits --project

Without --project or --local, the command changes your own file.")]
pub struct ConfigUnsetArgs {
    /// Name of the setting, such as `permissions.mode`
    pub key: String,
    /// File to change.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config add`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config add permissions.allow 'Bash(git status:*)'
  zero config add permissions.deny 'Read(~/.ssh/**)' --project

Without --project or --local, the command changes your own file. Adding a value that the list has
already succeeds without a change.")]
pub struct ConfigAddArgs {
    /// Name of the list, such as `permissions.allow`
    pub key: String,
    /// Value to add, as JSON or plain text
    #[arg(allow_hyphen_values = true)]
    pub value: String,
    /// File to change.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config remove`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config remove permissions.allow 'Bash(git status:*)'
  zero config remove permissions.deny 'Read(~/.ssh/**)' --project

Without --project or --local, the command changes your own file. Removing a value that the list does
not have succeeds without a change.")]
pub struct ConfigRemoveArgs {
    /// Name of the list, such as `permissions.allow`
    pub key: String,
    /// Value to remove, as JSON or plain text
    #[arg(allow_hyphen_values = true)]
    pub value: String,
    /// File to change.
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config set-key`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config set-key openai                    prompt for the key without echo
  zero config set-key openai < ~/openai.key     read the key from stdin
  zero config set models.gpt '{\"api\": \"responses\", \"model\": \"gpt-5\", \"apiKey\": {\"keyring\": \"openai\"}}'

The key is never part of the command line or the settings. The keyring stores it under the service
`zero keys` and replaces an earlier key of the same name.

Exit codes: 0 stored, 1 the keyring refused it, 2 wrong usage.")]
pub struct ConfigSetKeyArgs {
    /// Name for the key, such as `openai`; not the key itself
    pub name: String,
}

/// `zero config unset-key`
#[derive(Debug, Args)]
#[command(after_help = "Example:
  zero config unset-key openai

Exit codes: 0 removed, 1 the keyring does not respond, 2 wrong usage.")]
pub struct ConfigUnsetKeyArgs {
    /// Name of the key, such as `openai`
    pub name: String,
}
