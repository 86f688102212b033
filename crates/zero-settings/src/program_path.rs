//! Resolves the path of a program in settings.

use std::path::Path;

use crate::layer_kind::SettingsLayerKind;

/// Resolves a relative program path: in a project's settings it starts at the project, in the
/// user's own at the home folder. User settings apply in every folder, and must not run a program
/// that some project contains.
pub(crate) fn resolve_command(
    command: String,
    layer: SettingsLayerKind,
    home: Option<&Path>,
) -> String {
    let home = home.unwrap_or(Path::new("/"));
    let from_home = match command.strip_prefix("~/") {
        Some(below) => Some(home.join(below)),
        None if !command.contains('/') || layer.is_in_workspace() => None,
        None => Some(home.join(&command)),
    };
    match from_home.as_deref().map(zero_policy::path::normalize_lexically) {
        Some(path) => path.to_str().map_or(command, str::to_owned),
        None => command,
    }
}
