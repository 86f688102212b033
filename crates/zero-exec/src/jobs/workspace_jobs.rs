//! Jobs that run in a workspace, beside something that must not happen meanwhile.

use zero_core::text_shortening::one_line;
use zero_core::{ErrorReason, ToolError};
use zero_sandbox::{StateDir, Workspace};

use super::JobRegistry;

/// Most characters of the command of a job in a message.
const COMMAND_CHARS_MAX: usize = 80;

/// Fails if a job of the workspace runs: it may be in a folder that an undo moves away, and what it
/// writes there would come back when the undo is undone.
pub fn refuse_beside_job(state: &StateDir, workspace: &Workspace) -> Result<(), ToolError> {
    let registry = JobRegistry::open(state);
    let found = registry.find_running_beside(workspace.roots()).map_err(|error| {
        let message = format!("could not find out whether jobs run: {error}");
        ToolError::failed(ErrorReason::Io, message)
    })?;
    match found {
        Some(job) => Err(running_job_error(&job.id, &job.command)),
        None => Ok(()),
    }
}

fn running_job_error(id: &str, command: &str) -> ToolError {
    let command = one_line(command, COMMAND_CHARS_MAX);
    let message = format!(
        "the job `{id}` (`{command}`) runs in this workspace and could write to the same files; nothing was done; end it with `zero jobs kill {id}`, or undo when it has ended"
    );
    ToolError::failed(ErrorReason::Busy, message).with_detail("job", id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_beside_job_names_it() {
        let error = running_job_error("job_1", "npm run dev");
        assert_eq!(error.reason(), Some(ErrorReason::Busy));
        assert!(error.message.contains("`zero jobs kill job_1`"), "{}", error.message);
    }
}
