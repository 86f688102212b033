//! Where the path of a program in settings begins.

use std::path::Path;

use crate::layer_kind::SettingsLayerKind;

/// A program's path with its beginning settled: in a project's settings that is the project, in the
/// person's own their home folder. Those count in every folder, and a program that anybody's
/// project brings along is not what they mean.
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
