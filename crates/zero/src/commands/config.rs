//! `zero config`: settings, shown with where they come from, and changed without harm.

pub(super) mod keyring_keys;
mod settings_change;
mod settings_view;

use std::path::PathBuf;

use zero_sandbox::{ConfigFile, Workspace};

use crate::AppContext;
use crate::cli::{ConfigCommand, SettingsLayerArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::settings::layer::workspace_file;
use crate::settings::{SettingsLayerKind, settings_schema};

pub(super) fn run(app: &AppContext, command: &ConfigCommand) -> anyhow::Result<ExitOutcome> {
    match command {
        ConfigCommand::Path(args) => settings_view::path(app, args),
        ConfigCommand::List(args) => settings_view::list(app, args),
        ConfigCommand::Get(args) => settings_view::get(app, args),
        ConfigCommand::Set(args) => settings_change::set(app, args),
        ConfigCommand::Unset(args) => settings_change::unset(app, args),
        ConfigCommand::Add(args) => settings_change::add(app, args),
        ConfigCommand::Remove(args) => settings_change::remove(app, args),
        ConfigCommand::SetKey(args) => keyring_keys::set(app, args),
        ConfigCommand::UnsetKey(args) => keyring_keys::unset(app, args),
        ConfigCommand::Schema => {
            app.terminal.out.write_pretty(&settings_schema::schema())?;
            Ok(ExitOutcome::Ok)
        }
    }
}

impl SettingsLayerArgs {
    /// The file that was named; `None` when none was.
    fn kind(&self) -> Option<SettingsLayerKind> {
        match (self.user, self.project, self.local) {
            (true, ..) => Some(SettingsLayerKind::User),
            (_, true, _) => Some(SettingsLayerKind::Project),
            (_, _, true) => Some(SettingsLayerKind::Local),
            _ => None,
        }
    }

    fn workspace(&self, app: &AppContext) -> Result<Workspace, UsageError> {
        workspace(app, self.workspace.as_ref())
    }
}

fn workspace(app: &AppContext, folder: Option<&PathBuf>) -> Result<Workspace, UsageError> {
    app.config.workspace(folder.map(std::slice::from_ref).unwrap_or_default())
}

/// The settings file of a layer.
fn file_of(
    app: &AppContext,
    workspace: &Workspace,
    kind: SettingsLayerKind,
) -> Result<ConfigFile, UsageError> {
    if kind.is_of_workspace() {
        return Ok(workspace_file(workspace.cwd(), kind));
    }
    app.config.settings_file().map(ConfigFile::Own)
}
