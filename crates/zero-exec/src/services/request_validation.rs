//! Validates what settings may request for a service.

use std::path::PathBuf;

use zero_core::{ErrorReason, ErrorType, TargetPath, ToolError};
use zero_policy::protected_paths::{ProtectedPaths, protected_reason, sensitive_reason};
use zero_sandbox::{FileType, FinalLinkMode, StateDir, Workspace, path_survey};

use super::service_request::ServiceRequest;
use crate::command_settings::CommandSettings;

/// Longest name, in characters.
const NAME_LEN_MAX: usize = 64;

/// Refuses names, arguments and variables that no program can be started with.
pub(super) fn check_request(request: &ServiceRequest) -> Result<(), ToolError> {
    let ServiceRequest { name, words, variables, .. } = request;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_fine) {
        let message = format!(
            "`{name}` is not a valid service name: use 1 to {NAME_LEN_MAX} letters, digits, `-` or `_`"
        );
        return Err(invalid_request_error(message));
    }
    if words.first().is_none_or(|program| program.is_empty()) {
        return Err(invalid_request_error(format!(
            "`{name}` has no program to run; set its command"
        )));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(invalid_request_error(format!(
            "an argument of `{name}` contains a NUL character; remove it"
        )));
    }
    let is_bad = |(name, value): &&(String, String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match variables.iter().find(is_bad) {
        Some((variable, _)) => Err(invalid_request_error(format!(
            "variable `{variable}` of `{name}` cannot be set: its name is empty or contains `=`, or it contains a NUL character"
        ))),
        None => Ok(()),
    }
}

/// The folder in which the service starts.
pub(super) fn resolve_folder(
    request: &ServiceRequest,
    workspace: &Workspace,
) -> Result<Option<TargetPath>, ToolError> {
    let Some(folder) = &request.folder else { return Ok(None) };
    let path = workspace.cwd().join(folder);
    let located = workspace.resolve_path(&path, FinalLinkMode::Follow)?;
    if path_survey::file_type(located.path()) != Some(FileType::Directory) {
        let message =
            format!("`{}` cannot start in `{}`: not a folder", request.name, path.display());
        return Err(ToolError::not_found(ErrorReason::BadPath, message));
    }
    Ok(Some(located.target().clone()))
}

/// The folders that the service may change in addition to those of commands, with links resolved.
/// Refuses folders that no setting may open to commands.
pub(super) fn resolve_writable(
    request: &ServiceRequest,
    workspace: &Workspace,
    settings: &CommandSettings,
    state: &StateDir,
) -> Result<Vec<PathBuf>, ToolError> {
    let roots: Vec<PathBuf> = workspace.roots().map(Into::into).collect();
    let own = settings.own.iter().map(|own| Some(own.as_path())).chain([None]);
    let places: Vec<ProtectedPaths> = own
        .map(|own| ProtectedPaths::new(&roots, settings.home.as_deref(), own, Some(state.path())))
        .collect();
    let settle = |folder: &PathBuf| {
        let path = workspace.cwd().join(folder);
        let real = workspace.resolve_path(&path, FinalLinkMode::Follow)?.path().to_owned();
        let objection = |path: &PathBuf| {
            places.iter().find_map(|places| {
                protected_reason(path, places).or_else(|| sensitive_reason(path, places))
            })
        };
        if let Some(why) = [&path, &real].into_iter().find_map(objection) {
            let message = format!(
                "`{}` must not be writable for `{}`: it is {why}; name a folder that holds only files of the service",
                folder.display(),
                request.name
            );
            return Err(ToolError::new(
                ErrorType::PermissionDenied,
                ErrorReason::AccessDenied,
                message,
            ));
        }
        if path_survey::file_type(&real) != Some(FileType::Directory) {
            let message = format!(
                "`{}`, which `{}` may change, is not a folder; create it first",
                folder.display(),
                request.name
            );
            return Err(ToolError::not_found(ErrorReason::BadPath, message));
        }
        Ok(real)
    };
    request.writable.iter().map(settle).collect()
}

fn invalid_request_error(message: String) -> ToolError {
    ToolError::invalid(ErrorReason::SchemaViolation, message)
}
