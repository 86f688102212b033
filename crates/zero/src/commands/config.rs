//! `zero config`: shows settings with their sources, and changes settings files.

pub(super) mod keyring_keys;
pub(super) mod settings_change;
mod settings_editing;
mod settings_view;

use std::path::PathBuf;

use zero_sandbox::Workspace;
use zero_settings::{SettingsLayerKind, settings_schema};

use crate::AppContext;
use crate::cli::{ConfigCommand, SettingsLayerArgs};
use crate::exit::{ExitOutcome, UsageError};

pub(super) fn run(app: &AppContext, command: &ConfigCommand) -> anyhow::Result<ExitOutcome> {
    match command {
        ConfigCommand::Path(args) => settings_view::print_paths(app, args),
        ConfigCommand::List(args) => settings_view::print_list(app, args),
        ConfigCommand::Edit(args) => settings_editing::edit(app, args),
        ConfigCommand::Get(args) => settings_view::print_value(app, args),
        ConfigCommand::Set(args) => settings_change::set_value(app, args),
        ConfigCommand::Unset(args) => settings_change::unset_value(app, args),
        ConfigCommand::Add(args) => settings_change::add_item(app, args),
        ConfigCommand::Remove(args) => settings_change::remove_item(app, args),
        ConfigCommand::SetKey(args) => keyring_keys::set_key(app, args),
        ConfigCommand::UnsetKey(args) => keyring_keys::unset_key(app, args),
        ConfigCommand::Schema => {
            app.terminal.out.write_pretty_json(&settings_schema::schema())?;
            Ok(ExitOutcome::Ok)
        }
    }
}

impl SettingsLayerArgs {
    /// Layer that a flag selects, if any.
    fn layer_kind(&self) -> Option<SettingsLayerKind> {
        match (self.user, self.project, self.local) {
            (true, ..) => Some(SettingsLayerKind::User),
            (_, true, _) => Some(SettingsLayerKind::Project),
            (_, _, true) => Some(SettingsLayerKind::Local),
            _ => None,
        }
    }

    fn open_workspace(&self, app: &AppContext) -> Result<Workspace, UsageError> {
        open_workspace_folder(app, self.workspace.as_ref())
    }
}

fn open_workspace_folder(
    app: &AppContext,
    folder: Option<&PathBuf>,
) -> Result<Workspace, UsageError> {
    app.config.open_workspace(folder.map(std::slice::from_ref).unwrap_or_default())
}
