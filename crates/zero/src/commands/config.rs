//! `zero config`: settings, shown with where they come from, and changed without harm.

mod change;
pub(super) mod keys;
mod show;

use std::path::PathBuf;

use zero_sandbox::{ConfigFile, Workspace};

use crate::App;
use crate::cli::{ConfigCommand, LayerArgs};
use crate::exit::{Exit, UsageError};
use crate::settings::layer::workspace_file;
use crate::settings::{LayerKind, shape};

pub(super) fn run(app: &App, command: &ConfigCommand) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Path(args) => show::path(app, args),
        ConfigCommand::List(args) => show::list(app, args),
        ConfigCommand::Get(args) => show::get(app, args),
        ConfigCommand::Set(args) => change::set(app, args),
        ConfigCommand::Unset(args) => change::unset(app, args),
        ConfigCommand::Add(args) => change::add(app, args),
        ConfigCommand::Remove(args) => change::remove(app, args),
        ConfigCommand::SetKey(args) => keys::set(app, args),
        ConfigCommand::UnsetKey(args) => keys::unset(app, args),
        ConfigCommand::Schema => {
            app.terminal.out.write_pretty(&shape::schema())?;
            Ok(Exit::Ok)
        }
    }
}

impl LayerArgs {
    /// The file that was named; `None` when none was.
    fn kind(&self) -> Option<LayerKind> {
        match (self.user, self.project, self.local) {
            (true, ..) => Some(LayerKind::User),
            (_, true, _) => Some(LayerKind::Project),
            (_, _, true) => Some(LayerKind::Local),
            _ => None,
        }
    }

    fn workspace(&self, app: &App) -> Result<Workspace, UsageError> {
        workspace(app, self.workspace.as_ref())
    }
}

fn workspace(app: &App, folder: Option<&PathBuf>) -> Result<Workspace, UsageError> {
    app.config.workspace(folder.map(std::slice::from_ref).unwrap_or_default())
}

/// The settings file of a layer.
fn file_of(app: &App, workspace: &Workspace, kind: LayerKind) -> Result<ConfigFile, UsageError> {
    if kind.is_of_workspace() {
        return Ok(workspace_file(workspace.cwd(), kind));
    }
    app.config.settings_file().map(ConfigFile::Own)
}
