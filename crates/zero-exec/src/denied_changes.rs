//! Lists the files that rules deny commands to change, so that they can be made read-only.

use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_sandbox::Workspace;

use crate::command_policy::{CommandPolicy, DeniedChanges};

/// Most files that rules may deny before commands are refused: each is read-only by a mount of its
/// own.
const DENIED_MAX: usize = 400;

/// The existing paths of the workspace that rules deny commands to change, if any rule does. Fails
/// if they cannot be listed.
pub(crate) fn list_denied_changes(
    policy: &dyn CommandPolicy,
    workspace: &Workspace,
) -> Result<Option<DeniedChanges>, ToolError> {
    let denied = policy.denied_changes(workspace, DENIED_MAX);
    match denied.as_ref().and_then(|denied| denied.too_many) {
        None => Ok(denied),
        Some(rules) => Err(too_many_denied_error(rules)),
    }
}

fn too_many_denied_error(rules: usize) -> ToolError {
    let message = format!(
        "no command that changes files can run here: {rules} rules deny changing files, and together they cover more than can be made read-only for a command ({DENIED_MAX} files and folders), or there are too many places to look; deny a folder instead of the files in it (`Edit(src/**)` is one thing), or work in a smaller folder"
    );
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::Denied, message)
}
