//! `zero config` as it is written.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What can be done with settings.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Settings lie in three files, the later ones win; permission rules of all count together:
  user     ~/.config/zero/settings.json     yours, for all you do
  project  .zero/settings.json              shared by all who work on the project
  local    .zero/settings.local.json        yours, for this project

What a project's files loosen counts once the folder is trusted: see `zero trust --help`."
)]
pub enum ConfigCommand {
    /// Show where the settings files are
    Path(ConfigPathArgs),
    /// Show every setting with the file and line it comes from
    List(ConfigListArgs),
    /// Show the value of one setting
    Get(ConfigGetArgs),
    /// Set a value; comments, order and layout of the file stay
    Set(ConfigSetArgs),
    /// Take a setting out of a file
    Unset(ConfigUnsetArgs),
    /// Add a value to a list
    Add(ConfigItemArgs),
    /// Take a value out of a list
    Remove(ConfigItemArgs),
    /// Keep a key in the desktop's keyring, where settings find it
    SetKey(ConfigSetKeyArgs),
    /// Take a key out of the desktop's keyring
    UnsetKey(ConfigUnsetKeyArgs),
    /// Print the JSON Schema of a settings file
    #[command(after_help = "Example:
  zero config schema > zero-settings.schema.json")]
    Schema,
}

/// Which settings file is meant.
#[derive(Clone, Debug, Args)]
pub struct SettingsLayerArgs {
    /// Your own settings
    #[arg(long, conflicts_with_all = ["project", "local"])]
    pub user: bool,
    /// The project's settings
    #[arg(long, conflicts_with = "local")]
    pub project: bool,
    /// Your own settings for this project
    #[arg(long)]
    pub local: bool,
    /// Folder of the project [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `zero config path`
#[derive(Debug, Args)]
pub struct ConfigPathArgs {
    /// Folder of the project [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `zero config list`
#[derive(Debug, Args)]
pub struct ConfigListArgs {
    /// Folder of the project [default: the current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Settings file to use instead of yours and the folder's; may be given several times
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

Exit codes: 0 it is set, 1 it is not, 2 wrong usage.")]
pub struct ConfigGetArgs {
    /// The setting, such as `permissions.mode`
    pub key: String,
    /// One file alone, instead of what holds in the end
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
    /// Print JSON, with the file and line
    #[arg(long)]
    pub json: bool,
}

/// `zero config set`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config set permissions.mode plan
  zero config set limits.file-timeout 5s --project
  zero config set permissions.ask '[\"Bash(git push:*)\"]' --local

Without --project or --local your own file is changed. It is checked as a whole before it is
written; on any error it stays as it is.")]
pub struct ConfigSetArgs {
    /// The setting, such as `permissions.mode`
    pub key: String,
    /// Its value, as JSON or as plain text
    #[arg(allow_hyphen_values = true)]
    pub value: String,
    /// Which file to change
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config unset`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config unset permissions.mode
  zero config unset limits --project

Without --project or --local your own file is changed.")]
pub struct ConfigUnsetArgs {
    /// The setting, such as `permissions.mode`
    pub key: String,
    /// Which file to change
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config add` and `zero config remove`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config add permissions.allow 'Bash(git status:*)'
  zero config add permissions.deny 'Read(~/.ssh/**)' --project
  zero config remove permissions.allow 'Bash(git status:*)'

Without --project or --local your own file is changed. A value that is there already is not added
twice; one that is not there need not be removed.")]
pub struct ConfigItemArgs {
    /// The list, such as `permissions.allow`
    pub key: String,
    /// The value, as JSON or as plain text
    #[arg(allow_hyphen_values = true)]
    pub value: String,
    /// Which file to change
    #[command(flatten)]
    pub layer: SettingsLayerArgs,
}

/// `zero config set-key`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  zero config set-key openai                    asks for it and shows nothing of it
  zero config set-key openai < ~/openai.key     takes it from stdin
  zero config set models.gpt '{\"api\": \"responses\", \"model\": \"gpt-5\", \"apiKey\": {\"keyring\": \"openai\"}}'

The key itself never stands on the command line or in settings. The keyring has it under the service
`zero keys`; one that was there under the same name is replaced.

Exit codes: 0 kept, 1 the keyring does not take it, 2 wrong usage.")]
pub struct ConfigSetKeyArgs {
    /// A name for it, such as `openai`; not the key itself
    pub name: String,
}

/// `zero config unset-key`
#[derive(Debug, Args)]
#[command(after_help = "Example:
  zero config unset-key openai

Exit codes: 0 it is gone, 1 the keyring does not answer, 2 wrong usage.")]
pub struct ConfigUnsetKeyArgs {
    /// Its name, such as `openai`
    pub name: String,
}
